#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
cost.py [WITH WITHOUT]: what statistics and probes cost, by two builds, the second configured with
-Dprobes=disabled -Dstatistics=false; where none are named it makes them, in build/cost. Shown are
the least time of an entry, in turns, and instructions where valgrind is installed. Both ends of a
write are on one thread, so it counts what both do. The update of counts once a millisecond and the
slow end of an entry (end_reported) are not counted, for under valgrind a millisecond is over soon.
Beside it the floor: bench/raw/tell.c, which does nothing but count messages at both ends. For
compare.py the last lines are "name value unit".
"""
import os
import re
import shutil
import subprocess
import sys

ROUNDS = 8
COUNTS = 3  # they differ a little, by where the kernel puts memory


def quietly(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)


def best(build, what, depth):
    said = quietly(f"{build}/bench/urccl_work", what, "320000", depth).stdout
    return float(re.search(r"work.least (\S+)", said)[1])


def collected(*command):
    """Instructions of what is called counted()."""
    done = quietly("valgrind", "--tool=callgrind", "--toggle-collect=counted*",
                   "--toggle-collect=stats_update*", "--toggle-collect=end_reported*",
                   "--callgrind-out-file=/dev/null", *command)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1]), done.stdout


def instructions(build, what, depth):
    count = 3200
    return collected(f"{build}/bench/urccl_work", what, str(count), depth)[0] / count


def floor(build):
    """What it costs to count a message at both of its ends: ns, instructions or None."""
    command = [f"{build}/bench/raw_tell", "--duration", "0.2"]
    each = float(re.search(r"tell.each (\S+) ns", quietly(*command).stdout)[1])
    if not shutil.which("valgrind"):
        return each, None
    counted, said = collected(*command)
    return each, counted / float(re.search(r"tell.messages (\S+)", said)[1])


def made():
    found = ["build/cost/with", "build/cost/without"]
    for build, options in zip(found, ([], ["-Dprobes=disabled", "-Dstatistics=false"])):
        if not os.path.exists(f"{build}/build.ninja"):
            quietly("meson", "setup", build, "--buildtype=release", "-Dtests=false", *options)
        quietly("ninja", "-C", build, "bench/urccl_work", "bench/raw_tell")
    return found


def main(builds):
    most, least = {}, dict(zip(("ns", "instr."), floor(builds[0])))
    print(f"{'entry':8} {'depth':5} {'with':>10} {'without':>10}  more  (floor)")
    for what in ("nop", "write", "mapped"):
        for depth in ("1", "32"):
            times = [[], []]
            for _ in range(ROUNDS):
                for i, build in enumerate(builds):
                    times[i].append(best(build, what, depth))
            figures = [("ns", *map(min, times))]
            if shutil.which("valgrind"):
                counts = [[], []]
                for _ in range(COUNTS):
                    for i, build in enumerate(builds):
                        counts[i].append(instructions(build, what, depth))
                figures.append(("instr.", *map(min, counts)))
            for unit, a, b in figures:
                more = (a / b - 1) * 100
                most[unit] = max(more, most.get(unit, more))
                print(f"{what:8} {depth:5} {a:10.1f} {b:10.1f}  {more:.2f} % {unit}"
                      f"  ({least[unit] / b * 100:.2f} %)", flush=True)
    print(f"floor.time {least['ns']:.2f} ns")
    print(f"most.time {most['ns']:.2f} %")
    if "instr." in most:
        print(f"floor.instructions {least['instr.']:.1f} instructions")
        print(f"most.instructions {most['instr.']:.2f} %")


main(sys.argv[1:3] or made())
