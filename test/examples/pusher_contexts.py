#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several contexts at each end move one cache: every page right, one report; more than those of decode share them."""
import json

from pusher_run import Decode, End, all_right, check, demo

SMALL = ("--pool", "128M", "--cache", "192M", "--requests", 10)

for more in (), ("--pull",):
    result, said = demo(*SMALL, "--contexts", 2, *more)
    all_right(result)
    requests = result["requests"]
    check(result["contexts"] == 2 and requests["total"] == 10 and requests["unfinished"] == 0, result)
    check(said.count("prefill replays") == 1, said)
    # Decode's CPU is told, as no other prefill is beside.
    check(result["cpu_s_per_gb"]["decode"], result["cpu_s_per_gb"])

decode = Decode("--pool", "128M", "--once", "--json", "--contexts", 2)
result = json.loads(End("--push", decode.at, *SMALL[2:], "--contexts", 3, "--json").end())
all_right(result)
check(result["contexts"] == 3, result)
served = json.loads(decode.end())
check(served["pushers"] == 3 and served["vanished"] == 0 and served["right"] == result["requests"]["right"], served)

# One interrupt reaches all of them.
decode = Decode("--pool", "128M", "--contexts", 2)
prefill = End("--push", decode.at, *SMALL[2:], "--contexts", 2, "--prefill-rate", 100, "--json")
decode.wait_for("pusher 2")
prefill.wait_for("prefill replays")
prefill.send(2)
result = json.loads(prefill.end(130))
check(result["interrupted"] and result["requests"]["wrong"] == 0, result)
decode.send(2)
decode.end(130)

end = End("--demo", "--contexts", 5)
end.end(2)
check("--parallel 5" in end.said, end.said)
