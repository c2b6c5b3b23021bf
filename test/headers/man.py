#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
man.py HEADER PAGES ALIASES: each function of the header has a page that shows it as it is declared,
and no page shows another.
"""
import pathlib
import re
import sys

from public import check, same, without_comments


def tidy(text):
    return re.sub(r"\s+", " ", text).replace("* ", "*").strip()


def prototypes(header):
    found = {}
    pattern = r"^(?:URCCL_INLINE )?([a-z][\w \t]*?[ *]+)(urccl_\w+)\(([^;{}()]*)\)\s*[;{]"
    for kind, name, arguments in re.findall(pattern, without_comments(header), re.M):
        found[name] = (tidy(kind), tidy(arguments).replace("void", "") if arguments == "void"
                       else tidy(arguments))
    return found


def shown(page):
    found = {}
    pattern = r'^\.Ft "?(.*?)"?\n\.Fo (\w+)\n((?:\.Fa .*\n)*)\.Fc'
    for kind, name, arguments in re.findall(pattern, page.read_text(), re.M):
        words = re.findall(r'^\.Fa "?(.*?)"?$', arguments, re.M)
        found[name] = (tidy(kind), "" if words == ["void"] else tidy(", ".join(words)))
    return found


def page_of(name, pages, aliases):
    if (pages / (name + ".3")).exists():
        return pages / (name + ".3")
    alias = aliases / (name + ".3")
    check(alias.exists(), f"{name} has no page")
    return pages / alias.read_text().strip().removeprefix(".so man3/")


header, pages, aliases = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
declared, described = prototypes(header), {}
for page in sorted(pages.glob("*.3")):
    described.update(shown(page))
same("functions on the pages", set(described), set(declared))
for name, prototype in declared.items():
    check(described[name] == prototype, f"{name}: {described[name]}, declared {prototype}")
    check(f".Nm {name}" in page_of(name, pages, aliases).read_text(), f"{name}: wrong page")
