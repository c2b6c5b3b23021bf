#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo as anybody runs it keeps to what is promised of it: under 60 s and 3 GiB, both its
processes together, every page right."""
import json
import pathlib
import time

from pusher_run import End, all_right, check

SECONDS, KIB = 60, 3 << 20
TRIES = 2           # others may have had the machine


def pss(pid):
    """KiB that a process has of memory, its part of what is shared."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:         # it just ended
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def children(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []


def measure():
    """Seconds, and the most KiB that were seen."""
    start, most = time.monotonic(), 0
    end = End("--demo", "--json")
    while end.process.poll() is None and time.monotonic() - start < 4 * SECONDS:
        most = max(most, sum(map(pss, [end.process.pid, *children(end.process.pid)])))
        time.sleep(0.2)
    seconds = time.monotonic() - start
    all_right(json.loads(end.end()))
    return seconds, most


for _ in range(TRIES):
    seconds, most = measure()
    print(f"{seconds:.1f} s, {most / 1048576:.2f} GiB")
    # Its pool alone is 1 GiB: less was not seen, but not looked at in time.
    check(1 << 20 <= most <= KIB, most)
    if seconds < SECONDS:
        break
else:
    check(False, f"it took {seconds:.1f} s")
