# SPDX-License-Identifier: Apache-2.0
"""Exceptions. Each is an OSError with its errno; `strerror` is the library's sentence."""
import errno

REMOTE_QUIET, UNKNOWN = 1 << 5, 1 << 8      # enum urccl_cqe_flags


class Error(OSError):
    """A call or an entry failed.

    segment: of an entry with data, the first segment or row that is not known to be placed; None:
    none. path: which path the data took, URCCL_PATH bits of abi.h. remote_quiet: proved that
    nothing more lands at the peer. unknown: it may have happened all the same.
    """
    segment: int | None = None
    path: int = 0
    remote_quiet: bool = False
    unknown: bool = False


class Cancelled(Error):
    """The entry was cancelled, or its chain or fence failed."""


class ConnectionReset(Error, ConnectionResetError):
    """The peer reset the connection, was lost or is silent."""


class ConnectionRefused(Error, ConnectionRefusedError):
    """Nobody listens at the address, or the peer refused."""


class Denied(Error, PermissionError):
    """Not allowed: a policy, a revoked or forged advert, a forked child."""


class Full(Error, BlockingIOError):
    """As many entries as the ring has are unfinished."""


class TimedOut(Error, TimeoutError):
    """The deadline of an entry, or the timeout of a call, passed."""


CLASSES: dict[int, type[Error]] = {
    errno.ECANCELED: Cancelled,
    errno.ECONNRESET: ConnectionReset,
    errno.ECONNREFUSED: ConnectionRefused,
    errno.EACCES: Denied,
    errno.EPERM: Denied,
    errno.EAGAIN: Full,
    errno.ETIMEDOUT: TimedOut,
}


def make(number: int, text: str, segment: int = -1, path: int = 0, flags: int = 0) -> Error:
    error = CLASSES.get(number, Error)(number, text)
    error.segment = segment if segment >= 0 else None
    error.path = path
    error.remote_quiet = bool(flags & REMOTE_QUIET)
    error.unknown = bool(flags & UNKNOWN)
    return error
