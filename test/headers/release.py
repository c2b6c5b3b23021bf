#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
release.py ROOT: whatever says which version this is says the same, so that a tag is all that a
release lacks: meson.build, the newest node of each map of symbols, and Debian's changelog, lists of
symbols and names of packages. What is tagged has the version of its tag, and a changelog that is
not still open.
"""
import pathlib
import re
import subprocess
import sys

from public import check

root = pathlib.Path(sys.argv[1])


def said(path, pattern):
    found = re.findall(pattern, (root / path).read_text(), re.M)
    check(found, f"{path} has no {pattern}")
    return found


def numbers(text):
    return [int(n) for n in text.split(".")]


def tags():
    """Of what is checked out, as it was committed; none where there is no git."""
    try:
        changed = subprocess.run(["git", "status", "--porcelain"], cwd=root, check=True,
                                 capture_output=True, text=True).stdout
        found = subprocess.run(["git", "tag", "--points-at", "HEAD", "v*"], cwd=root, check=True,
                               capture_output=True, text=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return []
    return [] if changed else found


version = said("meson.build", r"^  version: '(\d+\.\d+\.\d+)',$")[0]
major = version.partition(".")[0]
for so in said("liburccl/meson.build", r"soversion: '(.*)'"):
    check(so == major, f"soversion is {so}, the version {version}")
for name, library, package in ("LIBURCCL", "liburccl", f"liburccl{major}"), \
                              ("LIBURCCL_EP", "ep/ep", f"liburccl-ep{major}"), \
                              ("LIBURCCL_FFI", "ffi", f"liburccl-ffi{major}"):
    nodes = said(f"liburccl/{library}.map", rf"^{name}_(\d+\.\d+) \{{$")
    check(numbers(nodes[-1]) <= numbers(version), f"{library}.map has {nodes} at {version}")
    check(f"Package: {package}" in said("debian/control", r"^Package: .*$"), f"no {package}")
    listed = said(f"debian/{package}.symbols", rf"^ \(symver\){name}_(\S+) (\S+)$")
    check(listed == [(node, f"{node}.0") for node in nodes], f"{package}.symbols has {listed}")
newest, suite = said("debian/changelog", r"^liburccl \((.*)\) (\S+);")[0]
check(newest == version, f"debian/changelog begins with {newest}, meson.build has {version}")
for tag in tags():
    check(tag == f"v{version}", f"{tag} is tagged, and the version is {version}")
    check(suite != "UNRELEASED", f"{tag} is tagged, and debian/changelog is {suite}")
