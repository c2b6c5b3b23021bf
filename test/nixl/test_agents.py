# SPDX-License-Identifier: Apache-2.0
"""Agents: their settings, beside other backends, many descriptors, and in a forked child."""
import os
import statistics
import subprocess
import sys
import time
import unittest

import agents

DESCRIPTORS = 112000
POSTS = int(os.environ.get("NIXL_POSTS", "20"))
POST_US = int(os.environ.get("NIXL_POST_US", "1000"))  # of the median, on a busy machine

BESIDE = """
import os
os.environ["UCX_MODULES"] = "cma"
import agents
mine, other = agents.Agent("A"), agents.Agent("B")
for a in mine, other:
    a.api.create_backend("UCX")
    a.api.register_memory([(a.address, len(a.buffer), 0, "")], "DRAM", ["UCX"])
agents.both_load(mine, other)
for backend in "URCCL", "UCX":
    mine.fill(len(backend))
    local = mine.api.get_xfer_descs([(mine.address, 8192, 0)], "DRAM")
    remote = mine.api.get_xfer_descs([(other.address, 8192, 0)], "DRAM")
    handle = mine.api.initialize_xfer("WRITE", local, remote, "B", b"by " + backend.encode(), [backend])
    assert mine.api.transfer(handle) in ("PROC", "DONE")
    while mine.api.check_xfer_state(handle) != "DONE":
        pass
    assert other.notes(1) == {"A": [b"by " + backend.encode()]}
    assert mine.bytes()[:8192] == other.bytes()[:8192]
    mine.api.release_xfer_handle(handle)
print("both")
"""

FORKED = """
import os
import agents
mine, other = agents.Agent("A"), agents.Agent("B")
agents.both_load(mine, other)
assert mine.move_first("WRITE", other.address, "B") == "DONE"
child = os.fork()
if not child:
    state = mine.move_first("WRITE", other.address, "B")
    os._exit(0 if "Backend" in state else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert mine.move_first("WRITE", other.address, "B") == "DONE"
print("forked")
"""


def script(text):
    """A process of its own, as its end is looked at too."""
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False,
                          timeout=agents.LATE, cwd=os.path.dirname(os.path.abspath(__file__)))


class Agents(unittest.TestCase):
    def test_two_backends_of_one_agent(self):
        done = script(BESIDE)
        self.assertEqual((done.returncode, done.stdout.split()[-1:]), (0, ["both"]), done.stderr)

    def test_a_forked_child_is_refused_and_its_parent_goes_on(self):
        done = script(FORKED)
        self.assertEqual((done.returncode, done.stdout.split()[-1:]), (0, ["forked"]), done.stderr)
        self.assertIn("parent process", done.stderr)

    def test_an_unknown_option_is_a_warning_and_a_bad_value_an_error(self):
        agents.Agent("A", num_threads=4)
        with self.assertRaises(Exception):
            agents.Agent("B", deadline_ms="soon")

    def test_a_name_is_at_most_256_bytes(self):
        agents.Agent("n" * 256)
        with self.assertRaises(Exception):
            agents.Agent("n" * 257)

    def test_no_agent_by_that_name_and_no_memory_there(self):
        a, b = agents.Agent("A", 4096), agents.Agent("B", 4096)
        agents.both_load(a, b)
        with self.assertRaises(Exception):
            a.prepare("WRITE", [(a.address, 4096)], [(b.address, 4096)], "nobody")
        with self.assertRaises(Exception):
            a.prepare("WRITE", [(a.address, 4096)], [(b.address + 4096, 4096)], "B")

    def test_a_removed_agent_can_still_write_here(self):
        a, b = agents.Agent("A"), agents.Agent("B")
        agents.both_load(a, b)
        self.assertEqual(b.move_first("WRITE", a.address, "A"), "DONE")
        a.remove("B")
        self.assertEqual(b.move_first("WRITE", a.address, "A", note=b"still"), "DONE")
        self.assertEqual(a.notes(1), {"B": [b"still"]})
        a.load(b.metadata())
        self.assertEqual(a.move_first("WRITE", b.address, "B"), "DONE")

    def test_a_post_costs_the_same_for_any_number_of_descriptors(self):
        size = 64
        other = agents.start("B", DESCRIPTORS * size)
        mine = agents.Agent("A", DESCRIPTORS * size)
        agents.both_load(mine, other)
        there = other.where()
        pairs = [(mine.address + i * size, there + (i * 7919 % DESCRIPTORS) * size)
                 for i in range(DESCRIPTORS)]
        handle = mine.prepare("WRITE", [(a, size) for a, _ in pairs], [(b, size) for _, b in pairs],
                              "B")
        took = []
        for _ in range(POSTS):
            began = time.perf_counter()
            state = mine.post(handle)
            took.append((time.perf_counter() - began) * 1e6)
            self.assertEqual(mine.wait(handle) if state == "PROC" else state, "DONE")
        took.sort()
        print(f"post of {DESCRIPTORS}: median {statistics.median(took):.1f} us, "
              f"p99 {took[len(took) * 99 // 100]:.1f} us of {POSTS}")
        self.assertLess(statistics.median(took), POST_US)
        mine.api.release_xfer_handle(handle)
        other.stop()


if __name__ == "__main__":
    unittest.main()
