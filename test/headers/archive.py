#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""archive.py ARCHIVE MAP: the archive is one object, and shows urccl_* alone."""
import sys

from public import check, mapped, run

archive, version_map = sys.argv[1:]
check(len(run("ar", "t", archive).split()) == 1, "more than one object in the archive")
names = {line.split()[-1] for line in run("nm", "-g", "--defined-only", archive).splitlines()
         if len(line.split()) == 3}
strange = sorted(n for n in names if not n.startswith(("urccl_", "__urccl_")))
check(not strange, f"not ours to show: {strange}")
missing = sorted(mapped(version_map) - names)
check(not missing, f"missing: {missing}")
