# SPDX-License-Identifier: Apache-2.0
"""Notifications of many threads and agents: each once, none crossed, none lost."""
import ctypes
import os
import select
import threading
import time
import unittest

import agents
from liburccl import nixl

THREADS = 4
EACH = 200
MANY = int(os.environ.get("NIXL_NOTES", "20000"))
LATE_S = float(os.environ.get("NIXL_LATE_S", "0"))
IDLE_S = float(os.environ.get("NIXL_IDLE_S", "2"))


def sleeps():
    """Voluntary context switches of all threads of this process."""
    total = 0
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/status", encoding="ascii") as file:
            total += sum(int(line.split()[1]) for line in file
                         if line.startswith("voluntary_ctxt_switches"))
    return total


class Notes(unittest.TestCase):
    def test_threads_of_several_agents(self):
        other = agents.start("B", 1 << 20)
        mine = [agents.Agent(f"A{i}", 1 << 20) for i in range(2)]
        there, failed = other.where(), []
        for a in mine:
            a.load(other.metadata())

        def work(a, t):
            for i in range(EACH):
                note = f"{a.name}.{t}.{i}.".encode() + b"x" * (400 if i % 3 else 0)
                if i % 2:
                    a.notify("B", note)
                elif a.move_first("WRITE", there + 4096 * t, "B", 4096, note) != "DONE":
                    failed.append(note)

        threads = [threading.Thread(target=work, args=(a, t)) for a in mine for t in range(THREADS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        got = other.notes(len(mine) * THREADS * EACH)
        self.assertEqual(failed, [])
        for a in mine:
            names = [n.rstrip(b"x").decode() for n in got[a.name]]
            self.assertEqual(sorted(names),
                             sorted(f"{a.name}.{t}.{i}." for t in range(THREADS)
                                    for i in range(EACH)))
        other.stop()

    def test_none_is_lost_of_a_target_that_takes_late(self):
        other, mine = agents.start("B"), agents.Agent("A")
        name = mine.load(other.metadata())
        for i in range(MANY):
            mine.notify(name, b"%d" % i)
        time.sleep(LATE_S)
        got = other.notes(MANY)
        self.assertEqual(sorted(map(int, got["A"])), list(range(MANY)))
        other.stop()

    def test_more_than_16_mib_is_refused(self):
        other, mine = agents.start("B"), agents.Agent("A")
        name = mine.load(other.metadata())
        with self.assertRaises(Exception) as refused:
            mine.notify(name, b"x" * ((16 << 20) + 1))
        self.assertIn("InvalidParam", type(refused.exception).__name__)
        most = os.urandom(16 << 20)
        mine.notify(name, most)
        self.assertTrue(other.notes(1) == {"A": [most]})
        other.stop()

    def test_an_idle_pair_sleeps(self):
        other, mine = agents.start("B"), agents.Agent("A")
        name = mine.load(other.metadata())
        self.assertEqual(mine.move_first("WRITE", other.where(), name), "DONE")
        time.sleep(0.5)
        before, cpu = sleeps(), time.process_time()
        time.sleep(IDLE_S)
        woken, cpu = sleeps() - before, time.process_time() - cpu
        print(f"idle for {IDLE_S:g} s: {cpu * 1e3:.2f} ms of CPU time, {woken} wake-ups")
        self.assertLess(woken, 20)
        self.assertLess(cpu, max(0.02, 0.002 * IDLE_S))
        other.stop()

    def test_a_descriptor_becomes_readable(self):
        mine, other = agents.Agent("A"), agents.start("B")
        library = ctypes.CDLL(str(nixl.path() / nixl.FILE))
        fd = library.urccl_nixl_fd(b"A")
        self.assertGreaterEqual(fd, 0)
        self.assertLess(library.urccl_nixl_fd(b"nobody"), 0)
        other.load(mine.metadata())
        other.notify("A", b"text")
        self.assertEqual(select.select([fd], [], [], agents.LATE)[0], [fd])
        self.assertEqual(mine.notes(1), {"B": [b"text"]})
        other.stop()


if __name__ == "__main__":
    unittest.main()
