#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
group.py [--gpus N] [--rounds N] [--piece MIB]: all GPUs of a host at once, NCCL in the same run

One process and one context a GPU. Three cases: each rank writes 64 MiB to each other rank; each
rank writes 10,000 blocks of 16 KiB, in random order, to each other rank; rank 0's weights go to all
others, from rank 0 directly ("star") or handed on from rank to rank in pieces ("chain"). NCCL's
all_to_all_single moves the same bytes in one piece, and its broadcast the weights. A round's time
is that of the slowest rank. Prints medians, and the median of the rounds' ratios with the least and
the greatest. Every byte is compared once.
"""
import argparse
import array
import os
import random
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

import liburccl

LIMIT = 60                              # seconds for any operation
TIMES = 8                               # calls in a round of the first two cases
SIZE = 64 << 20
BLOCK, BLOCKS = 16 << 10, 10_000
WEIGHTS = 1 << 30


class Rank:
    def __init__(self, rank, gpus, piece):
        self.rank, self.gpus, self.piece = rank, gpus, piece
        self.others = [(rank + i) % gpus for i in range(1, gpus)]
        self.ctx = liburccl.Context("shm")
        self.ring = self.ctx.ring()
        box = max(SIZE, BLOCK * BLOCKS)
        self.inbox = torch.zeros(gpus, box, dtype=torch.uint8, device=rank)
        self.outbox = torch.zeros(gpus, box, dtype=torch.uint8, device=rank)
        self.weights = torch.zeros(WEIGHTS, dtype=torch.uint8, device=rank)
        torch.cuda.synchronize()
        tensors = self.inbox, self.outbox, self.weights
        self.regions = [self.ctx.register(tensor, "rw") for tensor in tensors]
        self.cpu = dist.new_group(backend="gloo")
        self.accepting, self.events = self.ring.accept(), self.ring.events()
        told = [None] * gpus
        adverts = [self.regions[i].advertise(rights="w") for i in (0, 2)]
        dist.all_gather_object(told, (self.ctx.metadata, adverts), group=self.cpu)
        self.inboxes, self.theirs = {}, {}
        for other in self.others:
            metadata, (inbox, weights) = told[other]
            peer = self.ring.connect(metadata).result(LIMIT)
            self.inboxes[other] = self.ctx.import_(peer, inbox)
            self.theirs[other] = self.ctx.import_(peer, weights)
            self.ring.warm(peer).result(LIMIT)
        tables = [array.array("I", random.Random(seed).sample(range(BLOCKS), BLOCKS))
                  for seed in (1, 2)]
        blocks = (BLOCKS, BLOCK, BLOCK, *tables)
        self.paged = {other: liburccl.Paged(BLOCK, [blocks], box * other, box * rank)
                      for other in self.others}
        self.tables = [torch.tensor(list(table), device=rank) for table in tables]

    def fill(self, sender, receiver):
        generator = torch.Generator(device=self.rank).manual_seed(1000 * sender + receiver)
        return torch.randint(0, 256, (self.outbox.shape[1],), dtype=torch.uint8,
                             device=self.rank, generator=generator)

    def slowest(self, call):
        """The slowest rank's seconds for a call that all begin together."""
        torch.cuda.synchronize()
        dist.barrier(group=self.cpu)
        begin = time.perf_counter()
        call()
        spent = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
        dist.all_reduce(spent, dist.ReduceOp.MAX, group=self.cpu)
        return spent.item()

    def all_pairs(self, times=TIMES):
        with self.ring.batch():
            ops = [self.ring.write(self.inboxes[other], self.outbox[other][:SIZE],
                                   self.rank * self.inbox.shape[1])
                   for _ in range(times) for other in self.others]
        for op in ops:
            op.result(LIMIT)

    def all_blocks(self, times=TIMES):
        with self.ring.batch():
            ops = [self.ring.write_paged(self.inboxes[other], self.regions[1], self.paged[other])
                   for _ in range(times) for other in self.others]
        for op in ops:
            op.result(LIMIT)

    def nccl_all_to_all(self, size):
        ours, theirs = (box[:, :size].contiguous() for box in (self.inbox, self.outbox))

        def call():
            for _ in range(TIMES):
                dist.all_to_all_single(ours, theirs)
            torch.cuda.synchronize()
        return call

    def nccl_broadcast(self):
        dist.broadcast(self.weights, 0)
        torch.cuda.synchronize()

    def star(self):
        if self.rank:
            return
        with self.ring.batch():
            ops = [self.ring.write(self.theirs[other], self.weights) for other in self.others]
        for op in ops:
            op.result(LIMIT)

    def chain(self):
        """Each rank hands a piece on as soon as it is there: the notification says which."""
        last, ops = self.rank + 1 == self.gpus, []
        for at in range(0, WEIGHTS, self.piece):
            if self.rank:
                at = self.events.next(LIMIT).tag
            if not last:
                piece = self.weights[at:at + self.piece]
                ops.append(self.ring.write(self.theirs[self.rank + 1], piece, at, notify=at))
        for op in ops:
            op.result(LIMIT)

    def check(self):
        """0 differing bytes after each case, or the run ends."""
        for other in range(self.gpus):
            self.outbox[other] = self.fill(self.rank, other)
        wrong = 0
        self.slowest(self.all_pairs)
        for other in self.others:
            wrong += (self.inbox[other][:SIZE] != self.fill(other, self.rank)[:SIZE]).sum().item()
        self.inbox.zero_()
        self.slowest(self.all_blocks)
        local, remote = self.tables
        for other in self.others:
            blocks = [box[:BLOCK * BLOCKS].view(BLOCKS, BLOCK)
                      for box in (self.inbox[other], self.fill(other, self.rank))]
            wrong += (blocks[0][remote] != blocks[1][local]).sum().item()
        for case in self.star, self.chain:
            pattern = torch.arange(WEIGHTS, device=self.rank).remainder(251).to(torch.uint8)
            self.weights.zero_()
            if self.rank == 0:
                self.weights.copy_(pattern)
            self.slowest(case)
            wrong += (self.weights != pattern).sum().item()
        if wrong:
            raise SystemExit(f"rank {self.rank}: {wrong} bytes differ")


