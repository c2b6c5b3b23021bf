#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the calls of liburccl.ep's Buffer and, on the same inputs, those of another package with
DeepEP's interface. Each rank is a process of its own:

    LOCAL_WORLD_SIZE=2 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=8361 \\
        RANK=r LOCAL_RANK=r python3 ep_buffer.py [--peer MODULE] [options]

MODULE is imported and has Buffer and Config. Prints the mean over --iterations of the slowest
rank's time, in us, with caches flushed before each call.
"""
import argparse
import importlib
import os

import torch
import torch.distributed as dist


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--peer", default="")
    parser.add_argument("--num-tokens", type=int, default=4096)
    parser.add_argument("--hidden", type=int, default=7168)
    parser.add_argument("--num-topk", type=int, default=8)
    parser.add_argument("--num-experts", type=int, default=256)
    parser.add_argument("--num-sms", type=int, default=24)
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--low-latency", action="store_true")
    return parser.parse_args()


def cast_fp8(x):
    blocks = x.float().view(x.shape[0], -1, 128)
    most = blocks.abs().amax(dim=2).clamp(1e-4)
    rows = (blocks * (448.0 / most.unsqueeze(2))).to(torch.float8_e4m3fn).view(x.shape)
    return rows, (most / 448.0).contiguous()


def mean_us(call, iterations, group):
    flush = torch.empty(64 << 20, dtype=torch.int32, device="cuda")
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(iterations)]
    for _ in range(10):
        call()
    for first, last in events:
        flush.zero_()
        first.record()
        call()
        last.record()
    torch.cuda.synchronize()
    us = torch.tensor([first.elapsed_time(last) * 1000 for first, last in events], device="cuda",
                      dtype=torch.float64)
    dist.all_reduce(us, dist.ReduceOp.MAX, group)
    return us.mean().item()


class Bench:
    def __init__(self, name, module, args, group):
        self.name, self.args, self.group = name, args, group
        self.config = module.Config(args.num_sms, 20, 256)
        options = {"is_intranode": True} if name != "liburccl.ep" else {}
        self.buffer = module.Buffer(group, int(2e9), 0, low_latency_mode=False,
                                    num_qps_per_rank=1, explicitly_destroy=True, **options)

    def time(self, what, call):
        us = mean_us(call, self.args.iterations, self.group)
        if self.group.rank() == 0:
            print(f"{self.name:12} {what:28} {us:9.1f} us", flush=True)

    def run(self, x, idx, weights):
        """Returns what must be the same for both packages."""
        buffer, config = self.buffer, self.config
        self.time("layout", lambda: buffer.get_dispatch_layout(idx, self.args.num_experts))
        per_rank, _, per_expert, in_rank, _ = buffer.get_dispatch_layout(idx, self.args.num_experts)
        fresh = {"num_tokens_per_rank": per_rank, "is_token_in_rank": in_rank, "topk_idx": idx,
                 "num_tokens_per_expert": per_expert, "topk_weights": weights, "config": config}
        results = []
        for kind, rows in ("fp8", cast_fp8(x)), ("bf16", x):
            got, got_idx, got_weights, counts, handle, _ = buffer.dispatch(rows, **fresh)
            results += [*(got if isinstance(got, tuple) else (got,)), got_idx, got_weights,
                        torch.tensor(counts)]
            self.time(f"dispatch {kind}, fresh", lambda: buffer.dispatch(rows, **fresh))
            self.time(f"dispatch {kind}, cached",
                      lambda: buffer.dispatch(rows, handle=handle, config=config))
        combined = buffer.combine(got, handle, config=config)[0]
        results.append(combined)
        self.time("combine bf16", lambda: buffer.combine(got, handle, config=config))
        if hasattr(buffer, "get_combine_buffer"):
            own = buffer.get_combine_buffer(handle, x.shape[1])
            own.copy_(got)
            self.time("combine bf16, in the window",
                      lambda: buffer.combine(own, handle, config=config))
        return results


def zero_copy(module, args, group, x, idx, weights):
    bench = Bench("liburccl.ep", module, args, group)
    bench.buffer.zero_copy = True
    bench.name = "zero copy"
    bench.run(x, idx, weights)
    bench.buffer.destroy()


def low_latency(module, args, group):
    tokens, experts = 128, 288 // args.ranks * args.ranks
    size = module.Buffer.get_low_latency_rdma_size_hint(tokens, args.hidden, args.ranks, experts)
    bench = Bench.__new__(Bench)
    bench.name, bench.args, bench.group = "liburccl.ep", args, group
    bench.buffer = buffer = module.Buffer(group, 0, size, low_latency_mode=True,
                                          explicitly_destroy=True)
    x = torch.randn((tokens, args.hidden), device="cuda").to(torch.bfloat16)
    scores = torch.randn((tokens, experts), device="cuda")
    idx = torch.topk(scores, args.num_topk, dim=-1)[1]
    weights = torch.rand((tokens, args.num_topk), device="cuda", dtype=torch.float32)
    _, _, handle, _, _ = buffer.low_latency_dispatch(x, idx, tokens, experts, use_fp8=True)
    y = torch.randn((experts // args.ranks, args.ranks * tokens, args.hidden),
                    device="cuda").to(torch.bfloat16)
    bench.time("low-latency dispatch fp8",
               lambda: buffer.low_latency_dispatch(x, idx, tokens, experts, use_fp8=True))
    bench.time("low-latency combine",
               lambda: buffer.low_latency_combine(y, idx, weights, handle))
    buffer.destroy()


def main():
    args = parse()
    rank, args.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    group = dist.new_group(list(range(args.ranks)))
    torch.manual_seed(rank)
    x = torch.randn((args.num_tokens, args.hidden), device="cuda").to(torch.bfloat16)
    scores = torch.randn((args.num_tokens, args.num_experts), device="cuda").abs() + 1
    idx = torch.topk(scores, args.num_topk, dim=-1, sorted=False)[1]
    weights = torch.rand((args.num_tokens, args.num_topk), device="cuda", dtype=torch.float32)
    own = importlib.import_module("liburccl.ep")
    bench = Bench("liburccl.ep", own, args, group)
    results = bench.run(x, idx, weights)
    bench.buffer.destroy()
    zero_copy(own, args, group, x, idx, weights)
    if args.low_latency:
        low_latency(own, args, group)
    if args.peer:
        peer = Bench(args.peer, importlib.import_module(args.peer), args, group)
        for mine, theirs in zip(results, peer.run(x, idx, weights), strict=True):
            same = mine.shape == theirs.shape and torch.equal(mine.view(torch.uint8),
                                                              theirs.view(torch.uint8))
            print(f"rank {rank}: {'same' if same else 'DIFFERENT'}: {tuple(mine.shape)} "
                  f"{mine.dtype}", flush=True)
        peer.buffer.destroy()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
