# SPDX-License-Identifier: Apache-2.0
"""Importing does nothing but import; what the package shows of itself."""
import pathlib
import pickle
import pydoc
import re
import subprocess
import sys
import unittest

import liburccl
from liburccl import _urccl

LOOK = """
import os, sys
before, modules = set(os.listdir("/proc/self/fd")), set(sys.modules)
import liburccl
assert set(os.listdir("/proc/self/fd")) == before
assert len(os.listdir("/proc/self/task")) == 1
slow = {"numpy", "asyncio", "logging", "torch", "typing", "re", "enum", "collections"}
assert not slow & (set(sys.modules) - modules), sorted(sys.modules)
"""


class Package(unittest.TestCase):
    def test_import_has_no_side_effects(self):
        done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_the_extension_needs_libc_alone(self):
        said = subprocess.run(["ldd", _urccl.__file__], capture_output=True, text=True, check=True)
        loaded = {line.split()[0].split("/")[-1] for line in said.stdout.splitlines()}
        strange = {n for n in loaded if not re.match(r"linux-(vdso|gate)|lib(c|pthread|dl)\.so|ld-linux", n)}
        self.assertEqual(strange, set())

    def test_everything_public_has_a_docstring(self):
        for name in liburccl.__all__:
            thing = getattr(liburccl, name)
            self.assertTrue(thing.__doc__ or name == "Event", name)
            for member in vars(thing) if isinstance(thing, type) else ():
                if not member.startswith("_") and callable(getattr(thing, member)):
                    self.assertTrue(getattr(thing, member).__doc__, f"{name}.{member}")
        page = pydoc.plain(pydoc.render_doc(liburccl))
        self.assertIn("await it in asyncio", page)
        self.assertIn("class Events", page)

    def test_an_unknown_name_is_an_attribute_error(self):
        self.assertIn("Lost", dir(liburccl))
        with self.assertRaisesRegex(AttributeError, "no attribute 'Losst'"):
            liburccl.Losst

    def test_objects_do_not_pickle(self):
        with liburccl.Context() as ctx, ctx.ring() as ring:
            op = ring.nop()
            op.result(60)
            for thing in ctx, ring, op, ctx.alloc(8), ctx.register(bytearray(8)):
                with self.assertRaises(TypeError):
                    pickle.dumps(thing)

    def test_version_is_the_library_s(self):
        self.assertRegex(liburccl.__version__, r"^\d+\.\d+\.\d+$")

    def test_types_are_declared(self):
        folder = pathlib.Path(liburccl.__file__).parent
        self.assertTrue((folder / "py.typed").exists() and (folder / "_urccl.pyi").exists())
