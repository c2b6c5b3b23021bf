#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kernels.py ROOT: the PTX in the tree is what nvcc 13.0 makes of the kernels; 77 without it."""
import pathlib
import subprocess
import sys
import tempfile

kernels = pathlib.Path(sys.argv[1]) / "liburccl/gpu/kernels"
with tempfile.TemporaryDirectory() as made:
    code = subprocess.run([kernels / "ptx.sh", made], check=False).returncode
    if code:
        sys.exit(code)
    names = sorted(p.name for p in pathlib.Path(made).iterdir())
    assert names == sorted(p.name for p in kernels.glob("*.ptx")), names
    for name in names:
        if (kernels / name).read_bytes() != (pathlib.Path(made) / name).read_bytes():
            sys.exit(f"{name} is not what nvcc makes of its source: run ./dev kernels")
