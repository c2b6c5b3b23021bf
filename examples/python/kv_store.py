#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
kv_store.py: a process that keeps KV blocks by hash for many clients, as an inference cluster's
cache does. `Store` is the server, `Client` puts, gets and evicts; without arguments both are run.

The store owns a pool of blocks of one size. A client asks for a place by a notification and
writes or reads the block's bytes itself: the store's CPU has no part in that. A put is seen by
others only once its bytes are placed, and a block that is being read is not evicted.
"""
import asyncio
import hashlib
import multiprocessing
import os
import struct
from collections import OrderedDict

import liburccl

BLOCK = 64 * 1024
PUT, COMMIT, GET, DONE, EVICT = range(1, 6)
REQUEST = struct.Struct("<Q32s")        # what, and the block's hash; the tag numbers the request
REPLY = struct.Struct("<q")             # the block's number, or -1; the tag is the request's


class Store:
    """Blocks by hash, in one region that every client may read and write."""

    def __init__(self, blocks):
        self.ctx = liburccl.Context()
        self.ring = self.ctx.ring(1024)
        self.memory = self.ctx.alloc(blocks * BLOCK)
        self.region = self.ctx.register(self.memory)
        self.free = list(range(blocks))
        self.ready = OrderedDict()              # hash -> block, the least recently used first
        self.filling = {}                       # (peer, hash) -> block
        self.readers = {}                       # (peer, hash) -> how often it reads the block

    def evict(self):
        """Frees the least recently used block that nobody reads."""
        read = {key for (_, key), n in self.readers.items() if n}
        for key in self.ready:
            if key not in read:
                self.free.append(self.ready.pop(key))
                return

    def answer(self, peer, what, key):
        """The block's number, or -1."""
        if what == PUT:
            if key in self.ready or (peer, key) in self.filling:
                return -1
            if not self.free:
                self.evict()
            if self.free:
                self.filling[peer, key] = self.free.pop()
            return self.filling.get((peer, key), -1)
        if what == COMMIT:
            block = self.filling.pop((peer, key), -1)
            if block >= 0 and key in self.ready:        # another client was first
                self.free.append(block)
            elif block >= 0:
                self.ready[key] = block
            return block
        if what == GET and key in self.ready:
            self.ready.move_to_end(key)
            self.readers[peer, key] = self.readers.get((peer, key), 0) + 1
            return self.ready[key]
        if what == DONE:
            self.readers[peer, key] = max(0, self.readers.get((peer, key), 0) - 1)
            return 0
        if what == EVICT and key in self.ready and not any(
                n for (_, other), n in self.readers.items() if other == key):
            block = self.ready.pop(key)
            self.free.append(block)
            return block
        return -1

    def forget(self, peer):
        """A client is gone: what it was filling is free again, and it reads nothing."""
        for owner, key in [entry for entry in self.filling if entry[0] == peer]:
            self.free.append(self.filling.pop((owner, key)))
        for entry in [entry for entry in self.readers if entry[0] == peer]:
            del self.readers[entry]

    async def serve(self):
        accepting = asyncio.create_task(self.accept())
        async for event in self.ring.events():
            if isinstance(event, liburccl.Note) and len(event.payload) == REQUEST.size:
                number = self.answer(event.peer, *REQUEST.unpack(event.payload))
                self.ring.notify(event.peer, event.tag, REPLY.pack(number))
            elif isinstance(event, liburccl.Lost):
                self.forget(event.peer)
        await accepting

    async def accept(self):
        """Each client gets the pool's advert; its replies come behind it."""
        async for came in self.ring.accept():
            self.ring.notify(came.peer, 0, self.region.advertise())


class Client:
    """Use open(); then put(), get() and evict() from any task of the loop."""

    @classmethod
    async def open(cls, metadata):
        self = cls()
        self.ctx = liburccl.Context()
        self.ring = self.ctx.ring()
        self.peer = await self.ring.connect(metadata)
        events = self.ring.events(self.peer)
        self.remote = self.ctx.import_(self.peer, (await events.get()).payload)
        self.waiting, self.last = {}, 0
        self.listener = asyncio.create_task(self.listen(events))
        return self

    async def listen(self, events):
        async for event in events:
            if isinstance(event, liburccl.Note):
                self.waiting.pop(event.tag).set_result(REPLY.unpack(event.payload)[0])
        for future in self.waiting.values():
            future.set_exception(ConnectionResetError("the store is gone"))

    async def ask(self, what, key):
        self.last += 1
        future = self.waiting[self.last] = asyncio.get_running_loop().create_future()
        await self.ring.notify(self.peer, self.last, REQUEST.pack(what, key))
        return await future

    async def put(self, key, block):
        """False: it is there already, or all blocks are being read."""
        number = await self.ask(PUT, key)
        if number < 0:
            return False
        with self.ctx.register(block, ""):
            await self.ring.write(self.remote, block, number * BLOCK)
        return await self.ask(COMMIT, key) >= 0

    async def get(self, key):
        """The block's bytes, or None."""
        number = await self.ask(GET, key)
        if number < 0:
            return None
        block = bytearray(BLOCK)
        with self.ctx.register(block, ""):
            await self.ring.read(self.remote, block, number * BLOCK)
        await self.ask(DONE, key)
        return block

    async def evict(self, key):
        return await self.ask(EVICT, key) >= 0

    async def close(self):
        await self.ring.close_peer(self.peer)
        self.listener.cancel()
        self.ctx.close()


def run_store(pipe, blocks):
    store = Store(blocks)
    pipe.send(store.ctx.metadata)
    asyncio.run(store.serve())


async def demo(metadata):
    clients = [await Client.open(metadata) for _ in range(4)]
    blocks = {hashlib.sha256(b"%d" % i).digest(): os.urandom(BLOCK) for i in range(24)}
    names = list(blocks)

    async def fill(number):
        for key in names[number::4]:
            assert await clients[number].put(key, blocks[key])
    await asyncio.gather(*(fill(number) for number in range(4)))
    hits = 0
    for i, (key, block) in enumerate(blocks.items()):
        found = await clients[(i + 1) % 4].get(key)     # another client's
        hits += found is not None
        assert found is None or found == block
    assert hits == 16, hits                             # the pool has 16 blocks
    last = names[-1]
    assert not await clients[0].put(last, blocks[last])
    assert await clients[0].evict(last) and await clients[1].get(last) is None
    for client in clients:
        await client.close()
    print(f"{len(names)} blocks put, {hits} of them found, the least recently used evicted")


def main():
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=run_store, args=(theirs, 16))
    process.start()
    try:
        asyncio.run(demo(ours.recv()))
    finally:
        process.kill()
        process.join()


if __name__ == "__main__":
    main()
