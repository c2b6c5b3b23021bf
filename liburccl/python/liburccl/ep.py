# SPDX-License-Identifier: Apache-2.0
"""Expert parallelism within a host, with DeepEP's interface: `from liburccl.ep import Buffer`.

Names, arguments, shapes and dtypes are those of DeepEP's Buffer and of uccl.ep's. Differences:

- num_nvl_bytes limits the rows that a rank can receive: 2.1 times a bf16 row's bytes, and 0.5 KB,
  are needed for each. A dispatch that exceeds it fails on all ranks; status() says so.
- The first dispatch, the first low_latency_dispatch, and one with a larger hidden size or another
  number of experts are collective and wait for the other ranks. They cannot be captured in a graph.
- In what low_latency_dispatch returns, an expert's rows are ordered by source rank, then by token.
- A rank that a low-latency call waits for in vain is masked, also without enable_shrink.
- use_logfmt, the wait statistics and groups of more than 8 ranks are refused.

It needs PyTorch and GPUs of compute capability 9.0 that reach each other's memory.
"""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from . import Context, _ep, _errors
from ._errors import Error

if TYPE_CHECKING:               # the package is checked without PyTorch
    torch: Any
    dist: Any
else:
    import torch
    import torch.distributed as dist

__all__ = ["Buffer", "Config", "Error", "EventHandle", "EventOverlap", "destroy_uccl",
           "initialize_uccl", "topk_idx_t"]

Tensor: TypeAlias = Any
Stream: TypeAlias = Any

topk_idx_t = torch.int64
FP8 = getattr(torch, "float8_e4m3fn", torch.uint8)      # PyTorch before 2.1 has none
IDX_TYPES = (torch.int64, torch.int32)

MAX_RANKS, MAX_TOPK, LL_MAX_TOPK = 8, 32, 14            # enum urccl_ep_limits
IDX32, CACHED = 1, 2                                    # enum urccl_ep_dispatch_flags
RESULTS = "x", "scales", "topk_idx", "topk_weights"     # in the order of Group.parts()
LL_SEND, LL_RECV, LL_FP8, LL_ROUND, LL_UE8M0 = 2, 4, 8, 16, 32
TIMEOUT_MS = 100_000                                    # of a wait for another rank
ALIGNMENT = 2 << 20                                     # of sizes of windows


def initialize_uccl(*args: Any, **kwargs: Any) -> tuple[list[Any], list[Any]]:
    """uccl.ep's proxies and workers: there are none."""
    return [], []


def destroy_uccl(proxies: Any, workers: Any) -> None:
    """Does nothing."""


class Config:
    """How many multiprocessors a call may use. The other numbers are accepted and unused."""

    def __init__(self, num_sms: int = 20, *chunks: int, **more: int) -> None:
        self.num_sms = num_sms

    def get_nvl_buffer_size_hint(self, hidden_bytes: int, num_ranks: int,
                                 num_tokens: int = 4096) -> int:
        """num_nvl_bytes for num_tokens bf16 tokens of each rank."""
        return _aligned(num_ranks * num_tokens * _row_bytes(hidden_bytes) + ALIGNMENT)

    def get_rdma_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """0: normal mode uses no RDMA buffer."""
        return 0


class EventHandle:
    """A CUDA event, recorded on a stream; None: the current one."""

    def __init__(self, stream: Stream | int | None = None) -> None:
        if isinstance(stream, int):
            stream = torch.cuda.ExternalStream(stream)
        self.event = torch.cuda.Event()
        self.event.record(stream or torch.cuda.current_stream())

    def current_stream_wait(self) -> None:
        """The current stream waits for the event."""
        torch.cuda.current_stream().wait_event(self.event)


class EventOverlap:
    """An event that a later call or the current stream waits for. `with` waits at its end."""

    def __init__(self, event: EventHandle | None = None, extra_tensors: Any = None) -> None:
        self.event = event
        self.extra_tensors = extra_tensors      # live as long as this object

    def current_stream_wait(self) -> None:
        """The current stream waits for the event."""
        assert self.event is not None, "the call had no async_finish"
        self.event.current_stream_wait()

    def __enter__(self) -> EventOverlap:
        return self

    def __exit__(self, *unused: Any) -> None:
        if self.event is not None:
            self.event.current_stream_wait()


# ---- tensors ---------------------------------------------------------------------------------

