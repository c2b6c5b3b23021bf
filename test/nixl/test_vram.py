# SPDX-License-Identifier: Apache-2.0
"""Every byte of transfers between memory of a GPU and of a GPU or the host, in two processes."""
import unittest

import agents
from test_moves import BLOCK, BLOCKS, expected, few, shuffled, strided, uneven

SEGMENTS = (("VRAM", "VRAM"), ("VRAM", "DRAM"), ("DRAM", "VRAM"))


def setUpModule():
    try:
        import torch
    except ImportError:
        raise unittest.SkipTest("PyTorch is not installed") from None
    if not torch.cuda.is_available():
        raise unittest.SkipTest("PyTorch sees no GPU")


class Vram(unittest.TestCase):
    def between(self, a, b, segment):
        agents.both_load(a, b)
        for shape in shuffled, strided, uneven, few:
            here, there = shape(a, b)
            for way in "WRITE", "READ":
                a.fill(1)
                b.fill(2)
                want = expected(way, a.bytes(), b.bytes(), here, there, a, b)
                with self.subTest(shape=shape.__name__, way=way):
                    self.assertEqual(a.move(way, here, there, "B", b"note", segment), "DONE")
                    self.assertEqual(b.notes(1), {"A": [b"note"]})
                    self.assertTrue((a.bytes(), b.bytes()) == want)

    def test_two_processes(self):
        size = BLOCK * BLOCKS
        for transport in "shm", "tcp":
            for near, far in SEGMENTS:
                with self.subTest(transport=transport, near=near, far=far):
                    other = agents.start("B", size, segment=far, transport=transport)
                    self.between(agents.Agent("A", size, segment=near, transport=transport),
                                 other, far)
                    self.assertEqual(other.stop(), 0)

    def test_memory_that_is_deregistered_is_free_again(self):
        import torch
        before = torch.cuda.memory_allocated()
        mine = agents.Agent("A", 64 << 20, segment="VRAM")
        mine.deregister()
        del mine
        self.assertEqual(torch.cuda.memory_allocated(), before)


if __name__ == "__main__":
    unittest.main()
