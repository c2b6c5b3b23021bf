#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What goes wrong at a server of many clients: it ends by itself, says why, and leaves nobody."""
import os
import pathlib
import signal
import subprocess
import sys

from example_run import LIMIT, check

SERVER = sys.argv[1]


def start(*command):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                            stderr=subprocess.PIPE, start_new_session=True)


def end(server):
    """Its clients end before it: when it has ended, its process group is empty."""
    try:
        said = server.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        check(False, "it did not end")
    try:
        os.killpg(server.pid, 0)
        check(False, "it left a client behind", said)
    except ProcessLookupError:
        pass
    return said


# Too few descriptors for the sockets, or for a context.
for descriptors, words in (5, "socketpair: "), (8, "cannot open: "):
    server = start("sh", "-c", f'ulimit -n {descriptors}; exec "$0"', SERVER)
    out, why = end(server)
    check(server.returncode == 1 and out == "", server.returncode, out, why)
    check(words in why and "Too many open files" in why, descriptors, why)


def kill_client(server):
    """The first, as soon as it is there, most likely before it connects. 0: that was too late."""
    children = pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children")
    pids = []
    try:
        while server.poll() is None and not pids:
            pids = children.read_text().split()
        os.kill(int(pids[0]), signal.SIGKILL)
        return 1
    except (IndexError, ProcessLookupError, FileNotFoundError):
        return 0


# A client that dies, wherever it is: the others get their answers, and the server says that one
# did not.
for _ in range(10):
    server = start(SERVER)
    killed = kill_client(server)
    out, why = end(server)
    check("answered in one loop" in out, out, why)
    if killed and server.returncode == 1:
        break
else:
    print("no client was killed before its end")
