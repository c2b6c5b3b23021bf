#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
cost.py WITH WITHOUT: what statistics and probes cost, by two builds, the second configured with
-Dprobes=disabled -Dstatistics=false: the least time of an entry, in turns, and instructions where
valgrind is installed. Both ends of a write are on one thread, so it counts what both do. What is
told once a millisecond is not counted, for under valgrind a millisecond is over soon.
"""
import re
import shutil
import subprocess
import sys

ROUNDS = 8
COUNTS = 3  # they differ a little, by where the kernel puts memory


def best(build, what, depth):
    done = subprocess.run([f"{build}/bench/urccl_work", what, "320000", depth], check=True,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return float(done.stdout)


def instructions(build, what, depth):
    count = 3200
    done = subprocess.run(["valgrind", "--tool=callgrind", "--toggle-collect=counted",
                           "--toggle-collect=tell_look*", "--callgrind-out-file=/dev/null", f"{build}/bench/urccl_work", what,
                           str(count), depth], check=True, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1]) / count


builds = sys.argv[1:3]
print(f"{'entry':8} {'depth':5} {'with':>10} {'without':>10}  more")
for what in ("nop", "write", "mapped"):
    for depth in ("1", "32"):
        times = [[], []]
        for _ in range(ROUNDS):
            for i, build in enumerate(builds):
                times[i].append(best(build, what, depth))
        figures = [("ns", *map(min, times))]
        if shutil.which("valgrind"):
            counts = [min(instructions(b, what, depth) for _ in range(COUNTS)) for b in builds]
            figures.append(("instr.", *counts))
        for unit, a, b in figures:
            print(f"{what:8} {depth:5} {a:10.1f} {b:10.1f}  {(a / b - 1) * 100:.1f} % {unit}")
