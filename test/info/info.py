#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
info.py URCCL_INFO CASE [PROGRAM...]: the tool as its users run it. PROGRAM is one that moves data
for some seconds, or (denied) runs a command where system calls are denied.
"""
import ctypes
import errno
import fcntl
import json
import os
import pty
import random
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time

LIMIT = 30
CLEAR = b"\x1b[H\x1b[J"
PR_CAPBSET_DROP, CAP_IPC_LOCK = 24, 14  # of linux/prctl.h and linux/capability.h
OP_WRITE = 2  # of liburccl/abi.h


def check(ok, why):
    if not ok:
        sys.exit(f"failed: {why}")


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def run(*arguments, before=(), limits=(), unprivileged=False, status=0, **variables):
    def prepare():
        for what, value in limits:
            resource.setrlimit(what, (value, value))
        if unprivileged:
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK, 0, 0, 0)

    began = time.monotonic()
    done = subprocess.run([*before, info, *arguments], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=LIMIT, preexec_fn=prepare,
                          env={**os.environ, **variables})
    check(done.returncode == status,
          f"{arguments}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr, time.monotonic() - began


def doctor(*more, **how):
    """To contexts that do not meet in 300 ms it says "wrong": on a busy machine it looks again."""
    for left in (2, 1, 0):
        try:
            out, _, seconds = run("--doctor", "--json", *more, **how)
        except SystemExit:
            if not left:
                raise
            continue
        if seconds < 2:
            break
    checks = {c["name"]: c for c in json.loads(out)["checks"]}
    for c in checks.values():
        check(c["state"] and (c["advice"] or c["health"] == "ok"), f"nothing is advised: {c}")
    return checks, seconds


def found(checks, name, health, *words):
    said = f"{checks[name]['state']} {checks[name]['advice']}"
    check(checks[name]["health"] == health, f"{name} is {checks[name]}")
    for word in words:
        check(word in said, f"{name} does not name {word}: {said}")


def case_show():
    shown = json.loads(run("--json")[0])
    devices = {d["name"]: d for d in shown["devices"]}
    check([d["name"] for d in shown["devices"]][:2] == ["shm", "tcp"], f"devices: {devices}")
    check(devices["tcp"]["state"] == "open" and "epoll" in devices["tcp"]["reason"], devices)
    check(devices["nccl"]["state"] == "not carried out", devices)
    check(any("shm" in line for line in shown["plan"]), shown["plan"])
    only = json.loads(run("--json", "--transport", "tcp")[0])["devices"]
    check(only[0]["name"] == "tcp" and only[1]["state"] == "not asked for", only)
    failed = json.loads(run("--json", "--transport", "shm?,tcp", URCCL_SOCKET_DIR="/no/such/dir")[0])
    lacking = {d["name"]: d for d in failed["devices"]}["shm"]
    check(lacking["state"] == "failed" and "/no/such/dir" in lacking["reason"], lacking)
    settings = {s["name"]: s for s in json.loads(
        run("--json", URCCL_DEADLINE_MS="1234")[0])["settings"]}
    check(settings["deadline_ms"]["value"] == "1234", settings["deadline_ms"])
    check(settings["deadline_ms"]["default"] == "30000", settings["deadline_ms"])
    check(settings["deadline_ms"]["is_default"] == 0, settings["deadline_ms"])
    check(settings["bounce"]["is_default"] == 1, settings["bounce"])
    for name, value in (("transport", "shm?,tcp?"), ("listen", "127.0.0.1:0"),
                        ("thread_name", "urccl"), ("libfabric_so", "libfabric.so.1")):
        check((settings[name]["value"], settings[name]["is_default"]) == (value, 1), settings[name])
    lines = [line.split() for line in run(URCCL_LISTEN="")[0].splitlines()]
    check(["URCCL_LISTEN", '""', "(set)"] in lines, lines)
    check(["URCCL_SECRET_FILE", "(not", "given)"] in lines, lines)
    check(["URCCL_THREAD_NAME", "urccl"] in lines, lines)
    check("URCCL_BOUNCE" in run(URCCL_BOUNCE="perhaps", status=1)[1], "a bad variable is not named")
    check("liburccl" in run()[0] and "Plan" in run()[0], "no text")
    check("no such" in run("--transport", "no such", status=1)[1], "a bad transport is not named")
    for wrong in (["--dump"], ["--dump", "0"], ["--dump", "4294967297"], ["--dump", "1x"], ["--once"],
                  ["--top", "--json"], ["--top", "--interval", "nan"], ["--top", "--interval", "0"],
                  ["--nonsense"], ["1"], ["--probe", "--once"]):
        check("usage" in run(*wrong, status=2)[1], f"no usage: {wrong}")


def case_plan():
    machines = os.path.join(os.path.dirname(__file__), "..", "topology", "machines")
    here = run("--plan")[0]
    check("Plan" in here and "shm" in here and "Devices" not in here, here)
    machine = os.path.join(machines, "hgx-h20.xml")
    shown = run("--plan", URCCL_TOPOLOGY=machine, URCCL_GPU="3")[0]
    check("  1. mlx5_3 port 1: one PCIe switch away (PIX), 400 Gbit/s" in shown, shown)
    check("GPU 0000:84:00.0: mlx5_7 (PIX)" in shown, shown)
    check("NUMA node 1: mlx5_4, mlx5_5, mlx5_6, mlx5_7, mlx5_8 (NODE)" in shown, shown)
    check("mlx5_9 port 1" in shown and "the port is down" in shown, shown)
    lines = json.loads(run("--plan", "--json", URCCL_TOPOLOGY=machine, URCCL_GPU="44:00.0",
                           URCCL_RDMA_DEV="mlx5_8")[0])["plan"]
    check(any("mlx5_8 port 1" in line and "NUMA node 1" in line for line in lines), lines)
    for variable, value, word in (("URCCL_GPU", "9", "no GPU 9"),
                                  ("URCCL_TOPOLOGY", "/nowhere", "cannot be read"),
                                  ("URCCL_TOPOLOGY", __file__, "libhwloc")):
        shown = run("--plan", **{"URCCL_TOPOLOGY": machine, variable: value})[0]
        check(word in shown, f"{variable}={value}: {shown}")
    check("usage" in run("--plan", "--doctor", status=2)[1], "no usage")
    check("usage" in run("--top", "--transport", "tcp", status=2)[1], "no usage")


def case_doctor():
    checks, seconds = doctor()
    check(seconds < 2, f"{seconds} s")
    check({"memlock", "io_uring", "rdma", "pid namespace", "memory", "threads",
           "rdma limits"} <= set(checks), checks)
    for name in ("shm", "tcp", "loopback", "library", "settings"):
        found(checks, name, "ok")
    found(checks, "library", "ok", "shm, tcp")
    for how in ((["--transport", "tcp"], {}), ([], {"URCCL_TRANSPORT": "tcp"}),
                (["--transport", "tcp"], {"URCCL_TRANSPORT": "nccl"})):
        checks, _ = doctor(*how[0], **how[1])
        found(checks, "library", "ok", "tcp")
        check("shm" not in checks["library"]["state"], checks["library"])
    checks, _ = doctor("--transport", "tcp,nccl!", status=1)
    for name in ("library", "nccl"):
        found(checks, name, "wrong", "does not carry out transport nccl")
    checks, _ = doctor(status=1, URCCL_BOUNCE="perhaps")
    found(checks, "settings", "wrong", "URCCL_BOUNCE")
    check("Something is wrong." in run("--doctor", status=1, URCCL_BOUNCE="perhaps")[0], "the text")


def may_lock_all():
    with open("/proc/self/status") as status:
        caps = re.search(r"CapEff:\s*(\w+)", status.read()).group(1)
    return int(caps, 16) >> CAP_IPC_LOCK & 1 and os.readlink("/proc/self/ns/user") == "user:[4026531837]"


def case_limits():
    checks, _ = doctor(limits=[(resource.RLIMIT_MEMLOCK, 65536)])
    check((checks["memlock"]["health"] == "ok") == bool(may_lock_all()), checks["memlock"])
    check("64 KiB" in checks["memlock"]["state"], checks["memlock"])
    checks, _ = doctor(limits=[(resource.RLIMIT_FSIZE, 65536)], status=1)
    found(checks, "file size", "wrong", "ulimit -f")
    checks, _ = doctor(limits=[(resource.RLIMIT_NOFILE, 12)], status=1)
    found(checks, "files", "wrong", "ulimit -n", "12 ")
    found(checks, "library", "wrong", "no context can be opened")


def case_memlock():
    """What two rails need, of devices that are made up."""
    how = {"limits": [(resource.RLIMIT_MEMLOCK, 57344)], "unprivileged": may_lock_all(),
           "UCCL_IBV_SO": program[0], "URCCL_RDMA_DEV": "=rxe_v0,rxe_w0"}
    checks, seconds = doctor("--transport", "ib", URCCL_MAX_PEERS="3", **how)
    check(seconds < 2, f"{seconds} s")
    found(checks, "memlock", "note", "56 KiB may be locked", "2 rails and 3 peers (max_peers)",
          "needs 56 KiB itself", "0 KiB are left", "ulimit -l")
    checks, _ = doctor("--transport", "shm,ib?", URCCL_MAX_PEERS="4", status=1, **how)
    found(checks, "memlock", "wrong", "needs 72 KiB itself", "URCCL_MAX_WARM")
    checks, _ = doctor("--transport", "shm,ib?", URCCL_MAX_PEERS="4", URCCL_MAX_WARM="2", **how)
    found(checks, "memlock", "note", "2 peers (max_warm) needs 40 KiB itself", "16 KiB are left")
    checks, _ = doctor("--transport", "shm,ib?", URCCL_MAX_QPS="12", **how)
    found(checks, "memlock", "note", "12 queue pairs (max_qps) needs 32 KiB itself")


def case_denied():
    if subprocess.run([*program, "true"]).returncode:
        skip("no seccomp filter may be set here")
    checks, seconds = doctor(before=program)
    check(seconds < 2, f"{seconds} s")
    found(checks, "io_uring", "note", "seccomp", "tcp uses epoll")
    found(checks, "seccomp", "note")


def free_port():
    """Below those that the kernel gives to whoever asks for none in particular."""
    while True:
        port = random.randrange(10000, 30000)
        with socket.socket() as free:
            try:
                free.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def case_probe():
    probed = json.loads(run("--probe", "--json")[0])
    ways = {w["transport"]: w for w in probed["ways"]}
    check(probed["to"] == "this process" and {"shm", "tcp"} <= set(ways), probed)
    for name, way in ways.items():
        check(0 < way["rtt_min_ns"] <= way["rtt_median_ns"], way)
        check(way["written"] > 0 and way["write_ns"] > 0, way)
        check(way["read"] > 0 and way["read_ns"] > 0, way)
    check(ways["shm"]["mapped"] == 1 and ways["tcp"]["mapped"] == 0, ways)
    text = run("--probe", "--transport", "tcp")[0].splitlines()
    check(len(text) == 2 and text[1].startswith("tcp") and "GB/s" in text[1], text)
    said = run("--probe", "127.0.0.1:1", "--transport", "tcp", status=1)[1]
    check("nobody listens at 127.0.0.1:1" in said, said)
    check("usage" in run("--probe", "--top", status=2)[1], "no usage")
    where = f"127.0.0.1:{free_port()}"
    server = subprocess.Popen([*program, "--serve", "--listen", where], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL)
    probe = [info, "--probe", where, "--transport", "tcp", "--json"]
    try:
        there = json.loads(until(lambda: answer(probe), "the server is not probed"))
        check(there["to"] == where and there["ways"][0]["transport"] == "tcp", there)
    finally:
        server.kill()
        server.wait()


def answer(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True, capture_output=True,
                          timeout=LIMIT)
    return done.stdout if done.returncode == 0 else None


def case_namespaces():
    spaces = ["unshare", "--user", "--map-root-user", "--pid", "--net", "--mount", "--fork",
              "--mount-proc", "--kill-child"]
    if not shutil.which("unshare") or subprocess.run([*spaces, "true"],
                                                     capture_output=True).returncode:
        skip("user namespaces are denied here")
    checks, seconds = doctor(before=spaces, status=1, limits=[(resource.RLIMIT_MEMLOCK, 65536)])
    check(seconds < 2, f"{seconds} s")
    # All capabilities, of a namespace that is not the machine's.
    check(checks["memlock"]["health"] != "ok", checks["memlock"])
    for word in ("64 KiB may be locked", "for each rail", "4 KiB, and 8 KiB a peer", "ulimit -l"):
        check(word in checks["memlock"]["state"] + checks["memlock"]["advice"], checks["memlock"])
    found(checks, "loopback", "wrong", "ip link set lo up")
    found(checks, "pid namespace", "note", "its own")
    found(checks, "tcp", "wrong")


PROBES = {"entry_taken", "entry_ended", "chunk_posted", "peer_up", "peer_lost", "sleep", "wake"}


def case_probes():
    if not shutil.which("readelf"):
        skip("readelf is not installed")
    library = program[0]
    notes = subprocess.run(["readelf", "-n", library], check=True, text=True,
                           capture_output=True).stdout
    there = set(re.findall(r"Provider: urccl\n\s*Name: (\w+)", notes))
    if not there and program[1] == "0":
        skip("built without sys/sdt.h")
    check(there == PROBES, f"probes: {there}")


# In a mount namespace of its own: the kernel's events, if they are not to be seen yet.
WITH_EVENTS = """
    events=/sys/kernel/tracing/uprobe_events
    [ -e $events ] || mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
    [ -w $events ] || { echo "$events is not to be had"; exit 77; }
    exec "$@"
    """


def run_perf(folder, *command, well=True):
    done = subprocess.run(["unshare", "--mount", "sh", "-c", WITH_EVENTS, "sh", "perf",
                           "--buildid-dir", folder, *command], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT)
    if done.returncode == 77:
        skip(done.stdout.strip())
    check(not well or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


def recorded(folder, command):
    """{probe: [[argument, ...], ...]}"""
    data, seen = os.path.join(folder, "data"), {}
    run_perf(folder, "record", "-q", "-m", "2048", "-o", data, "-e", "sdt_urccl:*", "--", *command)
    for line in run_perf(folder, "script", "-i", data, "-F", "event,trace").splitlines():
        # One that the compiler made several of has a number behind its name.
        name = re.search(r"sdt_urccl:([a-z_]+?)(_\d+)?:", line)
        if name:
            seen.setdefault(name[1], []).append(
                [int(a, 0) for a in re.findall(r"arg\d=(-?\w+)", line)])
    return seen


def watched(folder, library, *commands):
    """What perf sees of the probes while each command runs."""
    # The kernel has one list of events for all: one run at a time, and none leaves its own there.
    lock = open(os.path.join(tempfile.gettempdir(), "urccl-events.lock"), "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("failed: out of time"))
    run_perf(folder, "buildid-cache", "--add", library)
    run_perf(folder, "probe", "-q", "--del", "sdt_urccl:*", well=False)  # of one that was killed
    try:
        for name in sorted(PROBES):
            run_perf(folder, "probe", "-q", "--add", "sdt_urccl:" + name)
        return [recorded(folder, command) for command in commands]
    finally:
        run_perf(folder, "probe", "-q", "--del", "sdt_urccl:*", well=False)


def case_attach():
    """perf attaches to every probe and sees each, and what they say of writes is so."""
    library, has, killed, mover = program[0], program[1], program[2:4], program[4:]
    if has == "0":
        skip("built without sys/sdt.h")
    if os.geteuid():
        skip("not root: who attaches to probes has to be")
    for tool in "perf", "unshare":
        if not shutil.which(tool):
            skip(f"{tool} is not installed")
    for needed in (["unshare", "--mount", "true"],
                   ["perf", "record", "-q", "-e", "dummy", "-o", "/dev/null", "true"]):
        if subprocess.run(needed, capture_output=True).returncode:
            skip(f"{needed[0]} is denied here")
    with tempfile.TemporaryDirectory() as folder:
        seen, ends = watched(folder, library, mover, killed)
    for calls in [*seen.values(), *ends.values()]:
        check(all(len(a) == 3 for a in calls), "arguments are missing")
    check(set(ends) == PROBES, sorted(ends))
    lost = {a[0]: a[2] for a in ends["peer_lost"]}
    check(-errno.ECONNRESET in lost.values(), f"nobody was lost by a reset: {lost}")
    check(set(lost) <= {a[0] for a in ends["peer_up"]}, "they are of other peers")
    taken = sorted(a[:2] for a in seen["entry_taken"] if a[2] == OP_WRITE)
    ended = sorted(a[:2] for a in seen["entry_ended"] if a[2] == 4096)
    check(len(taken) >= 200, f"{len(taken)} writes were taken")
    check(taken == ended, f"{len(taken)} writes were taken, and {len(ended)} or others ended")
    posted = [a[0] for a in seen["chunk_posted"] if a[1:] == [1, 4096]]
    check(len(posted) == len(taken), f"{len(posted)} chunks of {len(taken)} writes")
    check(set(posted) <= {a[0] for a in seen["peer_up"]}, "they are of other peers")


def until(what, why):
    """Others use the machine too: what is to be seen is seen sooner or later."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        seen = what()
        if seen:
            return seen
    sys.exit(f"failed: {why}")


