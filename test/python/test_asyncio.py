# SPDX-License-Identifier: Apache-2.0
"""Entries and events in asyncio's loops."""
import asyncio
import os
import random
import threading
import unittest

import liburccl
from pair import LIMIT, Pair


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def resident():
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE")


class Asyncio(unittest.TestCase):
    def setUp(self):
        self.pair = Pair("shm")
        self.addCleanup(self.pair.close)

    def run_in(self, coroutine):
        return asyncio.run(asyncio.wait_for(coroutine, LIMIT))

    def test_entries_are_awaited_alone_and_together(self):
        p = self.pair

        async def main():
            view = memoryview(p.source)[:8]
            self.assertEqual(await p.ring.write(p.remote, view), 8)
            ops = [p.ring.write(p.remote, view, 8 * i) for i in range(100)]
            self.assertEqual(await asyncio.gather(*ops), [8] * 100)
            with self.assertRaises(liburccl.Error):
                await p.ring.write(p.remote, view, len(p.memory))
        self.run_in(main())
        self.run_in(main())         # another loop: the first one is closed

    def test_events_come_by_async_for(self):
        p = self.pair

        async def sender():
            for i in range(50):
                await p.ring.notify(p.peer, i, b"%d" % i)
            await p.ring.close_peer(p.peer)

        async def main():
            task, seen = asyncio.create_task(sender()), []
            async for event in p.events:
                seen.append(event)
                if isinstance(event, liburccl.Lost):
                    break
            await task
            self.assertEqual([(e.tag, e.payload) for e in seen[:-1]],
                             [(i, b"%d" % i) for i in range(50)])
        self.run_in(main())

    def test_a_stream_of_one_peer_ends_behind_its_loss(self):
        p = self.pair

        async def main():
            stream = p.far.events(p.came.peer)
            await p.ring.close_peer(p.peer)
            return [event async for event in stream]
        self.assertEqual(self.run_in(main()), [liburccl.Lost(p.came.peer, None)])

    def test_cancelling_waits_until_the_buffer_is_quiet(self):
        p, word = self.pair, bytearray(8)
        self.addCleanup(p.a.register(word, "rw").unregister)

        async def main():
            op = p.ring.write(p.remote, p.source, wait=(word, 1))
            task = asyncio.ensure_future(self.wait_for(op))
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertTrue(op.quiet)
            with self.assertRaises(liburccl.Cancelled):
                await op
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(p.ring.timeout(1000), 0.01)
        self.run_in(main())

    @staticmethod
    async def wait_for(op):
        return await op

    def test_awaits_that_need_no_loop_let_others_run(self):
        p = self.pair

        async def busy():
            while True:
                await p.ring.write(p.remote, p.source)

        async def main():
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(busy(), 0.05)
        self.run_in(main())

    def test_random_cancels_leave_nothing_behind(self):
        self.cancels(self.pair)

    def test_random_cancels_of_awaits_that_do_not_spin(self):
        with Pair("shm", spin_us=0) as pair:
            self.cancels(pair)

    def cancels(self, p):
        """LIBURCCL_AWAITS=1000000, half for each caller, is the long form: minutes."""
        rng = random.Random(7)
        awaits = int(os.environ.get("LIBURCCL_AWAITS", "3200")) // 2
        ended = changed = 0

        async def writer(number, count):
            nonlocal ended, changed
            view = memoryview(p.source)[8 * number:8 * number + 8]
            there = memoryview(p.memory)[8 * number:8 * number + 8]
            for turn in range(count):
                view[:] = turn.to_bytes(8, "little")
                op = p.ring.write(p.remote, view, 8 * number)
                task = asyncio.ensure_future(self.wait_for(op))
                if rng.random() < 0.2:
                    await asyncio.sleep(0)
                    task.cancel()
                try:
                    await task
                except asyncio.CancelledError:
                    # Nothing of a write over shm moves any more: the next bytes are ours alone.
                    before = bytes(there)
                    view[:] = b"\xff" * 8
                    await asyncio.sleep(0)
                    changed += bytes(there) != before
                self.assertTrue(op.quiet)
                ended += 1

        async def main(count):
            await asyncio.gather(*(writer(number, count) for number in range(32)))
        asyncio.run(main(10))
        fds, memory = descriptors(), resident()
        asyncio.run(main(awaits // 32))
        self.assertEqual((ended, changed), (32 * (10 + awaits // 32), 0))
        self.assertEqual((p.ring.unfinished, descriptors()), (0, fds))
        if "asan" not in os.environ.get("LD_PRELOAD", ""):  # which keeps memory that was freed
            self.assertLess(resident() - memory, 16 << 20)

    def test_loops_of_two_threads_share_a_ring(self):
        p, results = self.pair, []

        async def main():
            view = memoryview(p.source)[:8]
            for _ in range(200):
                results.append(await p.ring.write(p.remote, view))
        threads = [threading.Thread(target=self.run_in, args=(main(),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [8] * 400)

    def test_a_blocking_wait_beside_a_loop_does_not_take_its_wake_up(self):
        p, results = self.pair, []
        view = memoryview(p.source)[:8]

        def block():
            for _ in range(200):
                results.append(p.ring.write(p.remote, view).result(LIMIT))

        async def main():
            thread = threading.Thread(target=block)
            thread.start()
            for _ in range(200):
                results.append(await p.ring.write(p.remote, view))
            await asyncio.get_running_loop().run_in_executor(None, thread.join)
        self.run_in(main())
        self.assertEqual(results, [8] * 400)

    def test_closing_ends_what_is_awaited(self):
        async def main():
            async with liburccl.Context("shm") as ctx:
                ring = ctx.ring()
                task = asyncio.ensure_future(self.wait_for(ring.timeout(1000)))
                await asyncio.sleep(0)
                ring.close()
                with self.assertRaises(liburccl.Error):
                    await task
                ring = ctx.ring()
                task = asyncio.ensure_future(self.wait_for(ring.timeout(1000)))
                await asyncio.sleep(0)
            with self.assertRaises(liburccl.Error):
                await task
            with self.assertRaises(liburccl.Error) as caught:
                ring.nop()
            self.assertIn("closed", str(caught.exception))
        self.run_in(main())

    def test_other_loops_use_fileno_and_reap(self):
        import select
        p = self.pair
        p.ring.reap()
        op = p.ring.write(p.remote, p.source)
        while not op._known:
            select.select([p.ring.fileno()], [], [], LIMIT)
            p.ring.reap()
        self.assertEqual(op.result(), len(p.source))
