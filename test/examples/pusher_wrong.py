#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A pusher that makes up one byte wrong: both ends name the request, count one wrong page and end
with 1; nobody is given the block again, and its next request fills it anew."""
import json
import signal
import sys
import tempfile

from pusher_run import Decode, End, check, trace

WRONG = sys.argv[3]
BLOCKS = 7, 7, 7, 8                 # of one request each, one after the other
PAGES = 24 * 512 // 16              # of a block, each of one layer
NAMED = "line 1: decode found 1 wrong pages of a layer"


def found(result, said):
    check(NAMED in said, said)
    requests, verify, blocks = result["requests"], result["verify"], result["blocks"]
    check(requests["wrong"] == 1 and requests["right"] == 3 and requests["failed"] == 0, requests)
    check(verify["on"] and verify["wrong"] == 1 and verify["pages"] == len(BLOCKS) * PAGES, verify)
    check(blocks["sent"] == 2 and blocks["reused"] == 1, blocks)


with tempfile.TemporaryDirectory() as folder:
    quick = ("--trace", trace(folder, *((0, [block]) for block in BLOCKS)), "--parallel", 1, "--cache", "64M")
    for mode in [], ["--pull"]:
        decode = Decode("--pool", "64M", "--once", "--json")
        end = End("--push", decode.at, *quick, *mode, "--json", binary=WRONG)
        found(json.loads(end.end(1)), end.said)
        result = json.loads(decode.end(1))
        check(result["wrong"] == 1 and result["right"] == 3, result)
        check("pusher 1: request 1 has 1 wrong pages of a layer" in decode.said, decode.said)
        check("3 requests right, 1 wrong" in decode.said, decode.said)

    # Interrupted afterwards, neither end forgets it.
    slow = ("--trace", trace(folder, (0, [7]), (3600000, [8])), "--speed", 1, "--cache", "64M", "--json")
    decode = Decode("--pool", "64M")
    push, demo = End("--push", decode.at, *slow, binary=WRONG), End("--demo", *slow, binary=WRONG)
    for end in push, demo:
        end.wait_for(NAMED)
        end.send(signal.SIGINT)
        result = json.loads(end.end(1))
        check(result["interrupted"] and result["requests"]["unfinished"] == 1, result)
    decode.send(signal.SIGINT)
    decode.end(1)

    end = End("--demo", *quick, "--pool", "64M", binary=WRONG)
    table = end.end(1)
    check(NAMED in end.said, end.said)
    check("3 of 4 right, 1 wrong, 0 failed" in table, table)
    check(f"{len(BLOCKS) * PAGES} pages of a layer, 1 wrong" in table, table)
