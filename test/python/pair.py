# SPDX-License-Identifier: Apache-2.0
"""Two contexts of one process, connected: what most tests need."""
import liburccl

LIMIT = 60      # seconds for what should take milliseconds, on a busy machine


class Pair:
    """a writes into `memory` of b, through `remote`, from the registered `source`."""

    def __init__(self, transport="shm", size=65536, rights="rwa", entries=256, **settings):
        self.a = liburccl.Context(transport, **settings)
        self.b = liburccl.Context(transport, **settings)
        self.ring, self.far = self.a.ring(entries), self.b.ring(entries)
        self.accepting, self.events = self.far.accept(), self.far.events()
        self.peer = self.ring.connect(self.b.metadata, b"hello").result(LIMIT)
        self.came = self.accepting.next(LIMIT)
        self.memory, self.source = bytearray(size), bytearray(size)
        self.region = self.b.register(self.memory, rights)
        self.local = self.a.register(self.source, "")
        self.advert = self.region.advertise(rights=rights)
        self.remote = self.a.import_(self.peer, self.advert)

    def close(self):
        self.a.close()
        self.b.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
