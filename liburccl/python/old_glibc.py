#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
old_glibc.py VERSION FOLDER: makes a libc.so in FOLDER to link with (-L FOLDER). It has the symbols
of this machine's C library, each at its newest version up to VERSION, and no code: what is linked
with it runs where the C library is that old. A symbol that is newer is missing, so that the linker
names it.
"""
import pathlib
import platform
import re
import subprocess
import sys

# Inline in the headers of glibc before 2.33, by calls that later ones still have.
STAT = """
#define _GNU_SOURCE
#include <sys/stat.h>
int __fxstat64(int version, int fd, struct stat64 *st);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
int fstat64(int fd, struct stat64 *st) { return __fxstat64(VERSION, fd, st); }
int stat64(const char *path, struct stat64 *st) { return __xstat64(VERSION, path, st); }
int lstat64(const char *path, struct stat64 *st) { return __lxstat64(VERSION, path, st); }
"""
STAT_VERSION = {"x86_64": 1, "aarch64": 0}
# Where functions were that lie in libc.so.6 since 2.34.
ELSEWHERE = {"libpthread.so.0": r"(pthread|sem)_",
             "libdl.so.2": r"dl(open|close|sym|vsym|mopen|error|info|addr1?)$"}


def run(*command, **how):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, **how).stdout


def number(version):
    return tuple(int(part) for part in version.split("."))


def symbols(library, newest):
    """{name: (version, type, size)}"""
    found = {}
    for line in run("objdump", "-T", library).splitlines():
        match = re.fullmatch(r"\S+ (.{7}) \S+\s+(\S+)\s+\(?GLIBC_([\d.]+)\)?\s+(\w+)", line)
        if not match or "D" not in match[1] or match[1].endswith("O") and match[2].strip("0") == "":
            continue
        version = number(match[3])
        if version <= newest and version >= found.get(match[4], ((0,),))[0]:
            kind = "object" if match[1].endswith("O") else "function"
            found[match[4]] = (version, kind, int(match[2], 16))
    return found


def source(found):
    lines = []
    for name, (_, kind, size) in found.items():
        part = ".data" if kind == "object" else ".text"
        lines += [part, f".globl {name}", f".type {name}, %{kind}", f".size {name}, {size or 1}",
                  f"{name}: .skip {size or 1}"]
    return "\n".join([*lines, '.section .note.GNU-stack, "", %progbits', ""])


def script(found):
    """Each version depends on the one before."""
    text, before = "", ""
    for version in sorted({v for v, _, _ in found.values()}):
        node = "GLIBC_" + ".".join(map(str, version))
        names = "; ".join(n for n, (v, _, _) in found.items() if v == version)
        text += f"{node} {{ global: {names}; }} {before};\n"
        before = node
    return text


def library_of(symbol):
    return next((name for name, own in ELSEWHERE.items() if re.match(own, symbol)), "libc.so.6")


def shared(folder, name, found):
    found = {symbol: what for symbol, what in found.items() if library_of(symbol) == name}
    assembly, versions = folder / f"{name}.s", folder / f"{name}.map"
    assembly.write_text(source(found))
    versions.write_text(script(found))
    run("cc", "-shared", "-nostdlib", f"-Wl,-soname,{name}", "-o", folder / name, assembly,
        f"-Wl,--version-script,{versions}")


def main(version, folder):
    folder = pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    library = run("cc", "-print-file-name=libc.so.6").strip()
    found = symbols(library, number(version))
    names = ["libc.so.6", *ELSEWHERE]
    for name in names:
        shared(folder, name, found)
    run("cc", "-x", "c", "-O2", "-fPIC", "-fvisibility=hidden", "-c", "-",
        f"-DVERSION={STAT_VERSION[platform.machine()]}", "-o", folder / "stat.o", input=STAT)
    parts = run("cc", "-print-file-name=libc.so").strip()
    rest = re.search(r"GROUP \( \S+ (.*) \)", pathlib.Path(parts).read_text())[1]
    ours = " ".join(str(folder / name) for name in [*names, "stat.o"])
    (folder / "libc.so").write_text(f"GROUP ( {ours} {rest} )\n")


main(*sys.argv[1:])
