# SPDX-License-Identifier: Apache-2.0
"""A handle or memory that is given back in flight is not touched afterwards."""
import os
import unittest

import agents

ROUNDS = int(os.environ.get("NIXL_RELEASES", "40"))
SIZE = 64 << 20


def release(agent, handle):
    """A first refusal may be; the second call waits."""
    for refused in False, True:
        try:
            agent.api.release_xfer_handle(handle)
            return refused
        except Exception as error:
            if refused or "Repost" not in type(error).__name__:
                raise
    return True


class Release(unittest.TestCase):
    def test_a_buffer_is_the_programs_after_release(self):
        other = agents.start("B", SIZE, transport="tcp")
        mine = agents.Agent("A", SIZE, transport="tcp")
        name = mine.load(other.metadata())
        there, changed = other.where(), 0
        for i in range(ROUNDS):
            way = ("READ", "WRITE")[i % 2]
            other.set(0x11)
            handle = mine.prepare(way, [(mine.address, SIZE)], [(there, SIZE)], name)
            mine.post(handle)
            release(mine, handle)
            mine.set(0x22)
            other.set(0x33)
            # A round trip behind it: what was on its way has come.
            mine.notify(name, b"behind")
            self.assertEqual(other.notes(1), {"A": [b"behind"]})
            changed += not mine.holds(0x22)
            changed += way == "READ" and not other.holds(0x33)
        self.assertEqual(changed, 0)
        self.assertEqual(mine.move_first("WRITE", there, name), "DONE")
        other.stop()

    def test_memory_that_is_deregistered_in_flight_is_not_written(self):
        other = agents.start("B", SIZE, transport="tcp")
        for _ in range(max(2, ROUNDS // 10)):
            mine = agents.Agent("A", SIZE, transport="tcp")
            name = mine.load(other.metadata())
            other.set(0x11)
            handle = mine.prepare("READ", [(mine.address, SIZE)], [(other.where(), SIZE)], name)
            mine.post(handle)
            mine.deregister()
            mine.set(0x22)
            self.assertNotEqual(mine.wait(handle), "LATE")
            self.assertTrue(mine.holds(0x22))
            release(mine, handle)
            mine.remove(name)
            del mine
        other.stop()

    def test_a_peer_that_deregisters_refuses_and_stays_connected(self):
        other, mine = agents.start("B"), agents.Agent("A")
        name, there = mine.load(other.metadata()), other.where()
        self.assertEqual(mine.move_first("WRITE", there, name), "DONE")
        other.deregister()
        self.assertIn("NotAllowed", mine.move_first("WRITE", there, name))
        mine.notify(name, b"still here")
        self.assertEqual(other.notes(1), {"A": [b"still here"]})
        other.stop()


if __name__ == "__main__":
    unittest.main()
