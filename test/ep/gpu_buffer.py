#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""liburccl.ep's Buffer gives what the tensors of all ranks say. Each rank is a process; ranks share
a GPU where there are fewer GPUs:

    WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=8361 RANK=r python3 gpu_buffer.py

Exits with 77 and the reason where there is no GPU.
"""
import os
import sys

TOKENS, HIDDEN, TOPK, EXPERTS = 300, 1024, 6, 32


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


try:
    import torch
    import torch.distributed as dist
except ImportError:
    skip("there is no PyTorch")
if "RANK" not in os.environ or not torch.cuda.device_count():
    skip(f"{torch.cuda.device_count()} GPUs, or no RANK in the environment")

from liburccl.ep import Buffer, Config, Error, EventOverlap, initialize_uccl  # noqa: E402


class Ranks:
    """The inputs of all ranks, and what follows from them."""

    def __init__(self, group):
        self.group, self.rank, self.n = group, group.rank(), group.size()
        self.local = EXPERTS // self.n
        torch.manual_seed(self.rank)
        self.x = torch.randn((TOKENS, HIDDEN), device="cuda").to(torch.bfloat16)
        scores = torch.randn((TOKENS, EXPERTS), device="cuda")
        self.idx = torch.topk(scores, TOPK, dim=-1)[1]
        self.idx[torch.rand((TOKENS, TOPK), device="cuda") < 0.1] = -1
        self.weights = torch.rand((TOKENS, TOPK), device="cuda", dtype=torch.float32)
        self.all_x, self.all_idx, self.all_weights = map(
            self.gather, (self.x, self.idx, self.weights))
        self.all_in_rank = [self.in_rank_of(idx) for idx in self.all_idx]
        self.in_rank = self.all_in_rank[self.rank]

    def gather(self, tensor):
        tensors = [None] * self.n
        dist.all_gather_object(tensors, tensor.cpu(), self.group)
        return [t.cuda() for t in tensors]

    def in_rank_of(self, idx):
        return torch.stack([((idx >= 0) & (idx // self.local == r)).any(1)
                            for r in range(self.n)], 1)

    def received(self, tensors):
        """The rows that this rank receives."""
        return torch.cat([t[r[:, self.rank]] for t, r in zip(tensors, self.all_in_rank)])

    def received_choices(self):
        idx, weights = self.received(self.all_idx), self.received(self.all_weights)
        here = (idx >= 0) & (idx // self.local == self.rank)
        return torch.where(here, idx - self.rank * self.local, -1), torch.where(here, weights, 0)


def check(what, *pairs):
    for got, want in pairs:
        same = got.shape == want.shape and got.dtype == want.dtype and \
            torch.equal(got.contiguous().view(torch.uint8), want.contiguous().view(torch.uint8))
        assert same, f"{what}: {got.shape} {got.dtype}, {want.shape} {want.dtype}"


def check_normal(buffer, ranks, kind, async_finish, narrow):
    idx = ranks.idx.to(torch.int32) if narrow else ranks.idx
    per_rank, nothing, per_expert, in_rank, _ = buffer.get_dispatch_layout(idx, EXPERTS)
    assert nothing is None
    check("layout", (per_rank, ranks.in_rank.sum(0).to(torch.int32)), (in_rank, ranks.in_rank),
          (per_expert, torch.stack([(idx == e).sum() for e in range(EXPERTS)]).to(torch.int32)))
    x, all_x = ranks.x, ranks.all_x
    if kind == "fp8":
        x, all_x = x.to(torch.float8_e4m3fn), [t.to(torch.float8_e4m3fn) for t in all_x]
        scales = ranks.x[:, :HIDDEN // 128].float()
        all_scales = [t[:, :HIDDEN // 128].float() for t in ranks.all_x]
        x = (x, scales.T.contiguous().T)
    arguments = {"num_tokens_per_rank": per_rank, "is_token_in_rank": in_rank, "topk_idx": idx,
                 "num_tokens_per_expert": per_expert, "topk_weights": ranks.weights,
                 "config": Config(24, 8, 256), "async_finish": async_finish}
    options = {"previous_event": buffer.capture(), "allocate_on_comm_stream": True}
    got, got_idx, got_weights, counts, handle, event = buffer.dispatch(
        x, expert_alignment=16, **arguments, **(options if async_finish else {}))
    if async_finish:
        event.current_stream_wait()
    want_idx, want_weights = ranks.received_choices()
    rows = got[0] if kind == "fp8" else got
    check("dispatch", (rows.view(torch.uint8), ranks.received([t.view(torch.uint8) for t in all_x])),
          (got_idx, want_idx.to(idx.dtype)), (got_weights, want_weights),
          (handle[3], ranks.received([torch.arange(TOKENS, dtype=torch.int32, device="cuda")] *
                                     ranks.n)))
    if kind == "fp8":
        check("scales", (got[1], ranks.received(all_scales)))
    each = [(want_idx == l).sum().item() for l in range(ranks.local)]
    assert counts == [(n + 15) // 16 * 16 for n in each], counts
    prefix = torch.stack([r.sum(0) for r in ranks.all_in_rank]).cumsum(0).to(torch.int32)
    check("prefix", (handle[0], prefix))
    check_worst(buffer, x, arguments, rows, got_idx)
    again = buffer.dispatch(x, handle=handle, async_finish=async_finish)
    if async_finish:
        again[5].current_stream_wait()
    check("cached", ((again[0][0] if kind == "fp8" else again[0]).view(torch.uint8),
                     rows.view(torch.uint8)))
    if kind == "bf16":
        check_combine(buffer, ranks, rows, handle, got_weights, async_finish)


def check_worst(buffer, x, arguments, rows, idx):
    most = TOKENS * dist.get_world_size()
    got, got_idx, _, counts, _, event = buffer.dispatch(x, num_worst_tokens=most, **arguments)
    if arguments["async_finish"]:
        event.current_stream_wait()
    got = got[0] if isinstance(got, tuple) else got
    assert counts == [] and got.shape[0] == got_idx.shape[0] == most
    check("worst", (got[:rows.shape[0]].view(torch.uint8), rows.view(torch.uint8)),
          (got_idx[:rows.shape[0]], idx))
    assert (got_idx[rows.shape[0]:] == -1).all()


def check_combine(buffer, ranks, rows, handle, weights, async_finish):
    """Rank r returns its rows times r + 1."""
    bias = (ranks.x, -0.5 * ranks.x)
    got, got_weights, event = buffer.combine(rows * (ranks.rank + 1), handle, weights, bias,
                                             async_finish=async_finish)
    if async_finish:
        event.current_stream_wait()
    want = bias[0].float() + bias[1].float()
    want_weights = torch.zeros_like(ranks.weights)
    for r in range(ranks.n):
        here = ranks.in_rank[:, r:r + 1]
        want += torch.where(here, (ranks.x * (r + 1)).float(), 0)
        local = (ranks.idx >= 0) & (ranks.idx // ranks.local == r)
        want_weights += torch.where(local, ranks.weights, 0)
    check("combine", (got, want.to(torch.bfloat16)), (got_weights, want_weights))
    own = buffer.get_combine_buffer(handle, HIDDEN)
    own.copy_(rows)
    got = buffer.combine(own, handle)[0]
    want = ranks.x.float() * ranks.in_rank.sum(1, keepdim=True)
    check("combine in the window", (got, want.to(torch.bfloat16)))


def close(got, want, limit):
    got, want = got.double() + 1, want.double() + 1
    diff = 1 - 2 * (got * want).sum() / (got * got + want * want).sum()
    assert diff < limit, diff


def check_low_latency(buffer, ranks, fp8, rounded, packed, hook):
    stats = torch.zeros(ranks.local, dtype=torch.int32, device="cuda")
    got, count, handle, event, receive = buffer.low_latency_dispatch(
        ranks.x, ranks.idx, TOKENS, EXPERTS, stats, use_fp8=fp8, round_scale=rounded,
        use_ue8m0=packed, async_finish=not hook, return_recv_hook=hook)
    receive() if hook else event.current_stream_wait()
    rows = ranks.n * TOKENS
    if fp8:
        got, scales = got
        assert scales.shape == (ranks.local, rows, HIDDEN // (512 if packed else 128))
        if packed:
            scales = scales.contiguous().view(torch.uint8).int().view(ranks.local, rows, -1)
            scales = (scales << 23).view(torch.float32)
        got = (got.float().view(ranks.local, rows, -1, 128) * scales.unsqueeze(3)).flatten(2)
    assert got.shape == (ranks.local, rows, HIDDEN)
    check("stats", (stats, count))
    y = torch.zeros((ranks.local, rows, HIDDEN), dtype=torch.bfloat16, device="cuda")
    for l in range(ranks.local):
        e = ranks.rank * ranks.local + l
        tokens = [(idx == e).any(1).nonzero().view(-1) for idx in ranks.all_idx]
        n = sum(map(len, tokens))
        want = torch.cat([x[t] for x, t in zip(ranks.all_x, tokens)])
        assert count[l].item() == n
        ends = [(v >> 32) + (v & 0xffffffff) for v in handle[1][l].tolist()]
        assert ends == torch.tensor([len(t) for t in tokens], device="cpu").cumsum(0).tolist()
        check("src_info", (handle[0][l, :n], torch.cat(tokens).to(torch.int32)))
        if fp8:
            close(got[l, :n], want, 2e-3)
        else:
            check("rows", (got[l, :n], want))
        y[l, :n] = want
    if hook:
        buffer.get_next_low_latency_combine_buffer(handle).copy_(y)
    out, event, receive = buffer.low_latency_combine(
        y, ranks.idx, ranks.weights, handle, zero_copy=hook, async_finish=not hook,
        return_recv_hook=hook)
    receive() if hook else event.current_stream_wait()
    total = torch.where(ranks.idx >= 0, ranks.weights, 0).sum(1, keepdim=True)
    close(out, ranks.x.float() * total, 1e-5)


def check_graph(buffer, ranks):
    per_rank, _, per_expert, in_rank, _ = buffer.get_dispatch_layout(ranks.idx, EXPERTS)
    arguments = {"num_tokens_per_rank": per_rank, "is_token_in_rank": in_rank,
                 "num_tokens_per_expert": per_expert, "topk_idx": ranks.idx,
                 "topk_weights": ranks.weights, "num_worst_tokens": TOKENS * ranks.n}
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got, _, _, _, handle, _ = buffer.dispatch(ranks.x, **arguments)
        out = buffer.combine(got, handle)[0]
    for _ in range(3):
        out.zero_()
        graph.replay()
        want = ranks.x.float() * ranks.in_rank.sum(1, keepdim=True)
        check("graph", (out, want.to(torch.bfloat16)))


def refused(kind, words, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"not refused: {words}")


def check_refusals(buffer, ranks):
    x = torch.zeros((4, HIDDEN), dtype=torch.bfloat16, device="cpu")
    refused(ValueError, "GPU memory alone", buffer.low_latency_dispatch, x, ranks.idx, 8, EXPERTS)
    refused(TypeError, "topk_idx is of", buffer.get_dispatch_layout, ranks.weights, EXPERTS)
    refused(NotImplementedError, "bf16", buffer.low_latency_combine, x, None, None,
            (None, None, 0, 0, 0), use_logfmt=True)
    refused(Error, "num_rdma_bytes", buffer.clean_low_latency_buffer, 1 << 10, 1 << 14, EXPERTS)


def main():
    gpus = torch.cuda.device_count()
    torch.cuda.set_device(int(os.environ["RANK"]) % gpus)
    # NCCL refuses ranks that share a GPU.
    dist.init_process_group("nccl" if int(os.environ["WORLD_SIZE"]) <= gpus else "gloo")
    group = dist.new_group(list(range(dist.get_world_size())))
    ranks = Ranks(group)
    size = Buffer.get_low_latency_rdma_size_hint(TOKENS, HIDDEN, ranks.n, EXPERTS)
    buffer = Buffer(group, 64 << 20, size, low_latency_mode=True, explicitly_destroy=True)
    assert initialize_uccl(0, 0, 0, 1, None) == ([], [])
    assert isinstance(buffer.capture(), EventOverlap)
    for kind in "bf16", "fp8":
        for async_finish in False, True:
            for narrow in False, True:
                check_normal(buffer, ranks, kind, async_finish, narrow)
    check_graph(buffer, ranks)
    for hook in False, True:
        for fp8, rounded, packed in ((False, False, False), (True, False, False),
                                     (True, True, False), (True, True, True)):
            check_low_latency(buffer, ranks, fp8, rounded, packed, hook)
    check_refusals(buffer, ranks)
    assert buffer.status() == (0, 0)
    mask = torch.ones(ranks.n, dtype=torch.int32, device="cuda")
    buffer.low_latency_query_mask_buffer(mask)
    assert mask.sum() == 0
    buffer.low_latency_update_mask_buffer((ranks.rank + 1) % ranks.n, True)
    buffer.low_latency_query_mask_buffer(mask)
    assert mask.nonzero().view(-1).tolist() == [(ranks.rank + 1) % ranks.n]
    buffer.low_latency_clean_mask_buffer()
    assert buffer.get_local_buffer_tensor(torch.bfloat16, torch.Size((4, 8)), 16).shape == (4, 8)
    buffer.destroy()
    print(f"rank {ranks.rank}: passed", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
