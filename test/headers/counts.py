#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
What ./dev test and .ci/run say they counted is what this run came to: with a meson, or a ./dev, of
ours that ends as told.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

OK = '{"name": "one", "result": "OK"}\n'
FAIL = '{"name": "two", "result": "FAIL"}\n'
LOG = "build/release/meson-logs/testlog.json"
# meson's place: what is logged, and how it ends.
MESON = {
    "passes": (f"printf %s '{OK}' >{LOG}", 0, "1 passed, 0 failed, 0 skipped"),
    "fails": (f"printf %s '{OK}{FAIL}' >{LOG}; exit 1", 1, "1 passed, 1 failed, 0 skipped"),
    "is killed": (f"printf %s '{OK}{OK[:9]}' >{LOG}; kill -9 $$", 1, "1 passed, 1 failed, 0 skipped"),
    "is killed after one failed": (f"printf %s '{OK}{FAIL}' >{LOG}; kill -9 $$", 1,
                                   "1 passed, 2 failed, 0 skipped"),
    "dies at once": ("exit 1", 1, "0 passed, 1 failed, 0 skipped"),
}
# ./dev's place: its test, its vm, and what .ci/run makes of them; its python and nixl end with 77.
DEV = {
    "both pass": ("echo 3 passed, 0 failed, 1 skipped", "echo 2 passed, 0 failed, 0 skipped", 0,
                  "5 passed, 0 failed, 3 skipped"),
    "one fails": ("echo 3 passed, 1 failed, 0 skipped; exit 1", "exit 77", 1,
                  "3 passed, 1 failed, 3 skipped"),
    "breaks off": ("echo 3 passed, 0 failed, 0 skipped; exit 137", "exit 77", 1,
                   "3 passed, 1 failed, 3 skipped"),
    "says nothing": ("exit 0", "exit 77", 1, "0 passed, 1 failed, 3 skipped"),
}


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text + "\n")
    path.chmod(0o755)


def ends(what, where, command, status, counts, env):
    done = subprocess.run(command, cwd=where, env=env, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    last = done.stdout.splitlines()[-1:]
    if last != [counts] or bool(done.returncode) != bool(status):
        sys.exit(f"failed: {what}: {done.returncode}, not {status} and '{counts}':\n{done.stdout}")


def counted(root, where):
    """The log of a run before says that all is well; nothing is installed or built."""
    text = (root / "dev").read_text()
    (where / "dev").write_text(re.sub(r"^need\(\) {$", "need() { return 0", text, flags=re.M))
    (where / "dev").chmod(0o755)
    env = dict(os.environ, PATH=f"{where / 'bin'}:{os.environ['PATH']}")
    script(where / "bin/ninja", "exit 0")
    for name, (does, status, counts) in MESON.items():
        script(where / "bin/meson", f'[ "$1" != setup ] || exit 0\n{does}')
        (where / LOG).parent.mkdir(parents=True, exist_ok=True)
        (where / LOG).write_text(OK + OK)
        ends(f"./dev test where meson {name}", where, ["./dev", "test"], status, counts, env)


def summed(root, where):
    (where / ".ci").mkdir()
    shutil.copy(root / ".ci/run", where / ".ci/run")
    for name, (test, guest, status, counts) in DEV.items():
        script(where / "dev", f'case $2 in test) {test} ;; vm) {guest} ;; *) exit 77 ;; esac')
        ends(f".ci/run where {name}", where, [".ci/run"], status, counts, os.environ)


def main(root):
    for part in (counted, summed):
        with tempfile.TemporaryDirectory() as tmp:
            part(root, pathlib.Path(tmp))


main(pathlib.Path(sys.argv[1]))
