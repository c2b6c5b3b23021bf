#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each batch is told of once, by its tag and payload, when its bytes are there."""
from example_run import check, refused, run

for count in (3, 1, 16):
    lines = run(*[count] if count != 3 else [])
    said = sorted(f"tag {i} says \"262144 bytes in 4 writes\": they are there" for i in range(count))
    check(sorted(lines) == said, lines)
for wrong in ("0", "17", "-1", "three", "3x", ""):
    refused(wrong, words="usage: notify [BATCHES], 1 to 16")
refused(1, 2, words="usage: notify [BATCHES]")
