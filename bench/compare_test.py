#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What compare.py computes: intervals, goals, and figures out of a program's output."""
import argparse
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare
import promises


def rounds(values):
    return [{"a": {"rate": (v, "M/s")}, "b": {"x.rate": (2.0, "M/s")}} for v in values]


class Parse(unittest.TestCase):
    def test_lines(self):
        found = compare.parse("# size 8\ntcp.rate 1.5 M/s\na sentence here\n")
        self.assertEqual(found, {"tcp.rate": (1.5, "M/s")})

    def test_json(self):
        text = 'x\n{"program": "p", "settings": {}, "metrics": [{"name": "r", "value": 2, "unit": "s"}]}'
        self.assertEqual(compare.parse(text), {"r": (2, "s")})

    def test_json_of_numbers_by_name(self):
        text = '{ "mode": "push", "gb_per_s": 1.5, "total_ms": {"p50": 2}, "on": true, "lines": [1] }'
        self.assertEqual(compare.parse(text), {"gb_per_s": (1.5, ""), "total_ms.p50": (2, "")})


class Interval(unittest.TestCase):
    def test_nine_rounds_leave_out_one_at_each_end(self):
        self.assertEqual(compare.interval([9, 1, 2, 3, 4, 5, 6, 7, 8]), (2, 8))

    def test_few_rounds_leave_out_none(self):
        self.assertEqual(compare.interval([3, 1, 2]), (1, 3))


class Goals(unittest.TestCase):
    def verdict(self, goal, values):
        return compare.Goal(goal).judge(rounds(values))["verdict"]

    def test_met(self):
        self.assertEqual(self.verdict("a:rate / b:x.rate >= 2", [4, 4, 5]), "met")
        self.assertEqual(self.verdict("a:rate <= 5", [4, 4, 5]), "met")

    def test_within_the_interval(self):
        self.assertEqual(self.verdict("a:rate / b:x.rate >= 2", [3, 3.9, 4.1]),
                         "within the interval")

    def test_missed(self):
        self.assertEqual(self.verdict("max(a:rate, b:x.rate) >= 10", [3, 4, 5]), "missed")

    def test_a_figure_that_is_not_there(self):
        with self.assertRaises(KeyError):
            compare.Goal("a:nothing >= 1").judge(rounds([1]))


class Alone(unittest.TestCase):
    def test_every_round_is_kept_and_nothing_is_probed(self):
        options = argparse.Namespace(build="b", set={}, rounds=3, rough=False, alone=True, limit=10,
                                     met=set())
        figure = compare.Figure("f", {"runs": {"a": "echo rate 2 M/s"}}, options)
        figure.measure(None, options)
        self.assertEqual(len(figure.rounds), 3)


class Placement(unittest.TestCase):
    def name(self, placement, ns):
        options = argparse.Namespace(build="b", placement=placement, near=[80, 180], far=[350, 700],
                                     mesh=[200, 500])
        return compare.Probe(options).name(ns)

    def test_cores_that_share_a_cache_are_near(self):
        self.assertEqual(self.name("near", 100), "near")
        self.assertEqual(self.name("near", 400), "far")
        self.assertEqual(self.name("near", 250), "other")

    def test_a_mesh_of_cores_is_one_placement(self):
        self.assertEqual([self.name("mesh", ns) for ns in (100, 280, 440)], ["other", "mesh", "mesh"])


class Sweeps(unittest.TestCase):
    TABLE = {"sweep": [8, 64], "unit": "GB/s", "title": "A sweep",
             "lines": [["a", "a:rate{size}"], ["none", "none:rate"]],
             "runs": {"a": "echo rate{size} {size} M/s", "none": "{nothing}"}}

    def sweep(self):
        options = argparse.Namespace(build="b", set={}, rounds=3, rough=True, alone=False, limit=10,
                                     patience=1, dropped=0, met=set())
        sweep = compare.Sweep("s", self.TABLE, options)
        sweep.measure(None, options)
        return sweep

    def test_each_size_is_a_figure_of_its_own(self):
        sweep = self.sweep()
        self.assertEqual(sweep.drawn(), ["a"])
        self.assertEqual(list(sweep.points()), [(8, [(8, 8, 8)]), (64, [(64, 64, 64)])])
        self.assertIn("| 64 | 64 |", sweep.markdown())

    def test_curves_are_written(self):
        with tempfile.TemporaryDirectory() as tmp:
            compare.plot.draw(self.sweep(), tmp)
            with open(os.path.join(tmp, "s.dat")) as f:
                self.assertEqual(f.read().splitlines()[1:], ["8 8 8 8", "64 64 64 64"])


class Beside(unittest.TestCase):
    def met(self, command):
        options = argparse.Namespace(limit=10, met=set())
        compare.run_once(command, options)
        return options.met

    def test_a_program_says_which_library_it_drives(self):
        self.assertEqual(self.met("echo '# library UCX 1.2'; echo rate 2 M/s"), {"UCX 1.2"})
        said = '{"settings": {"library": "libfabric 1.3"}, "metrics": [' \
            '{"name": "r", "value": 2, "unit": "s"}]}'
        self.assertEqual(self.met("echo '%s'" % said), {"libfabric 1.3"})
        self.assertEqual(self.met("echo rate 2 M/s"), set())


class Plans(unittest.TestCase):
    def test_each_plan_says_what_to_run(self):
        here = os.path.dirname(os.path.abspath(__file__))
        plans = [name for name in os.listdir(here) if name.endswith(".toml")]
        self.assertIn("figures.toml", plans)
        for name in plans:
            with self.subTest(name):
                options = argparse.Namespace(what=[os.path.join(here, name)], only=[], rough=True,
                                             build="build", set={})
                figures = compare.plan(options)
                self.assertTrue(figures)
                parts = list(compare.parts(figures))
                self.assertFalse([f.name for f in parts if not f.commands and not f.left_out])


    def test_a_list_of_values_makes_a_figure_of_each(self):
        plan = b"""
[f]
title = "{n} bytes"
each = [{ as = "few", n = 1 }, { as = "many", n = 9 }]
goals = [["as many", "a:rate >= {n}"]]
[f.runs]
a = "echo rate {n} M/s"
"""
        with tempfile.NamedTemporaryFile(suffix=".toml") as f:
            f.write(plan)
            f.flush()
            options = argparse.Namespace(what=[f.name], only=["f.m*"], rough=True, build="b", set={})
            many, = compare.plan(options)
        self.assertEqual((many.name, many.title), ("f.many", "9 bytes"))
        self.assertEqual(many.commands, {"a": "echo rate 9 M/s"})
        self.assertEqual(many.goals[0].bound, 9)


class Promises(unittest.TestCase):
    def test_what_a_call_cost_is_not_its_own(self):
        said = "ob=/x/liburccl.so\nfn=a\n0x10 5 3\n0x14 6 1\ncfn=b\ncalls=2 0x40 9\n0x14 6 90\n" \
            "0x10 5 4\nob=/x/libc.so\nfn=c\n0x10 1 7\n"
        self.assertEqual(promises.self_costs(said), {"/x/liburccl.so": {"0x10": 7, "0x14": 1},
                                                     "/x/libc.so": {"0x10": 7}})

    def test_an_address_is_of_the_innermost_that_is_named(self):
        self.assertEqual(promises.group_of(["list_add_tail", "wheel_set", "enter_peer"]),
                         "deadlines")
        self.assertEqual(promises.group_of(["count_add", "stats_moved", "op_arm_fresh"]), None)
        self.assertEqual(promises.group_of(["take"]), None)


if __name__ == "__main__":
    unittest.main()
