#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Caches in memory of GPUs: at both ends, where the transport reaches the peer's, and at either."""
from pusher_run import TRANSPORT, all_right, check, demo

SMALL = ("--pool", "32M", "--cache", "32M", "--scale", "0.1", "--requests", 2)


def moves(prefill, decode, *args, device=None):
    result, _ = demo("--device", device or f"{prefill},{decode}", *SMALL, *args)
    all_right(result)
    check(result["memory"] == {"prefill": prefill, "decode": decode}, result["memory"])
    check("copied by a GPU" in result["path"] and result["gb_per_s"] > 0, result)
    check(result["exposed_ms"]["max"] > 0, result)
    return result["path"]


check("bounced here" in moves("gpu:0", "host"), "staged")
moves("host", "gpu:0", "--pull")
if TRANSPORT == "shm":
    check("bounced" not in moves("gpu:0", "gpu:0"), "CUDA IPC")
    moves("gpu:0", "gpu:0", "--pull", device="gpu:0")
    moves("pinned", "gpu:0")
    result, _ = demo("--device", "gpu", *SMALL, "--no-verify")
    check(result["requests"]["right"] == 2, result["requests"])
    check(result["memory"]["decode"] in ("gpu:0", "gpu:1"), result["memory"])
