# SPDX-License-Identifier: Apache-2.0
"""A script for UCCL's Python interface runs unchanged, over shm and tcp."""
import os
import pathlib
import subprocess
import sys
import unittest

SCRIPT = pathlib.Path(__file__).parent / "uccl_script.py"


class Compat(unittest.TestCase):
    def test_a_script_runs_unchanged(self):
        for transport in ("shm", "tcp"):
            with self.subTest(transport):
                env = dict(os.environ, URCCL_TRANSPORT=transport)
                done = subprocess.run([sys.executable, "-m", "liburccl.compat", SCRIPT], env=env,
                                      capture_output=True, text=True, timeout=250, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertEqual(sorted(done.stdout.splitlines()),
                                 ["client: all right", "server: all right"])

    def test_without_a_script_it_says_how_to_use_it(self):
        done = subprocess.run([sys.executable, "-m", "liburccl.compat"], capture_output=True,
                              text=True, timeout=250, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("SCRIPT", done.stderr)
