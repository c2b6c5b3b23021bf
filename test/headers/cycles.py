#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
cycles.py ROOT ARCHIVE: in each room of the library, files that call each other in a circle are few.
A file calls another if its object has an undefined symbol that is a function of the other's. A
folder inside a room counts by itself. MOST has the rooms with larger circles than ELSEWHERE: lower
it when a room has come below it.
"""
import collections
import pathlib
import subprocess
import sys

from public import check, skip

MOST = {
    "backend/fabric": 14,
    "backend/shm": 8,
    "backend/sim": 6,
}
ELSEWHERE = 5


def calls(root, archive):
    """The files of each folder, and for each file those of its folder that it calls."""
    library = root / "liburccl"
    files = {str(path.relative_to(library)).replace("/", "_") + ".o": path.relative_to(library)
             for path in library.rglob("*.c")}
    done = subprocess.run(["nm", "-A", "-P", archive], capture_output=True, text=True, check=False)
    if done.returncode:
        skip("nm does not read the archive")
    owner, uses = {}, collections.defaultdict(set)
    for line in done.stdout.splitlines():
        place, _, symbol = line.partition(": ")
        file = files.get(place.rstrip("]").split("[")[-1].split("/")[-1])
        name, kind = symbol.split()[:2]
        if file and kind == "T":
            owner[name] = file
        elif file and kind == "U":
            uses[file].add(name)
    rooms = collections.defaultdict(dict)
    for file in set(owner.values()) | set(uses):
        called = {owner[name] for name in uses[file] if name in owner}
        rooms[file.parent.as_posix()][file.stem] = {
            other.stem for other in called - {file} if other.parent == file.parent}
    return rooms


def reached(graph, start):
    seen, ahead = set(), [start]
    while ahead:
        for other in graph[ahead.pop()] - seen:
            seen.add(other)
            ahead.append(other)
    return seen


def circles(graph):
    """The strongly connected components of two and more."""
    seen = {file: reached(graph, file) for file in graph}
    return {frozenset(other for other in seen[file] if file in seen[other])
            for file in graph if file in seen[file]}


def main(root, archive):
    rooms = calls(root, archive)
    check(len(rooms) > 10 and any(rooms["engine"].values()), f"only {len(rooms)} rooms found")
    bad = []
    for room, graph in sorted(rooms.items()):
        most = MOST.get(room, ELSEWHERE)
        largest = max(circles(graph), key=len, default=())
        if len(largest) > most:
            bad.append(f"{room}: {len(largest)} of {len(graph)} files, not {most}, call each other "
                       f"in a circle: {', '.join(sorted(largest))}")
    check(not bad, "\n  ".join(["circles of calls:"] + bad))


main(pathlib.Path(sys.argv[1]), sys.argv[2])
