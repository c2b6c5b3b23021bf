#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode reads the layers when it is told that they are there; aborted ones too."""
import tempfile

from pusher_run import all_right, check, demo, model

result, said = demo("--pull", "--requests", 14, "--pool", "192M", "--cache", "192M")
all_right(result)
check(result["mode"] == "pull" and result["blocks"]["reused"] > 0, result)

result, said = demo("--pull", "--requests", 14, "--abort", 25, "--prefill-rate", 1000000, "--pool", "160M",
                    "--cache", "160M")
all_right(result, aborted=1)

with tempfile.TemporaryDirectory() as folder:
    for layout in ("nhd", "hnd"):
        result, said = demo("--pull", "--model", model(folder), "--tp", "4:2", "--layout", layout,
                            "--requests", 6, "--scale", 0.25, "--pool", "64M", "--cache", "64M")
        all_right(result)
