#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Heads dealt out to other numbers of ranks at the two ends, in both orders inside a page."""
import tempfile

from pusher_run import End, all_right, check, demo, model

SMALL = ("--requests", 6, "--scale", 0.25, "--pool", "64M", "--cache", "64M")

with tempfile.TemporaryDirectory() as folder:
    config = model(folder)
    for layout in ("nhd", "hnd"):
        for tp in ("1:1", "2:4", "4:2", "1:8"):
            result, said = demo("--model", config, "--tp", tp, "--layout", layout, *SMALL)
            all_right(result)
            check(result["shape"]["layout"] == layout, result["shape"])
            check(f"{result['shape']['tp_prefill']}:{result['shape']['tp_decode']}" == tp, result["shape"])

    # Shares that overlap in part: 6 heads and 4.
    config = model(folder, num_attention_heads=12, num_key_value_heads=12)
    result, said = demo("--model", config, "--tp", "2:3", "--page-size", 32, *SMALL)
    all_right(result)

    config = model(folder, num_key_value_heads=4)
    end = End("--demo", "--model", config, "--tp", "2:8")
    end.end(status=2)
    check("4 KV heads" in end.said and "8 ranks of decode" in end.said, end.said)
