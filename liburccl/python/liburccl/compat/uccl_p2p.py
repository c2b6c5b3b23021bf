# SPDX-License-Identifier: Apache-2.0
"""UCCL P2P's Python interface on liburccl: `import liburccl.compat.uccl_p2p as p2p`.

The methods, their results and the bytes of metadata and descriptors are UCCL's. A failed call
returns False, and `Endpoint.last_error` says why; with raise_errors=True it raises
liburccl.Error. No thread takes completions: poll_async() does, and blocking calls release the
GIL.

Other than there: Ctrl-C raises KeyboardInterrupt, an unknown transfer id raises KeyError, a
finished one stays finished. floatType is checked and not carried out. The settings come from the
environment, UCCL_SOCKET_IFNAME and UCCL_P2P_TRANSPORT among them.
"""
from __future__ import annotations

import contextlib
import enum
import errno
import itertools
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import liburccl

__all__ = ["Endpoint", "FloatType", "XferDesc", "XferHandle", "get_oob_ip"]

NO_ID = 2**64 - 1
NO_BDF = "0000:00:00.0"
CONNECTED = 2**64 - 1       # tag of the notification behind each connect(), for accept() to see
ADVERT = 64
Descs = Sequence["XferDesc"]


class FloatType(enum.IntEnum):
    kUndefined, kFloat16, kBFloat16, kFloat32, kFloat8E4M3, kFloat8E5M2 = range(6)


class XferDesc:
    """Registered memory: what transfer() takes, here and at the peer."""

    def __init__(self) -> None:
        self.addr, self.size, self.mr_id = 0, 0, NO_ID
        self.lkeys: list[int] = []
        self.rkeys: list[int] = []
        self.advert = b""


class XferHandle:
    """Never returned, as in UCCL."""


