#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
smoke.py WANTED... -- PROGRAM...: with --json a measuring program says valid JSON, every figure in
it is a finite number, and those that are WANTED are above 0; or, where WANTED is such as rings=2, a
setting is that. How large they are ./dev bench measures.
"""
import json
import math
import os
import subprocess
import sys

DENIED = ("io_uring is not to be had here", "process_vm_readv: Operation not permitted")


def no_number(word):
    raise ValueError(f"{word} is no number of JSON")


split = sys.argv.index("--")
wanted, program = sys.argv[1:split], sys.argv[split + 1:]
if os.path.basename(program[0]).startswith("raw_") and len(os.sched_getaffinity(0)) < 2:
    print("skipped: two that spin at one another need two processors")
    sys.exit(77)
done = subprocess.run([*program, "--json"], stdin=subprocess.DEVNULL, text=True,
                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
sys.stderr.write(done.stderr)
if done.returncode:
    if any(words in done.stderr for words in DENIED):
        print("skipped: denied here")
        sys.exit(77)
    sys.exit(f"{program[0]}: status {done.returncode}\n{done.stdout}")
said = json.loads(done.stdout, parse_constant=no_number)
figures = {m["name"]: m["value"] for m in said["metrics"]}
bad = [f"no {key} in the output" for key in ("program", "settings") if key not in said]
bad += [f"{name} is {value!r}" for name, value in figures.items()
        if isinstance(value, bool) or not isinstance(value, (int, float))
        or not math.isfinite(value)]
bad += [f"{m['name']} has no unit" for m in said["metrics"] if not m["unit"]]
for want in wanted:
    name, is_setting, value = want.partition("=")
    found = (said["settings"] if is_setting else figures).get(name)
    if found != value if is_setting else not found or found <= 0:
        bad.append(f"{name} is {found!r}" + (f", not {value!r}" if is_setting else ""))
print(", ".join(f"{name} {value}" for name, value in figures.items()))
if bad:
    sys.exit("failed: " + "; ".join(bad))
