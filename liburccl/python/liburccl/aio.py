# SPDX-License-Identifier: Apache-2.0
"""asyncio: entries are awaited in the running loop, which looks at the ring's descriptor.

No thread is started. trio and other loops use Ring.fileno() and Ring.reap().
"""
from __future__ import annotations

import asyncio
import weakref
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import Ring
    from ._urccl import Op

Loop = asyncio.AbstractEventLoop


def attach(ring: Ring, loop: Loop) -> None:
    """Lets the loop look at the ring until either is closed."""
    for old in [known for known in ring._loops if known.is_closed()]:
        del ring._loops[old]
    fd, reference = ring.fileno(), weakref.ref(ring)

    def ready() -> None:
        it = reference()
        if it is None or it.closed:
            loop.remove_reader(fd)
        else:
            it.reap()

    loop.add_reader(fd, ready)
    ring._loops[loop] = ready
    ring._set_attached(True)
    ring.reap()


def detach(ring: Ring) -> None:
    """The ring is closed: no loop may look at its descriptor, which another file may get."""
    loops, ring._loops = ring._loops, {}
    fd = ring._fd
    running = asyncio._get_running_loop()
    for loop in loops:
        try:
            if loop is running or not loop.is_running():
                loop.remove_reader(fd)
            else:
                loop.call_soon_threadsafe(loop.remove_reader, fd)
        except RuntimeError:        # it was closed
            pass


def poke(ring: Ring) -> None:
    """Another thread took completions: the loops look and arm the descriptor again."""
    for loop, ready in list(ring._loops.items()):
        try:
            loop.call_soon_threadsafe(ready)
        except RuntimeError:
            pass


def finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def wake(futures: list[asyncio.Future[None]]) -> None:
    """Ends futures in their loops; called where completions were taken."""
    running = asyncio._get_running_loop()
    for future in futures:
        loop = future.get_loop()
        if loop is running:
            finish(future)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(finish, future)


def something(op: Op) -> asyncio.Future[None]:
    """A future that ends when anything more happens to the entry. Look at the entry once more before
    waiting: another thread may just have taken its completion."""
    loop, ring = asyncio.get_running_loop(), op.ring
    future = loop.create_future()
    op._add_future(future)
    if loop not in ring._loops:
        attach(ring, loop)
    return future


def cancelled(op: Op) -> Generator[Any, None, None]:
    """Cancels the entry and goes on when its buffer is quiet, whatever else is cancelled."""
    if not op.quiet and not op.ring.closed:
        op.cancel()
    while not op.quiet:
        future = something(op)
        if op.quiet:
            return
        try:
            yield from future
        except asyncio.CancelledError:
            pass


def await_op(op: Op) -> Generator[Any, None, Any]:
    try:
        if op._spin():
            yield               # the loop runs what else is ready
        while not op._known:
            future = something(op)
            if op._known:
                break
            yield from future
    except asyncio.CancelledError:
        yield from cancelled(op)
        raise
    return op.result()
