#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
lines.py ROOT: lines of code, of comments and blank ones in each room of the library, and the share
of its comments' sentences that begin with what, who, whose, whom, those, of or where. A line with
code and a comment is code. The rooms gpu, codec, python, nixl and ep, and the man pages, are not
counted.
"""
import pathlib
import re
import sys

LEFT_OUT = {"gpu", "codec", "python", "nixl", "ep", "man"}
COMMENT = re.compile(r"/\*(.*?)\*/|//([^\n]*)", re.S)
NOUN_CLAUSE = re.compile(r"(?:what|who|whose|whom|those|of|where)\b", re.I)
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


def sentences(path):
    """Sentences of its comments, and those of them that begin with a noun clause."""
    counts = [0, 0]
    for block, line in COMMENT.findall(STRING.sub('""', path.read_text())):
        text = " ".join((block or line).replace("\n", " ").replace(" *", " ").split())
        for sentence in re.split(r"(?<=[.;:!?])\s+", text):
            if re.search(r"[A-Za-z]", sentence) and not sentence.startswith("SPDX"):
                counts[0] += 1
                counts[1] += bool(NOUN_CLAUSE.match(sentence))
    return counts


def share(counts):
    return f"{counts[1] / counts[0] * 100:6.1f} %" if counts[0] else ""


def main(root):
    rooms = {"include": [p for p in (root / "include").rglob("*.h") if p.name != "codec.h"
                         and p.name != "ep.h"]}
    for path in sorted((root / "liburccl").rglob("*")):
        place = path.relative_to(root / "liburccl").parts
        if path.suffix in (".c", ".h") and place[0] not in LEFT_OUT:
            rooms.setdefault(place[0] if len(place) > 1 else "root", []).append(path)
    total, said = [0, 0, 0], [0, 0]
    print(f"{'room':10} {'code':>7} {'comment':>8} {'blank':>7} {'all':>7} {'clauses':>8}")
    for room, paths in sorted(rooms.items()):
        sums = [sum(column) for column in zip(*map(count, paths))]
        words = [sum(column) for column in zip(*map(sentences, paths))]
        total = [a + b for a, b in zip(total, sums)]
        said = [a + b for a, b in zip(said, words)]
        print(f"{room:10} {sums[0]:7} {sums[1]:8} {sums[2]:7} {sum(sums):7} {share(words)}")
    print(f"{'all':10} {total[0]:7} {total[1]:8} {total[2]:7} {sum(total):7} {share(said)}")


main(pathlib.Path(sys.argv[1]))
