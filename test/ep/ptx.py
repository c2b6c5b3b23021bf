#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ptx.py ROOT: the PTX that is checked in is what nvcc 13.0 makes of the kernels."""
import filecmp
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def main(root):
    nvcc = shutil.which("nvcc")
    said = subprocess.run([nvcc, "--version"], capture_output=True, text=True,
                          check=True).stdout if nvcc else ""
    if not re.search(r"release 13\.0\b", said):
        print("skipped: there is no nvcc 13.0, which made the PTX")
        return 77
    sources = root / "liburccl/ep"
    with tempfile.TemporaryDirectory() as made:
        subprocess.run([sources / "ptx.sh", nvcc, sources, made], check=True)
        for path in sorted(pathlib.Path(made).iterdir()):
            if not filecmp.cmp(path, sources / "ptx" / path.name, shallow=False):
                print(f"ptx/{path.name} is not what {path.stem}.cu says: run ./dev kernels")
                return 1
    return 0


sys.exit(main(pathlib.Path(sys.argv[1])))
