# SPDX-License-Identifier: Apache-2.0
"""Arrays in memory of a GPU, by each of the interfaces that packages give them."""
import os
import unittest

import liburccl
from libcuda import Array, Cuda, Event, Jax, Stream, Torch
from pair import LIMIT, Pair

SIZE = 4096
DEVICE = 1 << 19            # URCCL_PATH_DEVICE of abi.h


def setUpModule():
    global cuda
    try:
        cuda = Cuda()
    except OSError as error:
        raise unittest.SkipTest(str(error)) from None


class Gpu(unittest.TestCase):
    def setUp(self):
        self.pair = Pair("tcp", SIZE)
        self.addCleanup(self.pair.close)

    def array(self, size=SIZE, **how):
        array = Array(cuda, size, **how)
        self.addCleanup(array.free)
        return array

    def register(self, buffer, rights="rw", context=None):
        region = (context or self.pair.a).register(buffer, rights)
        self.addCleanup(region.unregister)
        return region

    def test_each_interface_gives_address_and_bytes(self):
        array = self.array(shape=(2, 256, 2), typestr="<f4")
        array.put(os.urandom(SIZE))
        data, p = array.get(), self.pair
        region = self.register(array)
        self.assertEqual((region.info()["device"], len(region)), (0, SIZE))
        self.assertIn("tcp", region.info()["staged"])
        jax = Jax(array.address, SIZE // 8)
        for buffer in array, Torch(array), jax, (array.address, SIZE):
            with self.subTest(type(buffer)):
                self.assertEqual(liburccl.address_of(buffer), (array.address, SIZE))
                p.memory[:] = bytes(SIZE)
                op = p.ring.write(p.remote, buffer)
                self.assertEqual(op.result(LIMIT), SIZE)
                self.assertTrue(op.path & DEVICE)
                self.assertEqual(bytes(p.memory), data)
        self.assertEqual(set(jax.streams), {-1})

    def test_a_read_fills_the_array(self):
        p, array = self.pair, self.array()
        self.register(Torch(array))
        p.memory[:] = os.urandom(SIZE)
        self.assertEqual(p.ring.read(p.remote, array).result(LIMIT), SIZE)
        self.assertEqual(array.get(), bytes(p.memory))
        array.put(bytes(SIZE))
        segments = [(p.remote, (array.address + 8 * i, 8), 8 * i) for i in range(4)]
        self.assertEqual(p.ring.readv(p.peer, segments).result(LIMIT), 32)
        self.assertEqual(array.get(), bytes(p.memory[:32]) + bytes(SIZE - 32))

    def test_blocks_of_an_array_move_by_index_tables(self):
        import array as numbers
        p, array = self.pair, self.array()
        array.put(b"".join(bytes([i]) * 64 for i in range(64)))
        region = self.register(array)
        paged = liburccl.Paged(64, [(3, 64, 64, numbers.array("I", [60, 2, 33]), None)])
        self.assertEqual(p.ring.write_paged(p.remote, region, paged).result(LIMIT), 192)
        self.assertEqual([p.memory[64 * i] for i in range(4)], [60, 2, 33, 0])

    def test_an_array_of_a_gpu_is_advertised_over_shm(self):
        with Pair("shm", SIZE) as p:
            near, far = self.array(), self.array()
            near.put(os.urandom(SIZE))
            with p.a.register(near), p.b.register(far) as region:
                with p.a.import_(p.peer, region.advertise()) as remote:
                    self.assertEqual(p.ring.write(remote, near).result(LIMIT), SIZE)
                self.assertEqual(far.get(), near.get())

    def test_memory_of_a_peer_has_an_address(self):
        near, far = self.array(), self.array()
        with Pair("shm", SIZE) as p, p.a.register(near), p.b.register(far) as region:
            remote = p.a.import_(p.peer, region.advertise())
            p.ring.warm(p.peer).result(LIMIT)
            self.assertEqual(remote.map(), far.address)     # both contexts are in this process
            with self.assertRaisesRegex(liburccl.Error, "mapped"):
                remote.map()
            remote.unmap()
            with self.assertRaisesRegex(liburccl.Error, "not mapped"):
                remote.unmap()

    def test_an_entry_starts_behind_a_stream(self):
        p, array, source, words = self.pair, self.array(), self.array(), self.array(64)
        words.put(bytes(64))
        array.put(b"\1" * SIZE)
        source.put(b"\2" * SIZE)
        self.register(array)
        stream = Stream(cuda)
        for number, name in enumerate(("stream", "event", "event"), 1):
            stream.wait(words.address, number)
            stream.copy(array.address, source.address, SIZE)
            value = stream if name == "stream" else stream.record_event()
            if number == 3:
                value = value.cuda_event
            op = p.ring.write(p.remote, array, **{name: value})
            # Another entry goes by: the first one has been taken, and waits.
            self.assertEqual(p.ring.write(p.remote, memoryview(p.source)[:8], 8).result(LIMIT), 8)
            self.assertFalse(op.done())
            words.put(number.to_bytes(8, "little"))
            self.assertEqual(op.result(LIMIT), SIZE)
            self.assertEqual(bytes(p.memory), b"\2" * SIZE)
            p.memory[:] = bytes(SIZE)

    def test_words_of_a_gpu_start_an_entry_and_tell_of_it(self):
        p, array, words = self.pair, self.array(), self.array(16)
        words.put(bytes(16))
        array.put(b"\3" * SIZE)
        self.register(array)
        self.register(words)
        op = p.ring.write(p.remote, array, wait=((words.address, 8), 5),
                          signal=(words.address + 8, 9))
        self.assertFalse(op.done())
        words.put((5).to_bytes(8, "little"))
        self.assertEqual(op.result(LIMIT), SIZE)
        self.assertEqual(words.get()[8:], (9).to_bytes(8, "little"))

    def test_explicit_order_wants_a_word_of_each_entry(self):
        with Pair("tcp", SIZE, device_order="explicit") as p:
            array = self.array()
            with p.a.register(array):
                with self.assertRaises(liburccl.Error):
                    p.ring.write(p.remote, array).result(LIMIT)
                self.assertEqual(p.ring.write(p.remote, array, ready=True).result(LIMIT), SIZE)

    def test_what_is_not_possible_is_refused(self):
        p, array = self.pair, self.array()
        for strides in ((1, 64), (128, 1)):
            rows = self.array(shape=(32, 64), strides=strides)
            with self.assertRaisesRegex(ValueError, "contiguous"):
                liburccl.address_of(rows)
        self.assertEqual(liburccl.address_of(self.array(shape=(64, 64), strides=(64, 1)))[1], SIZE)
        with self.assertRaisesRegex(ValueError, "contiguous"):
            liburccl.address_of(Jax(array.address, 4, stride=16))
        with self.assertRaises(BufferError):
            p.a.register(self.array(readonly=True))
        with self.assertRaisesRegex(liburccl.Error, "ATOMIC"):
            p.a.register(array, "rwa")
        self.register(array)
        view = memoryview(p.source)[:8]
        small = self.array(64)
        for call in (lambda: p.ring.notify(p.peer, 1, small), lambda: p.ring.connect(small),
                     lambda: p.ring.write(p.remote, view, notify=(1, small)),
                     lambda: p.ring.writev(p.peer, [(p.remote, view)], event=Event()),
                     lambda: p.ring.submit_many(p.remote, array),
                     lambda: p.ring.write(p.remote, array, ready=True, wait=(array.address, 1))):
            with self.assertRaises(ValueError):
                call()
        with self.assertRaisesRegex(TypeError, "record"):
            p.ring.write(p.remote, array, stream=7)
        self.assertEqual(p.ring.unfinished, 0)

    def test_dlpack_of_the_host(self):
        p = self.pair
        p.source[:] = os.urandom(SIZE)
        address, size = liburccl.address_of(p.source)
        jax = Jax(address, size // 8, device=1)
        self.assertEqual(p.ring.write(p.remote, jax).result(LIMIT), SIZE)
        self.assertEqual((bytes(p.memory), jax.streams), (bytes(p.source), [None]))
