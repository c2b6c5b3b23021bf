#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
without.py ROOT BUILD: where json-c and xxhash are missing, a build has the tests that BUILD has, of
which those that need them are skipped and say why; and ./dev demo says what is missing.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HIDDEN = {"json-c.pc", "libxxhash.pc"}
NEEDS = "libjson-c-dev"


def run(status, *command, **kw):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **kw)
    if done.returncode != status:
        sys.exit(f"failed: {' '.join(map(str, command))}: {done.returncode}, not {status}:\n"
                 f"{done.stdout}")
    return done.stdout


def tests(build):
    listed = json.loads((pathlib.Path(build) / "meson-info/intro-tests.json").read_text())
    return {t["name"]: t["cmd"] for t in listed}


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text + "\n")
    path.chmod(0o755)


def without(where):
    """An environment in which they are not found."""
    (where / "pc").mkdir()
    for folder in run(0, "pkg-config", "--variable", "pc_path", "pkg-config").strip().split(":"):
        for pc in pathlib.Path(folder).glob("*.pc"):
            if pc.name not in HIDDEN and not (where / "pc" / pc.name).exists():
                (where / "pc" / pc.name).symlink_to(pc)
    script(where / "bin/cmake", "exit 1")
    return dict(os.environ, PATH=f"{where / 'bin'}:{os.environ['PATH']}", PKG_CONFIG_PATH="",
                PKG_CONFIG_LIBDIR=str(where / "pc"))


def listed(root, build, where):
    here = tests(build)
    run(0, "meson", "setup", where / "build", root, env=without(where))
    there = tests(where / "build")
    skipped = {name for name in there if re.match("(fuzz-)?pusher", name)}
    gone = {name for name in here if re.match("(fuzz-)?pusher", name)} ^ skipped
    if gone or len(skipped) < 30:
        sys.exit(f"failed: {len(skipped)} skipped, here or there alone: {sorted(gone)}")
    for name in skipped:
        said = run(77, *there[name])
        if not said.startswith("skipped: ") or NEEDS not in said:
            sys.exit(f"failed: {name} says {said!r}")


def demo(root, where):
    """With a meson that builds nothing."""
    text, n = re.subn(r"^need\(\) {$", "need() { return 0", (root / "dev").read_text(), flags=re.M)
    assert n == 1
    script(where / "bin/meson", "mkdir -p build/demo build/release")
    script(where / "bin/ninja", "exit 0")
    (where / "dev").write_text(text)
    (where / "dev").chmod(0o755)
    said = run(1, "./dev", "demo", cwd=where,
               env=dict(os.environ, PATH=f"{where / 'bin'}:{os.environ['PATH']}"))
    if NEEDS not in said:
        sys.exit(f"failed: ./dev demo says {said!r}")


def main(root, build):
    if not shutil.which("pkg-config"):
        print("skipped: no pkg-config")
        sys.exit(77)
    for part in (lambda tmp: demo(root, tmp), lambda tmp: listed(root, build, tmp)):
        with tempfile.TemporaryDirectory() as tmp:
            part(pathlib.Path(tmp))


main(pathlib.Path(sys.argv[1]), sys.argv[2])
