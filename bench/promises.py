#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
promises.py [BUILD]: what of an entry's instructions serve only that it ends in time, in order and
with its buffers quiet, and that old handles are known: the self cost of the functions below, also
where they are inlined into others. By callgrind, of urccl_work in a build of release with line
numbers (-Ddebug=true); where none is named it is made, in build/promises. Both ends of a write are
on one thread, so it counts what both do. Beside it the floor: bench/raw/keep.c, which does nothing
but keep the promises of entries. For compare.py the last lines are "name value unit".
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

COUNT = 3200

# What each serves. Its callees count where they are inlined or named themselves.
PROMISES = {
    "deadlines": ("An entry's outcome is known at its deadline, whatever dies.", """
        wheel_set wheel_place wheel_unset wheel_expired wheel_turn wheel_next level_next next_tick
        timeout_of op_arm op_arm_fresh look_at_clock expire op_expired"""),
    "order": ("FENCE, LINK and DRAIN, and what a FENCE is told of.", """
        order_enter enter_peer enter_ordered enter_chain enter_drain enter_fence scope_bucket
        scope_get scope_new scope_of_peer scope_unhash scope_settle scope_left leave_scopes
        scope_failed waiters_count order_leave_peer order_leave order_outcome outcome_known
        leave_drains behind failure_keep op_unblock"""),
    "quiet": ("Nothing touches a buffer after its CQE, and the CQE says what was proved of the "
              "other end's.", """
        outcome_flags wants_flush peer_answers flush_defer flush_may_wait acked_forget is_deferred
        op_report chunk_unproved withdraw"""),
    "peers": ("A peer that dies is noticed while something is awaited of it.", """
        peer_awaited peer_awaited_expired refuses"""),
    "handles": ("A handle of something that is gone is known as such.", """
        resolve remote_get peer_get region_get handles_get"""),
}
GROUP = {name: group for group, (_, names) in PROMISES.items() for name in names.split()}


def quietly(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)


def made():
    build = "build/promises"
    if not os.path.exists(f"{build}/build.ninja"):
        quietly("meson", "setup", build, "--buildtype=release", "-Ddebug=true", "-Dtests=false")
    quietly("ninja", "-C", build, "bench/urccl_work", "bench/raw_keep")
    return build


def floor(build):
    done = quietly("valgrind", "--tool=callgrind", "--toggle-collect=counted*",
                   "--callgrind-out-file=/dev/null", f"{build}/bench/raw_keep", "--duration", "0.2")
    kept = float(re.search(r"keep.entries (\S+)", done.stdout)[1])
    return int(re.search(r"Collected : (\d+)", done.stderr)[1]) / kept


def self_costs(text):
    """Instructions by object and address: {object: {address: n}}. What a call cost in all is on the
    line after it, and is not its own."""
    costs = collections.defaultdict(collections.Counter)
    where, skip = "", False
    for line in text.splitlines():
        if line.startswith("ob="):
            where = line[3:]
        elif line.startswith("calls="):
            skip = True
        elif line.startswith("0x"):
            if not skip:
                address, _, n = line.split()
                costs[where][address] += int(n)
            skip = False
    return costs


def chains(library, addresses):
    """The functions that each address is of, the innermost first: {address: [name, ...]}."""
    said = subprocess.run(["addr2line", "-a", "-f", "-i", "-e", library], check=True,
                          capture_output=True, text=True, input="\n".join(addresses)).stdout
    found, here = {}, []
    for i, line in enumerate(said.splitlines()):
        if re.fullmatch(r"0x[0-9a-f]{16}", line):
            here = found.setdefault(int(line, 16), [])
            names = i + 1
        elif (i - names) % 2 == 0:
            here.append(line)
    return found


def group_of(chain):
    """That of the innermost function that has one. What is told on the way is statistics."""
    name = next((n for n in chain if n in GROUP or n.startswith("stats_")), None)
    return GROUP.get(name)


def measure(build, what, depth):
    """All instructions of an entry, those of each group and each function in one."""
    with tempfile.NamedTemporaryFile() as out:
        quietly("valgrind", "--tool=callgrind", "--dump-instr=yes", "--compress-strings=no",
                "--compress-pos=no", "--toggle-collect=counted*", "--toggle-collect=stats_update*",
                "--toggle-collect=end_reported*", f"--callgrind-out-file={out.name}",
                f"{build}/bench/urccl_work", what, str(COUNT), depth)
        with open(out.name) as f:
            costs = self_costs(f.read())
    library = next(ob for ob in costs if "/liburccl.so" in ob)
    of = chains(library, list(costs[library]))
    groups, functions = collections.Counter(), collections.Counter()
    for address, n in costs[library].items():
        chain = of[int(address, 16)]
        group = group_of(chain)
        if group:
            groups[group] += n / COUNT
        functions[(group or "", chain[0])] += n / COUNT
    return sum(sum(c.values()) for c in costs.values()) / COUNT, groups, functions


def main(build, every):
    for tool, package in ("valgrind", "valgrind"), ("addr2line", "binutils"):
        if not shutil.which(tool):
            sys.exit(f"promises.py: {tool} is not installed (Debian's {package})")
    most = 0
    print(f"{'entry':8} {'depth':5} {'all':>8} " + " ".join(f"{g:>9}" for g in PROMISES) +
          "  more than without")
    for what in ("nop", "write", "mapped"):
        for depth in ("1", "32"):
            whole, groups, functions = measure(build, what, depth)
            own = sum(groups.values())
            more = own / (whole - own) * 100
            most = max(most, more)
            print(f"{what:8} {depth:5} {whole:8.1f} " +
                  " ".join(f"{groups[g]:9.1f}" for g in PROMISES) + f"  {more:.2f} %", flush=True)
            for (group, name), n in functions.most_common() if every else []:
                print(f"    {n:8.1f} {group:10} {name}")
    for group, (why, _) in PROMISES.items():
        print(f"{group}: {why}")
    print(f"floor.instructions {floor(build):.1f} instructions")
    print(f"most.instructions {most:.2f} %")


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if a != "--functions"]
    main(arguments[0] if arguments else made(), "--functions" in sys.argv)
