#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
nixl.py [--memory MIB] [--rounds N] [--segment DRAM|VRAM] [LABEL...]: transfers between processes of
this host, in its memory or in that of GPU 0 (by PyTorch), shuffled blocks: the time of transfer(),
the time until the transfer is done and the CPU time of both processes (medians), and the latency of
a notification. The same for each backend of the NIXL wheel that this Python has, in turn, and for
Mooncake's engine over tcp where it is installed. "File" is memory of sealed files, which the other
process maps. `./dev nixl` makes a virtual environment in build/nixl for it.
"""
import argparse
import fcntl
import mmap
import multiprocessing
import os
import pathlib
import random
import statistics
import sys
import time

# This file has the name of the package that it measures.
HERE = pathlib.Path(__file__).resolve().parent
sys.path = [p for p in sys.path if pathlib.Path(p or ".").resolve() != HERE]

# The last is KVBench's plan for DeepSeek-R1: 298 blocks of 1,179,648 bytes.
SHAPES = [(1, 4), (16, 4), (1024, 4), (16384, 4), (112000, 4), (1, 1152), (16, 1152), (298, 1152)]
# Where GPUs are, NIXL refuses UCX without a transport that reaches them.
TCP = "tcp,cuda_copy" if os.path.exists("/dev/nvidiactl") else "tcp"
BACKENDS = {        # label: backend, environment
    "liburccl shm": ("URCCL", {"URCCL_TRANSPORT": "shm"}),
    "liburccl shm, file": ("URCCL", {"URCCL_TRANSPORT": "shm", "BENCH_FILE": "1"}),
    "liburccl tcp": ("URCCL", {"URCCL_TRANSPORT": "tcp"}),
    "UCX": ("UCX", {"UCX_MODULES": "^ib"}),
    "UCX without cma": ("UCX", {"UCX_MODULES": "^ib,cma"}),
    "UCX tcp": ("UCX", {"UCX_MODULES": "^ib", "UCX_TLS": TCP}),
    "LIBFABRIC": ("LIBFABRIC", {}),
    "Mooncake tcp": (None, {"MC_LOG_LEVEL": "ERROR"}),
}
WAYS = "WRITE", "READ"


def make_memory(segment, size):
    """What keeps it, its address, and the text that it is registered with."""
    if segment == "VRAM":
        import torch
        memory = torch.zeros(size, dtype=torch.uint8, device="cuda:0")
        torch.cuda.synchronize()
        return memory, memory.data_ptr(), ""
    import numpy
    if "BENCH_FILE" in os.environ:
        fd = os.memfd_create("bench", os.MFD_ALLOW_SEALING)
        os.posix_fallocate(fd, 0, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS,
                    fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        memory = numpy.frombuffer(mmap.mmap(fd, size), dtype=numpy.uint8)
        memory[:] = 0
        return memory, memory.ctypes.data, f"fd={fd}"
    memory = numpy.zeros(size, dtype=numpy.uint8)
    return memory, memory.ctypes.data, ""


class Nixl:
    def __init__(self, backend, name, segment, address, size, text):
        from nixl._api import nixl_agent, nixl_agent_config
        self.name, self.segment = name, segment
        self.api = nixl_agent(name, nixl_agent_config(backends=[backend]))
        self.api.register_memory([(address, size, 0, text)], segment)

    def metadata(self):
        return self.api.get_agent_metadata()

    def load(self, metadata):
        self.peer = self.api.add_remote_agent(metadata).decode()
        self.api.make_connection(self.peer)

    def prepare(self, way, here, there, length):
        local = self.api.get_xfer_descs([(a, length, 0) for a in here], self.segment)
        remote = self.api.get_xfer_descs([(a, length, 0) for a in there], self.segment)
        return self.api.initialize_xfer(way, local, remote, self.peer)

    def post(self, handle):
        return self.api.transfer(handle)

    def wait(self, handle):
        while (state := self.api.check_xfer_state(handle)) == "PROC":
            pass
        if state != "DONE":
            raise RuntimeError(state)

    def release(self, handle):
        self.api.release_xfer_handle(handle)


class Mooncake:
    def __init__(self, _, name, segment, address, size, text):
        from mooncake.engine import TransferEngine
        self.engine = TransferEngine()
        if self.engine.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", ""):
            raise RuntimeError("initialize")
        self.engine.register_memory(address, size)

    def metadata(self):
        return f"127.0.0.1:{self.engine.get_rpc_port()}"

    def load(self, metadata):
        self.peer = metadata

    def prepare(self, way, here, there, length):
        call = getattr(self.engine, f"batch_transfer_async_{way.lower()}")
        return call, list(here), list(there), [length] * len(here), []

    def post(self, handle):
        call, here, there, lengths, batch = handle
        batch[:] = [call(self.peer, here, there, lengths)]

    def wait(self, handle):
        if self.engine.get_batch_transfer_status(handle[4]):
            raise RuntimeError("failed")

    def release(self, handle):
        pass


def engine(label, *arguments):
    backend = BACKENDS[label][0]
    return (Nixl if backend else Mooncake)(backend, *arguments)


def target(label, segment, size, pipe):
    _memory, address, text = make_memory(segment, size)
    mine = engine(label, "target", segment, address, size, text)
    pipe.send((mine.metadata(), address))
    if isinstance(mine, Nixl):
        mine.load(pipe.recv())
    while (word := pipe.recv()) != "end":
        if word == "cpu":
            pipe.send(time.process_time())
        else:       # answers so many notifications
            left = word
            while left:
                for texts in mine.api.get_new_notifs().values():
                    for text in texts:
                        mine.api.send_notif(mine.peer, text)
                        left -= 1


def latency(mine, pipe, rounds):
    pipe.send(rounds)
    took = []
    for i in range(rounds):
        began = time.perf_counter()
        mine.api.send_notif(mine.peer, b"%d" % i)
        while not mine.api.get_new_notifs():
            pass
        took.append((time.perf_counter() - began) / 2)
    return statistics.median(took)


def measure(mine, pipe, handle, rounds):
    posts, totals, cpus = [], [], []
    for i in range(rounds + 1):
        pipe.send("cpu")
        cpu = -pipe.recv() - time.process_time()
        began = time.perf_counter()
        mine.post(handle)
        posted = time.perf_counter()
        mine.wait(handle)
        ended = time.perf_counter()
        pipe.send("cpu")
        cpu += pipe.recv() + time.process_time()
        if i:       # the first opens what is opened lazily
            posts.append(posted - began)
            totals.append(ended - began)
            cpus.append(cpu)
    return [statistics.median(v) for v in (posts, totals, cpus)]


def initiator(label, segment, size, rounds, other, out):
    try:
        _memory, here, text = make_memory(segment, size)
        mine = engine(label, "initiator", segment, here, size, text)
        metadata, there = other.recv()
        if isinstance(mine, Nixl):
            other.send(mine.metadata())
        mine.load(metadata)
        for count, kib in SHAPES:
            length = kib * 1024
            if count * length > size:
                continue
            order = random.Random(1).sample(range(count), count)
            for way in WAYS:
                handle = mine.prepare(way, [here + i * length for i in range(count)],
                                      [there + i * length for i in order], length)
                n = rounds if count * length < 1 << 26 else max(3, rounds // 4)
                out.send((count, kib, way, measure(mine, other, handle, n)))
                mine.release(handle)
        if isinstance(mine, Nixl):
            out.send((latency(mine, other, 200),))
    except Exception as error:
        out.send((f"{type(error).__name__} {error}",))
    other.send("end")
    out.send(None)
    os._exit(0)     # UCX may crash at exit where libibverbs is installed


def run(label, segment, size, rounds):
    """{(count, kib, way): (post, total, cpu)}, and the notification's latency or an error."""
    context = multiprocessing.get_context("spawn")
    os.environ.update(BACKENDS[label][1])
    a, b = context.Pipe()
    here, there = context.Pipe()
    ends = [context.Process(target=target, args=(label, segment, size, b)),
            context.Process(target=initiator, args=(label, segment, size, rounds, a, there))]
    for end in ends:
        end.start()
    there.close()
    rows, last = {}, "no answer"
    try:
        while here.poll(300) and (row := here.recv()):
            if len(row) == 1:
                last = row[0]
            else:
                rows[row[:3]] = row[3]
    except EOFError:
        last = "the process crashed"
    for end in ends:
        end.kill()
        end.join()
    for name in BACKENDS[label][1]:
        del os.environ[name]
    return rows, last


