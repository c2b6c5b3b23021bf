#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
versions.py PERF OURS NEXT AFTER FIRST SECOND THIRD FOURTH RAILS: the same program with libraries of
different versions of the protocols, each way: with OURS, which speaks versions 1 to 5 and the
transports' own protocols as in OWN, with NEXT (2 to 6; 1 to 6), AFTER (6 and 7; 4 to 6), FIRST (1;
1), SECOND (1 and 2; 1 and 2), THIRD (1 to 3; 1 to 3), FOURTH (1 to 4; 1 to 5) and RAILS (1 to 5; 6
and 7). Those that have a version in common move checked bytes, from the second on with checksums
too; those that have none say which versions there are.

versions.py PERF OLDER: OLDER is the program with its own library of an earlier release.
"""
import os
import re
import socket
import subprocess
import sys

OWN = {"shm": "1 to 5", "tcp": "1 to 3"}
TRANSPORTS = list(OWN)
WORK = [["--op", "write", "--size", "64k", "--check"], ["--op", "readv", "--size", "64k", "--check"],
        ["--op", "notify", "--size", "64"]]
SUMMED = [work + ["--checksum"] for work in WORK[:2]]
MOMENT = ["--duration", "0.05", "--warmup", "0.01", "--cpu", "-1", "--engine-cpu", "-1",
          "--server-cpu", "-1", "--server-engine-cpu", "-1"]
TIMEOUT = 30


def preloaded(library):
    return dict(os.environ, LD_PRELOAD=library) if library else dict(os.environ)


class Server:
    def __init__(self, perf, library):
        for _ in range(5):
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                self.at = "127.0.0.1:%d" % s.getsockname()[1]
            self.process = subprocess.Popen([perf, "--serve", "--listen", self.at],
                                            env=preloaded(library), stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, text=True)
            line = self.process.stdout.readline()
            if line.startswith("listening"):
                return
            # Somebody was quicker to take the port.
            why = self.process.communicate()[1]
            if "EADDRINUSE" not in why:
                break
        sys.exit(f"failed: no server with {library}: {why}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()


def dial(perf, library, server, transport, work):
    return subprocess.run([perf, server.at, "--transport", transport, *MOMENT, *work],
                          env=preloaded(library), stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TIMEOUT)


def name(library):
    return os.path.basename(library) if library else "its own library"


def speak(perf, a, b, server_perf=None, works=WORK):
    """A library that dials the other, with each transport."""
    with Server(server_perf or perf, b) as server:
        for transport in TRANSPORTS:
            for work in works:
                done = dial(perf, a, server, transport, work)
                if done.returncode:
                    sys.exit(f"failed: {name(a)} with {name(b)}, {transport}, {work}: "
                             f"{done.returncode}\n{done.stdout}")


def refuse(perf, a, b, words, work=None, error="EPROTONOSUPPORT"):
    with Server(perf, b) as server:
        for transport in TRANSPORTS:
            done = dial(perf, a, server, transport, WORK[0] + (work or []))
            text = re.sub(r"\s+", " ", done.stdout)
            expected = words.format(OWN[transport])
            if not done.returncode or error not in text or expected not in text:
                sys.exit(f"failed: {name(a)} with {name(b)}, {transport}: expected '{expected}', "
                         f"{done.returncode}\n{done.stdout}")


def main(perf, ours, *others):
    if not others:
        speak(perf, None, None, ours)
        speak(ours, None, None, perf)
        return
    newer, after, first, second, third, fourth, rails = others
    for a, b in ((ours, newer), (newer, after), (ours, first), (ours, second), (ours, third),
                 (ours, fourth)):
        speak(perf, a, b)
        speak(perf, b, a)
    for other in newer, second, third:
        speak(perf, ours, other, works=SUMMED)
        speak(perf, other, ours, works=SUMMED)
    refuse(perf, ours, after, "protocol versions do not meet: ours are 1 to 5, the peer's 6 to 7")
    refuse(perf, after, ours, "protocol versions do not meet: ours are 6 to 7, the peer's 1 to 5")
    refuse(perf, first, newer, "protocol versions do not meet: ours are 1 to 1, the peer's 2 to 6")
    refuse(perf, ours, rails, "transport's protocol do not meet: ours are {}, the peer's 6 to 7")
    refuse(perf, rails, ours, "transport's protocol do not meet: ours are 6 to 7, the peer's {}")
    refuse(perf, ours, first, "the peer's version compares no checksums", ["--checksum"],
           "EOPNOTSUPP")


main(*sys.argv[1:])