def get_oob_ip() -> str:
    """The IPv4 address that others reach this host by."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))     # sends nothing: the kernel picks the source address
            return str(s.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def bdf_of(index: int | None) -> str:
    try:
        gpus = sorted(os.listdir("/proc/driver/nvidia/gpus"))
    except OSError:
        gpus = []
    return gpus[index] if index is not None and 0 <= index < len(gpus) else NO_BDF


class _Conn:
    """One id of a connection: several may lead to one peer."""

    def __init__(self, peer: int, metadata: bytes = b"") -> None:
        self.peer, self.metadata = peer, metadata
        self.remotes: dict[bytes, liburccl.Remote] = {}


class _Memory:
    def __init__(self, region: liburccl.Region, addr: int, size: int, key: int) -> None:
        self.region, self.addr, self.size, self.key = region, addr, size, key

    def holds(self, addr: int, size: int) -> bool:
        return self.addr <= addr and addr + size <= self.addr + self.size


class Endpoint:
    """One context with one ring. local_gpu_idx None: opened when it is first used."""

    def __init__(self, local_gpu_idx: int | None = None, *, timeout_ms: int | None = None,
                 raise_errors: bool = False) -> None:
        self.last_error, self.raise_errors = "", raise_errors
        self._gpu, self._timeout_ms = local_gpu_idx, timeout_ms
        self._bdf = bdf_of(local_gpu_idx)
        self._opened: tuple[liburccl.Context, liburccl.Ring] | None = None
        self._conns: dict[int, _Conn] = {}
        self._memory: dict[int, _Memory] = {}
        self._exposed: list[_Memory] = []
        self._ops: dict[int, tuple[liburccl.Op, list[_Memory]]] = {}
        self._failed: dict[int, str] = {}
        self._conn_ids, self._mr_ids = itertools.count(1), itertools.count(1)
        self._keys, self._next_transfer = itertools.count(1), 1
        self._local: socket.socket | None = None
        self.notifications: list[liburccl.Note] = []    # of notify(), that accept() came across
        if local_gpu_idx is not None:
            self._open()

    # ---- beyond UCCL's ----

    def close(self) -> None:
        """Ends connections and registrations. Waits at most 2 s."""
        if self._local:
            self._local.close()
        if self._opened:
            self._opened[0].close()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def fileno(self) -> int:
        """Readable when poll_async() has something to take; see liburccl.Ring.reap()."""
        return self._ring.fileno()

    def notify(self, conn_id: int, tag: int, payload: bytes = b"") -> bool:
        """Sends a notification of a 64-bit tag and up to 256 bytes."""
        return self._try(lambda: self._wait(
            lambda: self._ring.notify(self._conn(conn_id).peer, tag, payload)))

    # ---- inside ----

    def _open(self) -> tuple[liburccl.Context, liburccl.Ring]:
        if self._opened is None:
            settings: dict[str, Any] = {}
            if not os.environ.get("URCCL_LISTEN") and not os.environ.get("UCCL_SOCKET_IFNAME") \
                    and not os.environ.get("URCCL_SOCKET_IFNAME"):
                settings["listen"] = "0.0.0.0:0"
            if self._timeout_ms:
                settings["deadline_ms"] = self._timeout_ms
            context = liburccl.Context.from_env(hello=self._bdf.encode(), **settings)
            self._opened = context, context.ring(1024)
        return self._opened

    @property
    def _context(self) -> liburccl.Context:
        return self._open()[0]

    @property
    def _ring(self) -> liburccl.Ring:
        return self._open()[1]

    def _try(self, call: Callable[[], Any]) -> bool:
        return self._give(call, None)[0]

    def _give(self, call: Callable[[], Any], otherwise: Any) -> tuple[bool, Any]:
        """(True, what the call gives), or (False, otherwise)."""
        try:
            return True, call()
        except liburccl.Error as error:
            if self.raise_errors:
                raise
            self.last_error = str(error.strerror)
            return False, otherwise

    def _submit(self, make: Callable[[], liburccl.Op]) -> liburccl.Op:
        while True:
            try:
                return make()
            except liburccl.Full:
                self._ring.wait_room()

    def _wait(self, make: Callable[[], liburccl.Op]) -> Any:
        return self._submit(make).result()

    def _conn(self, conn_id: int) -> _Conn:
        if conn_id not in self._conns:
            raise RuntimeError("Invalid conn_id")
        return self._conns[conn_id]

    def _new_conn(self, conn: _Conn) -> int:
        conn_id = next(self._conn_ids)
        self._conns[conn_id] = conn
        return conn_id

    def _dial(self, ip: str, port: int, metadata: bytes = b"") -> int:
        peer = self._wait(lambda: self._ring.connect(f"{ip}:{port}"))
        # Two contexts have one connection and one Peer event, however often they are connected.
        self._submit(lambda: self._ring.notify(peer, CONNECTED, self._bdf.encode()))
        return self._new_conn(_Conn(peer, metadata))

    def _remote(self, conn: _Conn, advert: bytes) -> liburccl.Remote:
        advert = bytes(advert)
        if len(advert) != ADVERT:
            raise RuntimeError(f"metadata of a buffer has {ADVERT} bytes, not {len(advert)}")
        if advert not in conn.remotes:
            conn.remotes[advert] = self._context.import_(conn.peer, advert)
        return conn.remotes[advert]

    def _key(self, addr: int, size: int) -> int:
        """Memory inside other registered memory has its key."""
        for memory in self._memory.values():
            if memory.holds(addr, size):
                return memory.key
        return 4 * next(self._keys)

    def _expose(self, addr: int, size: int, rights: str) -> _Memory:
        return _Memory(self._context.register((addr, size), rights), addr, size,
                       self._key(addr, size))

    def _begin(self, conn_id: int, is_read: bool, pieces: Sequence[tuple[int, int, bytes]]) \
            -> liburccl.Op:
        """One entry for (address, bytes, advert) each."""
        conn, ring = self._conn(conn_id), self._ring
        if len(pieces) == 1:
            addr, size, advert = pieces[0]
            remote = self._remote(conn, advert)
            move = ring.read if is_read else ring.write
            return self._submit(lambda: move(remote, (addr, size)))
        segments = [(self._remote(conn, advert), (addr, size), 0) for addr, size, advert in pieces]
        movev = ring.readv if is_read else ring.writev
        return self._submit(lambda: movev(conn.peer, segments))

    def _move(self, conn_id: int, is_read: bool, pieces: Sequence[tuple[int, int, bytes]]) -> bool:
        return self._try(lambda: self._begin(conn_id, is_read, pieces).result())

    def _start(self, conn_id: int, is_read: bool, pieces: Sequence[tuple[int, int, bytes]],
               keep: Sequence[_Memory] = ()) -> tuple[bool, int]:
        def start() -> int:
            op = self._begin(conn_id, is_read, pieces)
            transfer_id, self._next_transfer = self._next_transfer, self._next_transfer + 1
            self._ops[transfer_id] = op, list(keep)
            return transfer_id
        return self._give(start, 0)

    @staticmethod
    def _pieces(ptrs: Sequence[int], sizes: Sequence[int], metas: Sequence[bytes],
                count: int | None = None) -> list[tuple[int, int, bytes]]:
        lengths = {len(ptrs), len(sizes), len(metas)} | ({count} if count is not None else set())
        if len(lengths) != 1:
            raise RuntimeError("the vectors differ in length")
        return list(zip(ptrs, sizes, metas))

    # ---- connections ----

    def get_metadata(self) -> bytes:
        address = self._context.listening[0]
        ip, port = address.rsplit(":", 1)
        if ip in ("0.0.0.0", "[::]"):
            ip = get_oob_ip()
        return socket.inet_aton(ip) + struct.pack(">HB", int(port), len(self._bdf)) + \
            self._bdf.encode()

    @staticmethod
    def parse_metadata(metadata: bytes) -> tuple[str, int, str]:
        metadata = bytes(metadata)
        if len(metadata) < 7 or len(metadata) < 7 + metadata[6]:
            raise RuntimeError(f"metadata of {len(metadata)} bytes is cut off")
        port, length = struct.unpack_from(">HB", metadata, 4)
        return socket.inet_ntoa(metadata[:4]), port, metadata[7:7 + length].decode()

    def connect(self, remote_ip_addr: str, remote_gpu_bdf: str = "", remote_port: int = -1) \
            -> tuple[bool, int]:
        return self._give(lambda: self._dial(remote_ip_addr, remote_port), 0)

    def _accepting(self) -> liburccl.Events:
        self._ring.accept()
        return self._ring.events()

    def _accepted(self) -> tuple[str, str, int]:
        for event in self._accepting():
            if not isinstance(event, liburccl.Note) or event.error:
                continue
            if event.tag != CONNECTED:
                self.notifications.append(event)
                continue
            address = self._context.get_peer_info(event.peer)["address"]
            return (address.rsplit(":", 1)[0].strip("[]"), event.payload.decode(errors="replace"),
                    self._new_conn(_Conn(event.peer)))
        raise liburccl.Error(errno.ESTALE, "the endpoint is closed")

    def accept(self) -> tuple[bool, str, int, int]:
        def call() -> tuple[str, int, int]:
            ip, _, conn_id = self._accepted()
            return ip, 0, conn_id
        ok, (ip, gpu, conn_id) = self._give(call, ("", 0, 0))
        return ok, ip, gpu, conn_id

    def start_passive_accept(self) -> bool:
        return self._try(self._accepting)

    def add_remote_endpoint(self, metadata_bytes: bytes) -> tuple[bool, int]:
        metadata = bytes(metadata_bytes)
        for conn_id, conn in self._conns.items():
            if conn.metadata == metadata:
                return True, conn_id
        ip, port, _ = self.parse_metadata(metadata)
        return self._give(lambda: self._dial(ip, port, metadata), 0)

    def remove_remote_endpoint(self, conn_id: int) -> bool:
        conn = self._conns.pop(conn_id, None)
        if conn is None:
            return False
        conn.remotes.clear()
        return self._try(lambda: self._wait(lambda: self._ring.close_peer(conn.peer)))

    def conn_id_of_rank(self, rank: int) -> int:
        return NO_ID

    # ---- memory ----

    def reg(self, ptr: int, size: int, floatType: FloatType = FloatType.kUndefined) \
            -> tuple[bool, int]:
        FloatType(floatType)

        def call() -> int:
            memory, mr_id = self._expose(ptr, size, "rw"), next(self._mr_ids)
            self._memory[mr_id] = memory
            return mr_id
        return self._give(call, 0)

    def regv(self, ptrs: Sequence[int], sizes: Sequence[int]) -> tuple[bool, list[int]]:
        found = [self.reg(ptr, size) for ptr, size in zip(ptrs, sizes, strict=True)]
        if all(ok for ok, _ in found):
            return True, [mr_id for _, mr_id in found]
        for ok, mr_id in found:
            if ok:
                self.dereg(mr_id)
        return False, []

    def dereg(self, mr_id: int) -> bool:
        memory = self._memory.get(mr_id)
        if memory is None or not self._try(memory.region.unregister):
            return False
        del self._memory[mr_id]
        return True

    def _advert(self, memory: _Memory, ptr: int, size: int) -> bytes:
        if not memory.holds(ptr, size):
            raise liburccl.Error(errno.ERANGE, f"{size} bytes at 0x{ptr:x} are not in the registered memory")
        return memory.region.advertise(ptr - memory.addr, size)

    def advertise(self, mr_id: int, ptr: int, size: int) -> tuple[bool, bytes]:
        if mr_id not in self._memory:
            return False, b""
        return self._give(lambda: self._advert(self._memory[mr_id], ptr, size), b"")

    def advertisev(self, mr_id_v: Sequence[int], ptr_v: Sequence[int], size_v: Sequence[int],
                   num_iovs: int) -> tuple[bool, list[bytes]]:
        found = [self.advertise(*one) for one in zip(mr_id_v, ptr_v, size_v)][:num_iovs]
        return all(ok for ok, _ in found), [advert for _, advert in found]

    def register_memory(self, tensors: Sequence[Any]) -> list[XferDesc]:
        descs = []
        for tensor in tensors:
            try:
                ptr, size = tensor.data_ptr(), tensor.numel() * tensor.element_size()
            except AttributeError:
                raise RuntimeError(f"a tensor is wanted, not {type(tensor)}") from None
            ok, mr_id = self.reg(ptr, size)
            if not ok:
                raise RuntimeError(self.last_error)
            desc, memory = XferDesc(), self._memory[mr_id]
            desc.addr, desc.size, desc.mr_id = ptr, size, mr_id
            desc.lkeys = desc.rkeys = [memory.key]
            desc.advert = self._advert(memory, ptr, size)
            descs.append(desc)
        return descs

    def deregister_memory(self, descs: Descs) -> None:
        for desc in descs:
            self.dereg(desc.mr_id)

    def get_serialized_descs(self, descs: Descs) -> bytes:
        parts = [struct.pack("<Q", len(descs))]
        for d in descs:
            n = len(d.lkeys)
            parts += [struct.pack(f"<QQQ{2 * n}IQ", d.addr, d.size, n, *d.lkeys, *d.rkeys,
                                  len(d.advert)), d.advert]
        return b"".join(parts)

    def deserialize_descs(self, data: bytes) -> list[XferDesc]:
        try:
            return list(self._read_descs(bytes(data)))
        except struct.error:
            raise RuntimeError("serialized descriptors are cut off") from None

    @staticmethod
    def _read_descs(data: bytes) -> Iterator[XferDesc]:
        (count,), at = struct.unpack_from("<Q", data), 8
        for _ in range(count):
            d = XferDesc()
            d.addr, d.size, n = struct.unpack_from("<QQQ", data, at)
            if n > len(data):
                raise struct.error
            keys = struct.unpack_from(f"<{2 * n}IQ", data, at + 24)
            d.lkeys, d.rkeys, length = list(keys[:n]), list(keys[n:2 * n]), keys[-1]
            at += 32 + 8 * n
            d.advert = data[at:at + length]
            at += length
            yield d

    # ---- transfers ----

    def transfer(self, conn_id: int, op_name: str, local_descs: Descs, remote_descs: Descs) \
            -> tuple[bool, int]:
        self._conn(conn_id)
        if op_name not in ("read", "write"):
            raise RuntimeError("Invalid op_name")
        if len(local_descs) != len(remote_descs) or any(
                a.size != b.size for a, b in zip(local_descs, remote_descs)):
            raise RuntimeError("the sizes of local and remote descriptors differ")
        pieces = [(a.addr, a.size, b.advert) for a, b in zip(local_descs, remote_descs)]
        return self._start(conn_id, op_name == "read", pieces)

    def poll_async(self, transfer_id: int) -> tuple[bool, bool]:
        found = self._ops.get(transfer_id)
        if found is None:
            if not 0 < transfer_id < self._next_transfer:
                raise KeyError(transfer_id)
            self.last_error = self._failed.get(transfer_id, self.last_error)
            return transfer_id not in self._failed, True
        op, keep = found
        if not op.done():
            return True, False
        self._ops.pop(transfer_id, None)
        for memory in keep:
            self._try(memory.region.unregister)
        ok = self._try(op.result)
        if not ok:
            self._failed[transfer_id] = self.last_error
        return ok, True

    def read(self, conn_id: int, mr_id: int, ptr: int, size: int, meta: bytes) -> bool:
        return self._move(conn_id, True, [(ptr, size, meta)])

    def write(self, conn_id: int, mr_id: int, ptr: int, size: int, meta: bytes) -> bool:
        return self._move(conn_id, False, [(ptr, size, meta)])

    def read_async(self, conn_id: int, mr_id: int, ptr: int, size: int, meta: bytes) \
            -> tuple[bool, int]:
        return self._start(conn_id, True, [(ptr, size, meta)])

    def write_async(self, conn_id: int, mr_id: int, ptr: int, size: int, meta: bytes) \
            -> tuple[bool, int]:
        return self._start(conn_id, False, [(ptr, size, meta)])

    def readv(self, conn_id: int, mr_id_v: Sequence[int], ptr_v: Sequence[int],
              size_v: Sequence[int], meta_blob_v: Sequence[bytes], num_iovs: int) -> bool:
        return self._move(conn_id, True, self._pieces(ptr_v, size_v, meta_blob_v, num_iovs))

    def writev(self, conn_id: int, mr_id_v: Sequence[int], ptr_v: Sequence[int],
               size_v: Sequence[int], meta_blob_v: Sequence[bytes], num_iovs: int) -> bool:
        return self._move(conn_id, False, self._pieces(ptr_v, size_v, meta_blob_v, num_iovs))

    def readv_async(self, conn_id: int, mr_id_v: Sequence[int], ptr_v: Sequence[int],
                    size_v: Sequence[int], meta_blob_v: Sequence[bytes], num_iovs: int) \
            -> tuple[bool, int]:
        return self._start(conn_id, True, self._pieces(ptr_v, size_v, meta_blob_v, num_iovs))

    def writev_async(self, conn_id: int, mr_id_v: Sequence[int], ptr_v: Sequence[int],
                     size_v: Sequence[int], meta_blob_v: Sequence[bytes], num_iovs: int) \
            -> tuple[bool, int]:
        return self._start(conn_id, False, self._pieces(ptr_v, size_v, meta_blob_v, num_iovs))

    # ---- within a host: a socket named after the GPU hands over the metadata ----

    @staticmethod
    def _local_name(bdf: str) -> str:
        return f"\0liburccl-uccl-p2p-{os.getuid()}-{bdf}"

    def connect_local(self, remote_gpu_bdf: str) -> tuple[bool, int]:
        end = time.monotonic() + (self._timeout_ms or 30000) / 1000
        while True:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                try:
                    s.settimeout(max(0.001, end - time.monotonic()))
                    s.connect(self._local_name(str(remote_gpu_bdf)))
                    ip, port, _ = self.parse_metadata(s.recv(512))
                    return self._give(lambda: self._dial(ip, port), 0)
                except (OSError, RuntimeError) as error:
                    if time.monotonic() >= end:
                        self.last_error = f"nobody accepts for GPU {remote_gpu_bdf}: {error}"
                        return False, 0
            time.sleep(0.01)        # the acceptor may only just begin

    def accept_local(self) -> tuple[bool, str, int]:
        if self._local is None:
            self._local = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._local.bind(self._local_name(self._bdf))
            self._local.listen()
        self._accepting()
        other, _ = self._local.accept()
        with other:
            other.send(self.get_metadata())
        ok, (_, bdf, conn_id) = self._give(self._accepted, ("", "", 0))
        return ok, bdf, conn_id

    def advertise_ipc(self, conn_id: int, ptr: int, size: int) -> tuple[bool, bytes]:
        def call() -> bytes:
            memory = self._expose(ptr, size, "rw")
            self._exposed.append(memory)
            return self._advert(memory, ptr, size)
        return self._give(call, b"")

    def advertisev_ipc(self, conn_id: int, ptr_v: Sequence[int], size_v: Sequence[int]) \
            -> tuple[bool, list[bytes]]:
        found = [self.advertise_ipc(conn_id, *one) for one in zip(ptr_v, size_v, strict=True)]
        return all(ok for ok, _ in found), [advert for _, advert in found]

    def _start_ipc(self, conn_id: int, is_read: bool, ptrs: Sequence[int], sizes: Sequence[int],
                   infos: Sequence[bytes]) -> tuple[bool, int]:
        """The local memory is registered until the transfer is done."""
        pieces = self._pieces(ptrs, sizes, infos)
        ok, keep = self._give(lambda: [self._expose(p, n, "") for p, n, _ in pieces], [])
        return self._start(conn_id, is_read, pieces, keep) if ok else (False, 0)

    def _move_ipc(self, conn_id: int, is_read: bool, ptrs: Sequence[int], sizes: Sequence[int],
                  infos: Sequence[bytes]) -> bool:
        ok, transfer_id = self._start_ipc(conn_id, is_read, ptrs, sizes, infos)
        if not ok:
            return False
        self._try(self._ops[transfer_id][0].result)
        return self.poll_async(transfer_id)[0]

    def read_ipc(self, conn_id: int, ptr: int, size: int, info: bytes) -> bool:
        return self._move_ipc(conn_id, True, [ptr], [size], [info])

    def write_ipc(self, conn_id: int, ptr: int, size: int, info: bytes) -> bool:
        return self._move_ipc(conn_id, False, [ptr], [size], [info])

    def read_ipc_async(self, conn_id: int, ptr: int, size: int, info: bytes) -> tuple[bool, int]:
        return self._start_ipc(conn_id, True, [ptr], [size], [info])

    def write_ipc_async(self, conn_id: int, ptr: int, size: int, info: bytes) -> tuple[bool, int]:
        return self._start_ipc(conn_id, False, [ptr], [size], [info])

    def readv_ipc(self, conn_id: int, ptr_v: Sequence[int], size_v: Sequence[int],
                  info_v: Sequence[bytes]) -> bool:
        return self._move_ipc(conn_id, True, ptr_v, size_v, info_v)

    def writev_ipc(self, conn_id: int, ptr_v: Sequence[int], size_v: Sequence[int],
                   info_v: Sequence[bytes]) -> bool:
        return self._move_ipc(conn_id, False, ptr_v, size_v, info_v)

    def readv_ipc_async(self, conn_id: int, ptr_v: Sequence[int], size_v: Sequence[int],
                        info_v: Sequence[bytes]) -> tuple[bool, int]:
        return self._start_ipc(conn_id, True, ptr_v, size_v, info_v)

    def writev_ipc_async(self, conn_id: int, ptr_v: Sequence[int], size_v: Sequence[int],
                         info_v: Sequence[bytes]) -> tuple[bool, int]:
        return self._start_ipc(conn_id, False, ptr_v, size_v, info_v)