def number(value):
    """Three digits, and all those before the point."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def table(title, results, column, scale):
    print(f"\n{title}\n\n| descriptors | KiB | way | " + " | ".join(results) + " |")
    print("|---|---|---|" + "---|" * len(results))
    for count, kib in SHAPES:
        for way in WAYS:
            key = count, kib, way
            if not any(key in rows for rows, _ in results.values()):
                continue
            cells = [number(rows[key][column] * scale) if key in rows else "-"
                     for rows, _ in results.values()]
            print(f"| {count:,} | {kib:,} | {way} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", type=int, default=512, help="MiB of each process (512)")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--segment", choices=("DRAM", "VRAM"), default="DRAM")
    parser.add_argument("labels", nargs="*", metavar="LABEL", help=", ".join(BACKENDS))
    args = parser.parse_args()
    results = {label: run(label, args.segment, args.memory << 20, args.rounds)
               for label in args.labels or BACKENDS}
    table("Time of transfer(), us", results, 0, 1e6)
    table("Time until it is done, us", results, 1, 1e6)
    table("CPU time of both processes, ms", results, 2, 1e3)
    print("\nNotification, one way")
    for label, (_, last) in results.items():
        print(f"{label}: " + (last if isinstance(last, str) else f"{last * 1e6:.0f} us"))


if __name__ == "__main__":
    main()
