#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares programs that print figures, so that a ratio of two figures means something.

The programs run in turn, A B A B, round after round. Before and after each run the probe says where
the two CPUs are; a run in another placement, one during which it changed, or one beside foreign
load is thrown away and made again. What is printed are medians, spreads, and for each goal the
median of the rounds' own ratios with its 95 % interval.

  compare.py --build build/release figures.toml            all figures of a plan
  compare.py --build build/release figures.toml --only 'tcp*' --markdown out.md
  compare.py a='raw_tcp --mode spin --json' b='urccl_perf --self ... --json' \\
             --goal 'b:bandwidth / a:tcp.spin.bandwidth >= 0.95'

A program prints lines "name value unit" or one JSON object: with metrics, as urccl_perf --json
does, or of numbers by name, as kvcache_pusher --json does. A plan names its commands' places as
{build} and {NAME}; --set NAME=VALUE gives the latter, and a command with one that was not given
is left out, with the goals that need it. A figure with a list "each" is one figure for each table
in it, NAME.AS, whose values stand for {VALUE} in its title, commands and goals. A program that
drives another library says which in a setting "library", and the report names it: of UCX and
libfabric they take what LD_LIBRARY_PATH has before what is installed. A figure with a sweep is
measured at each of its sizes, {size}, and --plot DIR draws its lines; --results FILE writes the
draft of a report on all of it.
"""
import argparse
import fnmatch
import json
import math
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
import tomllib

import plot

QUIET_STEP_S = 0.2
NAME = re.compile(r"\b([a-z][a-z0-9_]*):([A-Za-z0-9_.]+)")
LIBRARY = re.compile(r'^# library (.+)$|"library": "([^"]+)"', re.M)
GOAL = re.compile(r"^(.*?)(>=|<=)\s*([0-9.e+-]+)\s*$")


class Failed(Exception):
    """A command that did not run, or said nothing that can be used."""


def cpu_times():
    """Busy and stolen seconds of all CPUs since boot."""
    with open("/proc/stat") as f:
        t = [int(x) / os.sysconf("SC_CLK_TCK") for x in f.readline().split()[1:]]
    return t[0] + t[1] + t[2] + t[5] + t[6], t[7]


def children_seconds():
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return use.ru_utime + use.ru_stime


def wait_for_quiet(options):
    """Returns when the machine is idle, or after the patience is over."""
    deadline = time.monotonic() + options.patience
    while time.monotonic() < deadline:
        before = cpu_times()[0]
        time.sleep(QUIET_STEP_S)
        if cpu_times()[0] - before <= 0.3 * QUIET_STEP_S:
            return


def leaves(said, prefix=""):
    """The numbers of an object whose names tell their units, as ("a.b", (value, "")) each."""
    for name, value in said.items():
        if isinstance(value, dict):
            yield from leaves(value, prefix + name + ".")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield prefix + name, (value, "")


def parse(text):
    """The figures in a program's output: {name: (value, unit)}."""
    start = text.find("{")
    if start >= 0:
        said = json.loads(text[start:])
        if "metrics" in said:
            return {m["name"]: (m["value"], m["unit"]) for m in said["metrics"]}
        return dict(leaves(said))
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and not line.startswith("#"):
            try:
                found[words[0]] = (float(words[1]), words[2])
            except ValueError:
                pass
    return found


class Probe:
    """Asks where the CPUs are: "near", "far" or something between. On a mesh each core has a cache
    of its own, and every pair of them is as far apart as any other: "mesh"."""

    def __init__(self, options):
        self.command = [os.path.join(options.build, "bench", "raw_probe")]
        names = ["mesh"] if options.placement == "mesh" else ["near", "far"]
        self.bounds = {name: getattr(options, name) for name in names}
        self.seen = []

    def name(self, ns):
        return next((n for n, (low, high) in self.bounds.items() if low <= ns <= high), "other")

    def place(self):
        out = subprocess.run(self.command, stdout=subprocess.PIPE, text=True, check=True).stdout
        self.seen.append(parse(out)["probe.round_trip"][0])
        return self.name(self.seen[-1])


