#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A request that is aborted without proof that its writes have ended: its pages are nobody's until
the pusher is gone."""
import signal
import subprocess
import sys

from pusher_run import LIMIT, TRANSPORT, Decode, check

decode = Decode("--pool", "32M")
pushers = subprocess.run([sys.argv[3], TRANSPORT, decode.metadata], timeout=LIMIT)
check(pushers.returncode == 0, "exit status", pushers.returncode, decode.said)
decode.wait_for("pusher 1: request 2 was aborted, but its writes are not known to have ended")
check("request 1 was aborted" not in decode.said, decode.said)
decode.send(signal.SIGINT)
decode.end(130)
