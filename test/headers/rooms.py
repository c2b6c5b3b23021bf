#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
rooms.py ROOT: each folder of liburccl/ includes what it may and nothing more, and from outside a
folder only its one header is seen. A folder inside a room is that room's alone, and its files
include the room's header. Users of the library see include/ alone.
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
    "conn": {"base", "gpu", "memory", "backend", "engine"},
    "region": {"base", "gpu", "memory", "backend", "engine", "conn"},
    "peer": {"base", "gpu", "memory", "backend", "engine", "conn", "region"},
    "control": {"base", "gpu", "memory", "backend", "engine", "conn", "region", "peer"},
    "backend/shm": {"backend", "backend/stream"},
    "backend/tcp": {"backend", "backend/stream"},
}
# A second header of a room, for the rooms of the control thread alone.
SHARED = {"conn/shared.h": {"region", "peer", "control"}}
PUBLIC = {"liburccl.h", "liburccl/abi.h", "liburccl/codec.h", "liburccl/ep.h", "liburccl/ffi.h",
          "liburccl/inspect.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)

root = pathlib.Path(sys.argv[1])
library = root / "liburccl"


def includes(path):
    for bracket, name in INCLUDE.findall(path.read_text()):
        yield bracket, name


def forbidden(name, home):
    """Why a file of the folder home may not include "name", or None."""
    folder = name.rpartition("/")[0]
    if folder in ("", home) or home in SHARED.get(name, ()):
        return None
    room, other = home.split("/")[0], folder.split("/")[0]
    if name != f"{folder}/{folder.split('/')[-1]}.h" or (folder != other and room != other):
        return "private to its folder"
    if home and folder not in MAY.get(home, {room}) | MAY.get(room, set()):
        return f"{home} may not see {folder}"
    return None


bad = []
for path in sorted(library.rglob("*.[ch]")):
    home = path.parent.relative_to(library).as_posix().strip(".")
    for bracket, name in includes(path):
        where = f"{path.relative_to(root)} includes {name}"
        if bracket == "<":
            if name.startswith("liburccl") and name not in PUBLIC:
                bad.append(where + ": no public header")
        elif forbidden(name, home):
            bad.append(f"{where}: {forbidden(name, home)}")

for folder in ("examples", "bench", "test/api"):
    for path in sorted((root / folder).rglob("*.[ch]")):
        for bracket, name in includes(path):
            if bracket == '"' and name.split("/")[0] in MAY:
                bad.append(f"{path.relative_to(root)} includes {name}: a user sees include/ alone")

check(not bad, "\n  ".join(["the rooms are not kept apart:"] + bad))
check((library / "base" / "base.h").exists(), "no library found under " + str(root))
