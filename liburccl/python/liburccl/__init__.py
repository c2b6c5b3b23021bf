# SPDX-License-Identifier: Apache-2.0
"""liburccl: io_uring for the memory of other machines.

A Context has devices, peers and registered memory; a Ring takes entries that read, write and
notify. Each entry is an Op: await it in asyncio, or call result().

    import liburccl

    with liburccl.Context() as ctx, ctx.ring() as ring:
        peer = ring.connect("10.0.0.2:7777").result()
        remote = ctx.import_(peer, advert)          # 64 bytes that the peer sent
        with ctx.register(data) as region:          # bytes, a NumPy array, a tensor ...
            ring.write(remote, data, notify=42).result()

Keyword arguments of every entry:

    timeout     seconds until its outcome, every wait included; None: the context's deadline_ms
    notify      tag or (tag, payload): the peer gets a Note when the data is placed
    fence       starts when all earlier entries to the peer (of the group) have succeeded
    link        the next entry starts when this one has succeeded; submit both in one batch()
    drain       starts when all earlier entries of the ring have ended
    group       what fence waits for, a number
    cls         "bulk", "latency" or "control"
    checksum    CRC32C of the data is compared where it is placed
    acked       the device's acknowledgement is enough
    no_replay   never sent again on another path
    wait        (word, value): starts when the 64-bit word, in registered memory, is >= value
    signal      (word, value): sets the word before the outcome of an entry that succeeded
    event       starts when the CUDA event (of PyTorch or CuPy, or its handle) is done
    stream      starts when what the CUDA stream (of PyTorch or CuPy) has to do now is done
    ready       True: the program has synchronised, where device_order is "explicit"

Buffers are objects with the buffer protocol, such as bytes, bytearray, NumPy arrays and Memory;
tensors with data_ptr() (PyTorch), __cuda_array_interface__ (CuPy, Numba) or DLPack (JAX), in memory
of the host or of NVIDIA GPUs; and (address, bytes). They are contiguous: bytes are not copied
silently. Memory of a GPU may be written and read while its stream still works on it, unless event,
stream or wait says when the entry starts.

Failures raise Error, an OSError whose text says what to do. A Context belongs to the process that
opened it: a forked child opens its own.
"""
from __future__ import annotations

import atexit
import os

from . import _errors, _urccl
from ._errors import (Cancelled, ConnectionRefused, ConnectionReset, Denied, Error, Full, TimedOut)
from ._urccl import Memory, Op, Region, Remote, address_of, version
from .layouts import DIM, PAGED, SEG, Paged, join

__all__ = [
    "Cancelled", "ConnectionRefused", "ConnectionReset", "Context", "DIM", "Denied", "Error",
    "Event", "Events", "Full", "Lost", "Memory", "Msg", "Note", "Op", "PAGED", "Paged", "Peer",
    "Rail", "Region", "Remote", "Ring", "SEG", "TimedOut", "address_of", "version",
]
__version__ = version()

