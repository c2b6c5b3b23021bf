#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Requests aborted in mid-transfer: their pages go to the next at once, and every page is right."""
import tempfile

from pusher_run import all_right, check, demo, model

# A pool that a few requests fill: what an aborted one had is written again right away.
args = ("--abort", 30, "--pool", "160M", "--cache", "160M", "--requests", 30)
result, said = demo(*args)
all_right(result, aborted=1)
again, said = demo(*args)
check(again["requests"]["aborted"] == result["requests"]["aborted"], "another share than before")

with tempfile.TemporaryDirectory() as folder:
    shape = ("--model", model(folder), "--tp", "2:4", "--pool", "60M", "--cache", "60M")
    result, said = demo("--abort", 30, "--requests", 30, *shape)
    all_right(result, aborted=1)

result, said = demo("--abort", 100, "--requests", 15, "--pool", "128M", "--cache", "128M")
# The last write of each is submitted together with its CANCEL: no byte of it was on its way.
check(result["requests"]["cancelled_writes"] >= 15, result["requests"])
check(result["requests"]["aborted"] == 15 and result["requests"]["aborted_quiet"] == 15, result["requests"])
