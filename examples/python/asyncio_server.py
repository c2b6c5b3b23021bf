#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
asyncio_server.py [--clients N] [--requests N]: a server in one asyncio loop, and clients of it.

A client registers a buffer and sends its advert as the hello of its connection. Each of its
requests is a notification with a number; the server writes the answer straight into the client's
buffer, and the notification of that write tells the client. No thread is started, and nothing
polls.
"""
import argparse
import asyncio
import contextlib
import struct

import liburccl

ANSWER = struct.Struct("<QQ")           # the number, and its square


async def serve_client(ctx, ring, came):
    """Answers one client until it is gone."""
    remote = ctx.import_(came.peer, came.hello)
    answer = bytearray(ANSWER.size)
    with contextlib.suppress(liburccl.Error), ctx.register(answer, ""):
        # A client may go when it has its answer, and before we hear that it has.
        async for event in ring.events(came.peer):
            if isinstance(event, liburccl.Note):
                ANSWER.pack_into(answer, 0, event.tag, event.tag ** 2)
                await ring.write(remote, answer, notify=event.tag)
    with contextlib.suppress(liburccl.Error):           # the server's context was closed first
        await ring.close_peer(came.peer)


async def serve(ctx):
    ring, clients = ctx.ring(), set()
    async for came in ring.accept():
        task = asyncio.create_task(serve_client(ctx, ring, came))
        clients.add(task)
        task.add_done_callback(clients.discard)


async def client(metadata, first, requests):
    """Asks for the squares of some numbers; returns their sum."""
    total = 0
    async with liburccl.Context() as ctx:
        ring, buffer = ctx.ring(), bytearray(ANSWER.size)
        with ctx.register(buffer, "w") as region:
            peer = await ring.connect(metadata, region.advertise(rights="w"))
            answers = ring.events(peer)
            for number in range(first, first + requests):
                await ring.notify(peer, number)
                note = await answers.get()
                asked, square = ANSWER.unpack(buffer)
                assert note.tag == asked == number
                total += square
            await ring.close_peer(peer)
    return total


async def main():
    parser = argparse.ArgumentParser(description="squares over liburccl")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=50)
    args = parser.parse_args()
    async with liburccl.Context() as ctx:
        server = asyncio.create_task(serve(ctx))
        totals = await asyncio.gather(*(client(ctx.metadata, 100 * i, args.requests)
                                        for i in range(args.clients)))
        server.cancel()
    want = [sum(n * n for n in range(100 * i, 100 * i + args.requests))
            for i in range(args.clients)]
    assert totals == want, (totals, want)
    print(f"{args.clients} clients, {args.clients * args.requests} answers, all right")


asyncio.run(main())
