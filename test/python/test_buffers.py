# SPDX-License-Identifier: Apache-2.0
"""What may be a buffer, and what is refused with a sentence."""
import array
import mmap
import unittest

import liburccl
from pair import LIMIT, Pair

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None


class Tensor:
    """As PyTorch's, over a bytearray."""

    def __init__(self, memory, device=1, contiguous=True):
        self.memory, self.device, self.contiguous = memory, device, contiguous

    def data_ptr(self):
        return liburccl.address_of(self.memory)[0]

    def numel(self):
        return len(self.memory) // 2

    def element_size(self):
        return 2

    def is_contiguous(self):
        return self.contiguous

    def __dlpack_device__(self):
        return (self.device, 0)


class Buffers(unittest.TestCase):
    def setUp(self):
        self.pair = Pair("shm", 4096)
        self.addCleanup(self.pair.close)

    def moves(self, source, rights=""):
        """Writes the buffer and compares what came."""
        p, size = self.pair, liburccl.address_of(source)[1]
        p.memory[:] = bytes(len(p.memory))
        with p.a.register(source, rights):
            self.assertEqual(p.ring.write(p.remote, source, 16).result(LIMIT), size)
        return bytes(p.memory[16:16 + size])

    def test_objects_with_the_buffer_protocol(self):
        data = bytes(range(64)) * 2
        mapped = mmap.mmap(-1, 128)
        mapped[:] = data
        self.addCleanup(mapped.close)
        memory = self.pair.a.alloc(128)
        memoryview(memory)[:] = data
        for source in (data, bytearray(data), memoryview(data), array.array("B", data), mapped,
                       memory, array.array("I", data)):
            with self.subTest(type(source)):
                self.assertEqual(self.moves(source), data)

    @unittest.skipUnless(numpy, "NumPy is not installed")
    def test_numpy_arrays(self):
        values = numpy.arange(30, dtype=numpy.float64).reshape(5, 6)
        self.assertEqual(self.moves(values), values.tobytes())
        self.assertEqual(self.moves(values[1:3]), values[1:3].tobytes())
        with self.assertRaises(ValueError):
            self.moves(values[:, 1])
        with self.assertRaises(ValueError):
            self.moves(values.T)
        array_of_memory = self.pair.a.alloc(80).numpy("float64")
        array_of_memory[:] = values.flat[:10]
        self.assertEqual(self.moves(array_of_memory), values.tobytes()[:80])
        self.assertEqual(liburccl.layouts.PAGED_DTYPE.itemsize, liburccl.PAGED.size)
        self.assertEqual(liburccl.layouts.SEG_DTYPE.itemsize, liburccl.SEG.size)
        self.assertEqual(liburccl.layouts.DIM_DTYPE.itemsize, liburccl.DIM.size)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_tensors_of_pytorch(self):
        tensor = torch.arange(40, dtype=torch.float32)
        self.assertEqual(self.moves(tensor), tensor.numpy().tobytes())
        with self.assertRaises(ValueError):
            self.moves(tensor.reshape(5, 8).t())

    def test_tensors_and_addresses(self):
        memory = bytearray(range(32))
        self.assertEqual(self.moves(Tensor(memory)), bytes(memory))
        self.assertEqual(self.moves(liburccl.address_of(memory)), bytes(memory))
        with self.assertRaisesRegex(ValueError, "contiguous"):
            self.moves(Tensor(memory, contiguous=False))
        with self.assertRaisesRegex(liburccl.Error, "no NVIDIA GPU"):
            self.moves(Tensor(memory, device=10))
        with self.assertRaises(TypeError):
            self.moves(object())

    def test_a_read_wants_a_writable_buffer(self):
        p = self.pair
        with p.a.register(b"x" * 8, "") as region, self.assertRaises(BufferError):
            p.ring.read(p.remote, b"x" * len(region))
        with self.assertRaises(BufferError):
            p.a.register(b"x" * 8, "w")

    def test_registered_memory_cannot_be_resized(self):
        source = bytearray(64)
        with self.pair.a.register(source):
            with self.assertRaises(BufferError):
                source.extend(b"more")
        source.extend(b"more")

    def test_many_buffers_are_one_offset_space(self):
        p, parts = self.pair, [bytearray(b"a" * 10), bytearray(b"b" * 20)]
        with p.b.register(parts, "r") as region:
            self.assertEqual(len(region), 30)
            with p.a.import_(p.peer, region.advertise(5, 10, "r")) as remote:
                view = memoryview(p.source)[:10]
                self.assertEqual(p.ring.read(remote, view).result(LIMIT), 10)
                self.assertEqual(bytes(view), b"a" * 5 + b"b" * 5)

    def test_memory_is_mapped_by_peers_and_outlives_its_context(self):
        p, memory = self.pair, self.pair.b.alloc(5000)
        with p.b.register(memory) as region:
            self.assertTrue(region.info()["mappable"])
            with p.a.import_(p.peer, region.advertise()) as remote:
                p.source[:3] = b"abc"
                p.ring.write(remote, memoryview(p.source)[:3], 4997).result(LIMIT)
        view = memoryview(memory)
        p.close()
        self.assertEqual(bytes(view[-3:]), b"abc")
        self.assertEqual(len(memory), 5000)

    def test_revoked_and_expired_adverts_give_denied(self):
        p = self.pair
        p.region.revoke()
        with self.assertRaises(liburccl.Denied):
            p.ring.write(p.remote, p.source).result(LIMIT)
        remote = p.a.import_(p.peer, p.region.advertise(ttl=0.001))
        with self.assertRaises(liburccl.Error):
            while True:
                p.ring.write(remote, p.source).result(LIMIT)
