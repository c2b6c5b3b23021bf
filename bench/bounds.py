#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
bounds.py FILES GOAL... -- PROGRAM...: a program's figures, by its --json, keep to bounds
(rate>=100, pss.peer<=64) that hold on any machine and beside any load. What they are on one that
nobody else uses ./dev bench measures. FILES: descriptors that it needs.
"""
import json
import re
import resource
import subprocess
import sys

split = sys.argv.index("--")
files, goals, program = int(sys.argv[1]), sys.argv[2:split], sys.argv[split + 1:]
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
missed = []
for goal in goals:
    name, sign, bound = re.fullmatch(r"([\w.]+)([<>]=)([\d.]+)", goal).groups()
    over = metrics[name] - float(bound)
    if over < 0 if sign == ">=" else over > 0:
        missed.append(f"{name} is {metrics[name]:g}, not {sign} {bound}")
if missed:
    sys.exit("failed: " + "; ".join(missed))
