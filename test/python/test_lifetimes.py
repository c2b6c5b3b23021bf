# SPDX-License-Identifier: Apache-2.0
"""Objects end in any order, by close(), by del, by the collector and at exit."""
import gc
import os
import random
import subprocess
import sys
import threading
import time
import unittest
import warnings

import liburccl
from pair import LIMIT, Pair

LEFT = """
import liburccl, threading
ctx = liburccl.Context({arguments})
ring = ctx.ring()
memory = ctx.alloc(4096)
region = ctx.register(memory)
ops = [ring.timeout(1000) for _ in range(8)]
{more}
"""


def resident():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def child(**parts):
    """How a process ends that leaves everything open, and how long its end took."""
    script = LEFT.format(**{"arguments": "", "more": ""} | parts)
    script += "\nimport time, sys; sys.stdout.write(repr(time.monotonic())); sys.stdout.flush()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          timeout=LIMIT, check=False)
    return done.returncode, done.stderr, time.monotonic() - float(done.stdout or "0")


class Lifetimes(unittest.TestCase):
    def test_closed_objects_raise_estale(self):
        p = Pair("shm")
        op = p.ring.timeout(1000)
        p.a.close()
        p.a.close()
        for call in (lambda: p.ring.nop(), lambda: p.a.ring(), lambda: p.a.metadata,
                     lambda: p.a.register(bytearray(8)), lambda: p.ring.wait(timeout=0),
                     lambda: p.ring.fileno(), lambda: p.local.advertise(), p.ring.poll,
                     lambda: p.a.import_(p.peer, p.advert), lambda: p.remote.info()):
            with self.assertRaises(liburccl.Error) as caught:
                call()
            self.assertIn("closed", str(caught.exception))
        with self.assertRaises(liburccl.Error):
            op.result(LIMIT)
        p.remote.unimport()
        p.local.unregister()
        self.assertTrue(p.a.closed and p.ring.closed and op.quiet)
        p.source.extend(b"unpinned")
        p.b.close()

    def test_an_unclosed_context_warns(self):
        with self.assertWarns(ResourceWarning):
            ctx = liburccl.Context("shm")
            del ctx
            gc.collect()

    def test_a_dropped_op_goes_on(self):
        with Pair("shm") as p:
            p.source[:4] = b"kept"
            p.ring.write(p.remote, memoryview(p.source)[:4], notify=1)
            self.assertEqual(p.events.next(LIMIT).tag, 1)
            self.assertEqual(bytes(p.memory[:4]), b"kept")
            p.ring.wait(timeout=LIMIT)
            self.assertEqual(p.ring.unfinished, 0)

    def test_random_orders_of_dropping(self):
        """LIBURCCL_DROPS=10000 is the long form, which `./dev check python` runs with ASan."""
        rng, turns = random.Random(5), int(os.environ.get("LIBURCCL_DROPS", "300"))
        with warnings.catch_warnings(), Pair("shm") as p:
            warnings.simplefilter("ignore", ResourceWarning)
            for turn in range(turns):
                ring = p.a.ring(4)
                memory = p.a.alloc(4096) if turn % 2 else bytearray(4096)
                region = p.a.register(memory)
                remote = p.a.import_(p.peer, p.advert)
                cycle = []
                things = [ring, memory, region, remote, cycle,
                          ring.write(remote, memory), ring.timeout(1000)]
                if turn % 10 == 0:
                    things.append(liburccl.Context("shm"))
                    things += [things[-1].ring(2), things[-1].register(bytearray(64))]
                del ring, memory, region, remote
                cycle.append(things if turn % 3 else cycle)
                del cycle
                rng.shuffle(things)
                while things:
                    things.pop()
                    if rng.random() < 0.05:
                        gc.collect()
            gc.collect()
            self.assertEqual(p.ring.nop().result(LIMIT), 0)

    def test_dropping_in_a_thread_and_in_finalizers(self):
        class Owner:
            def __init__(self, ctx):
                self.ring, self.me = ctx.ring(2), self
                self.op = self.ring.timeout(1000)

            def __del__(self):
                self.ring.close()

        with liburccl.Context("shm") as ctx:
            for _ in range(20):
                Owner(ctx)
            threads = [threading.Thread(target=gc.collect) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            gc.collect()

    def test_memory_and_descriptors_stay_flat(self):
        with Pair("shm") as p:
            def use(count):
                for _ in range(count):
                    memory = p.a.alloc(1 << 20)
                    with p.a.register(memory) as region, p.a.ring(4) as ring:
                        ring.nop().result(LIMIT)
                        region.advertise()
            use(50)
            gc.collect()
            fds, bytes_before = len(os.listdir("/proc/self/fd")), resident()
            use(300)
            gc.collect()
            self.assertEqual(len(os.listdir("/proc/self/fd")), fds)
            self.assertLess(resident() - bytes_before, 64 << 20)     # 300 leaks have more

    def test_a_process_that_leaves_everything_open_exits(self):
        daemon = """
def wait():
    try:
        ring.wait(100)
    except liburccl.Error:
        pass
threading.Thread(target=wait, daemon=True).start()
"""
        for parts in ({}, {"more": daemon}, {"arguments": "log=lambda *_: None, log_level='debug'"},
                      {"more": "ops.append(ops); ctx.me = ctx"}):
            with self.subTest(**parts):
                status, said, seconds = child(**parts)
                self.assertEqual((status, said), (0, ""))
                self.assertLess(seconds, LIMIT / 2)