def contexts(pid):
    out = subprocess.run([info, "--top", str(pid), "--once", "--json", "--interval", "0.1"],
                         stdin=subprocess.DEVNULL, text=True, capture_output=True, timeout=LIMIT)
    return json.loads(out.stdout) if out.returncode == 0 else []


def stopped(child):
    """What a stopped process shows, or None: it was stopped between two writes, and goes on."""
    child.send_signal(signal.SIGSTOP)
    until(lambda: [c for c in contexts(child.pid) if c["state"] == "stopped"], "never stopped")
    dumped = run("--dump", str(child.pid))[0]
    if "write, moving, peer 0x" in dumped:
        return dumped
    child.send_signal(signal.SIGCONT)
    return None


def case_live():
    child = subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        moving = until(lambda: [c for c in contexts(child.pid) if c["bytes_written_per_s"] > 0],
                       "no context of the child moves anything")[0]
        check(moving["entries_per_s"] > 0 and moving["p99_ns"] >= moving["p50_ns"], moving)
        check(moving["peers"] == 1 and moving["state"] in ("busy", "asleep", "not driven"), moving)
        check("ENTRIES/S" in run("--top", "--once", "--interval", "0.1")[0], "no table")
        dumped = until(lambda: stopped(child), "no write was unfinished when the child was stopped")
        for word in ("stopped", "transport", "ring 1: of", "peer 0x", " up, ", "bulk writes:",
                     'setting transport = "tcp"'):
            check(word in dumped, f"the dump has no {word!r}:\n{dumped}")
        check(contexts(child.pid)[0]["entries_per_s"] == 0, "a stopped process moves")
    finally:
        child.kill()
        child.wait()
    check("none of that number" in run("--dump", str(child.pid), status=1)[1], "a dead process")


