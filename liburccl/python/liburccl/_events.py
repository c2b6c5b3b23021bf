# SPDX-License-Identifier: Apache-2.0
"""Events of a ring, and the streams they come in."""
from __future__ import annotations

import errno
import time
from typing import TYPE_CHECKING, NamedTuple, Union

from . import _errors

if TYPE_CHECKING:
    from ._urccl import Op

KIND_PEER, KIND_NOTE, KIND_LOST, KIND_RAIL, KIND_MSG = range(1, 6)     # enum urccl_cqe_kind


class Peer(NamedTuple):
    """A context dialled us."""
    peer: int
    hello: bytes


class Note(NamedTuple):
    """A notification of a peer, after the data it follows. error: it will not come."""
    peer: int
    tag: int
    payload: bytes
    error: _errors.Error | None


class Lost(NamedTuple):
    """The peer is gone, after its last Note. error None: it closed in order."""
    peer: int
    error: _errors.Error | None


class Rail(NamedTuple):
    """A rail to the peer came up (error None) or went down."""
    peer: int
    rail: int
    error: _errors.Error | None


class Msg(NamedTuple):
    """A message of another ring, by its id."""
    ring: int
    res: int
    tag: int


Event = Union[Peer, Note, Lost, Rail, Msg]


def make(kind: int, peer: int, res: int, info: int, payload: bytes, why: str | None) -> Event:
    error = _errors.make(-res, why or "unknown") if res < 0 and kind != KIND_MSG else None
    if kind == KIND_PEER:
        return Peer(peer, payload)
    if kind == KIND_NOTE:
        return Note(peer, info, payload, error)
    if kind == KIND_LOST:
        return Lost(peer, error)
    if kind == KIND_RAIL:
        return Rail(peer, info, error)
    return Msg(peer, res, info)


class Events:
    """A stream of events: iterate with `for` or `async for`, or ask for one with next() or get().

    It ends when the ring is closed, when close() was called, when a newer stream of the same kind
    replaces it, and after the Lost of its peer. Events wait in memory until they are taken.
    """

    def __init__(self, op: Op) -> None:
        self._op = op
        self._lost = False

    def _take(self) -> Event | None:
        found = self._op._take_event()
        if found is None:
            return None
        kind, peer, res, info, _, payload, why = found
        event = make(kind, peer, res, info, payload, why)
        # After the Lost of the one peer that it watches, its entry has ended.
        self._lost = kind == KIND_LOST and self._op._known
        return event

    @property
    def ended(self) -> bool:
        """No event comes any more."""
        return self._op._known

    def _check_end(self) -> None:
        if not self._lost and self._op.res not in (-errno.ECANCELED, -errno.ESHUTDOWN):
            self._op.result()

    def next(self, timeout: float | None = None) -> Event | None:
        """The next event; None: timeout seconds passed, or the stream ended. Waits on this
        thread."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            event = self._take()
            if event is not None or self.ended:
                return event
            left = None if end is None else max(0.0, end - time.monotonic())
            if self._op._wait_event(left) is None:
                return None

    async def get(self) -> Event | None:
        """The next event; None: the stream ended."""
        from . import aio
        future = None
        while True:
            event = self._take()
            if event is not None or self.ended:
                return event
            if future is not None:
                await future
            future = None if future else aio.something(self._op)

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Event:
        event = self.next()
        if event is None:
            self._check_end()
            raise StopIteration
        return event

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Event:
        event = await self.get()
        if event is None:
            self._check_end()
            raise StopAsyncIteration
        return event

    def close(self) -> None:
        """Ends the stream. Events then wait at the peer, under its deadlines."""
        if not self._op.ring.closed:
            self._op.cancel()
