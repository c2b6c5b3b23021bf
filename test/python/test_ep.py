# SPDX-License-Identifier: Apache-2.0
"""liburccl.ep without a GPU: sizes of windows, and what is refused with a sentence. What needs GPUs
is in test/ep/gpu_buffer.py."""
import concurrent.futures
import subprocess
import sys
import threading
import types
import unittest
from unittest import mock

import liburccl
from libcuda import Cuda
from liburccl import _ep

try:
    import torch
    from liburccl import ep
except ImportError:
    torch = None


class Group:
    """As torch.distributed's."""

    def __init__(self, ranks=2):
        self.ranks = ranks

    def rank(self):
        return 0

    def size(self):
        return self.ranks


class Extension(unittest.TestCase):
    def test_the_package_does_not_import_torch(self):
        said = subprocess.run([sys.executable, "-c", "import liburccl, liburccl._ep, sys; "
                               "print('torch' in sys.modules)"], capture_output=True, text=True,
                              check=True)
        self.assertEqual(said.stdout, "False\n")

    def test_window_bytes_grow_with_the_rows(self):
        attr = {"ranks": 2, "experts": 8, "topk": 4, "max_row_bytes": 1024}
        small = _ep.window_bytes(max_tokens=64, **attr)
        self.assertEqual(_ep.window_bytes(max_tokens=128, **attr) - small,
                         2 * 64 * (2 * 1024 + 4 + 16 * 4))

    def test_bad_arguments_are_refused(self):
        with self.assertRaisesRegex(liburccl.Error, "experts is 7; allowed are multiples of 2"):
            _ep.window_bytes(ranks=2, experts=7)
        with self.assertRaisesRegex(TypeError, "unexpected argument 'windows'"):
            _ep.window_bytes(windows=0)
        with self.assertRaises(OverflowError):
            _ep.window_bytes(ranks=1 << 32)
        with self.assertRaisesRegex(ValueError, "windows is no list of an address for each rank"):
            _ep.Group([1], ranks=2, experts=2)

    def test_without_a_gpu_a_group_is_refused(self):
        # Without kernels, without a driver, or without a current context.
        with self.assertRaisesRegex(liburccl.Error, "nvcc|CUDA"):
            _ep.Group([256, 256], ranks=2, experts=2)