def run_once(command, options):
    """Runs a command. Returns its figures, and whether other programs disturbed it."""
    busy, stolen = cpu_times()
    own, start = children_seconds(), time.monotonic()
    p = subprocess.run(["timeout", "-k", "2", str(options.limit), "bash", "-c", command],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    took = time.monotonic() - start
    busy, stolen = cpu_times()[0] - busy, cpu_times()[1] - stolen
    foreign = busy - (children_seconds() - own)
    figures = parse(p.stdout)
    options.met.update(m[1] or m[2] for m in LIBRARY.finditer(p.stdout))
    if p.returncode or not figures:
        raise Failed("%s\n  ended with %d: %s" % (command, p.returncode, p.stderr.strip()[-400:]))
    return figures, foreign > 0.08 * took + 0.03 or stolen > 0.05 * took + 0.02


def run_well(command, probe, options):
    """Runs a command until it ran undisturbed in the wanted placement. None: it never did."""
    if options.rough or options.alone:
        return run_once(command, options)[0]
    deadline = time.monotonic() + options.patience
    while True:
        wait_for_quiet(options)
        before = probe.place()
        if options.placement in ("any", before):
            figures, disturbed = run_once(command, options)
            after = probe.place()
            if before == after and not disturbed:
                return figures
            options.dropped += 1
        elif time.monotonic() < deadline:
            time.sleep(1)
        if time.monotonic() > deadline:
            return None


def value_of(expression, figures):
    """The expression's value in one round; names are RUN:METRIC. Plans are ours, so eval() it is."""
    def look_up(match):
        run, metric = match.groups()
        if run not in figures:
            raise KeyError("no run '%s'" % run)
        if metric not in figures[run]:
            raise KeyError("run '%s' has no figure '%s'" % (run, metric))
        return repr(figures[run][metric][0])
    return eval(NAME.sub(look_up, expression), {"__builtins__": {}, "max": max, "min": min})


def interval(values):
    """A 95 % interval of the median that assumes nothing of the distribution: order statistics."""
    values, n = sorted(values), len(values)
    rank, tail = 0, 0.0
    while rank < n // 2:
        tail += math.comb(n, rank) / 2 ** n
        if tail > 0.025:
            break
        rank += 1
    if not rank:
        return values[0], values[-1]
    return values[rank - 1], values[n - rank]


class Goal:
    """An expression with a bound: met by the median, or, of a ratio, the bound lies inside the
    interval."""

    def __init__(self, text, say=""):
        match = GOAL.match(text)
        if not match:
            sys.exit("compare.py: a goal is 'expression >= number', not '%s'" % text)
        self.expression, self.sign, self.bound = match[1].strip(), match[2], float(match[3])
        self.say = say or text

    def judge(self, rounds):
        values = [value_of(self.expression, r) for r in rounds]
        median, (low, high) = statistics.median(values), interval(values)
        above = self.sign == ">="
        ratio = "/" in self.expression or self.expression.endswith(".growth")
        if median >= self.bound if above else median <= self.bound:
            verdict = "met"
        elif ratio and (high >= self.bound if above else low <= self.bound):
            verdict = "within the interval"
        else:
            verdict = "missed"
        return {"say": self.say, "expression": self.expression, "sign": self.sign,
                "bound": self.bound, "median": median, "low": low, "high": high,
                "n": len(values), "verdict": verdict}


class Figure:
    """One comparison of a plan."""

    def __init__(self, name, table, options):
        values = table.get("values", {})
        self.name, self.title = name, table.get("title", name).format(**values)
        self.rounds_wanted = 1 if options.rough else table.get("rounds", options.rounds)
        self.show = table.get("show", [])
        names = {"build": options.build, "size": table.get("size", ""), **values, **options.set}
        self.commands, self.left_out = {}, []
        for run, command in table["runs"].items():
            try:
                self.commands[run] = command.format(**names)
            except KeyError:
                self.left_out.append(run)
        self.goals = [Goal(g[1].format(**values), g[0]) for g in table.get("goals", [])]
        self.rounds, self.failures = [], {}

    def measure(self, probe, options):
        for i in range(self.rounds_wanted):
            figures = {}
            for run, command in self.commands.items():
                if run in self.failures:
                    continue
                try:
                    figures[run] = run_well(command, probe, options)
                except Failed as e:
                    self.failures[run] = str(e)
                    print("  %s" % e, file=sys.stderr, flush=True)
            if None in figures.values():
                print("  round %d: the placement did not come" % i, file=sys.stderr, flush=True)
            else:
                self.rounds.append(figures)

    def metrics(self):
        """(run, metric, unit, values) of all rounds, those that the plan wants shown."""
        seen = {}
        for r in self.rounds:
            for run, figures in r.items():
                for metric, (value, unit) in figures.items():
                    seen.setdefault((run, metric, unit), []).append(value)
        for (run, metric, unit), values in seen.items():
            name = "%s:%s" % (run, metric)
            if not self.show or any(fnmatch.fnmatch(name, s) for s in self.show):
                yield run, metric, unit, values

    def judged(self):
        for goal in self.goals:
            try:
                yield goal.judge(self.rounds)
            except (KeyError, statistics.StatisticsError) as e:
                yield {"say": goal.say, "verdict": "not measured", "why": str(e)}


class Sweep:
    """A figure measured at several sizes: lines of medians, to be drawn."""

    def __init__(self, name, table, options):
        self.name, self.title, self.unit = name, table.get("title", name), table.get("unit", "")
        self.lines, self.logscale = table["lines"], table.get("logscale", False)
        self.parts = [(size, Figure("%s.%d" % (name, size), {**table, "size": size}, options))
                      for size in table["sweep"]]

    def measure(self, probe, options):
        for _, part in self.parts:
            part.measure(probe, options)

    def point(self, size, part, expression):
        try:
            values = [value_of(expression.replace("{size}", str(size)), r) for r in part.rounds]
            return statistics.median(values), min(values), max(values)
        except (KeyError, statistics.StatisticsError):
            return None

    def drawn(self):
        """The lines that have a point."""
        return [name for name, e in self.lines if any(self.point(s, p, e) for s, p in self.parts)]

    def points(self):
        """(size, (median, least, most) or None of each line drawn)"""
        wanted = self.drawn()
        for size, part in self.parts:
            yield size, [self.point(size, part, e) for name, e in self.lines if name in wanted]

    def judged(self):
        return []

    def markdown(self):
        rounds = min(len(p.rounds) for _, p in self.parts)
        out = ["### %s" % self.title, "", "`%s`, %d rounds a size, %s; medians" % (
            self.name, rounds, self.unit), "", "| bytes | %s |" % " | ".join(self.drawn()),
            "|---" * (1 + len(self.drawn())) + "|"]
        for size, points in self.points():
            out.append("| %d | %s |" % (size, " | ".join(
                number(p[0]) if p else "-" for p in points)))
        commands = self.parts[0][1].commands.items()
        out += ["", "```"] + ["%s: %s" % c for c in commands] + ["```", ""]
        return "\n".join(out)


def number(v):
    return "%.0f" % v if abs(v) >= 1000 else "%.3g" % v


def markdown(figure):
    if isinstance(figure, Sweep):
        return figure.markdown()
    out = ["### %s" % figure.title, "", "`%s`, %d rounds" % (figure.name, len(figure.rounds)), "",
           "| run | figure | median | least | most | unit |", "|---|---|---|---|---|---|"]
    for run, metric, unit, values in figure.metrics():
        out.append("| %s | %s | %s | %s | %s | %s |" % (
            run, metric, number(statistics.median(values)), number(min(values)),
            number(max(values)), unit))
    if figure.goals:
        out += ["", "| goal | bound | median | 95 % interval | verdict |", "|---|---|---|---|---|"]
    for g in figure.judged():
        if "median" in g:
            out.append("| %s | %s %s | **%s** | %s to %s | %s |" % (
                g["say"], {">=": "≥", "<=": "≤"}[g["sign"]], number(g["bound"]),
                number(g["median"]), number(g["low"]), number(g["high"]), g["verdict"]))
        else:
            out.append("| %s | | | | %s |" % (g["say"], g["verdict"]))
    out += ["", "```"] + ["%s: %s" % c for c in figure.commands.items()] + ["```", ""]
    for run, why in figure.failures.items():
        out += ["Run `%s` failed: `%s`" % (run, why.splitlines()[-1].strip()), ""]
    if figure.left_out:
        out += ["Left out: %s." % ", ".join(figure.left_out), ""]
    return "\n".join(out)


def first_line(*command):
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, check=True).stdout.splitlines()[0]
    except (OSError, IndexError, subprocess.CalledProcessError):
        return "?"


