#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
gpu.py DIR [--rounds N] [--duration S] [--only PATTERN]: memory of GPUs, beside the driver alone

DIR has the programs urccl_perf and raw_gpu. Each figure is measured in rounds, the floor and the
library in turn. The table has the medians, and the median of the rounds' own ratios with its 95 %
interval. With two GPUs the two ends have one each. URCCL_CUDA_SO names another libcuda.so.1, such
as the stand-in of the tests, with which the figures mean nothing.
"""
import argparse
import fnmatch
import os
import statistics
import subprocess
import sys

from compare import interval, parse

FREE = ["--cpu", "-1", "--server-cpu", "-1", "--engine-cpu", "-1", "--server-engine-cpu", "-1"]
SIZES = {"64 KiB": ("64k", "4m", 64), "1 MiB": ("1m", "64m", 16), "64 MiB": ("64m", "256m", 4)}


def perf(options, *words):
    return [os.path.join(options.dir, "urccl_perf"), "--self", "--json", *FREE,
            "--duration", str(options.duration), *words]


def raw(options, *words):
    return [os.path.join(options.dir, "raw_gpu"), "--json", "--cpu", "-1,-1",
            "--duration", str(options.duration), *words]


def moves(op, transport, ours, theirs, size, span, depth):
    return ("--op", op, "--transport", transport, "--device", ours, "--server-device", theirs,
            "--size", size, "--span", span, "--depth", str(depth))


def figures(options):
    """(name, unit, floor's command and metric, the library's command and metric)"""
    bandwidth = "bandwidth"
    peer = "gpu:1" if options.gpus > 1 else "gpu:0"
    for text, (size, span, depth) in SIZES.items():
        sizes = ("--size", size, "--span", span, "--depth", str(depth))
        for op in "write", "read":
            yield (f"GPU to GPU, {op} {text}", "GB/s",
                   raw(options, "--mode", op, *sizes), f"gpu.peer.{op}.bandwidth",
                   perf(options, *moves(op, "shm", "gpu:0", peer, size, span, depth)), bandwidth)
    yield ("GPU to GPU, write 4 KiB, one at a time", "ns",
           raw(options, "--mode", "latency", "--size", "4k"), "gpu.latency.p50",
           perf(options, *moves("write", "shm", "gpu:0", peer, "4k", "4k", 1),
                "--spin-us", "-1", "--wait", "spin"), "latency.p50")
    size, span, depth = SIZES["64 MiB"]
    for op, way in ("write", "to"), ("read", "from"):
        yield (f"pinned memory {way} a peer's GPU, 64 MiB", "GB/s",
               raw(options, "--mode", "host", "--size", size, "--span", span, "--depth", str(depth)),
               f"gpu.host.{way}.bandwidth",
               perf(options, *moves(op, "shm", "pinned", "gpu:0", size, span, depth)), bandwidth)
    for op in "write", "read":
        host = perf(options, *moves(op, "tcp", "host", "host", size, span, depth))
        for text, there in ("host", "host"), ("GPU", peer):
            yield (f"GPU over tcp to {text}, {op} 64 MiB; floor: host memory", "GB/s",
                   host, bandwidth,
                   perf(options, *moves(op, "tcp", "gpu:0", there, size, span, depth)), bandwidth)
    for op in "write", "read":
        yield (f"host to GPU over shm by relay, {op} 64 MiB; floor: mapped", "GB/s",
               perf(options, *moves(op, "shm", "host", "host", size, span, depth),
                    "--server-alloc"), bandwidth,
               perf(options, *moves(op, "shm", "host", peer, size, span, depth)), bandwidth)


def measure(command, metric):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    found = parse(done.stdout) if done.returncode == 0 else {}
    if metric not in found:
        raise RuntimeError(f"{' '.join(command)}\n  {done.returncode}: {done.stderr.strip()}")
    return found[metric][0]


def rounds(options, floor, ours):
    pairs = [(measure(*floor), measure(*ours)) for _ in range(options.rounds)]
    ratios = [b / a for a, b in pairs]
    low, high = interval(ratios)
    return (statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs),
            statistics.median(ratios), low, high)


def count_gpus(options):
    """raw_gpu chooses the second GPU if there is one."""
    done = subprocess.run(raw(options, "--mode", "none"), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print("skipped:", done.stderr.strip())
        sys.exit(77)
    return 2 if '"gpus": "0,1"' in done.stdout else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--duration", type=float, default=0.5)
    parser.add_argument("--only", default="*", help="figures whose name matches")
    options = parser.parse_args()
    # Libraries of a folder that pack.py made.
    os.environ["LD_LIBRARY_PATH"] = os.path.join(os.path.dirname(os.path.abspath(options.dir)),
                                                 "lib")
    options.gpus = count_gpus(options)
    status = 0
    print(f"{options.gpus} GPUs used, {options.rounds} rounds of {options.duration} s\n")
    print("| figure | unit | floor | library | ratio | 95 % interval |\n|---|---|---|---|---|---|")
    for name, unit, *four in figures(options):
        if not fnmatch.fnmatch(name, options.only):
            continue
        try:
            a, b, ratio, low, high = rounds(options, four[:2], four[2:])
            print(f"| {name} | {unit} | {a:.4g} | {b:.4g} | {ratio:.3f} | {low:.3f} to {high:.3f} |",
                  flush=True)
        except (RuntimeError, subprocess.TimeoutExpired) as e:
            print(f"| {name} | {unit} | failed | | | |", flush=True)
            print(e, file=sys.stderr)
            status = 1
    sys.exit(status)


main()
