#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
refuses.py URCCL_PERF: it ends with 1, and a sentence, where it could not do what it was asked for;
and does it where it has one CPU, whichever.
"""
import json
import os
import subprocess
import sys

PLAIN = ("--cpu", "-1", "--server-cpu", "-1", "--engine-cpu", "-1", "--server-engine-cpu", "-1",
         "--warmup", "0")
NOP = (*PLAIN, "--nop", "--count", "10")
SELF = (*PLAIN, "--self", "--transport", "shm", "--count", "10")
FULL = "No space left on device"


def runs(program, *args, full=False):
    with open("/dev/full" if full else os.devnull, "w") as out:
        return subprocess.run([program, *args], stdin=subprocess.DEVNULL, stdout=out, text=True,
                              stderr=subprocess.PIPE, timeout=30, check=False)


def refuses(program, sentence, *args, full=False):
    done = runs(program, *args, full=full)
    if done.returncode != 1 or sentence not in done.stderr:
        sys.exit(f"failed: {' '.join(args)}: {done.returncode}, {done.stderr!r}, and not 1, "
                 f"{sentence!r}")


def full_disk(program):
    """A result that is lost is none."""
    for job in (NOP, SELF, (*PLAIN, "--handshakes", "5"),
                (*PLAIN, "--register", "10", "--size", "4k")):
        refuses(program, FULL, *job, full=True)
        refuses(program, FULL, *job, "--json", full=True)
    refuses(program, FULL, "--help", full=True)


def options(program):
    refuses(program, "unrecognized option", "--nonsense", *NOP)
    refuses(program, "requires an argument", *NOP, "--size")
    for seconds in "nan", "-1", "1e9", "inf", "":
        refuses(program, "--duration wants seconds", *NOP, "--duration", seconds)


def cpus(program):
    """The first two where it may run, and on one CPU none; what is asked for must be there."""
    may = sorted(os.sched_getaffinity(0))
    for own in may[-1:], may[-2:]:
        os.sched_setaffinity(0, own)
        a, b = own if len(own) == 2 else (-1, -1)
        for job, wanted in ("--nop", f"{a},-1 engine {b},-1"), ("--self", f"{a},{b} engine {a},{b}"):
            done = subprocess.run([program, job, "--count", "10", "--warmup", "0", "--transport", "shm",
                                   "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=30, check=True)
            found = json.loads(done.stdout)["settings"]["cpus"]
            if found != wanted:
                sys.exit(f"failed: {job} on CPUs {own}: {found}, and not {wanted}")
    os.sched_setaffinity(0, may)
    refuses(program, "cannot run on cpu 1023", "--nop", "--count", "10", "--cpu", "1023")


def nothing_compared(program):
    for job in (NOP, (*SELF, "--op", "notify"), (*SELF, "--op", "msg_ring"),
                (*SELF, "--ping-pong"), (*SELF, "--random", "10"), (*SELF, "--size", "0"),
                (*PLAIN, "--handshakes", "5"), (*PLAIN, "--register", "10")):
        refuses(program, "--check compares bytes", *job, "--check")


def main(program):
    full_disk(program)
    nothing_compared(program)
    cpus(program)
    options(program)


main(sys.argv[1])
