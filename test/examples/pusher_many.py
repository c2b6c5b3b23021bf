#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several pushers at one decode, at once and one after the other, pushing and offering."""
import json

from pusher_run import Decode, End, all_right, check

POOL = ("--pool", "256M")
PUSH = ("--cache", "128M", "--requests", 8, "--json")

decode = Decode(*POOL, "--once", "--json")
first = End("--push", decode.at, *PUSH, "--prefill-rate", 50000)
decode.wait_for("pusher 1")
others = [End("--push", decode.at, *PUSH, *more) for more in ((), ("--abort", "20"), ("--pull",))]
for end, aborted in zip([first] + others, (0, 0, 1, 0)):
    all_right(json.loads(end.end()), aborted)
result = json.loads(decode.end())
check(result["pushers"] == 4 and result["vanished"] == 0 and result["wrong"] == 0, result)
check(result["right"] + result["aborted"] == 32, result)
