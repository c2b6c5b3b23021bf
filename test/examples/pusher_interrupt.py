#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at a terminal reaches all processes of the demo at once: one says that it was interrupted,
none that another broke, and all are gone."""
import fcntl
import json
import os
import pty
import subprocess
import termios
import time

from pusher_run import LIMIT, check, command

ROUNDS = 3      # which process is first differs


def gone(group):
    """Whether no process of the group is left, after a while."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def read(terminal):
    try:
        return os.read(terminal, 4096).decode()
    except OSError:     # the other end has closed
        return ""


def interrupted(*args):
    """What a run says that Ctrl-C ends in the middle, and its stdout."""
    ours, theirs = pty.openpty()

    def foreground():
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    line = command("--demo", "--pool", "256M", "--prefill-rate", 3000, *args)
    run = subprocess.Popen(line, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True,
                           preexec_fn=foreground, env={**os.environ, "TERM": "dumb"})
    os.close(theirs)
    said, pressed = "", False
    while chunk := read(ours):
        said += chunk
        if "prefill replays" in said and not pressed:
            os.write(ours, termios.tcgetattr(ours)[6][termios.VINTR])
            pressed = True
    out = run.stdout.read()
    check(run.wait(LIMIT) == 130, run.returncode, said, out)
    check(gone(run.pid), "a process of it is left", said)
    os.close(ours)
    return said.replace("^C", ""), out


for _ in range(ROUNDS):
    said, out = interrupted("--json")
    result = json.loads(out)
    check(result["interrupted"] and result["requests"]["unfinished"] > 0, result["requests"])
    lines = said.splitlines()
    check([line for line in lines if "interrupted: cancelling what is under way" in line], said)
    for words in ["lost", "closed", "vanished", "ended by", "does not end", "cannot"]:
        check(words not in said, f"\"{words}\" in:\n{said}")
said, out = interrupted()
check("(interrupted)" in out and "interrupted: cancelling" in said, said, out)