@unittest.skipUnless(torch, "there is no PyTorch")
class Buffers(unittest.TestCase):
    def test_groups_that_cannot_be(self):
        with self.assertRaisesRegex(ValueError, "group, or comm"):
            ep.Buffer(None)
        with self.assertRaisesRegex(ValueError, "16 ranks; at most 8"):
            ep.Buffer(Group(16), 1 << 30)
        if not torch.cuda.is_available():
            with self.assertRaisesRegex(liburccl.Error, "PyTorch sees no GPU"):
                ep.Buffer(Group(), 1 << 30)

    def test_tensors_that_kernels_cannot_read(self):
        x = torch.zeros((4, 256), dtype=torch.bfloat16)
        for tensor, kind, words in (
                ([1], TypeError, "x is a list, no tensor"),
                (x.float(), TypeError, "x is of torch.float32; allowed: torch.bfloat16"),
                (x[0], ValueError, r"x has the shape \(256,\), not \('any', 256\)"),
                (x[:, :128], ValueError, r"not \('any', 256\)"),
                (torch.zeros((256, 4), dtype=torch.bfloat16).t(), ValueError, "not contiguous"),
                (x, ValueError, "x is in cpu memory; the kernels read GPU memory alone")):
            with self.assertRaisesRegex(kind, words):
                ep._check("x", tensor, torch.bfloat16, (None, 256))

    def test_calls_check_their_tensors(self):
        buffer = ep.Buffer.__new__(ep.Buffer)
        buffer.group_size = 2
        x, idx = torch.zeros((4, 256), dtype=torch.bfloat16), torch.zeros((4, 2), dtype=torch.int64)
        calls = (lambda: buffer.get_dispatch_layout(idx, 8), lambda: buffer.dispatch(x),
                 lambda: buffer.low_latency_dispatch(x, idx, 8, 8),
                 lambda: buffer.combine(x, (None, None, None, x[:, 0], x, None)))
        for call in calls:
            with self.assertRaisesRegex(ValueError, "kernels read GPU memory alone"):
                call()
        with self.assertRaisesRegex(NotImplementedError, "sums are sent in bf16"):
            buffer.low_latency_combine(x, idx, x, (None, None, 0, 0, 0), use_logfmt=True)

    def test_parts_of_a_window_are_views_of_it(self):
        window = ep._Window.__new__(ep._Window)
        window.own, window.bytes, window.views = 4096, torch.arange(96, dtype=torch.uint8), {}
        for _ in range(2):
            rows = window.rows(4096 + 32, 3, 4, torch.int16)
            self.assertEqual((rows.shape, rows.dtype), ((3, 4), torch.int16))
            self.assertEqual(rows.data_ptr() - window.bytes.data_ptr(), 32)
        window.bytes[32:56] = 0
        self.assertEqual(rows.abs().sum(), 0)
        self.assertEqual(window.rows(4096 + 64, 100, 5, torch.float32).shape, (1, 5))

    def test_sizes(self):
        hint = ep.Buffer.get_low_latency_rdma_size_hint(128, 7168, 2, 288)
        self.assertGreaterEqual(hint, _ep.window_bytes(ranks=2, experts=288, topk=14,
                                                       ll_max_tokens=128, ll_hidden=7168))
        self.assertEqual(hint % (2 << 20), 0)
        config = ep.Config(24, 8, 256)
        self.assertEqual((config.num_sms, config.get_rdma_buffer_size_hint(14336, 2)), (24, 0))
        self.assertGreaterEqual(config.get_nvl_buffer_size_hint(14336, 2), 2 * 4096 * 2 * 14336)

    def test_the_interface_of_uccl_and_deepep(self):
        self.assertEqual(ep.initialize_uccl(0, 0, 0, 2, Group()), ([], []))
        self.assertIsNone(ep.destroy_uccl([], []))
        self.assertIs(ep.topk_idx_t, torch.int64)
        self.assertTrue(ep.Buffer.is_sm90_compiled())
        before = ep.Buffer.num_sms
        self.addCleanup(ep.Buffer.set_num_sms, before)
        ep.Buffer.set_num_sms(16)
        self.assertEqual(ep.Buffer.get_dispatch_config(2).num_sms, 16)
        with self.assertRaises(AssertionError):
            ep.EventOverlap().current_stream_wait()
        waited = types.SimpleNamespace(n=0)
        event = types.SimpleNamespace(
            current_stream_wait=lambda: setattr(waited, "n", waited.n + 1))
        with ep.EventOverlap(event):
            self.assertEqual(waited.n, 0)
        self.assertEqual(waited.n, 1)


@unittest.skipUnless(torch, "there is no PyTorch")
class Windows(unittest.TestCase):
    """Each rank is a thread, so the address of a window is its owner's."""

    def setUp(self):
        try:
            self.cuda = Cuda()
        except OSError as error:
            self.skipTest(str(error))
        patch = mock.patch.object(torch, "as_tensor", lambda thing, device: thing)
        patch.start()
        self.addCleanup(patch.stop)

    def open(self, rank, metadata=None):
        def gather(card):
            self.cards[rank] = card if metadata is None else (metadata, card[1])
            self.barrier.wait()
            return list(self.cards)
        self.cuda.call("cuCtxSetCurrent", self.cuda.context)
        return ep._Window(1 << 20, rank, gather)

    def start(self, ranks, **last):
        self.barrier, self.cards = threading.Barrier(ranks, timeout=60), [None] * ranks
        with concurrent.futures.ThreadPoolExecutor(ranks) as pool:
            return [pool.submit(self.open, r, **(last if r == ranks - 1 else {}))
                    for r in range(ranks)]

    def test_each_rank_maps_the_windows_of_all(self):
        windows = [future.result() for future in self.start(3)]
        for window in windows:
            self.assertEqual(window.addresses, [w.own for w in windows])
        for window in windows:
            window.unmap()
        for window in windows:
            window.free()

    def test_a_rank_that_has_ended_is_named(self):
        gone = liburccl.Context(transport="shm")
        metadata = gone.metadata
        gone.close()
        with self.assertRaisesRegex(liburccl.ConnectionRefused, "the window of rank 1: "):
            self.start(2, metadata=metadata)[0].result()


if __name__ == "__main__":
    unittest.main()