def _aligned(n: int, to: int = ALIGNMENT) -> int:
    return -(-n // to) * to


def _row_bytes(hidden_bytes: int) -> int:
    """Bytes of a window for each row: x, combine_x, scales, indices and weights."""
    return 2 * hidden_bytes + 4 * -(-hidden_bytes // 256) + 16 * MAX_TOPK + 4


def _new(shape: Any, dtype: Any) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="cuda")


def _on(stream: Stream, current: Stream) -> Any:
    """Makes a stream current; a context of PyTorch's is slow even where it changes nothing."""
    return contextlib.nullcontext() if stream is current else torch.cuda.stream(stream)


def _address(tensor: Tensor) -> int:
    return 0 if tensor is None else int(tensor.data_ptr())


def _check(name: str, tensor: Tensor, dtypes: Any, shape: Any, contiguous: bool = True) -> None:
    """Refuses a tensor that the kernels cannot read. None in shape is any number."""
    dtypes = dtypes if isinstance(dtypes, tuple) else (dtypes,)
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} is a {type(tensor).__name__}, no tensor")
    if tensor.dtype not in dtypes:
        raise TypeError(f"{name} is of {tensor.dtype}; allowed: {', '.join(map(str, dtypes))}")
    if tensor.dim() != len(shape) or any(s not in (None, t) for s, t in zip(shape, tensor.shape)):
        raise ValueError(f"{name} has the shape {tuple(tensor.shape)}, not "
                         f"{tuple('any' if s is None else s for s in shape)}")
    if contiguous and not tensor.is_contiguous():
        raise ValueError(f"{name} is not contiguous")
    if not tensor.is_cuda:
        raise ValueError(f"{name} is in {tensor.device} memory; the kernels read GPU memory alone")


def _ll_handle(src_info: Tensor) -> int:
    """The address of the library's handle, which lies behind src_info."""
    return _aligned(_address(src_info) + 4 * src_info.numel(), 256)


class _Memory:
    """Device memory that is not PyTorch's, for torch.as_tensor()."""

    def __init__(self, address: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "version": 3,
                                         "data": (address, False)}


