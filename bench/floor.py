#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
floor.py FILES FIGURE LEAST PROGRAM...: a program's figure, by its --json, is no less than that on
any machine. What it is on one that nobody else uses ./dev bench measures. FILES: descriptors that
it needs.
"""
import json
import resource
import subprocess
import sys

files, figure, least, program = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4:]
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
if most != resource.RLIM_INFINITY and most < files:
    print(f"skipped: a process may have {most} descriptors here, and needs {files}: see ulimit -Hn")
    sys.exit(77)
done = subprocess.run([*program, "--json"], stdin=subprocess.DEVNULL, text=True,
                      stdout=subprocess.PIPE)
if done.returncode:
    sys.exit(f"{program[0]}: status {done.returncode}\n{done.stdout}")
metrics = {m["name"]: m["value"] for m in json.loads(done.stdout)["metrics"]}
print(", ".join(f"{name} {value:g}" for name, value in metrics.items()))
if metrics[figure] < least:
    sys.exit(f"failed: {figure} is {metrics[figure]:g}, and never below {least:g}")
