#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
valgrind.py PROGRAM...: valgrind has nothing to say of the programs, which need no arguments. System
calls that are newer than it are its own affair. Where the kernel cannot be asked for one mapping
(before Linux 6.11), msync() looks whether memory is mapped, and valgrind takes that for a read.
"""
import re
import shutil
import subprocess
import sys

if not shutil.which("valgrind"):
    print("skipped: valgrind is not installed")
    sys.exit(77)

release = tuple(map(int, re.findall(r"\d+", open("/proc/sys/kernel/osrelease").read())[:2]))
bad = []
for program in sys.argv[1:]:
    done = subprocess.run(
        ["valgrind", "-q", "--error-exitcode=99", "--leak-check=full",
         "--errors-for-leak-kinds=definite", program],
        capture_output=True, text=True, stdin=subprocess.DEVNULL)
    said = [line for line in done.stderr.splitlines() if line.startswith("==")]
    if release < (6, 11) and "msync" in done.stderr:
        print(f"{program}: not looked at, as this kernel has to be asked by msync()")
        continue
    if done.returncode or said:
        bad.append(f"{program}: status {done.returncode}\n" + "\n".join(said or [done.stderr]))
sys.exit("\n".join(bad) if bad else 0)