class _Window:
    """One rank's window and, in this process, those of the others, which a Context maps."""

    kept: list[_Window] = []        # kernels may use them until free()

    def __init__(self, nbytes: int, rank: int, gather: Callable[[Any], list[Any]]) -> None:
        self.nbytes, self.own = nbytes, _ep.window_alloc(nbytes)
        self.bytes = torch.as_tensor(_Memory(self.own, nbytes), device="cuda")
        self.views: dict[Any, Tensor] = {}
        self.context = Context(transport="shm")
        self.remotes: list[Any] = []
        try:
            self.ring = self.context.ring(64)
            self.ring.accept()
            self.region = self.context.register((self.own, nbytes))
            cards = gather((self.context.metadata, self.region.advertise()))
            self.addresses = [self.own if r == rank else self._map(r, *card)
                              for r, card in enumerate(cards)]
        except BaseException:
            self.unmap()
            self.context.close()
            _ep.window_free(self.own)
            raise
        self.kept.append(self)

    def _map(self, rank: int, metadata: bytes, advert: bytes) -> int:
        try:
            peer = self.ring.connect(metadata, timeout=TIMEOUT_MS / 1000).result()
            remote = self.context.import_(peer, advert)
            self.ring.warm(peer, timeout=TIMEOUT_MS / 1000).result()
            address: int = remote.map()
        except OSError as error:
            raise _errors.make(error.errno or 0, f"cannot map the window of rank {rank}: "
                               f"{error.strerror}") from None
        self.remotes.append(remote)
        return address

    def rows(self, address: int, rows: int, columns: int, dtype: Any) -> Tensor:
        """The first rows of a part of this rank's window, or of all that follows it."""
        view = self.views.get((address, columns, dtype))
        if view is None:
            view = self.bytes[address - self.own:]
            width = columns * torch.empty((), dtype=dtype, device="cpu").element_size()
            view = view[:view.numel() // width * width].view(dtype).view(-1, columns)
            self.views[address, columns, dtype] = view
        return view[:rows]

    def unmap(self) -> None:
        for remote in self.remotes:
            remote.unmap()

    def free(self) -> None:
        """Comes after unmap() of all ranks."""
        self.kept.remove(self)
        self.region.unregister()
        self.context.close()
        _ep.window_free(self.own)


# ---- Buffer ----------------------------------------------------------------------------------

class Buffer:
    """Dispatch and combine of a group of ranks, one GPU each, of one host."""

    num_sms: int = 20

    def __init__(self, group: Any, num_nvl_bytes: int = 0, num_rdma_bytes: int = 0,
                 low_latency_mode: bool = False, num_qps_per_rank: int = 24,
                 allow_nvlink_for_low_latency_mode: bool = True, allow_mnnvl: bool = False,
                 explicitly_destroy: bool = False, enable_shrink: bool = False, comm: Any = None,
                 is_intranode: bool | None = None, zero_copy: bool = False) -> None:
        """Collective. num_nvl_bytes: the window of dispatch and combine; num_rdma_bytes: that of
        the low-latency calls, see get_low_latency_rdma_size_hint(). zero_copy: what dispatch
        returns lies in the window, and the next dispatch overwrites it.
        """
        if group is None and comm is None:
            raise ValueError("give a torch.distributed group, or comm of mpi4py")
        self.group = group if group is not None else comm
        self.rank = group.rank() if group is not None else comm.Get_rank()
        self.group_size = group.size() if group is not None else comm.Get_size()
        if self.group_size > MAX_RANKS or is_intranode is False:
            raise ValueError(f"{self.group_size} ranks; at most {MAX_RANKS}, of one host")
        if not torch.cuda.is_available():
            raise Error(19, "PyTorch sees no GPU: liburccl.ep needs one for each rank")
        self.num_nvl_bytes, self.num_rdma_bytes = num_nvl_bytes, num_rdma_bytes
        self.low_latency_mode, self.explicitly_destroy = low_latency_mode, explicitly_destroy
        self.enable_shrink, self.zero_copy = enable_shrink, zero_copy
        self._thread = threading.local()
        self.device = torch.device("cuda", torch.cuda.current_device())
        self._enter()
        self.comm_stream = torch.cuda.Stream()
        self._last = self.comm_stream           # the stream of the last kernel
        self._normal: Any = None                # groups, with what they were made for
        self._ll: Any = None
        self._counter: Any = None
        self._shape, self._ll_shape, self._counter_shape = (0, 0), (0, 0, 0), (0, 0)
        self._parts: Any = ()
        self._ll_combine_x: Tensor = None
        self._window: Any = None
        self._ll_window: Any = None
        if num_nvl_bytes:
            self._window = _Window(num_nvl_bytes, self.rank, self._gather)
        if num_rdma_bytes:
            self._ll_window = _Window(num_rdma_bytes, self.rank, self._gather)

    def _gather(self, thing: Any) -> list[Any]:
        if not isinstance(self.group, dist.ProcessGroup):
            return list(self.group.allgather(thing))
        things = [None] * self.group_size
        dist.all_gather_object(things, thing, self.group)
        return things

    def _enter(self) -> None:
        """Makes the CUDA context current: this thread may not have called PyTorch yet."""
        if not getattr(self._thread, "ready", False):
            torch.cuda.set_device(self.device)
            torch.cuda.synchronize()
            self._thread.ready = True

    def destroy(self) -> None:
        """Collective. Waits for the GPU and frees everything."""
        assert self.explicitly_destroy, "`explicitly_destroy` flag must be set"
        torch.cuda.synchronize()
        self._gather(None)                      # no rank's kernels use a window any more
        for group in self._normal, self._ll, self._counter:
            if group is not None:
                group.close()
        windows = [w for w in (self._window, self._ll_window) if w]
        for window in windows:
            window.unmap()
        self._gather(None)
        for window in windows:
            window.free()
        self._normal = self._ll = self._counter = self._window = self._ll_window = None

    # ---- groups ----

    def _new_group(self, old: Any, window: _Window, **attr: int) -> Any:
        if torch.cuda.is_current_stream_capturing():
            raise Error(1, "the first call of its size cannot be captured: make it once before")
        torch.cuda.synchronize()
        self._gather(None)
        if old:
            old.close()
        group = _ep.Group(window.addresses, rank=self.rank, ranks=self.group_size,
                          timeout_ms=TIMEOUT_MS, **attr)
        self._gather(None)                      # all ranks have cleared their windows
        return group

    def _normal_group(self, hidden: int, experts: int) -> Any:
        """hidden and experts are the same on all ranks; experts 0: any."""
        have_hidden, have_experts = self._shape
        if self._normal and hidden <= have_hidden and experts in (0, have_experts):
            return self._normal
        if self._window is None:
            raise Error(22, "num_nvl_bytes is 0: dispatch and combine have no window")
        hidden, experts = max(hidden, have_hidden), experts or have_experts or self.group_size
        fixed = _ep.window_bytes(ranks=self.group_size, experts=experts) + 8 * 256
        rows = (self.num_nvl_bytes - fixed) // _row_bytes(2 * hidden)
        if rows < self.group_size:
            raise Error(22, f"num_nvl_bytes is {self.num_nvl_bytes}: too little for a row of "
                            f"{hidden} columns of each rank")
        self._normal = self._new_group(
            self._normal, self._window, experts=experts, topk=MAX_TOPK, max_tokens=rows,
            max_recv_tokens=rows, max_row_bytes=2 * hidden, max_scale_words=-(-hidden // 128))
        self._shape, self._parts = (hidden, experts), self._normal.parts()
        return self._normal

    def _low_latency_group(self, tokens: int, hidden: int, experts: int) -> Any:
        have = self._ll_shape
        if self._ll and tokens == have[0] and hidden <= have[1] and experts == have[2]:
            return self._ll
        if self._ll_window is None:
            raise Error(22, "num_rdma_bytes is 0: the low-latency calls have no window")
        need = self.get_low_latency_rdma_size_hint(tokens, hidden, self.group_size, experts)
        if need > self.num_rdma_bytes:
            raise Error(22, f"num_rdma_bytes is {self.num_rdma_bytes}; {tokens} tokens of {hidden} "
                            f"columns and {experts} experts need {need}")
        self._ll = self._new_group(self._ll, self._ll_window, experts=experts, topk=LL_MAX_TOPK,
                                   ll_max_tokens=tokens, ll_hidden=hidden)
        self._ll_shape = (tokens, hidden, experts)
        self._ll_handle_words = -(-self._ll.parts()[8] // 4)
        return self._ll

    def _layout_group(self, experts: int, tokens: int) -> Any:
        """A group that exchanges nothing: get_dispatch_layout() is not collective."""
        have_experts, have_tokens = self._counter_shape
        if self._counter is None or experts != have_experts or tokens > have_tokens:
            if self._counter:
                self._counter.close()
            tokens = max(tokens, 8192)
            attr = {"ranks": self.group_size, "experts": experts, "topk": MAX_TOPK,
                    "max_tokens": tokens, "max_recv_tokens": 1, "max_row_bytes": 16}
            self._scratch = _new(_ep.window_bytes(**attr) + 256, torch.uint8)
            window = _aligned(_address(self._scratch), 256)
            self._counter = _ep.Group([window] * self.group_size, rank=self.rank, **attr)
            self._counter_shape = (experts, tokens)
        return self._counter

    # ---- streams ----

    def _begin(self, previous: EventOverlap | None, async_finish: bool,
               on_comm: bool) -> tuple[Stream, Stream, Stream]:
        """The current stream, the one to launch on, ordered after all that comes first, and the one
        whose memory results are."""
        self._enter()
        current = torch.cuda.current_stream()
        event = getattr(previous, "event", None)
        if on_comm and not (async_finish and event is not None):
            raise ValueError("allocate_on_comm_stream needs async_finish and previous_event")
        stream = self.comm_stream if async_finish else current
        if event is not None:
            stream.wait_event(event.event)
        elif stream is not current:
            stream.wait_stream(current)
        if self._last != stream and not torch.cuda.is_current_stream_capturing():
            stream.wait_stream(self._last)
        self._last = stream
        return current, stream, stream if on_comm else current

    @staticmethod
    def _end(current: Stream, stream: Stream, *tensors: Tensor) -> EventOverlap:
        if stream == current:
            return EventOverlap()
        for tensor in tensors:
            if tensor is not None:
                tensor.record_stream(stream)
                tensor.record_stream(current)
        return EventOverlap(EventHandle(stream))

    def get_comm_stream(self) -> Stream:
        """The stream of calls with async_finish."""
        return self.comm_stream

    @staticmethod
    def capture() -> EventOverlap:
        """An event, recorded on the current stream."""
        return EventOverlap(EventHandle())

    # ---- settings ----

    @staticmethod
    def is_sm90_compiled() -> bool:
        """True: FP8 is there."""
        return True

    @staticmethod
    def set_num_sms(new_num_sms: int) -> None:
        """The multiprocessors of calls without config."""
        assert new_num_sms % 2 == 0, "The SM count must be even"
        Buffer.num_sms = new_num_sms

    @staticmethod
    def get_dispatch_config(num_ranks: int) -> Config:
        """The config of a dispatch without one."""
        return Config(Buffer.num_sms)

    get_combine_config = get_dispatch_config

    @staticmethod
    def get_low_latency_rdma_size_hint(num_max_dispatch_tokens_per_rank: int, hidden: int,
                                       num_ranks: int, num_experts: int) -> int:
        """num_rdma_bytes for low-latency calls of this size."""
        return _aligned(_ep.window_bytes(
            ranks=num_ranks, experts=num_experts, topk=LL_MAX_TOPK,
            ll_max_tokens=num_max_dispatch_tokens_per_rank, ll_hidden=hidden))

    def get_local_buffer_tensor(self, dtype: Any, size: Any = None, offset: int = 0,
                                use_rdma_buffer: bool = False) -> Tensor:
        """This rank's window as a tensor; the library writes to it."""
        window = self._ll_window if use_rdma_buffer else self._window
        if window is None:
            raise Error(22, "the buffer has no such window")
        flat = window.rows(window.own, window.nbytes, 1, dtype)[offset:].view(-1)
        return flat if size is None else flat[:size.numel()].view(size)

    def status(self) -> tuple[int, int]:
        """(errno, rank) of the failure of dispatch and combine; (0, 0): none."""
        res, rank, _ = self._normal.status() if self._normal else (0, 0, 0)
        return -res, rank

    # ---- normal mode ----

    def get_dispatch_layout(self, topk_idx: Tensor, num_experts: int,
                            previous_event: EventOverlap | None = None, async_finish: bool = False,
                            allocate_on_comm_stream: bool = False) -> tuple[Any, ...]:
        """num_tokens_per_rank, None, num_tokens_per_expert, is_token_in_rank, event."""
        _check("topk_idx", topk_idx, IDX_TYPES, (None, None))
        current, stream, memory = self._begin(previous_event, async_finish, allocate_on_comm_stream)
        tokens, topk = topk_idx.shape
        group = self._layout_group(num_experts, tokens)
        with _on(memory, current):
            per_rank = _new(self.group_size, torch.int32)
            per_expert = _new(num_experts, torch.int32)
            in_rank = _new((tokens, self.group_size), torch.bool)
        group.layout(_address(topk_idx), tokens, topk, IDX32 * (topk_idx.dtype == torch.int32),
                     _address(per_rank), _address(per_expert), _address(in_rank),
                     stream.cuda_stream)
        event = self._end(current, stream, topk_idx, per_rank, per_expert, in_rank)
        return per_rank, None, per_expert, in_rank, event

    def _counts(self, call: int) -> tuple[int, list[int]]:
        counts: tuple[int, list[int]] | None = self._normal.counts(call, TIMEOUT_MS + 5000)
        if counts is None:
            raise Error(110, "the counts of the other ranks did not come")
        return counts

    def _received(self, rows: int, fresh: bool, worst: int, like: list[Tensor],
                  routes: Tensor, stream: Stream) -> list[Tensor]:
        """Rows that have the columns and types of the tensors in like, and the index of each."""
        types = [None if t is None else t.dtype for t in like]
        types[2] = None if like[2] is None else torch.int64
        got: list[Any]
        if self.zero_copy:
            got = [None if t is None else self._window.rows(part, rows, t.shape[1], dtype)
                   for part, t, dtype in zip(self._parts, like, types)]
            copies = {}
        else:
            got = [None if t is None else t.new_empty((rows, t.shape[1]), dtype=dtype)
                   for t, dtype in zip(like, types)]
            copies = {f"recv_{name}": _address(t) for name, t in zip(RESULTS, got)
                      if t is not None}
        got.append(_new(rows, torch.int32) if fresh else None)
        if fresh:
            copies["recv_src_idx"] = _address(got[4])
        if copies:
            x, scales, idx, _ = like
            self._normal.copy_results(
                _address(routes), stream.cuda_stream, flags=0 if fresh else CACHED,
                topk=0 if idx is None else idx.shape[1], row_bytes=x.shape[1] * x.element_size(),
                scale_words=0 if scales is None else scales.shape[1], worst_tokens=worst, **copies)
        if like[2] is not None:
            got[2] = got[2].to(like[2].dtype)
        return got

    def dispatch(self, x: Any, handle: Any = None, num_tokens_per_rank: Tensor = None,
                 num_tokens_per_rdma_rank: Tensor = None, is_token_in_rank: Tensor = None,
                 num_tokens_per_expert: Tensor = None, topk_idx: Tensor = None,
                 topk_weights: Tensor = None, expert_alignment: int = 1, num_worst_tokens: int = 0,
                 config: Config | None = None, previous_event: EventOverlap | None = None,
                 async_finish: bool = False,
                 allocate_on_comm_stream: bool = False) -> tuple[Any, ...]:
        """recv_x, recv_topk_idx, recv_topk_weights, num_recv_tokens_per_expert_list, handle,
        event. With handle the routing is that of an earlier dispatch.
        """
        x, scales = x if isinstance(x, tuple) else (x, None)
        _check("x", x, torch.bfloat16 if scales is None else (FP8, torch.uint8), (None, None))
        tokens, hidden = x.shape
        args = {"tokens": tokens, "row_bytes": hidden * x.element_size(), "x": _address(x),
                "sms": (config or self.get_dispatch_config(self.group_size)).num_sms}
        if scales is not None:
            _check("the scales of x", scales, (torch.float32, torch.int32), (tokens, None), False)
            args.update(scales=_address(scales), scale_words=scales.shape[1],
                        scale_row_stride=scales.stride(0), scale_word_stride=scales.stride(1))
        fresh = handle is None
        if fresh:
            _check("num_tokens_per_rank", num_tokens_per_rank, torch.int32, (self.group_size,))
            _check("num_tokens_per_expert", num_tokens_per_expert, torch.int32, (None,))
            if topk_idx is not None:
                _check("topk_idx", topk_idx, IDX_TYPES, (tokens, None))
                _check("topk_weights", topk_weights, torch.float32, topk_idx.shape)
            elif num_worst_tokens:
                raise ValueError("num_worst_tokens needs topk_idx and topk_weights")
        else:
            if topk_idx is not None or topk_weights is not None:
                raise ValueError("a dispatch with handle has no topk_idx and topk_weights")
            prefix, _, _, src_idx, is_token_in_rank, routes = handle
            args["flags"] = CACHED
        _check("is_token_in_rank", is_token_in_rank, torch.bool, (tokens, self.group_size))
        current, stream, memory = self._begin(previous_event, async_finish, allocate_on_comm_stream)
        group = self._normal_group(hidden, num_tokens_per_expert.shape[0] if fresh else 0)
        if fresh:
            with _on(memory, current):
                routes = _new(-(-self._parts[7] // 4), torch.int32)     # the library's handle
                prefix = _new((self.group_size, self.group_size), torch.int32)
            args.update(in_rank=_address(is_token_in_rank), rank_prefix=_address(prefix),
                        per_expert=_address(num_tokens_per_expert),
                        expert_alignment=expert_alignment, worst_tokens=num_worst_tokens)
        if topk_idx is not None:
            args.update(flags=IDX32 * (topk_idx.dtype == torch.int32), topk=topk_idx.shape[1],
                        topk_idx=_address(topk_idx), topk_weights=_address(topk_weights))
        call = group.dispatch(_address(routes), stream.cuda_stream, **args)
        rows, per_expert = (src_idx.shape[0], None) if not fresh else \
            (num_worst_tokens, []) if num_worst_tokens else self._counts(call)
        with _on(stream, current):
            recv_x, recv_scales, recv_idx, recv_weights, index = self._received(
                rows, fresh, num_worst_tokens, [x, scales, topk_idx, topk_weights], routes, stream)
        if fresh:
            src_idx = index
        event = self._end(current, stream, x, scales, topk_idx, topk_weights, is_token_in_rank,
                          num_tokens_per_expert, prefix, routes, src_idx, recv_x, recv_scales,
                          recv_idx, recv_weights)
        result = recv_x if scales is None else (recv_x, recv_scales)
        handle = (prefix, None, None, src_idx, is_token_in_rank, routes) if fresh else None
        return result, recv_idx, recv_weights, per_expert, handle, event

    def combine(self, x: Tensor, handle: Any, topk_weights: Tensor = None, bias: Any = None,
                config: Config | None = None, previous_event: EventOverlap | None = None,
                async_finish: bool = False,
                allocate_on_comm_stream: bool = False) -> tuple[Any, ...]:
        """combined_x, combined_topk_weights, event: sums without weights."""
        _, _, _, src_idx, in_rank, routes = handle
        rows, tokens = src_idx.shape[0], in_rank.shape[0]
        _check("x", x, torch.bfloat16, (rows, None))
        hidden = x.shape[1]
        biases = bias if isinstance(bias, tuple) else (bias, None)
        for b in biases:
            if b is not None:
                _check("bias", b, torch.bfloat16, (tokens, hidden))
        if topk_weights is not None:
            _check("topk_weights", topk_weights, torch.float32, (rows, None))
        current, stream, memory = self._begin(previous_event, async_finish, allocate_on_comm_stream)
        group, own = self._normal_group(hidden, 0), self.get_combine_buffer(handle, hidden)
        weights = None
        with _on(memory, current):
            out = _new((tokens, hidden), torch.bfloat16)
            if topk_weights is not None:
                weights = _new((tokens, topk_weights.shape[1]), torch.float32)
        with _on(stream, current):
            if _address(x) != _address(own):
                own.copy_(x)
        group.combine(_address(routes), tokens, stream.cuda_stream, hidden=hidden,
                      topk_weights=_address(topk_weights), out=_address(out),
                      topk=0 if weights is None else weights.shape[1],
                      out_topk_weights=_address(weights), bias_0=_address(biases[0]),
                      bias_1=_address(biases[1]),
                      sms=(config or self.get_combine_config(self.group_size)).num_sms)
        return out, weights, self._end(current, stream, x, topk_weights, *biases, src_idx, in_rank,
                                       routes, out, weights)

    def get_combine_buffer(self, handle: Any, hidden: int) -> Tensor:
        """The window's input of combine, [rows of handle, hidden]: combine copies any other x."""
        self._normal_group(hidden, 0)
        return self._window.rows(self._parts[5], handle[3].shape[0], hidden, torch.bfloat16)

    # ---- low latency ----

    def clean_low_latency_buffer(self, num_max_dispatch_tokens_per_rank: int, hidden: int,
                                 num_experts: int) -> None:
        """Prepares calls of this size; collective if the size changes."""
        self._enter()
        self._low_latency_group(num_max_dispatch_tokens_per_rank, hidden, num_experts)

    def _ll_launch(self, launch: Callable[[int, Stream, Stream], None], tensors: Any,
                   async_finish: bool, return_recv_hook: bool
                   ) -> tuple[EventOverlap, Callable[[], None] | None]:
        """launch(phases, current, stream); with a hook the receive is launched by it."""
        if async_finish and return_recv_hook:
            raise ValueError("async_finish and return_recv_hook exclude each other")
        current, stream, _ = self._begin(None, async_finish, False)
        launch(LL_SEND if return_recv_hook else 0, current, stream)
        event = self._end(current, stream, *tensors)

        def hook() -> None:
            launch(LL_RECV, *self._begin(None, False, False)[:2])
        return event, hook if return_recv_hook else None

    def low_latency_dispatch(self, x: Tensor, topk_idx: Tensor,
                             num_max_dispatch_tokens_per_rank: int, num_experts: int,
                             cumulative_local_expert_recv_stats: Tensor = None,
                             dispatch_wait_recv_cost_stats: Tensor = None, use_fp8: bool = True,
                             round_scale: bool = False, use_ue8m0: bool = False,
                             async_finish: bool = False,
                             return_recv_hook: bool = False) -> tuple[Any, ...]:
        """recv_x (or recv_x, scales), recv_count, handle, event, hook."""
        most, local = num_max_dispatch_tokens_per_rank, num_experts // self.group_size
        stats = cumulative_local_expert_recv_stats
        _check("x", x, torch.bfloat16, (None, None))
        tokens, hidden = x.shape
        _check("topk_idx", topk_idx, IDX_TYPES, (tokens, None))
        if tokens > most:
            raise ValueError(f"{tokens} tokens; num_max_dispatch_tokens_per_rank is {most}")
        if hidden % 128 or (use_ue8m0 and (hidden % 512 or not round_scale)):
            raise ValueError("hidden is no multiple of 128, or use_ue8m0 without round_scale or "
                             "with a hidden that is no multiple of 512")
        if stats is not None:
            _check("cumulative_local_expert_recv_stats", stats, torch.int32, (local,))
        if dispatch_wait_recv_cost_stats is not None:
            raise NotImplementedError("dispatch_wait_recv_cost_stats is not measured")
        self._enter()
        group, rows = self._low_latency_group(most, hidden, num_experts), self.group_size * most
        recv_x = _new((local, rows, hidden), FP8 if use_fp8 else torch.bfloat16)
        # The library's handle lies behind src_info, in the same allocation.
        src_info = _new(local * rows + 64 + self._ll_handle_words, torch.int32)
        src_info = src_info[:local * rows].view(local, rows)
        layout = _new((local, self.group_size), torch.int64)
        count = _new(local, torch.int32)
        scales = None
        if use_fp8:
            scales = _new((local, hidden // (512 if use_ue8m0 else 128), rows),
                          torch.int32 if use_ue8m0 else torch.float32)
        flags = IDX32 * (topk_idx.dtype == torch.int32) | (use_fp8 and (
            LL_FP8 | LL_ROUND * round_scale | LL_UE8M0 * use_ue8m0))

        def launch(phases: int, current: Stream, stream: Stream) -> None:
            group.ll_dispatch(_ll_handle(src_info), stream.cuda_stream, flags=flags | phases,
                              tokens=tokens, topk=topk_idx.shape[1], hidden=hidden, x=_address(x),
                              topk_idx=_address(topk_idx), recv_x=_address(recv_x),
                              recv_scales=_address(scales), recv_count=_address(count),
                              src_idx=_address(src_info), layout_range=_address(layout))
            if stats is not None and phases != LL_SEND:
                with _on(stream, current):
                    stats.add_(count)
        event, hook = self._ll_launch(
            launch, (x, topk_idx, recv_x, scales, count, src_info, layout, stats), async_finish,
            return_recv_hook)
        result = recv_x if scales is None else (recv_x, scales.transpose(1, 2))
        return result, count, (src_info, layout, most, hidden, num_experts), event, hook

    def low_latency_combine(self, x: Tensor, topk_idx: Tensor, topk_weights: Tensor, handle: Any,
                            use_logfmt: bool = False, zero_copy: bool = False,
                            async_finish: bool = False, return_recv_hook: bool = False,
                            out: Tensor = None,
                            combine_wait_recv_cost_stats: Tensor = None) -> tuple[Any, ...]:
        """combined_x, event, hook: sums with topk_weights. zero_copy: x is the tensor of
        get_next_low_latency_combine_buffer(). The kernel reads any x where it is.
        """
        src_info, _, most, hidden, experts = handle
        if use_logfmt or combine_wait_recv_cost_stats is not None:
            raise NotImplementedError("use_logfmt and combine_wait_recv_cost_stats are not there: "
                                      "sums are sent in bf16")
        if zero_copy:
            x = self.get_next_low_latency_combine_buffer(handle)
        _check("x", x, torch.bfloat16, (*src_info.shape, hidden))
        _check("topk_weights", topk_weights, torch.float32, (None, None))
        tokens, topk = topk_weights.shape
        _check("topk_idx", topk_idx, IDX_TYPES, (tokens, topk))
        self._enter()
        group = self._low_latency_group(most, hidden, experts)
        out = _new((tokens, hidden), torch.bfloat16) if out is None else out
        _check("out", out, torch.bfloat16, (tokens, hidden))

        def launch(phases: int, current: Stream, stream: Stream) -> None:
            group.ll_combine(_ll_handle(src_info), stream.cuda_stream, flags=phases, tokens=tokens,
                             topk=topk, hidden=hidden, x=_address(x),
                             topk_weights=_address(topk_weights), out=_address(out))
        event, hook = self._ll_launch(launch, (x, topk_weights, src_info, out), async_finish,
                                      return_recv_hook)
        return out, event, hook

    def get_next_low_latency_combine_buffer(self, handle: Any) -> Tensor:
        """A tensor for x of the next low_latency_combine()."""
        shape = (*handle[0].shape, handle[3])
        if self._ll_combine_x is None or tuple(self._ll_combine_x.shape) != shape:
            self._ll_combine_x = _new(shape, torch.bfloat16)
        return self._ll_combine_x

    # ---- ranks left out ----

    def low_latency_update_mask_buffer(self, rank_to_mask: int, mask: bool = False) -> None:
        """Leaves a rank out of the low-latency calls, or takes it in again."""
        bit, stream = 1 << rank_to_mask, self._begin(None, False, False)[1]
        self._ll.set_dead(self._ll.status()[2] & ~bit | bit * bool(mask), stream.cuda_stream)

    def low_latency_query_mask_buffer(self, mask_status: Tensor) -> None:
        """mask_status [num_ranks], int32: 1 for each rank that is left out."""
        _check("mask_status", mask_status, torch.int32, (self.group_size,))
        torch.cuda.current_stream().synchronize()
        dead = self._ll.status()[2]
        mask_status.copy_(torch.tensor([dead >> r & 1 for r in range(self.group_size)],
                                       dtype=torch.int32, device="cpu"))

    def low_latency_clean_mask_buffer(self) -> None:
        """Takes all ranks in again."""
        self._ll.set_dead(0, self._begin(None, False, False)[1].cuda_stream)
