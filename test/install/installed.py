#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
installed.py ROOT BUILD: installs the build into a folder of its own, looks at what is there,
compiles README's C program as printed against what pkg-config says of it, shared and static, runs
it, and takes everything away again.
"""
import os
import pathlib
import sys
import tempfile

from tree import check, compiles, headers, libraries, man_pages, run, texts


def main(root, build):
    with tempfile.TemporaryDirectory() as tmp:
        tree = pathlib.Path(tmp) / "root"
        env = dict(os.environ, DESTDIR=str(tree))
        run("meson", "install", "--no-rebuild", "-C", build, env=env)
        libraries(tree)
        headers(tree)
        man_pages(tree, root)
        texts(tree, build)
        compiles(tree, root, pathlib.Path(tmp))
        run("ninja", "-C", build, "uninstall", env=env)
        left = [str(p) for p in tree.rglob("*") if not p.is_dir()]
        check(not left, f"left behind: {left}")


main(pathlib.Path(sys.argv[1]), sys.argv[2])
