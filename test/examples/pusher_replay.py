#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A trace of one's own is replayed in its order, at the pace asked for, as many at a time as asked
for."""
import json
import pathlib
import tempfile

from pusher_run import all_right, check, demo

HOUR_MS, SPEED = 3600000, 6000
LONG = (4, 5, 6)    # more blocks than any pool here has room for
# The quarters of the hour after which they are due, and their blocks.
REQUESTS = [(0, (1,)), (0, (1,)), (1, LONG), (2, (2,)), (2, (2,)), (3, LONG), (4, (3,)), (4, (3,))]


def replay(trace, pool):
    result, said = demo("--trace", trace, "--speed", SPEED, "--parallel", 1, "--prefill-rate", 10000,
                        "--pool", pool, "--cache", "13M")
    all_right(result)
    check(f"prefill replays {len(REQUESTS)} requests of {trace}" in said, said)
    check(result["seconds"] >= HOUR_MS / SPEED / 1000, result["seconds"])
    check(result["requests"]["refused_lines"] == [3, 6], result["requests"])
    check(result["blocks"]["sent"] == 3 and result["blocks"]["reused"] == 3, pool, result["blocks"])


with tempfile.TemporaryDirectory() as folder:
    trace = pathlib.Path(folder) / "trace.jsonl"
    trace.write_text("".join(json.dumps({"timestamp": due * HOUR_MS // 4, "input_length": 512 * len(blocks),
                                         "output_length": 1, "hash_ids": blocks}) + "\n"
                             for due, blocks in REQUESTS))
    # Room for one block: the second of two finds the first's if no other request came between.
    replay(trace, "7M")
    # Room for two: if the first was over when the second asked.
    replay(trace, "13M")
