#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hello.c in Python: one context owns 64 bytes, another one writes a greeting into them.

Two machines differ only in how the metadata and the advert travel: here by two variables.
"""
import liburccl

GREETING = b"hello, other memory"

with liburccl.Context() as owner_ctx, liburccl.Context() as writer_ctx:
    owner, writer = owner_ctx.ring(), writer_ctx.ring()

    # The owner lets peers in, and makes 64 bytes that they may write.
    accepting, events = owner.accept(), owner.events()
    memory = bytearray(64)
    region = owner_ctx.register(memory, "w")
    metadata, advert = owner_ctx.metadata, region.advertise(rights="w")

    # The writer dials, imports the advert and registers its own buffer: entries move registered
    # memory only. The notification comes when the bytes are there.
    peer = writer.connect(metadata).result(10)
    remote = writer_ctx.import_(peer, advert)
    with writer_ctx.register(GREETING, ""):
        print("writer:", writer.write(remote, GREETING, notify=42).result(10), "bytes are placed")

    print("owner: a peer came:", accepting.next(10))
    note = events.next(10)
    print(f"owner: notification {note.tag}, and my memory says {memory.rstrip(bytes(1)).decode()!r}")