def run(rank, args):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(args.port))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=args.gpus)
    me = Rank(rank, args.gpus, args.piece << 20)
    me.check()
    pairs = args.gpus * (args.gpus - 1)
    blocks = BLOCK * BLOCKS
    receivers = args.gpus - 1
    cases = [("64 MiB to each", pairs * SIZE * TIMES, me.all_pairs, me.nccl_all_to_all(SIZE)),
             ("10,000 x 16 KiB to each", pairs * blocks * TIMES, me.all_blocks,
              me.nccl_all_to_all(blocks)),
             ("1 GiB from one, star", receivers * WEIGHTS, me.star, me.nccl_broadcast),
             ("1 GiB from one, chain", receivers * WEIGHTS, me.chain, me.nccl_broadcast)]
    if rank == 0:
        print(f"{args.gpus} GPUs, {args.rounds} rounds, all receivers together\n"
              f"{'':24} {'liburccl':>10} {'NCCL':>10}      ratio")
    for name, total, ours, nccl in cases:
        me.slowest(ours)
        me.slowest(nccl)
        rates = [(total / me.slowest(ours) / 1e9, total / me.slowest(nccl) / 1e9)
                 for _ in range(args.rounds)]
        ratios = sorted(a / b for a, b in rates)
        mine, other = (statistics.median(column) for column in zip(*rates))
        if rank == 0:
            print(f"{name:24} {mine:10.1f} {other:10.1f} GB/s {statistics.median(ratios):.3f} "
                  f"({ratios[0]:.3f} to {ratios[-1]:.3f})", flush=True)
    dist.barrier(group=me.cpu)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().split("\n", 1)[0])
    parser.add_argument("--gpus", type=int, default=torch.cuda.device_count())
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--piece", type=int, default=16, help="of the chain, MiB; a power of two")
    parser.add_argument("--port", type=int, default=29871, help="of torch's store, on loopback")
    args = parser.parse_args()
    mp.spawn(run, (args,), nprocs=args.gpus)


if __name__ == "__main__":
    main()
