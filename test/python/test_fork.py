# SPDX-License-Identifier: Apache-2.0
"""A forked child is told to open a context of its own, and the parent goes on."""
import errno
import gc
import multiprocessing
import os
import traceback
import unittest

import liburccl
from pair import LIMIT, Pair


def in_child(work):
    """0 where work() raises nothing."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def write_one(metadata, advert):
    """In another process, with a context of its own."""
    with liburccl.Context("shm") as ctx, ctx.ring() as ring:
        peer = ring.connect(metadata).result(LIMIT)
        data = b"spawned"
        with ctx.register(data, ""), ctx.import_(peer, advert) as remote:
            ring.write(remote, data, notify=9).result(LIMIT)


class Fork(unittest.TestCase):
    def test_each_call_of_a_child_gives_eperm(self):
        with Pair("shm") as p:
            op = p.ring.timeout(1000)
            calls = [lambda: p.ring.nop(), lambda: p.ring.write(p.remote, p.source), p.ring.poll,
                     lambda: p.ring.reap(), lambda: p.ring.wait(1, 0), lambda: p.a.ring(),
                     lambda: p.ring.fileno(), lambda: p.a.register(bytearray(8)),
                     lambda: p.a.metadata, lambda: p.a.stats(), lambda: p.a.devices(),
                     lambda: p.a.plan(), lambda: p.a.dump(2), lambda: p.local.advertise(),
                     lambda: p.local.revoke(), lambda: p.a.import_(p.peer, p.advert),
                     lambda: op.result(1), op.cancel, lambda: p.a.get_peer_info(p.peer)]

            def child():
                for number, call in enumerate(calls):
                    try:
                        call()
                    except liburccl.Error as error:
                        assert error.errno == errno.EPERM, (number, error)
                    else:
                        raise AssertionError(f"call {number} raised nothing")
                p.ring.close()
                p.a.close()
                p.local.unregister()
                assert not op.done()
                with liburccl.Context("shm") as own:
                    assert own.ring().nop().result(LIMIT) == 0
                gc.collect()

            ops = [p.ring.write(p.remote, p.source) for _ in range(50)]
            self.assertEqual(in_child(child), 0)
            self.assertEqual([o.result(LIMIT) for o in ops], [len(p.source)] * 50)
            op.cancel()
            with self.assertRaises(liburccl.Cancelled):
                op.result(LIMIT)

    def test_a_child_that_drops_and_exits_leaves_the_parent_alone(self):
        with Pair("shm") as p:
            pid = os.fork()
            if not pid:
                p.__dict__.clear()
                gc.collect()
                os._exit(0)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
            self.assertEqual(p.ring.write(p.remote, p.source).result(LIMIT), len(p.source))

    def test_spawn_and_forkserver_pass_bytes(self):
        for method in ("spawn", "forkserver"):
            with self.subTest(method), Pair("shm") as p:
                process = multiprocessing.get_context(method).Process(
                    target=write_one, args=(p.b.metadata, p.advert))
                process.start()
                while True:
                    event = p.events.next(LIMIT)
                    if isinstance(event, liburccl.Note):
                        break
                self.assertEqual((event.tag, bytes(p.memory[:7])), (9, b"spawned"))
                process.join(LIMIT)
                self.assertEqual(process.exitcode, 0)
