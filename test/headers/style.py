#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
style.py ROOT: every source file names its licence, and no line is wider than 100 columns, unless a
string makes it so: what a user reads is not broken, so that it can be found. The library prints no
floating-point numbers, whose point the locale chooses, and does not ask for the wall clock.
"""
import pathlib
import re
import sys

from public import check

FOLDERS = ("liburccl", "include", "examples", "bench", "test")
LICENCE = "SPDX-License-Identifier: Apache-2.0"

root = pathlib.Path(sys.argv[1])
files = [p for folder in FOLDERS for p in sorted((root / folder).rglob("*"))
         if p.suffix in (".c", ".h", ".cu", ".cuh", ".py", ".sh", ".map") or p.name == "meson.build"]
# Tools and Python have a locale of their own; reasons.h has a format of its own.
OWN_LOCALE = ("info", "python", "nixl", "reasons.h")
FLOAT = re.compile(r'"[^"]*%[-+ #0-9.*]*[lL]?[fFeEgGaA]\b')
check(len(files) > 20, f"only {len(files)} files found under {root}")
bad = []
for path in files:
    name, text = path.relative_to(root), path.read_text()
    lines = text.split("\n")
    first = lines[1] if lines[0].startswith("#!") else lines[0]
    if LICENCE not in first:
        bad.append(f"{name}: the first line does not name the licence")
    if not text.endswith("\n") or text.endswith("\n\n"):
        bad.append(f"{name}: does not end with one newline")
    in_library = name.parts[0] == "liburccl" and not set(name.parts) & set(OWN_LOCALE)
    for number, line in enumerate(lines, 1):
        if in_library and path.suffix in (".c", ".h"):
            if FLOAT.search(line):
                bad.append(f"{name}:{number}: prints by the locale")
            if "CLOCK_REALTIME" in line:
                bad.append(f"{name}:{number}: uses the wall clock")
        if len(re.sub(r'"(\\.|[^"\\])*"', "", line).expandtabs(8)) > 100:
            bad.append(f"{name}:{number}: wider than 100 columns")
        if line != line.rstrip():
            bad.append(f"{name}:{number}: white space at the end")
        if path.suffix in (".c", ".h", ".cu", ".cuh") and line.startswith("        "):
            bad.append(f"{name}:{number}: indented by spaces")
check(not bad, "\n  ".join(["style:"] + bad))