def machine():
    with open("/proc/cpuinfo") as f:
        model = re.search(r"^model name\s*: (.*)$", f.read(), re.M)
    return "%d CPUs, %s, %s %s" % (os.cpu_count(), model[1] if model else platform.machine(),
                                   platform.system(), platform.release())


def beside(options):
    return "- Beside %s." % (", ".join(sorted(options.met)) or "no other library")


def placed(probe, options):
    if options.alone:
        return "- Every run was kept: nothing else ran on that machine."
    return "- Placement %s; the probe's round trip %s." % (options.placement, "%.0f to %.0f ns" % (
        min(probe.seen), max(probe.seen)) if probe.seen else "was not looked at: no figures")


def results(figures, probe, options):
    """The draft of a report: what on which machine, the goals, then each figure."""
    out = ["# What was measured", "", "- liburccl at %s, %s." % (
        first_line("git", "describe", "--always", "--dirty"), first_line("cc", "--version")),
        "- Machine: %s." % machine(), beside(options), placed(probe, options),
        "", "## Goals", "", "| figure | goal | bound | median | 95 % interval | verdict |",
        "|---|---|---|---|---|---|"]
    for x in figures:
        for g in x.judged():
            bound = g["sign"] + " " + number(g["bound"]) if "bound" in g else ""
            middle = "%s | %s to %s" % tuple(number(g[k]) for k in ("median", "low", "high")) \
                if "median" in g else " | "
            out.append("| %s | %s | %s | %s | %s |" % (x.title, g["say"], bound, middle,
                                                      g["verdict"]))
    out += ["", "## Figures", ""] + [markdown(x) for x in figures]
    return "\n".join(out)


