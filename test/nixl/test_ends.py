# SPDX-License-Identifier: Apache-2.0
"""Peers that are killed, frozen, restarted: REMOTE_DISCONNECT in time, then recovery, no growth."""
import os
import signal
import time
import unittest

import agents

ROUNDS = int(os.environ.get("NIXL_ROUNDS", "20"))
FROZEN = int(os.environ.get("NIXL_FROZEN_ROUNDS", "2"))
DEAD_MS = 1000
SIZE = 64 << 20


class Ends(unittest.TestCase):
    def setUp(self):
        self.mine = agents.Agent("A", SIZE, dead_after_ms=DEAD_MS)

    def forget(self, name):
        try:
            self.mine.remove(name)
        except Exception:
            pass        # some versions of NIXL did that at the disconnect

    def one_round(self, how, grace):
        other = agents.start("B", SIZE, dead_after_ms=DEAD_MS)
        name = self.mine.load(other.metadata())
        there = other.where()
        self.assertEqual(self.mine.move_first("WRITE", there, name, note=b"hello"), "DONE")
        handle = self.mine.prepare("WRITE", [(self.mine.address, SIZE)], [(there, SIZE)], name)
        state = self.mine.post(handle)
        os.kill(other.pid, how)
        began, waited = time.monotonic(), agents.waited()
        while state == "PROC":      # until a post or a transfer fails
            state = self.mine.wait(handle, 30)
            if state == "DONE":
                try:
                    state = self.mine.post(handle)
                except Exception as error:
                    state = type(error).__name__
        took = time.monotonic() - began
        other.stop(signal.SIGKILL)
        self.mine.api.release_xfer_handle(handle)
        self.assertIn("RemoteDisconnect", state)
        self.assertLess(took, grace + agents.waited() - waited)
        self.forget(name)

    def test_a_killed_peer_is_disconnected_and_its_successor_is_reached(self):
        for i in range(ROUNDS):
            self.one_round(signal.SIGKILL, DEAD_MS / 1000 + 1)
            if i == min(9, ROUNDS // 2):
                before = agents.descriptors(), agents.resident_kib()
        self.assertLessEqual(agents.descriptors(), before[0])
        self.assertLess(agents.resident_kib(), before[1] + 4096)

    def test_a_frozen_peer_is_disconnected_in_time(self):
        for _ in range(FROZEN):
            self.one_round(signal.SIGSTOP, DEAD_MS / 1000 + 1)

    def test_a_peer_that_is_gone_or_frozen_before_it_is_reached_is_a_disconnect(self):
        for how in signal.SIGKILL, signal.SIGSTOP:
            other = agents.start("B", 4096)
            metadata, there = other.metadata(), other.where()
            os.kill(other.pid, how)
            name = self.mine.load(metadata)
            began, waited = time.monotonic(), agents.waited()
            self.assertIn("RemoteDisconnect", self.mine.move_first("WRITE", there, name))
            took = time.monotonic() - began
            self.assertLess(took, DEAD_MS / 1000 + 1 + agents.waited() - waited)
            other.stop(signal.SIGKILL)
            self.forget(name)


if __name__ == "__main__":
    unittest.main()
