#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
loader.py ROOT BUILD: README's way without packages, in /usr/local of a mount namespace of our own:
compiled as README says, its program is found no library for until ldconfig has run, which README
says too.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from tree import SAYS, TIMEOUT, check, program, run

# INSTALLED WORK: the cache is written elsewhere and put in its place, as nothing of the machine's
# own may change.
SCRIPT = """
PATH=$PATH:/usr/sbin:/sbin
cd "$2"
mount --bind "$1" /usr/local || exit 70
[ ! -d /var/cache/ldconfig ] || mount -t tmpfs none /var/cache/ldconfig || exit 70
cc hello.c $(pkg-config --cflags --libs liburccl) || exit 1
! ./a.out 2>/dev/null || exit 71
ldconfig -X -C "$2/cache" && mount --bind "$2/cache" /etc/ld.so.cache || exit 70
exec ./a.out
"""
SKIPPED = {70: "no mounts of our own are to be had", 71: "the loader finds a liburccl as it is"}


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def main(root, build):
    readme = (root / "README.md").read_text()
    check(re.search(r"`meson install[^`]*`[^`]*`/usr/local`[^`]*`ldconfig`", readme),
          "README's `meson install` is followed by no `ldconfig`")
    with tempfile.TemporaryDirectory() as tmp:
        work, tree = pathlib.Path(tmp), pathlib.Path(tmp) / "root"
        run("meson", "install", "--no-rebuild", "-C", build, env=dict(os.environ, DESTDIR=str(tree)))
        if not (tree / "usr/local").is_dir():
            skip("the build's prefix is not /usr/local")
        (work / "hello.c").write_text(program(root / "README.md"))
        env = {k: v for k, v in os.environ.items() if k not in ("LD_LIBRARY_PATH", "LD_PRELOAD")}
        try:
            done = subprocess.run(["unshare", "-rm", "sh", "-c", SCRIPT, "sh", tree / "usr/local",
                                   work], env=env, stdout=subprocess.PIPE, text=True,
                                  stderr=subprocess.STDOUT, timeout=TIMEOUT, check=False)
        except FileNotFoundError:
            skip("no unshare")
        if "unshare:" in done.stdout:
            skip(SKIPPED[70])
        if done.returncode in SKIPPED:
            skip(SKIPPED[done.returncode])
        check(not done.returncode and done.stdout == SAYS, f"{done.returncode}: {done.stdout}")


main(pathlib.Path(sys.argv[1]), sys.argv[2])
