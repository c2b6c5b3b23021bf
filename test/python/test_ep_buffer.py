# SPDX-License-Identifier: Apache-2.0
"""liburccl.ep's Buffer over a group of one rank that copies in host memory: which tensors it makes,
and what it hands to the library."""
import ctypes
import types
import unittest
from unittest import mock

try:
    import torch
    from liburccl import ep
except ImportError:
    torch = None

TOKENS, HIDDEN, TOPK, EXPERTS, ROWS = 6, 128, 2, 4, 64


class Group:
    """One rank: every row stays here. Results lie in the window, part after part."""

    def __init__(self, memory, calls):
        self.at, self.calls = [], calls
        for size in (2 * HIDDEN, 4, 8 * TOPK, 4 * TOPK, 4, 2 * HIDDEN, 4 * TOPK):
            self.at.append(memory)
            memory += ROWS * size

    def parts(self):
        return (*self.at, 256, 256)

    def layout(self, *args):
        self.calls.append(("layout", args))

    def dispatch(self, handle, stream, **f):
        self.calls.append(("dispatch", f))
        if "in_rank" in f:
            there = (ctypes.c_uint8 * f["tokens"]).from_address(f["in_rank"])
            self.tokens = [t for t in range(f["tokens"]) if there[t]]
        moves = [(0, f["x"], f["row_bytes"])]
        if f.get("topk_idx"):
            moves += [(2, f["topk_idx"], 8 * TOPK), (3, f["topk_weights"], 4 * TOPK)]
        for row, t in enumerate(self.tokens):
            for part, source, size in moves:
                ctypes.memmove(self.at[part] + row * size, source + t * size, size)
            ctypes.c_int32.from_address(self.at[4] + 4 * row).value = t
        return 7

    def copy_results(self, handle, stream, **f):
        self.calls.append(("copy_results", f))
        rows = len(self.tokens)
        for part, name, size in ((0, "x", f["row_bytes"]), (2, "topk_idx", 8 * TOPK),
                                 (3, "topk_weights", 4 * TOPK), (4, "src_idx", 4)):
            if "recv_" + name in f:
                ctypes.memmove(f["recv_" + name], self.at[part], rows * size)

    def counts(self, call, timeout_ms):
        return len(self.tokens), [1, 2, 3, 4]

    def combine(self, handle, tokens, stream, **f):
        self.calls.append(("combine", f))
        for row, t in enumerate(self.tokens):
            ctypes.memmove(f["out"] + t * 2 * HIDDEN, self.at[5] + row * 2 * HIDDEN, 2 * HIDDEN)


def stream():
    return types.SimpleNamespace(cuda_stream=0, wait_stream=lambda other: None,
                                 wait_event=lambda event: None)


@unittest.skipUnless(torch, "there is no PyTorch")
class Buffers(unittest.TestCase):
    def setUp(self):
        current = stream()
        for name, thing in (("current_stream", lambda: current),
                            ("is_current_stream_capturing", lambda: False)):
            patch = mock.patch.object(torch.cuda, name, thing)
            patch.start()
            self.addCleanup(patch.stop)
        for name, thing in (("_check", lambda *args: None),
                            ("_new", lambda shape, dtype: torch.zeros(shape, dtype=dtype))):
            patch = mock.patch.object(ep, name, thing)
            patch.start()
            self.addCleanup(patch.stop)
        window = ep._Window.__new__(ep._Window)
        window.bytes, window.views = torch.zeros(1 << 17, dtype=torch.uint8), {}
        window.own = window.bytes.data_ptr()
        self.calls = []
        b = self.buffer = ep.Buffer.__new__(ep.Buffer)
        b._thread = types.SimpleNamespace(ready=True)
        b.group_size, b.zero_copy, b._window, b._last = 1, False, window, current
        b._normal = b._counter = Group(window.own, self.calls)
        b._shape, b._counter_shape, b._parts = (HIDDEN, EXPERTS), (EXPERTS, 64), b._normal.parts()
        self.x = torch.randn((TOKENS, HIDDEN)).to(torch.bfloat16)
        self.idx = torch.arange(TOKENS * TOPK).view(TOKENS, TOPK) % EXPERTS
        self.weights = torch.rand((TOKENS, TOPK))
        self.in_rank = torch.tensor([[True], [False], [True], [True], [False], [True]])
        self.fresh = {"num_tokens_per_rank": torch.tensor([4]), "is_token_in_rank": self.in_rank,
                      "num_tokens_per_expert": torch.zeros(EXPERTS, dtype=torch.int32),
                      "topk_idx": self.idx, "topk_weights": self.weights}
        self.there = self.in_rank[:, 0]

    def test_dispatch_copies_what_arrived(self):
        x, idx, weights, counts, handle, event = self.buffer.dispatch(self.x, **self.fresh)
        self.assertTrue(torch.equal(x, self.x[self.there]))
        self.assertTrue(torch.equal(idx, self.idx[self.there]))
        self.assertTrue(torch.equal(weights, self.weights[self.there]))
        self.assertEqual((counts, handle[3].tolist()), ([1, 2, 3, 4], [0, 2, 3, 5]))
        self.assertEqual((len(handle), event.event), (6, None))
        self.buffer.dispatch(-self.x, **self.fresh)
        self.assertTrue(torch.equal(x, self.x[self.there]))

    def test_a_repeated_dispatch_and_combine_follow_the_handle(self):
        handle = self.buffer.dispatch(self.x, **self.fresh)[4]
        again = self.buffer.dispatch(-self.x, handle=handle)
        self.assertTrue(torch.equal(again[0], -self.x[self.there]))
        self.assertEqual(again[1:5], (None,) * 4)
        self.assertEqual([f["flags"] for _, f in self.calls[-2:]], [ep.CACHED] * 2)
        out, weights, _ = self.buffer.combine(again[0], handle)
        self.assertTrue(torch.equal(out, torch.where(self.in_rank, -self.x.float(), torch.zeros(()))
                                    .to(torch.bfloat16)))
        self.assertIsNone(weights)
        own = self.buffer.get_combine_buffer(handle, HIDDEN)
        self.assertEqual((own.shape, own.data_ptr()), ((4, HIDDEN), self.buffer._parts[5]))

    def test_worst_tokens_are_not_waited_for(self):
        x, idx, _, counts, handle, _ = self.buffer.dispatch(self.x, num_worst_tokens=10,
                                                            **self.fresh)
        self.assertEqual((x.shape, idx.shape, counts), ((10, HIDDEN), (10, TOPK), []))
        self.assertEqual((self.calls[-1][1]["worst_tokens"], handle[3].shape), (10, (10,)))
        self.assertTrue(torch.equal(x[:4], self.x[self.there]))

    def test_zero_copy_returns_the_window(self):
        self.buffer.zero_copy = True
        x = self.buffer.dispatch(self.x, **self.fresh)[0]
        self.assertEqual(x.data_ptr(), self.buffer._parts[0])

    def test_layout_and_configs(self):
        result = self.buffer.get_dispatch_layout(self.idx.to(torch.int32), EXPERTS)
        self.assertEqual([t.shape for t in (result[0], result[2], result[3])],
                         [(1,), (EXPERTS,), (TOKENS, 1)])
        self.assertEqual(self.calls[-1][1][1:4], (TOKENS, TOPK, ep.IDX32))
        self.buffer.dispatch(self.x, config=ep.Config(16), **self.fresh)
        self.assertEqual(self.calls[-2][1]["sms"], 16)


if __name__ == "__main__":
    unittest.main()
