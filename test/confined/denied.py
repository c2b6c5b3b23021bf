#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
denied.py DENY BUILD SUITE... [all]: runs the tests of these suites once more under DENY, which
takes io_uring away as many containers do: the behaviours of which a test asks for io_uring, or all.
Those tests are to be told that it is denied, and not to get something else; the others pass.
"""
import pathlib
import subprocess
import sys

from suite import skip, tests, unseen

deny, build, suites = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]
if subprocess.run([deny, "true"]).returncode:
    skip("no seccomp filter may be set here")
counts = {"passed": 0, "refused": 0, "skipped": 0, "failed": 0}
done = []
found = tests(build, suites)
asking = {program for _, _, program, arguments in found if "--driver=io_uring" in arguments}
for name, seconds, program, arguments in found:
    if program not in asking and "all" not in suites:
        continue
    try:
        ran = subprocess.run([deny, program, *arguments], stdout=subprocess.PIPE, text=True,
                             stderr=subprocess.STDOUT, timeout=seconds)
        status, said = ran.returncode, ran.stdout
    except subprocess.TimeoutExpired as e:
        status, said = "timeout", str(e.stdout)
    how = {0: "passed", 77: "skipped"}.get(status, "failed")
    if "--driver=io_uring" in arguments:
        how = "refused" if status == 77 and "tcp_driver io_uring: denied here" in said else "failed"
    else:
        done.append((arguments, status))
    counts[how] += 1
    if how in ("skipped", "failed"):
        print(f"{name}: {how}: status {status}\n{said.rstrip()}")
print("denied:", ", ".join(f"{n} {how}" for how, n in counts.items()))
hardly = unseen(done)
if hardly:
    print("more was skipped than passed over:", *hardly)
sys.exit(counts["failed"] > 0 or counts["passed"] == 0 or counts["refused"] == 0 or bool(hardly))
