#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pushers for which decode has no place are refused by name, and decode keeps nothing of them."""
import json
import signal
import subprocess
import sys

from pusher_run import LIMIT, TRANSPORT, Decode, End, check

decode = Decode("--pool", "256M", "--json")
peers = subprocess.run([sys.argv[3], TRANSPORT, decode.metadata], timeout=LIMIT, text=True,
                       capture_output=True)
check(peers.returncode == 0, peers.stdout, peers.stderr, decode.said)
decode.wait_for(r"pusher \d+ \(\S+\) is refused: no place beside \d+")
End("--push", decode.at, "--requests", 1, "--json").end()
decode.send(signal.SIGINT)
result = json.loads(decode.end(130))
check(result["right"] == 1, result, decode.said)