def says(child):
    """Its next line; one that says why it cannot run ends the test."""
    said = child.stdout.readline()
    if said.startswith("skipped: "):
        skip(said[9:].strip())
    return said


def case_stuck():
    """An engine that hangs in the turn that took an entry has named that."""
    child = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        said = says(child)
        check(said == "ready\n", f"it ended: {said}")
        # What it did before would hide what it does next: of chunks so close the first is named.
        until(lambda: run("--dump", str(child.pid))[0].count(": asleep\n") == 2, "it is awake")
        child.stdin.write("\n")
        child.stdin.flush()
        said = says(child)
        check(said == "stuck\n", f"it ended: {said}")
        dumped = until(lambda: stuck(child), "it is not stuck")
        entry = r"  entry \d+: write, \w+, peer 0x\w+, user_data 0x57ac4, just taken"
        check(re.search(entry, dumped), f"its write is not named:\n{dumped}")
    finally:
        child.kill()
        child.wait()


def stuck(child):
    dumped = run("--dump", str(child.pid))[0]
    return dumped if ": stuck\n" in dumped else None


class Terminal:
    """One that the table is shown on: what it was told, and what keys do."""

    def __init__(self, *arguments):
        self.ours, self.theirs = pty.openpty()
        self.before = termios.tcgetattr(self.theirs)
        self.said = b""
        self.run = subprocess.Popen([info, *arguments], stdin=self.theirs, stdout=self.theirs,
                                    stderr=self.theirs)

    def takes_keys(self):
        """By themselves, unseen, Ctrl-C among them."""
        flags = termios.tcgetattr(self.theirs)[3]
        return not flags & (termios.ICANON | termios.ECHO | termios.ISIG)

    def shows(self, tables):
        """Reads until it has drawn that many, or is at an end: whether it has."""
        def enough():
            if select.select([self.ours], [], [], 0.1)[0]:
                self.said += os.read(self.ours, 65536)
            return self.said.count(CLEAR) >= tables or self.run.poll() is not None
        until(enough, f"no {tables} tables: {self.said}")
        return self.said.count(CLEAR) >= tables

    def ends(self, key):
        os.write(self.ours, key)
        # What it still writes is taken, or it would wait for that.
        until(lambda: not self.shows(1 << 30) or self.run.poll() is not None, "it goes on")
        check(self.run.wait(LIMIT) == 0, f"{key}: status {self.run.returncode}\n{self.said}")
        check(termios.tcgetattr(self.theirs) == self.before, f"{key}: not as it was before")
        os.close(self.ours)
        os.close(self.theirs)


