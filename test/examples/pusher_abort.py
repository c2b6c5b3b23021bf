#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests aborted in mid-transfer: their pages go to the next at once, and every page is right."""
import tempfile

from pusher_run import all_right, check, demo, model

# A pool that a few requests fill: what an aborted one had is written again right away.
args = ("--abort", 30, "--pool", "96M", "--cache", "96M", "--requests", 14)
result, said = demo(*args)
all_right(result, aborted=1)
again, said = demo(*args)
check(again["requests"]["aborted"] == result["requests"]["aborted"], "another share than before")

with tempfile.TemporaryDirectory() as folder:
    shape = ("--model", model(folder), "--tp", "2:4", "--pool", "60M", "--cache", "60M")
    result, said = demo("--abort", 30, "--requests", 14, *shape)
    all_right(result, aborted=1)

result, said = demo("--abort", 100, "--requests", 8, "--pool", "128M", "--cache", "128M")
# The last write of each is submitted together with its CANCEL: no byte of it was on its way.
check(result["requests"]["cancelled_writes"] >= 8, result["requests"])
check(result["requests"]["aborted"] == 8 and result["requests"]["aborted_quiet"] == 8, result["requests"])
