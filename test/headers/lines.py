#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
lines.py ROOT: lines of code, of comments and blank ones in each room of the library. A line with
both is code. The rooms gpu, codec, python, nixl and ep, and the man pages, are not counted.
"""
import pathlib
import re
import sys

LEFT_OUT = {"gpu", "codec", "python", "nixl", "ep", "man"}
STRING = re.compile(r'"(?:\\.|[^"\\])*"')


def count(path):
    """Code, comment, blank."""
    counts = [0, 0, 0]
    inside = False
    for line in path.read_text().splitlines():
        rest, text = STRING.sub('""', line), ""
        while rest:
            if inside:
                _, end, rest = rest.partition("*/")
                inside = not end
            else:
                part, begin, rest = rest.partition("/*")
                text += part.partition("//")[0]
                inside = bool(begin)
        if text.strip():
            counts[0] += 1
        elif line.strip():
            counts[1] += 1
        else:
            counts[2] += 1
    return counts


def main(root):
    rooms = {"include": [p for p in (root / "include").rglob("*.h") if p.name != "codec.h"
                         and p.name != "ep.h"]}
    for path in sorted((root / "liburccl").rglob("*")):
        place = path.relative_to(root / "liburccl").parts
        if path.suffix in (".c", ".h") and place[0] not in LEFT_OUT:
            rooms.setdefault(place[0] if len(place) > 1 else "root", []).append(path)
    total = [0, 0, 0]
    print(f"{'room':10} {'code':>7} {'comment':>8} {'blank':>7} {'all':>7}")
    for room, paths in sorted(rooms.items()):
        sums = [sum(column) for column in zip(*map(count, paths))]
        total = [a + b for a, b in zip(total, sums)]
        print(f"{room:10} {sums[0]:7} {sums[1]:8} {sums[2]:7} {sum(sums):7}")
    print(f"{'all':10} {total[0]:7} {total[1]:8} {total[2]:7} {sum(total):7}")


main(pathlib.Path(sys.argv[1]))
