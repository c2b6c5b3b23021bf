#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
rooms.py ROOT: each folder of liburccl/ includes what it may and nothing more, and from outside a
folder only its one header is seen. Users of the library see include/ alone.
"""
import pathlib
import re
import sys

from public import check

MAY = {
    "base": set(),
    "codec": {"base", "gpu"},
    "gpu": {"base"},
    "topology": {"base"},
    "memory": {"base", "gpu"},
    "ring": {"base"},
    "backend": {"base", "gpu", "memory"},
    "segment": {"base", "memory"},
    "info": {"segment"},
    "ep": set(),
    "engine": {"base", "gpu", "memory", "ring", "backend", "segment"},
    "control": {"base", "gpu", "memory", "backend", "engine"},
}
PUBLIC = {"liburccl.h", "liburccl/abi.h", "liburccl/codec.h", "liburccl/ep.h", "liburccl/ffi.h",
          "liburccl/inspect.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)

root = pathlib.Path(sys.argv[1])
library = root / "liburccl"


def includes(path):
    for bracket, name in INCLUDE.findall(path.read_text()):
        yield bracket, name


def private(name, room):
    """Is "name", included by a file of this room, a header of another room, and not its one?"""
    folder, _, file = name.rpartition("/")
    return folder and folder != room and name != f"{folder}/{folder}.h"


bad = []
for path in sorted(library.rglob("*.[ch]")):
    place = path.relative_to(library)
    room = place.parts[0] if len(place.parts) > 1 else None
    for bracket, name in includes(path):
        where = f"{path.relative_to(root)} includes {name}"
        if bracket == "<":
            if name.startswith("liburccl") and name not in PUBLIC:
                bad.append(where + ": no public header")
            continue
        other = name.split("/")[0] if "/" in name else room
        if private(name, room):
            bad.append(where + ": private to its folder")
        elif room and other != room and other not in MAY.get(room, set()):
            bad.append(where + f": {room} may not see {other}")

for folder in ("examples", "bench", "test/api"):
    for path in sorted((root / folder).rglob("*.[ch]")):
        for bracket, name in includes(path):
            if bracket == '"' and name.split("/")[0] in MAY:
                bad.append(f"{path.relative_to(root)} includes {name}: a user sees include/ alone")

check(not bad, "\n  ".join(["the rooms are not kept apart:"] + bad))
check((library / "base" / "base.h").exists(), "no library found under " + str(root))
