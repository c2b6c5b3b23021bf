#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What decode tells a pusher of its requests is of them alone, whatever others do meanwhile: one of
them has a wrong page, and the pool has room for no more than two blocks."""
import json
import signal
import sys
import tempfile

from pusher_run import Decode, End, check, trace

WRONG = sys.argv[3]
HOUR_MS = 3600000
PAGES = 24 * 512 // 16              # of a block, each of one layer
TOO_LONG = [1, 2, 3]


def push(*requests, **more):
    return End("--push", decode.at, "--trace", trace(folder, *requests), "--speed", 1, "--parallel", 1,
               "--cache", "13M", "--json", **more)


def figures(end, status, pages, wrong, evicted):
    result = json.loads(end.end(status))
    verify = result["verify"]
    check(verify["pages"] == pages and verify["wrong"] == wrong, verify)
    check((verify["seconds"] > 0) == (pages > 0), verify)
    check(result["blocks"]["evicted"] == evicted, result["blocks"])
    # Of decode's CPU time nobody knows whose it was.
    cpu = result["cpu_s_per_gb"]
    check(cpu["decode"] is None and cpu["total"] is None and (cpu["prefill"] > 0) == (pages > 0), cpu)


with tempfile.TemporaryDirectory() as folder:
    decode = Decode("--pool", "13M", "--once")
    idle = push((0, TOO_LONG), (HOUR_MS, [4]))
    idle.wait_for("line 1: refused")
    figures(push((0, [9]), (0, [10])), 0, 2 * PAGES, 0, 0)
    figures(push((0, [7]), (0, [7]), (0, [7]), (0, [8]), binary=WRONG), 1, 4 * PAGES, 1, 2)
    idle.send(signal.SIGINT)
    figures(idle, 130, 0, 0, 0)
    decode.end(1)
