# SPDX-License-Identifier: Apache-2.0
"""
Agents of NIXL with the backend URCCL, in this process and in others: start("B") is a process with
an agent and a buffer, whose methods are called from here.
"""
import os
import pickle
import struct
import subprocess
import sys
import time

import numpy
from nixl._api import nixl_agent, nixl_agent_config

BACKEND = "URCCL"
LATE = 60       # seconds, on a busy machine


class Agent:
    """One agent, one buffer, of segment DRAM or of GPU 0's VRAM."""

    def __init__(self, name, size=1 << 20, segment="DRAM", **settings):
        self.name, self.segment = name, segment
        self.api = nixl_agent(name, nixl_agent_config(backends=[]))
        self.api.create_backend(BACKEND, {k: str(v) for k, v in settings.items()})
        self.buffer = memory = numpy.zeros(size, dtype=numpy.uint8)
        if segment == "VRAM":
            import torch
            self.buffer = torch.from_numpy(memory).cuda()
            torch.cuda.synchronize()
        self.address = self.buffer.data_ptr() if segment == "VRAM" else memory.ctypes.data
        self.registered = self.api.register_memory([(self.address, size, 0, "")], segment)

    def metadata(self):
        return self.api.get_agent_metadata()

    def where(self):
        return self.address

    def load(self, metadata):
        return self.api.add_remote_agent(metadata).decode()

    def remove(self, name):
        self.api.remove_remote_agent(name)

    def fill(self, seed):
        self.set(numpy.random.default_rng(seed).integers(0, 256, len(self.buffer),
                                                         dtype=numpy.uint8))

    def bytes(self):
        return (self.buffer.cpu().numpy() if self.segment == "VRAM" else self.buffer).tobytes()

    def set(self, value):
        """One number, or one for each byte."""
        if self.segment == "VRAM":
            import torch
            self.buffer[:] = torch.as_tensor(value)
            torch.cuda.synchronize()
        else:
            self.buffer[:] = value

    def holds(self, value):
        """Each byte is that number."""
        return bool((self.buffer == value).all())

    def deregister(self):
        self.api.deregister_memory(self.registered)

    def prepare(self, way, here, there, peer, note=b"", segment="DRAM"):
        """Blocks are (address, length); the peer's are of that segment."""
        local = self.api.get_xfer_descs([(a, n, 0) for a, n in here], self.segment)
        remote = self.api.get_xfer_descs([(a, n, 0) for a, n in there], segment)
        return self.api.initialize_xfer(way, local, remote, peer, note)

    def post(self, handle):
        return self.api.transfer(handle)

    def wait(self, handle, limit=LATE):
        """The state that ends it; the name of the error that was raised."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            try:
                state = self.api.check_xfer_state(handle)
            except Exception as error:      # the bindings raise one class a status
                return type(error).__name__
            if state != "PROC":
                return state
        return "LATE"

    def move(self, way, here, there, peer, note=b"", segment="DRAM"):
        handle = self.prepare(way, here, there, peer, note, segment)
        try:
            state = self.post(handle)
        except Exception as error:
            return type(error).__name__
        if state == "PROC":
            state = self.wait(handle)
        self.api.release_xfer_handle(handle)
        return state

    def move_first(self, way, there, peer, size=4096, note=b""):
        return self.move(way, [(self.address, size)], [(there, size)], peer, note)

    def notify(self, peer, text):
        self.api.send_notif(peer, text)

    def notes(self, count, limit=LATE):
        """Waits for count notifications of all peers together: {name: [bytes]}."""
        got, end = {}, time.monotonic() + limit
        while sum(map(len, got.values())) < count and time.monotonic() < end:
            for name, texts in self.api.get_new_notifs().items():
                got.setdefault(name, []).extend(texts)
            time.sleep(0.0005)
        return got


class Other:
    """An Agent in another process: other.fill(1) calls its method."""

    def __init__(self, name, size, settings, environment):
        self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env={**os.environ, **environment})
        self.pid = self.process.pid
        self._say((name, size, settings))
        self._hear()

    def _say(self, what):
        data = pickle.dumps(what)
        self.process.stdin.write(struct.pack("<Q", len(data)) + data)
        self.process.stdin.flush()

    def _hear(self):
        head = self.process.stdout.read(8)
        if len(head) < 8:
            raise EOFError("the other process has ended")
        done, value = pickle.loads(self.process.stdout.read(struct.unpack("<Q", head)[0]))
        if not done:
            raise RuntimeError(value)
        return value

    def begin(self, method, *arguments):
        self._say((method, arguments))

    end = _hear

    def __getattr__(self, method):
        def call(*arguments):
            self.begin(method, *arguments)
            return self._hear()
        return call

    def stop(self, signal=None):
        if signal:
            self.process.send_signal(signal)
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(LATE)


def start(name, size=1 << 20, environment=None, **settings):
    return Other(name, size, settings, environment or {})


def both_load(a, b):
    a.load(b.metadata())
    b.load(a.metadata())


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def resident_kib():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def waited():
    """Seconds that the threads of this process were ready to run and had no processor."""
    nanoseconds = 0
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/schedstat", encoding="ascii") as file:
                nanoseconds += int(file.read().split()[1])
        except OSError:     # it has ended
            pass
    return nanoseconds / 1e9


def serve():
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    agent = None
    while True:
        head = sys.stdin.buffer.read(8)
        if len(head) < 8:
            break
        what = pickle.loads(sys.stdin.buffer.read(struct.unpack("<Q", head)[0]))
        try:
            if agent is None:
                agent = Agent(what[0], what[1], **what[2])
                reply = True, None
            else:
                reply = True, getattr(agent, what[0])(*what[1])
        except Exception as error:
            reply = False, f"{type(error).__name__}: {error}"
        data = pickle.dumps(reply)
        out.write(struct.pack("<Q", len(data)) + data)
        out.flush()


if __name__ == "__main__":
    serve()
