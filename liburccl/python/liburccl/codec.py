# SPDX-License-Identifier: Apache-2.0
"""The lossless float codec: weights and KV caches in bf16 become about a third smaller.

    from liburccl import codec

    chunk = codec.encode(weights)               # a NumPy array, a tensor, bytes ...
    codec.decode_into(chunk, weights)

dtype is "bf16", "fp16", "fp32", "e4m3", "e5m2" or "bytes"; None: that of the array. codec is "n23"
(smallest), "fw4" (fastest) or "off". On GPUs, with PyTorch:

    gpu = codec.Gpu(0)
    room = torch.empty(codec.bound(n, "bf16"), dtype=torch.uint8, device="cuda")
    size = torch.empty(1, dtype=torch.int64, device="cuda")
    gpu.encode(weights, room, size, stream=torch.cuda.current_stream())
    gpu.decode(room[:size.item()], back, size, stream=torch.cuda.current_stream())
"""
from __future__ import annotations

from typing import Any, NamedTuple

from . import _urccl

__all__ = ["Gpu", "Info", "bound", "decode", "decode_into", "encode", "encode_into", "info"]

_DTYPES = {"bytes": 0, "bf16": 1, "fp16": 2, "fp32": 3, "e4m3": 4, "e5m2": 5}
_CODECS = {"n23": 3, "fw4": 2, "off": 1}
_NO_CRC = 1 << 8
_ARRAYS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float8_e4m3fn": "e4m3",
           "float8_e4m3": "e4m3", "float8_e5m2": "e5m2"}


class Info(NamedTuple):
    """What a chunk says of itself. The next chunk of a file begins after coded_bytes."""
    version: int
    dtype: str
    codec: str          # also "const": all elements are equal
    checksum: bool      # the chunk has the CRC32C of the data
    raw_bytes: int
    coded_bytes: int


def _dtype(dtype: str | None, array: Any = None) -> int:
    if dtype is None:
        name = str(getattr(array, "dtype", "bytes")).rpartition(".")[2]
        dtype = _ARRAYS.get(name, "bytes")
    if dtype not in _DTYPES:
        raise ValueError(f"dtype is {dtype!r}: one of {', '.join(_DTYPES)} is possible")
    return _DTYPES[dtype]


def _codec(codec: str, crc: bool) -> int:
    if codec not in _CODECS:
        raise ValueError(f"codec is {codec!r}: one of {', '.join(_CODECS)} is possible")
    return _CODECS[codec] | (0 if crc else _NO_CRC)


def bound(size: int, dtype: str = "bytes") -> int:
    """Bytes that always hold the chunk of so many bytes."""
    return _urccl._codec_bound(_dtype(dtype), size)


def encode_into(data: Any, out: Any, dtype: str | None = None, codec: str = "n23",
                crc: bool = True) -> int:
    """Writes the data as one chunk to out and returns the chunk's bytes. Other threads run."""
    return _urccl._codec_encode(_codec(codec, crc), _dtype(dtype, data), data, out)


def encode(data: Any, dtype: str | None = None, codec: str = "n23", crc: bool = True) -> bytearray:
    """The data as one chunk."""
    out = bytearray(_urccl._codec_bound(_dtype(dtype, data), _urccl.address_of(data)[1]))
    del out[encode_into(data, out, dtype, codec, crc):]
    return out


def decode_into(chunk: Any, out: Any) -> int:
    """Writes the data of the chunk, which may be any bytes, to out and returns its bytes."""
    return _urccl._codec_decode(chunk, out)


def decode(chunk: Any) -> bytearray:
    """The data of the chunk."""
    out = bytearray(info(chunk).raw_bytes)
    decode_into(chunk, out)
    return out


def info(chunk: Any) -> Info:
    """From the first 64 bytes of a chunk."""
    version, dtype, codec, checksum, raw, coded = _urccl._codec_info(chunk)
    names = {number: name for name, number in _CODECS.items()} | {4: "const"}
    return Info(version, list(_DTYPES)[dtype], names[codec], checksum, raw, coded)


class Gpu:
    """The codec on a GPU, CUDA's number of it, which this process uses already. sms: at most so many
    multiprocessors are used; 0: all.

    encode() and decode() put work on a CUDA stream and return. The caller keeps the arrays alive
    until the stream is through; then result, 8 bytes in memory of the GPU, is the number of bytes
    written, or a negative errno. The chunk begins at a multiple of 16 bytes and has no CRC32C.
    """

    def __init__(self, device: int = 0, sms: int = 0) -> None:
        self._gpu = _urccl._codec_gpu_open(device, sms)

    def encode(self, data: Any, out: Any, result: Any, dtype: str | None = None,
               codec: str = "n23", stream: Any = 0) -> None:
        """Writes the data as one chunk to out, which has bound() bytes."""
        _urccl._codec_gpu_launch(self._gpu, _codec(codec, False), _dtype(dtype, data), data, out,
                                 _stream(stream), result)

    def decode(self, chunk: Any, out: Any, result: Any, dtype: str | None = None,
               stream: Any = 0) -> None:
        """Writes the data of the chunk to out. dtype: of the data; None: that of out."""
        _urccl._codec_gpu_launch(self._gpu, -1, _dtype(dtype, out), chunk, out, _stream(stream),
                                 result)


def _stream(stream: Any) -> int:
    """The handle of a stream of PyTorch or CuPy, or the number itself."""
    for name in "cuda_stream", "ptr":
        if hasattr(stream, name):
            return int(getattr(stream, name))
    return int(stream)
