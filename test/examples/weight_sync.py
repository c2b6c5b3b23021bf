#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every replica gets every tensor of every version, and the rates add up to something."""
import re

from example_run import check, refused, run


def sync(replicas, layers, size, versions):
    lines = run("--replicas", replicas, "--layers", layers, "--size", size, "--versions", versions)
    check(len(lines) == versions + 1, lines)
    for version, line in enumerate(lines[:-1], 1):
        told = re.fullmatch(r"version (\d+): GB/s of each((?: [\d.]+)+), total ([\d.]+)", line)
        check(told and int(told[1]) == version and len(told[2].split()) == replicas, line)
    every = replicas * layers * versions
    check(lines[-1] == f"{every} of {every} tensors arrived right", lines)


sync(1, 1, 8, 1)
sync(3, 5, 65544, 4)
sync(8, 128, 4096, 2)
sync(4, 8, 4 << 20, 3)
refused("--replicas", 0, words="--replicas takes 1 to 32 by 1, not 0")
refused("--replicas", 33, words="not 33")
refused("--layers", "many", words="--layers takes 1 to 128 by 1, not many")
refused("--size", 12, words="--size takes 8 to 1073741824 by 8, not 12")
refused("--versions", "-1", words="--versions takes 1 to 1000000 by 1, not -1")
refused("--versions", words="--versions")
refused("--nonsense", 1, words="usage: weight_sync")
refused(3, words="usage: weight_sync")
