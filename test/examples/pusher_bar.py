#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The progress bar never is wider than its terminal, and is not drawn where it could not be."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

from pusher_run import check, command

COLUMNS = 33


def shown(term):
    """What a run writes to a terminal of that name."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    line = command("--demo", "--requests", 8, "--prefill-rate", 100000, "--pool", "128M", "--cache", "128M")
    run = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=theirs,
                           env={**os.environ, "TERM": term})
    os.close(theirs)
    said = b""
    try:
        while chunk := os.read(ours, 4096):
            said += chunk
    except OSError:     # the other end has closed
        pass
    check(run.wait() == 0, said)
    return said.decode()


said = shown("xterm")
bars = re.findall(r"\r\x1b\[K(\[[#.][^\r]*)", said)
check(bars and all(len(bar) < COLUMNS for bar in bars), repr(said[:400]))
said = shown("dumb")
check("replays" in said and "\x1b" not in said, repr(said[:400]))
