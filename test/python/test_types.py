# SPDX-License-Identifier: Apache-2.0
"""The type hints agree with one another (mypy) and with the extension (stubtest)."""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

import liburccl

HERE = pathlib.Path(__file__).parent
PACKAGE = pathlib.Path(liburccl.__file__).parent
USE = """
import liburccl

async def use(ring: liburccl.Ring, remote: liburccl.Remote) -> int:
    op: liburccl.Op = ring.write(remote, b"bytes", notify=(1, b"x"), timeout=2.5)
    async for event in ring.events():
        if isinstance(event, liburccl.Note):
            return event.tag + int(await op)
    return 0
"""


@unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
class Types(unittest.TestCase):
    def run_module(self, module, *arguments):
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run([sys.executable, "-m", module, *arguments], check=False, text=True,
                                  capture_output=True, cwd=cache, timeout=250)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_package_is_strictly_typed(self):
        self.run_module("mypy", "--strict", "-p", "liburccl")

    def test_a_program_is_checked_against_it(self):
        self.run_module("mypy", "--strict", "-c", USE)

    def test_the_stub_describes_the_extension(self):
        self.run_module("mypy.stubtest", "liburccl", "--ignore-missing-stub",
                        "--ignore-unused-allowlist", "--allowlist",
                        str(HERE / "stubtest.txt"))
