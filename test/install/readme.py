#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
readme.py ROOT BUILD: installs the build into a folder of its own, compiles README's C program as
printed against what pkg-config says of it, shared and static, and runs it.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TIMEOUT = 60


def run(*args, **kw):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=TIMEOUT, **kw)
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, args))}: {done.returncode}\n{done.stdout}")
    return done.stdout


def program(readme):
    for block in re.findall(r"^```c\n(.*?)^```$", readme.read_text(), re.S | re.M):
        if "int main(" in block:
            return block
    sys.exit(f"failed: {readme} has no C program")


def main(root, build):
    with tempfile.TemporaryDirectory() as tmp:
        tree, env = pathlib.Path(tmp), dict(os.environ)
        run("meson", "install", "--no-rebuild", "-C", build, "--destdir", tree / "root")
        found = list(tree.rglob("liburccl.pc"))
        if len(found) != 1:
            sys.exit(f"failed: {len(found)} liburccl.pc installed")
        env.update(PKG_CONFIG_PATH=str(found[0].parent), PKG_CONFIG_SYSROOT_DIR=str(tree / "root"),
                   LD_LIBRARY_PATH=str(found[0].parent.parent))
        flags = run("pkg-config", "--cflags", "--libs", "liburccl", env=env).split()
        flags = ["-std=c11", "-Wall", "-Wextra", "-Werror"] + flags
        source = tree / "program.c"
        source.write_text(program(root / "README.md"))
        archive = next(tree.rglob("liburccl.a"))
        cflags = [f for f in flags if not f.startswith("-l")]
        run("cc", source, *flags, "-o", tree / "shared")
        run("cc", source, *cflags, archive, "-pthread", "-o", tree / "static")
        print(run(tree / "shared", env=env, cwd=tree), end="")
        del env["LD_LIBRARY_PATH"]
        print(run(tree / "static", env=env, cwd=tree), end="")


main(pathlib.Path(sys.argv[1]), sys.argv[2])
