#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
hello_ctypes.py [LIBRARY]: hello.c by ctypes and asyncio, over liburccl-ffi.so, which has the
inlines of liburccl.h as symbols.

What to see: the ring's fd stands in asyncio's loop by add_reader(); an entry is a future to await.
This is no Python API, only what one would rest on.
"""
import asyncio
import ctypes
import itertools
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_uint32, c_uint64, c_void_p

LIMIT = 10          # seconds for any completion


# ---- What liburccl.h and abi.h say: here and nowhere else; see agree() -----------------------

def layout(name, **fields):
    return type(name, (ctypes.Structure,), {"_fields_": list(fields.items())})


VERSION = (0, 1)
Peer = layout("Peer", id=c_uint32)
Region = layout("Region", id=c_uint32)
Remote = layout("Remote", id=c_uint32)
Range = layout("Range", addr=c_uint64, len=c_uint64, fd_off=c_uint64, fd=c_int32, reserved=c_uint32)
Cqe = layout("Cqe", user_data=c_uint64, res=c_int64, flags=c_uint32, peer=c_uint32, handle=c_uint64)
Info = layout("Info", size=c_uint32, nranges=c_uint32, len=c_uint64, rights=c_uint32,
              mappable=c_uint32)
Advert = ctypes.c_uint8 * 64
RIGHT_WRITE, FOR_CQE = 1 << 1, 1 << 0
KIND_MASK, KIND_OP, KIND_NOTE, CQE_MORE = 0x0f, 0, 2, 1 << 4

FUNCTIONS = {       # what it returns (a c_int below 0 is an error), and takes
    "urccl_version_major": (c_uint32,),
    "urccl_version_minor": (c_uint32,),
    "urccl_metadata_max": (c_uint32,),
    "urccl_errmsg": (c_char_p,),
    "urccl_open": (c_int, c_void_p, POINTER(c_void_p)),
    "urccl_close": (None, c_void_p),
    "urccl_register": (c_int, c_void_p, POINTER(Range), c_uint32, c_uint32, POINTER(Region)),
    "urccl_get_region_info": (c_int, c_void_p, Region, POINTER(Info)),
    "urccl_advertise": (c_int, c_void_p, Region, c_uint64, c_uint64, c_uint32, c_uint64, Advert),
    "urccl_import": (c_int, c_void_p, Peer, Advert, c_uint32, POINTER(Remote)),
    "urccl_metadata": (c_int, c_void_p, c_void_p, c_uint32),
    "urccl_explain": (c_int, c_void_p, POINTER(Cqe), c_void_p, c_uint32),
    "urccl_ring_open": (c_int, c_void_p, c_void_p, POINTER(c_void_p)),
    "urccl_ring_fd": (c_int, c_void_p),
    "urccl_get_sqe": (c_void_p, c_void_p),
    "urccl_submit": (c_int, c_void_p),
    "urccl_submit_and_wait": (c_int, c_void_p, c_uint32),
    "urccl_arm": (c_int, c_void_p, c_uint32, c_uint32),
    "urccl_peek_cqe": (POINTER(Cqe), c_void_p),
    "urccl_cqe_at": (POINTER(Cqe), c_void_p, c_uint32),
    "urccl_cq_advance": (None, c_void_p, c_uint32),
    "urccl_sqe_set_data64": (None, c_void_p, c_uint64),
    "urccl_sqe_set_notify": (None, c_void_p, c_void_p, c_uint64, c_void_p, c_uint32),
    "urccl_prep_nop": (None, c_void_p),
    "urccl_prep_accept": (None, c_void_p),
    "urccl_prep_watch": (None, c_void_p, Peer),
    "urccl_prep_connect": (None, c_void_p, c_void_p, c_uint32),
    "urccl_prep_write": (None, c_void_p, Remote, c_void_p, c_uint64, c_uint64),
}


def load(path):
    def checked(result, function, arguments):
        if result < 0:
            raise OSError(-result, lib.urccl_errmsg().decode())
        return result

    lib = ctypes.CDLL(path)
    for name, (result, *arguments) in FUNCTIONS.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
        if result is c_int:
            function.errcheck = checked
    return lib


# ---- A context and its ring in asyncio's loop ------------------------------------------------

class Side:
    def __init__(self, lib):
        self.lib, self.ctx, self.ring = lib, c_void_p(), c_void_p()
        self.numbers, self.under_way, self.notes = itertools.count(), {}, asyncio.Queue()
        lib.urccl_open(None, byref(self.ctx))
        lib.urccl_ring_open(self.ctx, None, byref(self.ring))
        self.agree()
        asyncio.get_running_loop().add_reader(lib.urccl_ring_fd(self.ring), self.reap)
        self.reap()

    def agree(self):
        """Two completions lie as far apart, and their fields where, this file says."""
        for number in (7, 8):
            sqe = self.lib.urccl_get_sqe(self.ring)
            self.lib.urccl_prep_nop(sqe)
            self.lib.urccl_sqe_set_data64(sqe, number)
        self.lib.urccl_submit_and_wait(self.ring, 2)
        cqes = [self.lib.urccl_cqe_at(self.ring, i) for i in range(2)]
        first, second = (ctypes.addressof(cqe.contents) for cqe in cqes)
        assert second - first == ctypes.sizeof(Cqe)
        assert [(cqe.contents.user_data, cqe.contents.res) for cqe in cqes] == [(7, 0), (8, 0)]
        self.lib.urccl_cq_advance(self.ring, 2)

    def close(self):
        asyncio.get_running_loop().remove_reader(self.lib.urccl_ring_fd(self.ring))
        self.lib.urccl_close(self.ctx)

    def reap(self):
        """The loop of urccl_arm(3): until nothing is left and the fd is armed."""
        while True:
            while cqe := self.lib.urccl_peek_cqe(self.ring):
                self.take(cqe)
                self.lib.urccl_cq_advance(self.ring, 1)
            if not self.lib.urccl_arm(self.ring, FOR_CQE, 0):
                return

    def take(self, pointer):
        cqe = pointer.contents
        if cqe.flags & KIND_MASK == KIND_NOTE:
            self.notes.put_nowait(cqe.handle)
        if cqe.flags & KIND_MASK != KIND_OP or cqe.flags & CQE_MORE:
            return
        future, _ = self.under_way.pop(cqe.user_data)
        if future.done():               # cancelled
            return
        if cqe.res < 0:
            why = ctypes.create_string_buffer(256)
            self.lib.urccl_explain(self.ctx, pointer, why, len(why))
            future.set_exception(OSError(-cqe.res, why.value.decode()))
        else:
            future.set_result((cqe.res, cqe.handle))

    def submit(self, prepare, *arguments, notify=None):
        """Submits an entry; the future has its res and handle."""
        sqe, number = self.lib.urccl_get_sqe(self.ring), next(self.numbers)
        prepare(sqe, *arguments)
        self.lib.urccl_sqe_set_data64(sqe, number)
        if notify is not None:
            self.lib.urccl_sqe_set_notify(self.ring, sqe, notify, None, 0)
        future = asyncio.get_running_loop().create_future()
        self.under_way[number] = future, arguments      # alive for as long as the library looks
        self.lib.urccl_submit(self.ring)
        return future

    def register(self, array, rights):
        region, size = Region(), ctypes.sizeof(array)
        self.lib.urccl_register(self.ctx, byref(Range(ctypes.addressof(array), size, 0, -1, 0)), 1,
                                rights, byref(region))
        info = Info(size=ctypes.sizeof(Info))
        self.lib.urccl_get_region_info(self.ctx, region, byref(info))
        assert (info.nranges, info.len, info.rights) == (1, size, rights)
        return region


async def hello(lib):
    owner, writer = Side(lib), Side(lib)
    memory, greeting = bytearray(64), bytearray(b"hello, other memory")
    shared = (ctypes.c_uint8 * len(memory)).from_buffer(memory)
    source = (ctypes.c_uint8 * len(greeting)).from_buffer(greeting)
    blob = ctypes.create_string_buffer(lib.urccl_metadata_max())
    size = lib.urccl_metadata(owner.ctx, blob, len(blob))
    advert, remote = Advert(), Remote()
    region = owner.register(shared, RIGHT_WRITE)
    lib.urccl_advertise(owner.ctx, region, 0, len(memory), RIGHT_WRITE, 0, advert)
    owner.submit(lib.urccl_prep_accept)
    owner.submit(lib.urccl_prep_watch, Peer(0))

    _, peer = await asyncio.wait_for(writer.submit(lib.urccl_prep_connect, blob, size), LIMIT)
    writer.register(source, 0)
    lib.urccl_import(writer.ctx, Peer(peer), advert, 1, byref(remote))
    placed, _ = await asyncio.wait_for(
        writer.submit(lib.urccl_prep_write, remote, source, len(source), 0, notify=42), LIMIT)
    print(f"writer: {placed} bytes are placed")
    tag = await asyncio.wait_for(owner.notes.get(), LIMIT)
    said = memory.rstrip(b"\0").decode()
    print(f"owner: notification {tag}, and my memory says \"{said}\"")
    try:                                # a write too far, for its sentence
        await asyncio.wait_for(
            writer.submit(lib.urccl_prep_write, remote, source, len(source), 60), LIMIT)
    except OSError as error:
        print(f"writer: {error}")
    writer.close()
    owner.close()


def main(arguments):
    if len(arguments) > 1:
        sys.exit("usage: hello_ctypes.py [LIBRARY]")
    try:
        lib = load(arguments[0] if arguments else "liburccl-ffi.so.0")
    except (OSError, AttributeError) as error:
        sys.exit(f"hello_ctypes.py: {error}")
    version = (lib.urccl_version_major(), lib.urccl_version_minor())
    if version != VERSION:
        sys.exit(f"hello_ctypes.py: written for version {VERSION} of liburccl, this is {version}")
    asyncio.run(hello(lib))


main(sys.argv[1:])
