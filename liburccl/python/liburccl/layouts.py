# SPDX-License-Identifier: Apache-2.0
"""Records of liburccl/abi.h for vectors and pages: struct formats, and NumPy dtypes on demand."""
from __future__ import annotations

import struct

from ._urccl import address_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

SEG = struct.Struct("<QQQII")               # addr, len, off, region, remote
DIM = struct.Struct("<QqqQQ")               # count, strides, indices: local, remote
PAGED = struct.Struct("<IIQQQ" + "QqqQQ" * 4)
DIMS_MAX = 4

_DIM = [("count", "<u8"), ("local_stride", "<i8"), ("remote_stride", "<i8"),
        ("local_index", "<u8"), ("remote_index", "<u8")]
_FIELDS: dict[str, Any] = {
    "SEG_DTYPE": [("addr", "<u8"), ("len", "<u8"), ("off", "<u8"), ("region", "<u4"),
                  ("remote", "<u4")],
    "DIM_DTYPE": _DIM,
    "PAGED_DTYPE": [("size", "<u4"), ("ndims", "<u4"), ("local_off", "<u8"),
                    ("remote_off", "<u8"), ("block", "<u8"), ("dim", _DIM, (DIMS_MAX,))],
}


def __getattr__(name: str) -> Any:
    if name not in _FIELDS:
        raise AttributeError(name)
    import numpy
    return numpy.dtype(_FIELDS[name])


class Paged:
    """Descriptors of Ring.write_paged() and read_paged(), with the index tables they point to.

    block bytes are moved for each combination of the dimensions, outermost first. A dimension is
    (count, local_stride, remote_stride) in bytes, or with index tables of unsigned 32-bit numbers
    behind them: (count, local_stride, remote_stride, local_index, remote_index), None for none.
    """

    def __init__(self, block: int, dims: Sequence[Sequence[Any]], local_off: int = 0,
                 remote_off: int = 0) -> None:
        if not 1 <= len(dims) <= DIMS_MAX:
            raise ValueError(f"from 1 to {DIMS_MAX} dimensions are possible")
        self.tables: list[Any] = []
        numbers: list[int] = []
        for dim in dims:
            count, local, remote, *indices = dim
            numbers += [count, local, remote]
            numbers += [self._table(index, count) for index in indices]
            numbers += [0] * (2 - len(indices))
        numbers += [0] * (5 * (DIMS_MAX - len(dims)))
        self.records = PAGED.pack(PAGED.size, len(dims), local_off, remote_off, block, *numbers)

    def _table(self, index: Any, count: int) -> int:
        if index is None:
            return 0
        address, size = address_of(index)
        if size < 4 * count:
            raise ValueError(f"an index table of {count} entries has {4 * count} bytes, not {size}")
        # A view keeps what the address points to: a bytearray cannot grow any more.
        self.tables.append(memoryview(index))
        return address


def join(paged: Paged | Iterable[Paged] | Any) -> tuple[Any, Any]:
    """(records, what must be kept) of one or several Paged, or of a buffer of PAGED records."""
    if isinstance(paged, Paged):
        return paged.records, paged
    if isinstance(paged, (list, tuple)):
        return b"".join(one.records for one in paged), list(paged)
    return paged, None
