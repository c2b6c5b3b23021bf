#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo, smaller: every page right, as JSON and as a table, with what it promises to tell."""
from pusher_run import End, all_right, check, demo

SMALL = ("--pool", "128M", "--cache", "128M")

result, said = demo("--requests", 20, *SMALL)
all_right(result)
check(result["blocks"]["reused"] > 0 and result["blocks"]["sent"] > 0, result["blocks"])
check(result["blocks"]["evicted"] > 0, result["blocks"])
check(result["shape"]["bytes_per_token"] == 12288, result["shape"])
for times in (result["exposed_ms"], result["total_ms"]):
    check(0 <= times["p50"] <= times["p99"] <= times["max"], times)
check(result["exposed_ms"]["p50"] <= result["total_ms"]["p50"], result)
check(result["cpu_s_per_gb"]["total"] > 0 and result["verify"]["seconds"] > 0, result)
check(said.count("\n") == 1 and "prefill replays 20 requests" in said, said)

# Computing takes its time, and is no part of what is exposed: at least 1,000 tokens a request. A
# layer is written long before the next is computed, so that for most of the time nothing is in
# flight: where writes are slow, under a sanitizer, computing has to be slower.
for tokens_a_second in 5000, 2000, 500:
    result, said = demo("--requests", 3, "--prefill-rate", tokens_a_second, *SMALL)
    all_right(result)
    check(result["total_ms"]["p50"] >= 50, result["total_ms"])
    check(0 < result["exposed_ms"]["p50"] < result["total_ms"]["p50"], result)
    if result["bytes"] / result["gb_per_s"] / 1e9 < 0.7 * result["seconds"]:
        break
else:
    check(False, result)

result, said = demo("--requests", 8, "--no-verify", *SMALL)
check(result["requests"]["right"] == 8 and not result["verify"]["on"], result)

end = End("--demo", "--requests", 10, *SMALL)
table = end.end()
for word in ("requests", "blocks", "moved", "exposed time", "total time", "CPU", "path", "verified"):
    check(word in table, f"no {word} in:\n{table}")
check("prefill, " in table and "decode did not say" not in table, table)
