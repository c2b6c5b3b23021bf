# SPDX-License-Identifier: Apache-2.0
"""What the tests of the headers and the libraries have in common."""
import re
import subprocess
import sys


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def check(ok, why):
    if not ok:
        sys.exit("failed: " + why)


def same(what, a, b):
    """Two sets of names that ought to be one."""
    missing, extra = sorted(b - a), sorted(a - b)
    check(not missing and not extra, f"{what}: missing {missing}, too many {extra}")


def run(*args):
    return subprocess.run(args, check=True, capture_output=True, text=True).stdout


def without_comments(path):
    with open(path) as f:
        return re.sub(r"/\*.*?\*/", " ", f.read(), flags=re.S)


def inlines(path):
    """The functions a header defines for programs to compile in, without those for itself."""
    return set(re.findall(r"^URCCL_INLINE [^;{(]*?\b(urccl_\w+)\(", without_comments(path), re.M))


def declared(path):
    """The functions a header declares and leaves to the library."""
    text = re.sub(r"^URCCL_INLINE [^;{]*\{.*?^\}", "", without_comments(path), flags=re.S | re.M)
    return set(re.findall(r"^[a-z][^;{}#=]*?\b((?:__)?urccl_\w+)\([^;{}]*\);", text, re.M))


def mapped(path):
    """The symbols a version script makes global."""
    with open(path) as f:
        text = re.sub(r"#.*", "", f.read())
    return set(re.findall(r"(\w+);", text[text.index("global:"):text.index("local:")]))


def exported(library):
    """The functions and objects a shared library defines for others."""
    names = set()
    for line in run("nm", "-D", "--defined-only", library).splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":  # version nodes
            names.add(name.split("@")[0])
    return names
