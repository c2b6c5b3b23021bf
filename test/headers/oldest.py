#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
oldest.py LIBRARY: every function that the library calls is in glibc 2.28. The build host decides
the versions of functions that a later glibc moved or renamed; a build for 2.28 gets the old ones.
"""
import re
import sys

from public import check, run

OLDEST = (2, 28)
# glibc 2.32 to 2.34 moved those of libpthread and libdl into libc, and made functions of the stat()
# macros; 2.38 renamed what parses numbers by C23.
MOVED = re.compile(r"pthread_\w+|dl(open|close|sym|error)|[fl]?stat(64)?|__isoc23_\w+")

newer = set()
for line in run("objdump", "-T", sys.argv[1]).splitlines():
    found = re.search(r"\*UND\*.*GLIBC_([0-9.]+)\)?\s+(\w+)$", line)
    if found and tuple(map(int, found[1].split("."))) > OLDEST and not MOVED.fullmatch(found[2]):
        newer.add(found[2])
check(not newer, f"glibc {'.'.join(map(str, OLDEST))} does not have {sorted(newer)}")
