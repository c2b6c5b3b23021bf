#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
python.py [BUILD]: what the Python package adds to 8-byte writes over shm, run by the Python of
`./dev python`: build/python/venv/bin/python bench/python.py. Each figure is the best of ROUNDS, as
other programs only add to it; of an awaited write, of the same by a future of the loop, as where an
await has spun in vain, of a future that the reader of an eventfd ends, which this thread wrote, and
of urccl_perf's write that waits by epoll, in turns, it is the best median. For compare.py the lines
are "name value unit".
"""
import array
import asyncio
import json
import os
import statistics
import subprocess
import sys
import threading
import time

import liburccl
from liburccl import aio

ROUNDS = 20
ENTRIES = 256
ROWS = 4096
AWAITS = 1000
clock = time.perf_counter_ns


class Pair:
    """Two contexts of this process: one writes into ordinary memory of the other."""

    def __init__(self):
        self.near, self.far = liburccl.Context("shm"), liburccl.Context("shm")
        self.ring, accepting = self.near.ring(ENTRIES), self.far.ring()
        accepting.accept()
        peer = self.ring.connect(self.far.metadata).result()
        self.source, self.memory = bytearray(8), bytearray(8 * ROWS)
        self.kept = [self.near.register(self.source, ""), self.far.register(self.memory)]
        self.remote = self.near.import_(peer, self.kept[1].advertise())
        self.ring.write(self.remote, self.source).result()


def prepare(pair):
    """A write, without handing it over."""
    ring, remote, source, write = pair.ring, pair.remote, pair.source, pair.ring.write
    with ring.batch():
        begin = clock()
        ops = [write(remote, source) for _ in range(ENTRIES)]
        taken = clock() - begin
    for op in ops:
        op.result()
    return taken / ENTRIES


def rows(pair):
    """A row of submit_many(), without handing the entry over."""
    address, _ = liburccl.address_of(pair.source)
    table = array.array("Q", [n for i in range(ROWS) for n in (address, 8, 8 * i)])
    with pair.ring.batch():
        begin = clock()
        op = pair.ring.submit_many(pair.remote, table)
        taken = clock() - begin
    op.result()
    return taken / ROWS


def poll(pair):
    """A poll that finds nothing."""
    poll = pair.ring.poll
    begin = clock()
    for _ in range(1000):
        poll()
    return (clock() - begin) / 1000


def beside(pair):
    """The median and the longest of writes that are polled for beside a busy thread of Python."""
    stop, times = threading.Event(), []

    def busy():
        while not stop.is_set():
            sum(range(100))
    thread = threading.Thread(target=busy)
    thread.start()
    for _ in range(AWAITS):
        begin = clock()
        op = pair.ring.write(pair.remote, pair.source)
        while not op.done():
            pass
        times.append(clock() - begin)
    stop.set()
    thread.join()
    return statistics.median(times), max(times)


class Looped:
    """Awaits an entry by the loop alone."""

    def __init__(self, op):
        self.op = op

    def __await__(self):
        while not self.op._known:
            yield from aio.something(self.op)
        return self.op.result()


def awaited(pair, how=lambda op: op):
    async def main():
        times, ring, remote, source = [], pair.ring, pair.remote, pair.source
        for _ in range(AWAITS):
            begin = clock()
            await how(ring.write(remote, source))
            times.append(clock() - begin)
        return statistics.median(times)
    return asyncio.run(main())


def floor():
    """What any completion costs that comes to a coroutine by a descriptor."""
    async def main():
        times, loop, fd = [], asyncio.get_running_loop(), os.eventfd(0, os.EFD_NONBLOCK)

        def ready():
            os.eventfd_read(fd)
            future.set_result(None)
        loop.add_reader(fd, ready)
        for _ in range(AWAITS):
            begin = clock()
            future = loop.create_future()
            os.eventfd_write(fd, 1)
            await future
            times.append(clock() - begin)
        loop.remove_reader(fd)
        os.close(fd)
        return statistics.median(times)
    return asyncio.run(main())


def in_c(build):
    done = subprocess.run([f"{build}/bench/urccl_perf", "--self", "--transport", "shm", "--size",
                           "8", "--wait", "epoll", "--count", str(AWAITS), "--json"], check=True,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    metrics = json.loads(done.stdout)["metrics"]
    return next(m["value"] for m in metrics if m["name"] == "latency.p50")


def main(build="build/release"):
    pair = Pair()
    for name, measure in ("prepare.write", prepare), ("prepare.row", rows), ("poll.empty", poll):
        print(f"{name} {min(measure(pair) for _ in range(ROUNDS)):.1f} ns", flush=True)
    median, longest = (min(column) for column in zip(*(beside(pair) for _ in range(ROUNDS))))
    print(f"beside.median {median / 1e3:.1f} us")
    print(f"beside.longest {longest / 1e3:.1f} us", flush=True)
    turns = [(awaited(pair), awaited(pair, Looped), floor(), in_c(build)) for _ in range(ROUNDS)]
    best = [min(column) for column in zip(*turns)]
    for name, value in zip(("python", "loop", "floor", "c"), best):
        print(f"awaited.{name} {value / 1e3:.1f} us")
    print(f"awaited.ratio {best[0] / best[3]:.2f} times")
    pair.near.close()
    pair.far.close()


main(*sys.argv[1:])
