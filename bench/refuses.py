#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""refuses.py URCCL_PERF: it ends with 1, and a sentence, where it could not do what it was asked for."""
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


def main(program):
    full_disk(program)
    options(program)


main(sys.argv[1])
