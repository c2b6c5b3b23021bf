#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""alone.py INCLUDE HEADER...: each header compiles by itself, as C11 and as C++17."""
import shutil
import subprocess
import sys

from public import check, skip

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
COMPILERS = [("gcc", "c", "c11"), ("g++", "c++", "c++17"),
             ("clang", "c", "c11"), ("clang++", "c++", "c++17")]

include, headers = sys.argv[1], sys.argv[2:]
tried = 0
for compiler, language, standard in COMPILERS:
    if not shutil.which(compiler):
        print(compiler, "is not installed: left out")
        continue
    for header in headers:
        done = subprocess.run(
            [compiler, "-x", language, "-std=" + standard, *WARNINGS, "-I", include,
             "-fsyntax-only", "-"],
            input=f"#include <{header}>\n#include <{header}>\n", text=True)
        check(done.returncode == 0, f"{header} with {compiler} as {standard}")
        tried += 1
if not tried:
    skip("no compiler found")
