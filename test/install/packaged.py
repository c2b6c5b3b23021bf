#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
packaged.py ROOT DEB...: installs the packages into a folder of their own, or unpacks them there
where that is root's alone, looks at what is there, compiles README's C program against it, shared
and static, runs the tools and an example of the Python package, and takes everything away again.
The library has its probes: urccl_get_stats(3) says so.
"""
import os
import pathlib
import re
import sys
import tempfile

from tree import check, compiles, headers, libraries, man_pages, one, run

PACKAGES = {"liburccl0", "liburccl-ep0", "liburccl-ffi0", "liburccl-dev", "liburccl-nixl",
            "liburccl-tools", "python3-liburccl"}
UNPACKED = "python3-liburccl"      # its scripts want a Python in the folder


def owned_once(debs):
    """No file lies in two packages: dpkg would refuse to install them both."""
    owner = {}
    for deb in debs:
        for line in run("dpkg-deb", "-c", deb).splitlines():
            path = line.split()[5]
            check(path.endswith("/") or path not in owner, f"{path} in {deb} and {owner.get(path)}")
            owner[path] = deb


def depends(deb):
    """What another package of ours needs is of the same version; the library needs libc alone, and
    liburccl-ep liburccl besides."""
    name = run("dpkg-deb", "-f", deb, "Package").strip()
    needs = run("dpkg-deb", "-f", deb, "Depends").strip()
    if name in ("liburccl0", "liburccl-ep0"):
        own = r", liburccl0 \([^)]*\)" if name == "liburccl-ep0" else ""
        check(re.fullmatch(r"libc6 \(>= [^)]*\)" + own, needs), f"{name} needs {needs}")
    for other in re.findall(r"(liburccl\S*) ?(\(\S+)?", needs):
        check(other[1], f"{name} needs {other[0]} of any version")


def tools(tree):
    env = dict(os.environ, LD_LIBRARY_PATH=str(one(tree, "liburccl.so.0").parent))
    for tool in sorted((tree / "usr/bin").iterdir()):
        run(tool, "--help", env=env)
    print(run(tree / "usr/bin/urccl_perf", "--self", "--check", "--transport", "shm", "--cpu", "-1",
              "--server-cpu", "-1", "--engine-cpu", "-1", "--duration", "0.1", env=env), end="")


def python(tree, root):
    """It uses the library of the other package."""
    extension = one(tree, "_urccl.abi3.so")
    needed = run("readelf", "-d", extension)
    check("[liburccl.so.0]" in needed, f"_urccl.abi3.so needs {needed}")
    env = dict(os.environ, LD_LIBRARY_PATH=str(one(tree, "liburccl.so.0").parent),
               PYTHONPATH=str(extension.parent.parent), PYTHONDONTWRITEBYTECODE="1")
    print(run("/usr/bin/python3", root / "examples/python/hello.py", env=env), end="")


def probes(tree):
    notes = run("readelf", "-n", one(tree, "liburccl.so.0"))
    there = set(re.findall(r"Provider: urccl\n\s*Name: (\w+)", notes))
    check({"entry_taken", "entry_ended", "chunk_posted"} <= there, f"probes: {sorted(there)}")


def dpkg(tree, *what):
    """With a database of its own, in which nothing else is installed: not even libc."""
    admin = tree / "var/lib/dpkg"
    for folder in "info", "updates":
        (admin / folder).mkdir(parents=True, exist_ok=True)
    (admin / "status").touch()
    run("dpkg", f"--root={tree}", "--force-depends", *what)


def removed(tree, deb):
    """What was unpacked alone is taken away by hand."""
    for line in run("dpkg-deb", "-c", deb).splitlines():
        if not line.split()[5].endswith("/"):
            (tree / line.split()[5]).unlink()


def files(tree):
    return {p for p in tree.rglob("*") if not p.is_dir() and "var" not in p.relative_to(tree).parts}


def main(root, *debs):
    found = {run("dpkg-deb", "-f", d, "Package").strip() for d in debs}
    check(PACKAGES <= found, f"packages: {sorted(found)}")
    owned_once(debs)
    by_dpkg = not os.geteuid()
    with tempfile.TemporaryDirectory() as tmp:
        tree = pathlib.Path(tmp) / "root"
        unpacked = [d for d in debs if UNPACKED + "_" in d or not by_dpkg]
        for deb in debs:
            depends(deb)
        if by_dpkg:
            dpkg(tree, "--install", *(d for d in debs if d not in unpacked))
        for deb in unpacked:
            run("dpkg-deb", "-x", deb, tree)
        libraries(tree)
        probes(tree)
        headers(tree)
        man_pages(tree, pathlib.Path(root))
        compiles(tree, pathlib.Path(root), pathlib.Path(tmp))
        tools(tree)
        python(tree, pathlib.Path(root))
        if by_dpkg:
            for deb in unpacked:
                removed(tree, deb)
            dpkg(tree, "--purge", *sorted(found - {UNPACKED}))
            check(not files(tree), f"left behind: {sorted(files(tree))}")


main(*sys.argv[1:])
