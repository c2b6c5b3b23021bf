# SPDX-License-Identifier: Apache-2.0
"""Settings, what a context tells, and its log."""
import logging
import os
import tempfile
import time
import unittest

import liburccl
from pair import LIMIT, Pair


class Settings(unittest.TestCase):
    def test_settings_are_arguments(self):
        with liburccl.Context("tcp", listen="127.0.0.1:0", deadline_ms=5000, bounce=False) as ctx:
            (address,) = ctx.listening
            self.assertRegex(address, r"^127\.0\.0\.1:[1-9]\d+$")
            self.assertEqual(ctx.devices()[0]["name"], "tcp")

    def test_a_bad_setting_is_named(self):
        with self.assertRaises(liburccl.Error) as caught:
            liburccl.Context(dead_line_ms=1)
        self.assertIn("deadline_ms", str(caught.exception))
        with self.assertRaisesRegex(liburccl.Error, "tcp_streams"):
            liburccl.Context(tcp_streams=99)
        with self.assertRaises(TypeError):
            liburccl.Context(hello="text")

    def test_the_environment_sets_what_arguments_do_not(self):
        os.environ["URCCL_TRANSPORT"] = "tcp"
        self.addCleanup(os.environ.pop, "URCCL_TRANSPORT")
        with liburccl.Context.from_env() as ctx:
            self.assertEqual(ctx.devices()[0]["name"], "tcp")
        with liburccl.Context.from_env(transport="shm") as ctx:
            self.assertEqual(ctx.devices()[0]["name"], "shm")

    def test_a_context_tells_of_itself(self):
        with Pair("shm", hello=b"server") as p:
            info = p.a.get_peer_info(p.peer)
            self.assertEqual((info["state"], info["hello"]), ("up", b"server"))
            self.assertEqual(p.came.hello, b"hello")
            p.ring.write(p.remote, p.source).result(LIMIT)
            stats = p.a.stats()
            self.assertEqual((stats["bytes_written"], stats["failed"]), (len(p.source), 0))
            self.assertIn("shm", p.a.plan(p.peer))
            self.assertEqual(p.remote.info()["len"], len(p.memory))
            self.assertEqual(p.remote.peer, p.peer)
            measured = p.a.measure(p.peer)
            self.assertEqual(measured["transport"], "shm")
            self.assertGreater(measured["rtt_min_ns"], 0)
            with tempfile.TemporaryFile() as file:
                p.a.dump(file)
                self.assertGreater(file.tell(), 100)

    def test_a_shared_secret_lets_peers_in(self):
        secret = b"sixteen bytes or more"
        with Pair("shm", secret=secret) as p, liburccl.Context("shm") as stranger:
            with self.assertRaises(liburccl.Error):
                stranger.ring().connect(p.b.metadata).result(LIMIT)

    def test_log_lines_come_on_the_main_thread(self):
        lines = []
        with liburccl.Context("shm", log=lambda level, text: lines.append((level, text)),
                              log_level="debug") as ctx:
            ring, other = ctx.ring(), liburccl.Context("shm")
            other.ring().connect(ctx.metadata)
            with self.assertRaises(liburccl.Error):
                ring.connect("127.0.0.1:1").result(LIMIT)
            other.close()
            end = time.monotonic() + LIMIT
            while not lines and time.monotonic() < end:
                pass
        self.assertTrue(lines)

    def test_a_logger_takes_the_log(self):
        logger = logging.getLogger("liburccl.test")
        with self.assertLogs(logger, "DEBUG") as logs:
            with liburccl.Context("shm", log=logger, log_level="debug") as ctx:
                with self.assertRaises(liburccl.Error):
                    ctx.ring().connect("127.0.0.1:1").result(LIMIT)
            logger.info("the end")
        self.assertGreater(len(logs.output), 0)
