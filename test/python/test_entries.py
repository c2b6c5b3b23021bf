# SPDX-License-Identifier: Apache-2.0
"""Each kind of entry does what its docstring says, over shm and tcp."""
import array
import struct
import unittest

import liburccl
from pair import LIMIT, Pair


class Entries:
    def setUp(self):
        self.pair = Pair(self.transport)
        self.addCleanup(self.pair.close)

    def test_write_places_bytes_and_notifies(self):
        p = self.pair
        p.source[:5] = b"hello"
        op = p.ring.write(p.remote, memoryview(p.source)[:5], 8, notify=(42, b"here"))
        self.assertEqual(op.result(LIMIT), 5)
        self.assertEqual(p.events.next(LIMIT), liburccl.Note(p.came.peer, 42, b"here", None))
        self.assertEqual(bytes(p.memory[:16]), b"\0" * 8 + b"hello\0\0\0")
        self.assertTrue(op.quiet and op.done() and op.res == 5)

    def test_read_fetches_bytes(self):
        p = self.pair
        p.memory[100:104] = b"data"
        view = memoryview(p.source)[:4]
        self.assertEqual(p.ring.read(p.remote, view, off=100).result(LIMIT), 4)
        self.assertEqual(bytes(view), b"data")

    def test_vector_moves_segments_and_names_the_failed_one(self):
        p = self.pair
        p.source[:8] = b"abcdefgh"
        view = memoryview(p.source)
        op = p.ring.writev(p.peer, [(p.remote, view[:4], 4), (p.remote, view[4:8], 0)])
        self.assertEqual(op.result(LIMIT), 8)
        self.assertEqual(bytes(p.memory[:8]), b"efghabcd")
        bad = [(p.remote, view[:4], 0), (p.remote, view[:4], len(p.memory))]
        with self.assertRaises(liburccl.Error) as caught:
            p.ring.writev(p.peer, bad).result(LIMIT)
        self.assertIn(caught.exception.segment, (0, 1))

    def test_records_of_segments_move(self):
        p = self.pair
        p.source[:4] = b"seg!"
        address, _ = liburccl.address_of(p.source)
        records = liburccl.SEG.pack(address, 4, 12, 0, p.remote.id)
        self.assertEqual(p.ring.writev(p.peer, records).result(LIMIT), 4)
        self.assertEqual(bytes(p.memory[12:16]), b"seg!")

    def test_submit_many_moves_all_rows(self):
        p, n = self.pair, 1000
        for i in range(n):
            struct.pack_into("<Q", p.source, 8 * i, i + 1)
        address, _ = liburccl.address_of(p.source)
        rows = array.array("Q")
        for i in range(n):
            rows.extend((address + 8 * i, 8, 8 * (n - 1 - i)))
        self.assertEqual(p.ring.submit_many(p.remote, rows).result(LIMIT), 8 * n)
        self.assertEqual(struct.unpack_from(f"<{n}Q", p.memory), tuple(range(n, 0, -1)))
        p.source[:8 * n] = bytes(8 * n)
        self.assertEqual(p.ring.submit_many(p.remote, rows, "read").result(LIMIT), 8 * n)
        self.assertEqual(struct.unpack_from(f"<{n}Q", p.source), tuple(range(1, n + 1)))

    def test_pages_move_by_index_tables(self):
        p = self.pair
        for i in range(8):
            p.source[16 * i:16 * i + 16] = bytes([i + 1]) * 16
        table = array.array("I", [7, 0, 3])
        paged = liburccl.Paged(16, [(3, 16, 16, table, None)])
        self.assertEqual(p.ring.write_paged(p.remote, p.local, paged).result(LIMIT), 48)
        self.assertEqual([p.memory[16 * i] for i in range(4)], [8, 1, 4, 0])
        back = liburccl.Paged(16, [(3, 16, 16)], local_off=256)
        self.assertEqual(p.ring.read_paged(p.remote, p.local, [back]).result(LIMIT), 48)
        self.assertEqual([p.source[256 + 16 * i] for i in range(3)], [8, 1, 4])

    def test_atomics_return_the_word_before(self):
        p, word = self.pair, 0
        start = -liburccl.address_of(p.memory)[0] % 8
        self.assertEqual(p.ring.fetch_add(p.remote, start, 5).result(LIMIT), 0)
        self.assertEqual(p.ring.cmp_swap(p.remote, start, 5, 9).result(LIMIT), 5)
        self.assertEqual(p.ring.cmp_swap(p.remote, start, 5, 1).result(LIMIT), 9)
        word, = struct.unpack_from("<Q", p.memory, start)
        self.assertEqual(word, 9)

    def test_notify_fence_and_batch(self):
        p = self.pair
        view = memoryview(p.source)[:8]
        with p.ring.batch():
            ops = [p.ring.write(p.remote, view, 8 * i) for i in range(20)]
            ops.append(p.ring.notify(p.peer, 7, b"all", fence=True))
            self.assertEqual(p.ring.unfinished, 21)
        self.assertEqual([op.result(LIMIT) for op in ops], [8] * 20 + [0])
        self.assertEqual(p.events.next(LIMIT)[1:], (7, b"all", None))

    def test_a_wait_inside_a_batch_hands_it_over(self):
        p = self.pair
        with p.ring.batch():
            self.assertEqual(p.ring.nop().result(LIMIT), 0)

    def test_link_breaks_behind_a_failure(self):
        p = self.pair
        view = memoryview(p.source)[:8]
        with p.ring.batch():
            bad = p.ring.write(p.remote, view, len(p.memory), link=True)
            after = p.ring.write(p.remote, view)
        with self.assertRaises(liburccl.Error):
            bad.result(LIMIT)
        with self.assertRaises(liburccl.Cancelled):
            after.result(LIMIT)

    def test_start_and_signal_by_words(self):
        p, words = self.pair, array.array("Q", [0, 0])
        view = memoryview(words).cast("B")
        with p.a.register(words, "rw"):
            op = p.ring.write(p.remote, memoryview(p.source)[:8], wait=(view[:8], 3),
                              signal=(view[8:], 9))
            self.assertFalse(op.done())
            words[0] = 3
            self.assertEqual(op.result(LIMIT), 8)
            self.assertEqual(words[1], 9)

    def test_register_import_warm_and_close_as_entries(self):
        p = self.pair
        region = p.far.register(bytearray(64), "r").result(LIMIT)
        self.assertEqual(len(region), 64)
        remote = p.ring.import_(p.peer, [region.advertise(rights="r")]).result(LIMIT)
        self.assertEqual(p.ring.warm(p.peer).result(LIMIT), 0)
        self.assertEqual(p.ring.read(remote, memoryview(p.source)[:64]).result(LIMIT), 64)
        with self.assertRaises(liburccl.Denied):
            p.ring.write(remote, memoryview(p.source)[:64]).result(LIMIT)
        self.assertEqual(p.ring.close_peer(p.peer).result(LIMIT), 0)
        self.assertEqual(p.events.next(LIMIT), liburccl.Lost(p.came.peer, None))

    def test_timeout_and_cancel(self):
        p = self.pair
        self.assertIs(p.ring.timeout(0.001).result(LIMIT), True)
        late = p.ring.timeout(1000, 1)
        p.ring.nop().result(LIMIT)
        self.assertIs(late.result(LIMIT), False)
        ops = [p.ring.timeout(1000) for _ in range(3)]
        self.assertTrue(ops[0].cancel())
        with self.assertRaises(liburccl.Cancelled):
            ops[0].result(LIMIT)
        self.assertEqual(p.ring.cancel().result(LIMIT), 2)
        self.assertEqual(p.ring.cancel(p.remote).result(LIMIT), 0)
        with self.assertRaises(liburccl.TimedOut):
            p.ring.timeout(1000).result(0.001)

    def test_a_full_ring_refuses_and_has_room_again(self):
        p = self.pair
        ring = p.a.ring(2)
        ops = [ring.timeout(1000), ring.timeout(1000)]
        with self.assertRaises(liburccl.Full):
            ring.nop()
        self.assertFalse(ring.wait_room(timeout=0.001))
        ops[1].cancel()
        self.assertTrue(ring.wait_room(timeout=LIMIT))
        self.assertEqual(ring.nop().result(LIMIT), 0)
        ring.close()
        with self.assertRaises(liburccl.Error):
            ops[0].result(LIMIT)

    def test_messages_between_rings(self):
        p = self.pair
        other = p.a.ring()
        self.assertEqual(p.ring.msg_ring(other.id, 5, 6).result(LIMIT), 0)
        self.assertEqual(other.next_event(LIMIT), liburccl.Msg(p.ring.id, 5, 6))


class EntriesShm(Entries, unittest.TestCase):
    transport = "shm"


class EntriesTcp(Entries, unittest.TestCase):
    transport = "tcp"
