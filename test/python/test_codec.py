# SPDX-License-Identifier: Apache-2.0
"""The codec of liburccl.codec: data comes back, from bytes, arrays and memory of a GPU."""
import random
import struct
import unittest

from libcuda import Array, Cuda
from liburccl import Error, codec

random.seed(1)
DATA = b"".join(struct.pack("<f", random.gauss(0, 1))[2:] for _ in range(50000))


class Codec(unittest.TestCase):
    def test_data_comes_back(self):
        for kind in "n23", "fw4", "off":
            for dtype in "bf16", "fp16", "fp32", "e4m3", "e5m2", "bytes":
                with self.subTest(codec=kind, dtype=dtype):
                    chunk = codec.encode(DATA, dtype, kind)
                    self.assertLessEqual(len(chunk), codec.bound(len(DATA), dtype))
                    self.assertEqual(codec.decode(chunk), DATA)
                    self.assertEqual(codec.info(chunk).raw_bytes, len(DATA))
        about = codec.info(codec.encode(DATA, "bf16", crc=False))
        self.assertEqual((about.dtype, about.codec, about.checksum), ("bf16", "n23", False))
        self.assertGreater(len(DATA) / about.coded_bytes, 1.45)
        self.assertEqual(codec.info(codec.encode(bytes(1000), "bf16")).codec, "const")

    def test_dtype_is_that_of_the_array(self):
        numpy = _numpy(self)
        array = numpy.frombuffer(DATA, "float16")
        back = numpy.zeros_like(array)
        chunk = codec.encode(array)
        self.assertEqual(codec.info(chunk).dtype, "fp16")
        self.assertEqual(codec.decode_into(chunk, back), len(DATA))
        self.assertEqual(back.tobytes(), DATA)

    def test_wrong_bytes_and_names_are_refused(self):
        chunk = codec.encode(DATA, "bf16")
        for bad in chunk[:-1], chunk[:70], bytes(100), b"":
            with self.assertRaisesRegex(Error, "no chunk"):
                codec.decode_into(bad, bytearray(len(DATA)))
        with self.assertRaisesRegex(Error, "too small"):
            codec.decode_into(chunk, bytearray(len(DATA) - 1))
        with self.assertRaisesRegex(Error, "too small"):
            codec.encode_into(DATA, bytearray(100), "bf16")
        with self.assertRaisesRegex(ValueError, "bf16"):
            codec.encode(DATA, "float")
        with self.assertRaisesRegex(ValueError, "n23"):
            codec.encode(DATA, "bf16", "zip")


def _numpy(test):
    try:
        import numpy
    except ImportError:
        test.skipTest("no NumPy")
    return numpy


class Gpu(unittest.TestCase):
    def setUp(self):
        try:
            self.cuda = Cuda()
        except OSError as error:
            self.skipTest(str(error))
        try:
            self.gpu = codec.Gpu(0, 16)
        except Error as error:
            self.skipTest(str(error))

    def array(self, size):
        array = Array(self.cuda, size)
        self.addCleanup(array.free)
        return array

    def test_a_gpu_writes_the_chunk_of_the_processor(self):
        source, back, result = self.array(len(DATA)), self.array(len(DATA)), self.array(8)
        room = self.array(codec.bound(len(DATA), "bf16"))
        source.put(DATA)
        self.gpu.encode(source, room, result, "bf16")   # by the default stream, as get()
        size = struct.unpack("<q", result.get())[0]
        self.assertEqual(room.get()[:size], codec.encode(DATA, "bf16", crc=False))
        self.gpu.decode((room.address, size), back, result, "bf16", stream=0)
        self.assertEqual(struct.unpack("<q", result.get())[0], len(DATA))
        self.assertEqual(back.get(), DATA)

    def test_memory_of_a_gpu_is_not_for_the_processor(self):
        with self.assertRaisesRegex(ValueError, "on a GPU"):
            codec.encode(self.array(1000), "bf16")
        with self.assertRaisesRegex(ValueError, "8 bytes"):
            self.gpu.decode(self.array(1000), self.array(1000), self.array(4), "bf16")
        with self.assertRaisesRegex(Error, "too small"):
            self.gpu.encode(self.array(1000), self.array(100), self.array(8), "bf16")


if __name__ == "__main__":
    unittest.main()
