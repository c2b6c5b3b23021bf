#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
served.py URCCL_PERF GREEDY: a server that was asked for more than there is, and for what cannot be
done, serves the next client. It has 2 GiB, so that more is not to be had anywhere.
"""
import os
import resource
import subprocess
import sys

ANY = ("--cpu", "-1", "--server-cpu", "-1", "--engine-cpu", "-1", "--server-engine-cpu", "-1")
WORDS = "listening on "


def little():
    resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))


def ends(*command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, timeout=60, check=False)
    if done.returncode:
        sys.exit(f"failed: {' '.join(command)}: {done.returncode}\n{done.stdout}")


def main(perf, greedy):
    pid = os.getpid()
    where = f"127.{1 + (pid >> 16 & 127)}.{pid >> 8 & 255}.{pid & 255}:18577"
    server = subprocess.Popen([perf, "--serve", "--listen", where, "--transport", "tcp", *ANY],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              preexec_fn=little)
    try:
        said = server.stdout.readline()
        if not said.startswith(WORDS):
            sys.exit(f"failed: the server says {said!r}")
        ends(greedy, where)
        ends(perf, where, "--transport", "tcp", "--count", "10", "--warmup", "0", "--check", *ANY)
        ends(perf, where, "--transport", "tcp", "--duration", "0.05", "--warmup", "0",
             "--bidirectional", "--depth", "3000", *ANY)
        if server.poll() is not None:
            sys.exit(f"failed: the server has ended with {server.returncode}")
    finally:
        server.kill()
        server.wait()


main(*sys.argv[1:])
