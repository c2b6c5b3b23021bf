# SPDX-License-Identifier: Apache-2.0
"""Every byte of transfers of all shapes, in one process and between two, over shm and tcp."""
import fcntl
import mmap
import os
import random
import unittest

import numpy

import agents

BLOCK = 4096
BLOCKS = int(os.environ.get("NIXL_BLOCKS", "4096"))
NOTES = (0, 1, 256, 257, 4096, 262144)


def shuffled(agent, other):
    order = numpy.random.default_rng(5).permutation(BLOCKS)
    return ([(agent.where() + i * BLOCK, BLOCK) for i in range(BLOCKS)],
            [(other.where() + int(i) * BLOCK, BLOCK) for i in order])


def strided(agent, other):
    """Every second block here, every third there."""
    return ([(agent.where() + 2 * i * BLOCK, BLOCK) for i in range(BLOCKS // 3)],
            [(other.where() + 3 * i * BLOCK, BLOCK) for i in range(BLOCKS // 3)])


def uneven(agent, other):
    """Lengths and places that fit no pattern."""
    source, here, there, at = random.Random(7), [], [], 0
    for _ in range(500):
        length = source.randrange(1, 9000)
        here.append((agent.where() + at, length))
        there.append((other.where() + at + 777, length))
        at += length + source.randrange(0, 50)
    return here, list(there)


def few(agent, other):
    return [(agent.where() + 1, 3)], [(other.where() + 5, 3)]


def expected(way, a, b, here, there, agent, other):
    """Both buffers afterwards."""
    a, b = bytearray(a), bytearray(b)
    for (x, n), (y, _) in zip(here, there):
        x, y = x - agent.where(), y - other.where()
        if way == "WRITE":
            b[y:y + n] = a[x:x + n]
        else:
            a[x:x + n] = b[y:y + n]
    return bytes(a), bytes(b)


class Moves(unittest.TestCase):
    def between(self, a, b, shapes=(shuffled, strided, uneven, few)):
        agents.both_load(a, b)
        for shape in shapes:
            here, there = shape(a, b)
            for way in "WRITE", "READ":
                a.fill(1)
                b.fill(2)
                want = expected(way, a.bytes(), b.bytes(), here, there, a, b)
                with self.subTest(shape=shape.__name__, way=way):
                    self.assertEqual(a.move(way, here, there, "B"), "DONE")
                    self.assertTrue((a.bytes(), b.bytes()) == want)

    def test_two_agents_of_one_process(self):
        for transport in "shm", "tcp":
            with self.subTest(transport=transport):
                self.between(*(agents.Agent(n, BLOCK * BLOCKS, transport=transport) for n in "AB"))

    def test_two_processes(self):
        for transport in "shm", "tcp":
            with self.subTest(transport=transport):
                other = agents.start("B", BLOCK * BLOCKS, transport=transport)
                self.between(agents.Agent("A", BLOCK * BLOCKS, transport=transport), other)
                self.assertEqual(other.stop(), 0)

    def test_an_agent_and_itself(self):
        for size in BLOCK, BLOCK * 1024:    # at once, and by the thread
            a = agents.Agent("A", 2 * size)
            a.fill(1)
            half = a.bytes()[:size]
            state = a.move("WRITE", [(a.address, size)], [(a.address + size, size)], "A", b"note")
            self.assertEqual(state, "DONE")
            self.assertTrue(a.bytes() == half + half)
            self.assertEqual(a.notes(1), {"A": [b"note"]})
            del a

    def test_a_notification_of_each_length_comes_once_behind_its_data(self):
        other = agents.start("B", BLOCK)
        mine = agents.Agent("A", BLOCK)
        agents.both_load(mine, other)
        for turn, length in enumerate(NOTES):
            for way in "WRITE", "READ":
                note = random.Random(length).randbytes(length)
                mine.set(turn + 1)
                with self.subTest(length=length, way=way):
                    # Python's binding takes an empty one for none.
                    if length:
                        state = mine.move_first(way, other.where(), "B", BLOCK, note)
                        self.assertEqual(state, "DONE")
                    else:
                        mine.notify("B", note)
                    self.assertEqual(other.notes(1), {"A": [note]})
                    if length and way == "WRITE":
                        self.assertEqual(other.bytes(), bytes([turn + 1]) * BLOCK)
        self.assertEqual(other.notes(1, 0.2), {})
        other.stop()

    def test_memory_that_is_registered_late_is_reached(self):
        a, b = agents.Agent("A"), agents.Agent("B")
        agents.both_load(a, b)
        self.assertEqual(a.move_first("WRITE", b.address, "B"), "DONE")
        late = numpy.full(4096, 9, dtype=numpy.uint8)
        b.api.register_memory([(late.ctypes.data, 4096, 0, "")], "DRAM")
        a.load(b.metadata())
        self.assertEqual(a.move_first("READ", late.ctypes.data, "B"), "DONE")
        self.assertEqual(a.bytes()[:4096], late.tobytes())

    def test_a_memory_file_is_reached_by_its_descriptor(self):
        size, skipped = 1 << 20, 4096
        fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
        self.addCleanup(os.close, fd)
        os.posix_fallocate(fd, 0, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS,
                    fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        mapped = numpy.frombuffer(mmap.mmap(fd, size), dtype=numpy.uint8)
        a, b = agents.Agent("A", transport="shm"), agents.Agent("B", transport="shm")
        address = mapped.ctypes.data + skipped
        b.api.register_memory([(address, size - skipped, 0, f"fd={fd},offset={skipped}")], "DRAM")
        agents.both_load(a, b)
        a.fill(3)
        self.assertEqual(a.move_first("WRITE", address, "B", size - skipped), "DONE")
        self.assertEqual(mapped[skipped:].tobytes(), a.bytes()[:size - skipped])
        with self.assertRaises(Exception):      # that file is not mapped there
            b.api.register_memory([(b.address, 4096, 0, f"fd={fd}")], "DRAM")

    def test_a_cost_is_estimated(self):
        a, b = agents.Agent("A"), agents.Agent("B")
        agents.both_load(a, b)
        handle = a.prepare("WRITE", [(a.address, 1 << 20)], [(b.address, 1 << 20)], "B")
        duration, margin, _ = a.api.estimate_xfer_cost(handle)
        self.assertGreater(duration, 0)
        self.assertLess(margin, duration)
        a.api.release_xfer_handle(handle)


if __name__ == "__main__":
    unittest.main()
