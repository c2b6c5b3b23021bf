# SPDX-License-Identifier: Apache-2.0
"""Tensors of PyTorch in memory of a GPU: each type, between GPUs, behind streams and events."""
import gc
import os
import unittest

import liburccl
from pair import LIMIT, Pair

SIZE = 1 << 20
TYPES = ("float32", "float16", "bfloat16", "int8", "bool", "float8_e4m3fn", "float8_e5m2")


def setUpModule():
    global torch
    try:
        import torch
    except ImportError:
        raise unittest.SkipTest("PyTorch is not installed") from None
    if not torch.cuda.is_available():
        raise unittest.SkipTest("PyTorch sees no GPU")


def bytes_of(tensor):
    return tensor.contiguous().view(torch.uint8).cpu().numpy().tobytes()


def random_tensor(dtype="uint8"):
    data = torch.frombuffer(bytearray(os.urandom(SIZE)), dtype=torch.uint8)
    return (data & 1 if dtype == "bool" else data).view(getattr(torch, dtype)).cuda()


class Tensors(unittest.TestCase):
    def setUp(self):
        self.pair = Pair("shm", SIZE)
        self.addCleanup(self.pair.close)

    def test_each_type_moves_to_the_host_and_back(self):
        p = self.pair
        for name in TYPES:
            if not hasattr(torch, name):
                continue
            with self.subTest(name):
                tensor = random_tensor(name)
                data = bytes_of(tensor)
                with p.a.register(tensor) as region:
                    self.assertEqual((region.info()["device"], len(region)), (0, SIZE))
                    self.assertEqual(p.ring.write(p.remote, tensor).result(LIMIT), SIZE)
                    self.assertEqual(bytes(p.memory), data)
                    tensor.zero_()
                    torch.cuda.synchronize()
                    self.assertEqual(p.ring.read(p.remote, tensor).result(LIMIT), SIZE)
                    self.assertEqual(bytes_of(tensor), data)

    def test_a_tensor_moves_into_a_tensor_of_another_context(self):
        for transport in "shm", "tcp":
            with self.subTest(transport), Pair(transport, 64) as p:
                near, far = random_tensor(), random_tensor()
                data, old = bytes_of(near), bytes_of(far)
                with p.a.register(near), p.b.register(far) as region:
                    remote = p.a.import_(p.peer, region.advertise())
                    part = near[4096:70001]
                    self.assertEqual(p.ring.write(remote, part, 512).result(LIMIT), len(part))
                    self.assertEqual(bytes_of(far),
                                     old[:512] + data[4096:70001] + old[512 + len(part):])
                    self.assertEqual(p.ring.read(remote, near).result(LIMIT), SIZE)
                    self.assertEqual(bytes_of(near), bytes_of(far))

    def test_strides_are_refused(self):
        tensor = random_tensor().view(1024, 1024)
        with self.pair.a.register(tensor), self.assertRaisesRegex(ValueError, "contiguous"):
            self.pair.ring.write(self.pair.remote, tensor.t())

    def test_a_write_starts_behind_the_work_of_a_stream(self):
        p, stream = self.pair, torch.cuda.Stream()
        tensor = torch.zeros(SIZE, dtype=torch.uint8, device="cuda")
        factor = torch.rand(4096, 4096, device="cuda")
        torch.cuda.synchronize()
        with p.a.register(tensor):
            for number, how in enumerate(("stream", "event") * 5, 1):
                with torch.cuda.stream(stream):
                    for _ in range(20):         # longer than the entry alone would take
                        factor = factor @ factor
                        factor /= factor.max()
                    tensor.fill_(number)
                    event = torch.cuda.Event()
                    event.record(stream)
                op = p.ring.write(p.remote, tensor, **{how: {"stream": stream, "event": event}[how]})
                self.assertEqual(op.result(LIMIT), SIZE)
                self.assertEqual(p.memory.count(number), SIZE)

    def test_registered_memory_is_not_given_to_another_tensor(self):
        tensor = random_tensor()
        address = tensor.data_ptr()
        region = self.pair.a.register(tensor)
        del tensor
        gc.collect()
        others = [random_tensor() for _ in range(8)]
        self.assertNotIn(address, [other.data_ptr() for other in others])
        region.unregister()
        self.assertEqual(liburccl.address_of(others[0]), (others[0].data_ptr(), SIZE))