def parts(figures):
    """All figures, those of sweeps by size."""
    for x in figures:
        yield from (p for _, p in x.parts) if isinstance(x, Sweep) else [x]


def keep(figures, probe, options):
    """Writes what there is, after every figure: a long series that is stopped loses little."""
    if options.markdown:
        with open(options.markdown, "w") as f:
            f.write("\n".join(markdown(x) for x in figures))
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"probe_ns": probe.seen, "dropped": options.dropped, "beside": sorted(options.met),
                       "figures": [{"name": x.name, "commands": x.commands, "rounds": x.rounds,
                                    "goals": list(x.judged())} for x in parts(figures)]}, f)
    if options.results:
        with open(options.results, "w") as f:
            f.write(results(figures, probe, options))


def pair(text):
    name, equals, value = text.partition("=")
    if not equals or not re.fullmatch("[a-z][a-z0-9_]*", name):
        raise argparse.ArgumentTypeError("'%s' is not NAME=VALUE" % text)
    return name, value


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", nargs="+", help="plans (.toml), or NAME=COMMAND ...")
    p.add_argument("--build", default="build/release", help="where bench/ was built")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--placement", choices=["near", "far", "mesh", "any"], default="near")
    p.add_argument("--near", type=float, nargs=2, default=[80, 180], metavar="NS")
    p.add_argument("--far", type=float, nargs=2, default=[350, 700], metavar="NS")
    p.add_argument("--mesh", type=float, nargs=2, default=[200, 500], metavar="NS",
                   help="a Xeon with a mesh of cores")
    p.add_argument("--patience", type=float, default=300, help="seconds to wait for a good run")
    p.add_argument("--limit", type=int, default=180, help="seconds a command may take")
    p.add_argument("--rough", action="store_true",
                   help="keep every run, one round: to try a plan, not to measure")
    p.add_argument("--alone", action="store_true", help="keep every run: nothing else runs here, "
                   "and the CPUs are not to be placed, as in an emulated machine")
    p.add_argument("--only", action="append", default=[], help="figures of the plan, by pattern")
    p.add_argument("--set", action="append", type=pair, default=[], metavar="NAME=VALUE")
    p.add_argument("--goal", action="append", default=[])
    p.add_argument("--markdown", help="write a report there")
    p.add_argument("--plot", metavar="DIR", help="draw the sweeps there, with gnuplot")
    p.add_argument("--results", help="write the draft of a report there")
    p.add_argument("--json", help="write every figure of every round there")
    p.add_argument("--list", action="store_true", help="name the plan's figures and stop")
    options = p.parse_args()
    options.set, options.dropped, options.met = dict(options.set), 0, set()
    if options.rough:
        options.rounds = 1
    return options


def tables(plans):
    """(name, table) of each figure in the plans, those with a list "each" by its values."""
    for path in plans:
        with open(path, "rb") as f:
            for name, table in tomllib.load(f).items():
                for values in table.get("each", [{}]):
                    yield ".".join([name, *([values["as"]] if values else [])]), \
                        {**table, "values": values}


def plan(options):
    if options.what[0].endswith(".toml"):
        wanted = options.only or ["*"]
        return [Sweep(n, t, options) if "sweep" in t else Figure(n, t, options)
                for n, t in tables(options.what)
                if any(fnmatch.fnmatch(n, w) for w in wanted)]
    runs = dict(pair(w) for w in options.what)
    return [Figure("comparison", {"runs": runs, "goals": [["", g] for g in options.goal]}, options)]


def main():
    options = arguments()
    figures = plan(options)
    if options.list:
        for x in figures:
            print("%-24s %s" % (x.name, x.title))
        return
    probe, done = Probe(options), []
    for x in figures:
        print("%s: %s" % (x.name, x.title), file=sys.stderr, flush=True)
        x.measure(probe, options)
        done.append(x)
        print(markdown(x), flush=True)
        if options.plot and isinstance(x, Sweep):
            drawn = plot.draw(x, options.plot)
            print("drawn: %s" % ", ".join(drawn) if drawn else "not drawn: there is no gnuplot")
        keep(done, probe, options)
    if options.alone and not options.rough:
        return
    if not probe.seen:
        print("the placement was not looked at: these are no figures")
        return
    print(beside(options)[2:])
    print("%d runs were made again; probe %.0f ns (%.0f to %.0f)" % (
        options.dropped, statistics.median(probe.seen), min(probe.seen), max(probe.seen)))


if __name__ == "__main__":
    main()