TYPE_CHECKING = False   # checkers take it for True; typing takes longer to import than the package
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from ._events import Event, Events, Lost, Msg, Note, Peer, Rail
else:
    def __getattr__(name):
        """The classes of events, at their first use: they need typing."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import _events
        value = globals()[name] = getattr(_events, name)
        return value

    def __dir__():
        return sorted({*globals(), *__all__})

LOG_LEVELS = {2: 40, 3: 30, 4: 20, 5: 10}       # enum urccl_log_level to logging's


def _events_of(op: Op) -> Events:
    from ._events import Events
    return Events(op)


class _Batch:
    def __init__(self, ring: Ring) -> None:
        self._ring = ring

    def __enter__(self) -> Ring:
        self._ring._hold()
        return self._ring

    def __exit__(self, *_: object) -> None:
        self._ring._release()


class Ring(_urccl.Ring):
    """Takes entries and gives their outcomes. Any thread may submit, poll and wait.

    entries: as many may be unfinished at a time, a power of two up to 16,384; the next one raises
    Full. event_slots: events that the library keeps while nobody takes completions.
    """

    def __init__(self, context: Context, entries: int = 256, event_slots: int = 256) -> None:
        super().__init__(context, entries, event_slots)
        self._loops: dict[Any, Callable[[], None]] = {}
        self._fd = self.fileno()
        self._accepting: Events | None = None
        self._watching: dict[int, Events] = {}

    def batch(self) -> _Batch:
        """`with ring.batch():` hands the entries made inside it over together, at its end or when
        one of them is waited for."""
        return _Batch(self)

    def events(self, peer: int | None = None) -> Events:
        """The Note, Rail and Lost events of a peer; None: of all peers without a stream of their
        own, and Msg events."""
        key = peer or 0
        stream = self._watching.get(key)
        if stream is None or stream.ended:
            stream = self._watching[key] = _events_of(self._watch(key))
        return stream

    def next_event(self, timeout: float | None = None) -> Event | None:
        """The next event of events(); None: timeout seconds passed."""
        return self.events().next(timeout)

    def accept(self) -> Events:
        """A Peer event for each context that dials this one."""
        if self._accepting is None or self._accepting.ended:
            self._accepting = _events_of(self._accept())
        return self._accepting

    def write_paged(self, remote: Remote, region: Region, paged: Any, **options: Any) -> Op:
        """Writes strided, indexed blocks of a region: paged is a Paged, a list of them, or a buffer
        of PAGED records whose index tables the caller keeps. Result: bytes."""
        records, keep = join(paged)
        return self._write_paged(remote, region, records, keep, **options)

    def read_paged(self, remote: Remote, region: Region, paged: Any, **options: Any) -> Op:
        """The other way; see write_paged()."""
        records, keep = join(paged)
        return self._read_paged(remote, region, records, keep, **options)

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what the extension and aio.py call ----

    def _detach(self) -> None:
        from . import aio
        aio.detach(self)

    def _poke(self) -> None:
        from . import aio
        aio.poke(self)


class Context(_urccl.Context):
    """Devices, connections and registered memory of this process.

    transport: "shm,tcp", best first; None: shm and tcp where they open. listen: "10.0.0.1:7777",
    None: loopback, any port; "": nowhere. hello: up to 256 bytes that dialling peers get. log: a
    logging.Logger, or a callable (level, text) which the main thread calls. Other settings by their
    names in urccl_params_from_env(3), such as deadline_ms=5000; secret: bytes.
    """

    def __init__(self, transport: str | None = None, listen: str | None = None,
                 hello: bytes = b"", log: Any = None, **settings: Any) -> None:
        if hasattr(log, "log"):
            logger = log

            def log(level: int, text: str) -> None:
                logger.log(LOG_LEVELS.get(level, 20), "%s", text)
        super().__init__(transport=transport, listen=listen, hello=hello, log=log, **settings)

    @classmethod
    def from_env(cls, **settings: Any) -> Context:
        """A context with the settings of URCCL_ variables; arguments go before them."""
        return cls(env=True, **settings)

    def ring(self, entries: int = 256, event_slots: int = 256) -> Ring:
        """Opens a ring; up to 256 a context."""
        return Ring(self, entries, event_slots)

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Context:
        return self

    async def __aexit__(self, *_: object) -> None:
        import asyncio
        await asyncio.get_running_loop().run_in_executor(None, self.close)


# asyncio takes longer to import than all the rest: those who await have it already.
def _await_op(op: Op) -> Generator[Any, None, Any]:
    from . import aio
    return aio.await_op(op)


def _wake(futures: list[Any]) -> None:
    from . import aio
    aio.wake(futures)


_urccl._set_hooks(_errors.make, _await_op, _wake)
os.register_at_fork(after_in_child=_urccl._forked)
atexit.register(_urccl._close_all)
