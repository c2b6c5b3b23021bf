# SPDX-License-Identifier: Apache-2.0
"""Arrays of CuPy and JAX in memory of a GPU, where the packages are installed."""
import importlib.util
import os
import unittest

from pair import LIMIT, Pair

SIZE = 1 << 20


class Arrays(unittest.TestCase):
    def setUp(self):
        self.data = os.urandom(SIZE)

    def sends(self, pair, array):
        with pair.a.register(array, "") as region:
            self.assertEqual((region.info()["device"], len(region)), (0, SIZE))
            self.assertEqual(pair.ring.write(pair.remote, array).result(LIMIT), SIZE)
        self.assertEqual(bytes(pair.memory), self.data)

    @unittest.skipUnless(importlib.util.find_spec("cupy"), "CuPy is not installed")
    def test_cupy(self):
        import cupy
        import numpy
        if not cupy.cuda.is_available():
            self.skipTest("CuPy sees no GPU")
        array = cupy.asarray(numpy.frombuffer(self.data, dtype="float32").reshape(512, 512))
        cupy.cuda.Device().synchronize()
        with Pair("shm", SIZE) as p:
            self.sends(p, array)
            p.memory[:] = os.urandom(SIZE)
            with p.a.register(array):
                self.assertEqual(p.ring.read(p.remote, array).result(LIMIT), SIZE)
            self.assertEqual(array.get().tobytes(), bytes(p.memory))
            with self.assertRaisesRegex(ValueError, "contiguous"):
                p.a.register(array.T)

    @unittest.skipUnless(importlib.util.find_spec("jax"), "JAX is not installed")
    def test_jax(self):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax
        import numpy
        try:
            device = jax.devices("gpu")[0]
        except RuntimeError as error:
            self.skipTest(str(error))
        array = jax.device_put(numpy.frombuffer(self.data, dtype="float32"), device)
        array.block_until_ready()
        with Pair("shm", SIZE) as p:
            self.sends(p, array)
