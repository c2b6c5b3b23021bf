#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
names.py ROOT: names that a reader knows. No identifier and no file of the library has a word of
BANNED between underscores, no function outside base/ has five letters or fewer, and no static
function's name is in more than three files: it carries its object (lane_take). Methods of C++
carry their class, and have to keep to the list of words alone.
"""
import collections
import pathlib
import re
import sys

from public import check

BANNED = set("""way talk hear seldom rare tell told young owe hurry withdraw undone aim cool cold
heat raise want meet stays acquaintance condemned accused doomed strange hope patience follow errand
alarm trouble besieged bell spell sink""".split())
FROM_OUTSIDE = {"cold"}  # a function's attribute
SHORT = 5
FILES = 3
SOURCES = {".c", ".h", ".cu", ".cuh", ".cpp", ".S"}

SKIPPED = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
WORD = re.compile(r"[A-Za-z_]\w*")
ATTRIBUTES = re.compile(r"__attribute__\(\(.*?\)\)|__launch_bounds__\(\w+\)|^#.*?[^\\]$", re.M | re.S)
# At the outermost level: its type, its name, its parameters, its body.
FUNCTION = re.compile(r"^([A-Za-z_][\w\s*]*?)\b(\w+)\([^;{}]*\)\s*\{", re.M)


def banned(name):
    return BANNED & set(name.lower().split("_"))


def main(root):
    bad, static, functions = [], collections.defaultdict(set), 0
    for folder in ("liburccl", "include"):
        for path in sorted((root / folder).rglob("*")):
            if not path.is_file() or path.suffix not in SOURCES:
                continue
            where = path.relative_to(root)
            if banned(path.stem):
                bad.append(f"{where}: {', '.join(banned(path.stem))} is a file's name")
            text = SKIPPED.sub(" ", path.read_text())
            for name in sorted(set(WORD.findall(text)) - FROM_OUTSIDE):
                if banned(name):
                    bad.append(f"{where}: {name}")
            if path.suffix == ".cpp" or "nixl" in where.parts:
                continue
            for kind, name in FUNCTION.findall(ATTRIBUTES.sub("", text)):
                functions += 1
                if len(name) <= SHORT and name != "main" and where.parts[1] != "base":
                    bad.append(f"{where}: {name}() has {SHORT} letters or fewer")
                if "static" in kind.split():
                    static[name].add(where)
    for name, places in sorted(static.items()):
        if len(places) > FILES:
            bad.append(f"{name}() is static in {len(places)} files: {', '.join(map(str, places))}")
    check(functions > 1000, f"only {functions} functions found under {root}")
    check(not bad, "\n  ".join(["names:"] + bad))


main(pathlib.Path(sys.argv[1]))
