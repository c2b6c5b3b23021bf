# SPDX-License-Identifier: Apache-2.0
"""A peer that is killed or stopped, a signal, a busy thread, many threads."""
import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import liburccl
from pair import LIMIT, Pair

PEER = """
import liburccl, sys
ctx = liburccl.Context("{transport}")
ring, memory = ctx.ring(), bytearray(1 << 20)
region = ctx.register(memory)
accepting = ring.accept()
sys.stdout.buffer.write(len(ctx.metadata).to_bytes(2, "little") + ctx.metadata + region.advertise())
sys.stdout.flush()
for event in ring.events():
    pass
"""


class Peer:
    """Another process whose memory is written."""

    def __init__(self, transport, **settings):
        self.process = subprocess.Popen([sys.executable, "-c", PEER.format(transport=transport)],
                                        stdout=subprocess.PIPE)
        out = self.process.stdout
        metadata = out.read(int.from_bytes(out.read(2), "little"))
        self.ctx = liburccl.Context(transport, **settings)
        self.ring, self.source = self.ctx.ring(), bytearray(1 << 20)
        self.local = self.ctx.register(self.source, "")
        self.peer = self.ring.connect(metadata).result(LIMIT)
        self.remote = self.ctx.import_(self.peer, out.read(64))
        self.ring.write(self.remote, self.source).result(LIMIT)

    def close(self):
        self.ctx.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Faults(unittest.TestCase):
    def test_a_killed_peer_gives_connection_reset(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport):
                peer = Peer(transport)
                self.addCleanup(peer.close)
                peer.process.kill()

                async def main(peer=peer):
                    while True:
                        await peer.ring.write(peer.remote, peer.source)
                with self.assertRaises(ConnectionResetError) as caught:
                    asyncio.run(main())
                self.assertIn("127.0.0.1", str(caught.exception))

    def test_a_stopped_peer_gives_timeout_within_the_deadline(self):
        peer = Peer("tcp")
        self.addCleanup(peer.close)
        peer.process.send_signal(signal.SIGSTOP)

        async def main():
            ops = [peer.ring.write(peer.remote, peer.source, timeout=0.3) for _ in range(32)]
            return await asyncio.gather(*ops, return_exceptions=True)
        errors = [e for e in asyncio.run(main()) if isinstance(e, BaseException)]
        self.assertTrue(errors)
        for error in errors:
            self.assertIsInstance(error, (TimeoutError, ConnectionResetError))
            self.assertIn("127.0.0.1", str(error))

    def interrupt(self, *_):
        """SIGINT's handler: the first signal raises, those on their way behind it do not."""
        if not self.interrupted:
            self.interrupted = True
            raise KeyboardInterrupt

    def test_an_interrupt_ends_result_and_nothing_else(self):
        self.addCleanup(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT))
        with Pair("shm") as p:
            op = p.ring.timeout(1000)
            for call in (op.result, lambda: p.ring.wait(5), lambda: p.events.next()):
                started = threading.Event()

                def send(started=started):
                    started.wait()
                    while not self.interrupted:
                        os.kill(os.getpid(), signal.SIGINT)
                        time.sleep(0.01)
                self.interrupted = False
                signal.signal(signal.SIGINT, self.interrupt)
                thread = threading.Thread(target=send)
                thread.start()
                with self.assertRaises(KeyboardInterrupt):
                    started.set()
                    call()
                thread.join()
            self.assertEqual(p.ring.nop().result(LIMIT), 0)

    def test_polls_take_completions_and_keep_the_gil(self):
        """A poll that released it would wait for a busy thread's switch interval, 5 ms. It is longer
        here, so that another thread runs only where this one lets it."""
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(LIMIT)
        with Pair("shm") as p:
            stop, view, ran, beside = threading.Event(), memoryview(p.source)[:8], 0, 0

            def run():
                nonlocal ran
                while not stop.is_set():
                    ran += 1
                    time.sleep(1e-4)    # releases the GIL
            thread = threading.Thread(target=run)
            thread.start()
            for _ in range(100):
                time.sleep(1e-4)
                before, op = ran, p.ring.write(p.remote, view)
                while not op.done():
                    pass
                beside += ran - before
            stop.set()
            thread.join()
            self.assertGreater(ran, 0)
            self.assertEqual(beside, 0)

    def test_threads_share_a_ring(self):
        with Pair("shm", entries=64) as p:
            results, errors = [], []

            def work(view):
                try:
                    for _ in range(100):
                        while True:
                            try:
                                op = p.ring.write(p.remote, view)
                                break
                            except liburccl.Full:
                                p.ring.wait_room(timeout=LIMIT)
                        results.append(op.result(LIMIT))
                except BaseException as error:
                    errors.append(error)
            threads = [threading.Thread(target=work, args=(memoryview(p.source)[8 * i:8 * i + 8],))
                       for i in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual((errors, results), ([], [8] * 1600))

    def test_closing_ends_waits_of_other_threads(self):
        with liburccl.Context("shm") as ctx:
            ring, errors = ctx.ring(), []

            def wait(call):
                try:
                    call()
                except liburccl.Error as error:
                    errors.append(error)
            op = ring.timeout(1000)
            calls = [op.result, lambda: ring.wait(9), lambda: ring.events().next()] * 3
            threads = [threading.Thread(target=wait, args=(call,)) for call in calls]
            for thread in threads:
                thread.start()
            ring.close()
            for thread in threads:
                thread.join(LIMIT)
                self.assertFalse(thread.is_alive())
            self.assertGreater(len(errors), 5)
