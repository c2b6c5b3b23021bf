#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
urccl_zip.py PROGRAM LIBCUDA: files of floats and safetensors files become smaller and come back,
also by a GPU; other files are refused.
"""
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile

program = sys.argv[1]
random.seed(1)


def check(ok, why):
    if not ok:
        sys.exit("failed: " + why)


def run(*args):
    return subprocess.run([program, *map(str, args)], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
                          env=os.environ | {"URCCL_CUDA_SO": sys.argv[2]})


def bf16(n):
    return b"".join(struct.pack("<f", random.gauss(0, 1))[2:] for _ in range(n))


def tensors(path):
    """A header, three tensors of which the second has a type that is not coded, and a gap."""
    a, b, c = bf16(40000), bytes(range(256)) * 3, bf16(5)
    header = json.dumps({
        "__metadata__": {"format": "pt", "odd": "a \"}\" in a string"},
        "last": {"dtype": "BF16", "shape": [5], "data_offsets": [len(a) + len(b) + 8,
                                                                len(a) + len(b) + 8 + len(c)]},
        "first": {"dtype": "BF16", "shape": [200, 200], "data_offsets": [0, len(a)]},
        "second": {"dtype": "I64", "shape": [96], "data_offsets": [len(a), len(a) + len(b)]},
    }).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + a + b + bytes(8) + c)


def there_and_back(folder, source, *options):
    packed, back = folder / "packed", folder / "back"
    done = run(*options, source, packed)
    check(not done.returncode, f"{source.name} {options}: {done.stdout}")
    restored = run("-d", packed, back)
    check(not restored.returncode, f"-d {source.name}: {restored.stdout}")
    check(back.read_bytes() == source.read_bytes(), f"{source.name} {options} did not come back")
    return done.stdout, source.stat().st_size / max(1, packed.stat().st_size)


def main(folder):
    source = folder / "model.safetensors"
    tensors(source)
    said, ratio = there_and_back(folder, source, "-p")
    check(ratio > 1.4, f"safetensors: {ratio}\n{said}")
    for name in "(header)", "first", "second", "(between)", "last", "all":
        check(re.search(rf"^{re.escape(name)} ", said, re.M), f"no line of {name} in\n{said}")
    limit = float(re.search(r"^first .* of +([0-9.]+)", said, re.M).group(1))
    check(1.45 < limit < 1.6, f"limit {limit}")
    (folder / "plain").write_bytes(bf16(2500000) + b"x")
    check(there_and_back(folder, folder / "plain", "-q", "-t", "bf16")[1] > 1.45, "plain")
    check(there_and_back(folder, folder / "plain", "-t", "bf16", "-c", "fw4")[1] > 1.3, "fw4")
    check(there_and_back(folder, folder / "plain")[1] > 0.998, "without a type")
    if "without nvcc" not in run("-g", folder / "plain", folder / "packed").stdout:
        there_and_back(folder, source, "-g", "-p")
        check(there_and_back(folder, folder / "plain", "-g", "-t", "bf16")[1] > 1.45, "by a GPU")
    (folder / "empty").write_bytes(b"")
    there_and_back(folder, folder / "empty")
    broken = bytearray((folder / "packed").read_bytes() or (folder / "plain").read_bytes()[:999])
    (folder / "broken").write_bytes(broken)
    check(run("-d", folder / "broken", folder / "back").returncode == 1, "no file of ours was taken")
    check(run("-t", "float", "a", "b").returncode == 2, "a type that is not known was taken")


with tempfile.TemporaryDirectory() as tmp:
    main(pathlib.Path(tmp))
