#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An end that dies or is interrupted: the other says so, decode goes on with the next pusher."""
import json
import signal

from pusher_run import Decode, End, all_right, check, demo

# Slow enough to be in the middle for as long as the test needs.
SLOW = ("--prefill-rate", 3000, "--cache", "256M", "--json")
QUICK = ("--requests", 8, "--cache", "256M", "--json")

decode = Decode("--pool", "256M")
dying = End("--push", decode.at, *SLOW)
dying.wait_for("prefill replays")
other = End("--push", decode.at, *QUICK)
dying.send(signal.SIGKILL)
decode.wait_for("pusher 1 .* vanished")
dying.end(-signal.SIGKILL)
all_right(json.loads(other.end()))

interrupted = End("--push", decode.at, *SLOW)
interrupted.wait_for("prefill replays")
interrupted.send(signal.SIGINT)
result = json.loads(interrupted.end(130))
check(result["interrupted"] and "interrupted" in interrupted.said, interrupted.said)
check(result["requests"]["unfinished"] > 0, result["requests"])
decode.wait_for("pusher 3 .* has left")

last = End("--push", decode.at, *QUICK)
all_right(json.loads(last.end()))

orphan = End("--push", decode.at, *SLOW)
orphan.wait_for("prefill replays")
decode.send(signal.SIGKILL)
result = json.loads(orphan.end(1))
check(result["cpu_s_per_gb"]["decode"] is None and result["cpu_s_per_gb"]["total"] is None, result)
check("decode is lost" in orphan.said or "decode has closed" in orphan.said, orphan.said)
decode.end(-signal.SIGKILL)

decode = Decode("--pool", "256M")
orphan = End("--push", decode.at, *SLOW)
orphan.wait_for("prefill replays")
decode.send(signal.SIGINT)
decode.end(130)
check("interrupted" in decode.said, decode.said)
orphan.end(1)
check("decode has closed the connection" in orphan.said, orphan.said)

both = End("--demo", *SLOW)
both.wait_for("prefill replays")
both.send(signal.SIGTERM)
both.end(130)