def case_gpu():
    """--doctor alone loads CUDA; program[0] is the tests' stand-in for it."""
    def look(words, health, *said, so=program[0]):
        # CUDA asks no peer: what else is said is of no interest here, such as a slow transport.
        out = subprocess.run([info, "--doctor", "--json"], stdin=subprocess.DEVNULL, text=True,
                             capture_output=True, timeout=LIMIT, check=False,
                             env={**os.environ, "URCCL_CUDA_SO": so, "CUDA_DOUBLE": words}).stdout
        lines = [c for c in json.loads(out)["checks"] if c["name"] == "gpu"]
        for line in lines:
            text = line["state"] + " -> " + line["advice"]
            check(line["health"] == health, line)
            for word in said:
                check(word in text, f"no {word} in {text}")
        return lines

    both = look("gpus=2", "ok", "driver 13.0", "legacy handles, fd", "; dma-buf", "peers 1")
    check([line["state"][:6] for line in both] == ["GPU 0 ", "GPU 1 "], both)
    check(len(look("gpus=1", "ok", "peers 0")) == 1, "one GPU")
    look("nopeer", "note", "peers 0", "nvidia-smi topo")
    look("nodmabuf", "note", "no dma-buf", "open kernel modules")
    look("gpus=0", "note", "no GPU")
    look("refuse=cuInit:999", "wrong", "CUDA does not start: error 999")
    look("", "note", "no CUDA driver", so="/nonexistent.so")
    # A word that the stand-in does not know would end a process that loads it.
    out, _, _ = run("--json", URCCL_CUDA_SO=program[0], CUDA_DOUBLE="nonsense")
    check(isinstance(json.loads(out)["gpus"], list), out)
    run("--plan", URCCL_CUDA_SO=program[0], CUDA_DOUBLE="nonsense")


def case_keys():
    """The table goes on until q, or Ctrl-C, and leaves the terminal as it was."""
    child = subprocess.Popen(program, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        until(lambda: contexts(child.pid), "no context of the child")
        for key in b"q", b"\x03":
            terminal = Terminal("--top", str(child.pid), "--interval", "0.1")
            check(terminal.shows(2), f"it ended: {terminal.said}")
            check(terminal.takes_keys(), "keys are not taken one by one")
            for word in b"every 0.1 s", b"q: quit", b"ENTRIES/S", str(child.pid).encode():
                check(word in terminal.said, f"no {word}: {terminal.said}")
            os.write(terminal.ours, b"x")    # any other is none
            check(terminal.shows(terminal.said.count(CLEAR) + 3), "it ended by another key")
            terminal.ends(key)
    finally:
        child.kill()
        child.wait()


info, case, program = sys.argv[1], sys.argv[2], sys.argv[3:]
globals()["case_" + case]()
