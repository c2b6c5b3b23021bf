#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
man.py PAGES ALIASES SENTENCES HEADER...: each function of the headers has a page that shows it as
it is declared, no page shows, names or refers to another, liburccl(7) leads to all of them, and
what formats pages has nothing to say against them. The error of each sentence about an entry is on
its operation's page, or on one that its ERRORS lead to.
"""
import pathlib
import re
import shutil
import subprocess
import sys

from public import check, same, without_comments

WIDE = 80  # columns of a terminal


def tidy(text):
    return re.sub(r"\s+", " ", text).replace("* ", "*").strip()


def prototypes(header):
    found = {}
    pattern = r"^(?:URCCL_INLINE )?([a-z][\w \t]*?[ *]+)(urccl_\w+)\(([^;{}()]*)\)\s*[;{]"
    for kind, name, arguments in re.findall(pattern, without_comments(header), re.M):
        found[name] = (tidy(kind), "" if arguments == "void" else tidy(arguments))
    return found


def shown(page):
    found = {}
    pattern = r'^\.Ft "?(.*?)"?\n\.Fo (\w+)\n((?:\.Fa .*\n)*)\.Fc'
    for kind, name, arguments in re.findall(pattern, page.read_text(), re.M):
        words = re.findall(r'^\.Fa "?(.*?)"?$', arguments, re.M)
        check(name not in found, f"{page.name} shows {name} twice")
        found[name] = (tidy(kind), "" if words == ["void"] else tidy(", ".join(words)))
    return found


def names(page):
    """What the section NAME says the page is about."""
    head = page.read_text().partition(".Sh NAME\n")[2].partition(".Nd ")[0]
    return re.findall(r"^\.Nm (\S+)", head, re.M)


def aliases_of(folder, stem):
    return {a.stem for a in folder.glob("*.3")
            if a.read_text().strip() == f".so man3/{stem}.3"}


def refers(page, pages, aliases, declared):
    text = page.read_text()
    for name, section in re.findall(r"^\.Xr ((?:lib)?urccl\S*) (\d)", text, re.M):
        there = any((f / f"{name}.{section}").exists() for f in (pages, aliases))
        check(there, f"{page.name} refers to {name}({section}), which is no page")
    for name in re.findall(r"^\.F[no] (urccl_\w+)(?![\w*])", text, re.M):
        check(name in declared, f"{page.name} tells of {name}(), which is no function")
    sections = re.findall(r"^\.Sh (.*)$", text, re.M)
    last = [s for s in sections if s != "CAVEATS"][-1]
    check(sections[0] == "NAME" and last == "SEE ALSO", f"{page.name}: {sections}")


def section(page, name):
    """Its text, to the next section."""
    return page.read_text().partition(f".Sh {name}\n")[2].partition("\n.Sh ")[0]


def errors_of(page, pages):
    """Those that a page names, and those it leaves to others."""
    told = section(page, "ERRORS")
    for name in re.findall(r"^\.Xr (urccl_\w+) 3", told, re.M):
        if name not in (page.stem, "urccl_explain"):
            told += section(pages / f"{name}.3", "ERRORS")
    return set(re.findall(r"-(E[A-Z0-9]+)", told))


def explained(sentences, pages, page_of):
    """What an entry's sentence ends with in brackets is an error that its page tells of."""
    found = re.findall(r"^(?:! )?(\w+) (\w+)[,:].*\((E[A-Z0-9]+)\)$", sentences.read_text(), re.M)
    found = [f for f in found if f"urccl_prep_{f[1]}" in page_of]
    check(found, f"{sentences.name} has no sentence about an entry")
    for what, op, error in found:
        page = pages / page_of[f"urccl_prep_{op}"]
        check(error in errors_of(page, pages), f"{page.name} does not tell of -{error} ({what})")


def complaints(page):
    """What mandoc says of a page, or man and groff where there is no mandoc."""
    if shutil.which("mandoc"):
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return done.stdout
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-mandoc", "-Tutf8", "-ww", "-z", page],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return done.stderr
    return ""


def wide(page):
    """Lines of pictures and programs that a terminal would break."""
    for block in re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", page.read_text(), re.S | re.M):
        for line in block.splitlines():
            check(len(line) + 6 <= WIDE, f"{page.name}: wider than a terminal: {line}")


def main(pages, aliases, sentences, *headers):
    declared, described, told = {}, {}, {}
    for header in headers:
        declared.update(prototypes(header))
    for page in sorted(pages.glob("*.3")):
        for name, prototype in shown(page).items():
            check(name not in described, f"{name} is on {page.name} and {told.get(name)}")
            described[name], told[name] = prototype, page.name
        about = set(names(page))
        check(page.stem in about, f"{page.name} does not name itself")
        same(f"NAME of {page.name}, against its aliases", about,
             aliases_of(aliases, page.stem) | {page.stem})
    same("functions on the pages", set(described), set(declared))
    for name, prototype in declared.items():
        check(described[name] == prototype, f"{name}: {described[name]}, declared {prototype}")
        check(name in names(pages / told[name]), f"{name} is not in NAME of {told[name]}")
    for page in sorted(pages.glob("*.[1-9]")):
        refers(page, pages, aliases, set(declared).union(*map(macros, headers)))
        wide(page)
        said = complaints(page)
        check(not said, f"{page.name}:\n{said}")
    explained(sentences, pages, told)
    tour = (pages / "liburccl.7").read_text()
    led = set(re.findall(r"^\.Xr ((?:lib)?urccl\S*) \d", tour, re.M))
    left = sorted({p.stem for p in pages.glob("*.[1-6]")} - led)
    check(not left, f"liburccl(7) does not lead to {left}")


def macros(header):
    """Those that are called as functions are."""
    return set(re.findall(r"^#define (urccl_\w+)\(", without_comments(header), re.M))


main(*map(pathlib.Path, sys.argv[1:4]), *sys.argv[4:])
