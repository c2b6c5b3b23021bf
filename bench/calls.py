#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
calls.py [BUILD] [NAME='COMMAND' ...]: system calls an entry, of both ends of a transfer together,
counted without tracing (calls.c), the median of five runs. A COMMAND is run in the same way: {size}
and {count} in it are the case's.
"""
import re
import statistics
import subprocess
import sys

ROUNDS = 5
WHAT = ("sent", "received", "empty", "waited", "other")
PERF = "{build}/bench/urccl_perf --self --transport tcp --cc cubic --warmup 0 --inline"
CASES = [  # size, in flight, entries
    (8, 1, 20000),
    (8, 64, 200000),
    (4096, 64, 200000),
    (1 << 20, 8, 4000),
]


def counted(build, command):
    """An entry's or message's calls by what they do."""
    done = subprocess.run(f"exec {command}", shell=True, text=True, capture_output=True, check=True,
                          stdin=subprocess.DEVNULL,
                          env={"LD_PRELOAD": f"{build}/bench/libcalls.so", "PATH": "/usr/bin:/bin"})
    found = dict.fromkeys(WHAT, 0)
    for name, n in re.findall(r"^calls\.(\w+) (\d+) calls$", done.stderr, re.M):
        found[name] += int(n)
    return found


def main(arguments):
    build = arguments[0] if arguments and "=" not in arguments[0] else "build/release"
    others = dict(a.split("=", 1) for a in arguments if "=" in a)
    print(f"| {'bytes':>9} | in flight | {'who':10} |", " | ".join(f"{w:>8}" for w in WHAT), "|")
    for size, depth, count in CASES:
        runs = {"ours": f"{PERF} --size {size} --depth {depth} --count {count}",
                "asleep": f"{PERF} --wait epoll --size {size} --depth {depth} --count {count}"}
        for name, command in {**runs, **others}.items():
            command = command.format(build=build, size=size, depth=depth, count=count)
            rounds = [counted(build, command) for _ in range(ROUNDS)]
            said = (statistics.median(r[w] for r in rounds) / count for w in WHAT)
            print(f"| {size:9} | {depth:9} | {name:10} |", " | ".join(f"{n:8.3f}" for n in said),
                  "|", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
