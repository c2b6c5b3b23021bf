#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A pusher that was dropped and writes on: nobody gets its pages before it cannot any more."""
import signal
import subprocess
import sys

from pusher_run import LIMIT, TRANSPORT, Decode, check

decode = Decode("--pool", "32M")
late = subprocess.run([sys.argv[3], TRANSPORT, decode.metadata], timeout=LIMIT)
check(late.returncode == 0, "exit status", late.returncode, decode.said)
decode.wait_for("pusher 1 .* is dropped: it said something that is not of this protocol")
decode.send(signal.SIGINT)
decode.end(130)
