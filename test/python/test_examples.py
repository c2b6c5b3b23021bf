# SPDX-License-Identifier: Apache-2.0
"""The examples run, and say what they found."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = pathlib.Path(os.environ.get("LIBURCCL_EXAMPLES", ROOT / "examples/python"))
LIMIT = 250


def run(name, *arguments):
    # Threads of OpenMP spin for one another, which takes minutes where others use the CPUs.
    env = dict(os.environ, OMP_NUM_THREADS="1")
    done = subprocess.run([sys.executable, EXAMPLES / name, *arguments], capture_output=True,
                          text=True, timeout=LIMIT, stdin=subprocess.DEVNULL, env=env,
                          check=False)
    return done.returncode, done.stdout, done.stderr


class Examples(unittest.TestCase):
    def says(self, wanted, name, *arguments):
        status, out, err = run(name, *arguments)
        self.assertEqual((status, err), (0, ""), out)
        self.assertIn(wanted, out)

    def test_hello(self):
        self.says("notification 42, and my memory says 'hello, other memory'", "hello.py")

    def test_asyncio_server(self):
        self.says("8 clients, 160 answers, all right", "asyncio_server.py", "--requests", "20")

    def test_kv_store(self):
        self.says("24 blocks put, 16 of them found", "kv_store.py")

    @unittest.skipUnless(importlib.util.find_spec("torch") and
                         importlib.util.find_spec("transformers"),
                         "PyTorch or transformers is not installed")
    def test_disaggregated_prefill(self):
        status, out, err = run("disagg_prefill.py", "--tokens", "16", "--layers", "2")
        self.assertEqual(status, 0, err)
        self.assertIn("one process alone gives the same tokens", out)
        self.assertIn("exposed", out)
