#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A pusher that is stopped while it writes and counts as lost: when it goes on, nothing of it
lands in its pages, which are another's by then."""
import os
import signal
import subprocess
import sys

from pusher_run import LIMIT, TRANSPORT, Decode, check

ROUNDS = 4          # it is stopped at another moment each time


def by_hand(role):
    return subprocess.Popen([sys.argv[3], TRANSPORT, decode.metadata, role], text=True,
                            stdin=subprocess.PIPE, stderr=subprocess.PIPE)


def says(process, word):
    line = process.stderr.readline()
    check(line == word + "\n", line, decode.said)


os.environ["URCCL_DEAD_AFTER_MS"] = "2000"
for _ in range(ROUNDS):
    decode = Decode("--pool", "32M")
    frozen = by_hand("writes")
    says(frozen, "writes")
    frozen.send_signal(signal.SIGSTOP)
    decode.wait_for("pusher 1 .* has vanished")
    heir = by_hand("heir")
    says(heir, "filled")
    frozen.send_signal(signal.SIGCONT)
    check(frozen.wait(LIMIT) == 0, frozen.stderr.read())
    out, said = heir.communicate("\n", LIMIT)
    check(heir.returncode == 0, said)
    decode.send(signal.SIGINT)
    decode.end(130)
