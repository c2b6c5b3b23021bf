# SPDX-License-Identifier: Apache-2.0
"""The plugin and NIXL's own as binaries: what ours needs, and the table of functions."""
import ctypes
import pathlib
import re
import subprocess
import sys
import unittest

import agents
from liburccl import nixl

SLOTS = 27


def said(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def slots(library):
    """Functions in the table of NIXL's base class, as the loader fills it."""
    for line in said("nm", "-DC", "--print-size", "--defined-only", library).splitlines():
        found = re.match(r"\w+ (\w+) \w vtable for nixlBackendEngine$", line)
        if found:
            return int(found[1], 16) // 8 - 2       # the offset and the type are ahead of them
    return None


class Binary(unittest.TestCase):
    plugin = str(nixl.path() / nixl.FILE)

    def test_it_needs_neither_nixl_nor_abseil(self):
        self.assertEqual(re.findall(r"(?i)nixl|absl", said("nm", "-DCu", self.plugin)), [])
        needed = re.findall(r"NEEDED.*\[(.*)\]", said("readelf", "-d", self.plugin))
        self.assertEqual([n for n in needed if not re.match(r"(lib(c|m|stdc\+\+|gcc_s)|ld-linux.*)\.so", n)],
                         [])

    def test_it_exports_three_functions(self):
        names = {line.split()[-1] for line in said("nm", "-D", "--defined-only",
                                                    self.plugin).splitlines()}
        self.assertEqual(names, {"nixl_plugin_init", "nixl_plugin_fini", "urccl_nixl_fd"})

    def test_every_function_is_in_glibc_2_28(self):
        oldest = pathlib.Path(__file__).parents[1] / "headers" / "oldest.py"
        done = subprocess.run([sys.executable, oldest, self.plugin], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_nixl_s_plugins_have_the_functions_that_ours_has(self):
        theirs = {slots(folder / "libplugin_UCX.so") for folder in nixl.folders()}
        self.assertEqual(theirs - {None}, {SLOTS})

    def test_it_may_be_begun_again(self):
        library = ctypes.CDLL(self.plugin)
        library.nixl_plugin_init.restype = ctypes.c_void_p
        first = library.nixl_plugin_init()
        library.nixl_plugin_fini()
        self.assertEqual(library.nixl_plugin_init(), first)
        self.assertEqual(ctypes.cast(first, ctypes.POINTER(ctypes.c_int))[0], 1)

    def test_links_come_and_go(self):
        nixl.link()
        self.assertEqual(len(nixl.unlink()), len(nixl.folders()))
        self.assertEqual(nixl.unlink(), [])
        made = nixl.link()
        self.assertTrue(made and all(str(at.resolve()) == str(pathlib.Path(self.plugin).resolve())
                                     for at in made))
        self.assertEqual(nixl.link(), made)

    def test_options_are_the_settings(self):
        a = agents.Agent("A")
        options = a.api.get_plugin_params("URCCL")
        self.assertLessEqual({"transport", "deadline_ms", "dead_after_ms", "release_wait_ms"},
                             set(options))
        self.assertEqual(set(options.values()), {""})


if __name__ == "__main__":
    unittest.main()
