#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
run.py [--only PATTERN] [--jobs N] [--cuda FILE] [--list]: the tests of tests.json, beside this file

It needs nothing but Python: test/gpu/pack.py made the folder, of a build. Each test has a line,
and the end of its output if it failed. --cuda names another libcuda.so.1, such as the stand-in.
"""
import argparse
import concurrent.futures
import fnmatch
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77
STAND_IN = {"CUDA_DOUBLE": "stale"}  # a peer that says goodbye closes its handles after that


def environment(test, cuda):
    env = dict(os.environ, LD_LIBRARY_PATH=os.path.join(HERE, "lib"), **test["env"])
    if cuda:
        env.update(STAND_IN)
        env[test["cuda"]] = os.path.abspath(cuda)
    return env


def run(test, cuda):
    """(exit status or "timed out", what it said, seconds)"""
    start = time.monotonic()
    # A file, and a session of its own: what it leaves behind holds no pipe, and is ended.
    with tempfile.TemporaryFile() as said:
        p = subprocess.Popen(test["args"], cwd=HERE, env=environment(test, cuda), stdout=said,
                             stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                             start_new_session=True)
        try:
            status = p.wait(test["timeout"])
        except subprocess.TimeoutExpired:
            status = "timed out"
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        p.wait()
        said.seek(0)
        return status, said.read().decode(errors="replace"), time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="*", help="tests whose name matches")
    parser.add_argument("--jobs", type=int, default=max(1, min(4, (os.cpu_count() or 1) // 4)))
    parser.add_argument("--cuda", help="another libcuda.so.1")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    with open(os.path.join(HERE, "tests.json")) as f:
        tests = [t for t in json.load(f) if fnmatch.fnmatch(t["name"], options.only)]
    if options.list:
        print("\n".join(t["name"] for t in tests))
        return
    passed = failed = skipped = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for test, (status, said, took) in zip(
                tests, pool.map(lambda t: run(t, options.cuda), tests)):
            lines = said.strip().splitlines()
            if status == 0:
                passed += 1
                print(f"passed   {took:6.2f} s  {test['name']}")
            elif status == SKIPPED:
                skipped += 1
                print(f"skipped  {took:6.2f} s  {test['name']}: {lines[-1] if lines else ''}")
            else:
                failed += 1
                print(f"FAILED   {took:6.2f} s  {test['name']}: {status}")
                print("".join(f"    {line}\n" for line in lines[-20:]), end="")
            sys.stdout.flush()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed or not passed + skipped else 0)


main()
