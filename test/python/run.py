#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
run.py [--in FOLDER] [NAME...]: runs test_NAME.py, or all of them, each in a process of its own
under a time limit.
The last line is "N passed, N failed, N skipped".
"""
import os
import pathlib
import subprocess
import sys
import unittest

IN = sys.argv[1:2] == ["--in"]
HERE = pathlib.Path(sys.argv[2]) if IN else pathlib.Path(__file__).parent
LIMIT = int(os.environ.get("LIBURCCL_LIMIT", "300"))   # seconds for one file, on a busy machine


class Result(unittest.TextTestResult):
    """Counts tests, and not subtests that pass."""
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def one(name):
    """In the process of one file."""
    sys.path.insert(0, str(HERE))
    suite = unittest.defaultTestLoader.loadTestsFromName(name)
    result = unittest.TextTestRunner(stream=sys.stdout, resultclass=Result, verbosity=1).run(suite)
    failed = len(result.failures) + len(result.errors)
    for test, why in result.skipped:
        print(f"skipped {test}: {why}")
    print(f"{result.passed} {failed} {len(result.skipped)}", flush=True)


def start(name):
    command = [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", __file__, "--in",
               str(HERE), "--one", name]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired as late:
        return f"{(late.stdout or b'').decode()}\nno end in {LIMIT} s", (0, 1, 0)
    lines = done.stdout.rstrip().splitlines()
    counts = tuple(map(int, lines[-1].split())) if not done.returncode and lines else (0, 1, 0)
    return done.stdout, counts


def main(names):
    names = names or sorted(p.stem.removeprefix("test_") for p in HERE.glob("test_*.py"))
    total = [0, 0, 0]
    for name in names:
        said, counts = start("test_" + name)
        print(f"{name}: {counts[0]} passed, {counts[1]} failed, {counts[2]} skipped", flush=True)
        if counts[1]:
            print(said)
        for line in said.splitlines():
            if line.startswith("skipped "):
                print("  " + line)
        total = [a + b for a, b in zip(total, counts)]
    print("{} passed, {} failed, {} skipped".format(*total))
    sys.exit(total[1] > 0 or total[0] == 0)


words = sys.argv[3:] if IN else sys.argv[1:]
if words[:1] == ["--one"]:
    one(words[1])
else:
    main(words)
