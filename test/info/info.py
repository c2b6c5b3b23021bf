#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
info.py URCCL_INFO CASE [PROGRAM...]: the tool as its users run it. PROGRAM is one that moves data
for some seconds, or (denied) runs a command where system calls are denied.
"""
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

LIMIT = 30


def check(ok, why):
    if not ok:
        sys.exit(f"failed: {why}")


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def run(*arguments, before=(), limits=(), status=0, **variables):
    def prepare():
        for what, value in limits:
            resource.setrlimit(what, (value, value))

    began = time.monotonic()
    done = subprocess.run([*before, info, *arguments], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=LIMIT, preexec_fn=prepare,
                          env={**os.environ, **variables})
    check(done.returncode == status,
          f"{arguments}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr, time.monotonic() - began


def doctor(**how):
    """To contexts that do not meet in 300 ms it says "wrong": on a busy machine it looks again."""
    for left in (2, 1, 0):
        try:
            out, _, seconds = run("--doctor", "--json", **how)
        except SystemExit:
            if not left:
                raise
            continue
        if seconds < 2:
            break
    return {c["name"]: c for c in json.loads(out)["checks"]}, seconds


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
    settings = {s["name"]: s for s in json.loads(
        run("--json", URCCL_TIMEOUT_MS="1234")[0])["settings"]}
    check(settings["timeout_ms"]["value"] == "1234", settings["timeout_ms"])
    check(settings["timeout_ms"]["origin"] == "URCCL_TIMEOUT_MS", settings["timeout_ms"])
    check(settings["cma"]["origin"] == "default", settings["cma"])
    check("URCCL_CMA" in run(URCCL_CMA="perhaps", status=1)[1], "a bad variable is not named")
    check("liburccl" in run()[0] and "Plan" in run()[0], "no text")
    check("no such" in run("--transport", "no such", status=1)[1], "a bad transport is not named")
    check("usage" in run("--dump", status=2)[1], "no usage")


def case_plan():
    machines = os.path.join(os.path.dirname(__file__), "..", "topology", "machines")
    here = run("--plan")[0]
    check("Plan" in here and "shm" in here and "Devices" not in here, here)
    machine = os.path.join(machines, "hgx-h20.txt")
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
                                  ("URCCL_TOPOLOGY", __file__, "line 3: ")):
        shown = run("--plan", **{"URCCL_TOPOLOGY": machine, variable: value})[0]
        check(word in shown, f"{variable}={value}: {shown}")
    check("usage" in run("--plan", "--doctor", status=2)[1], "no usage")


def case_doctor():
    checks, seconds = doctor()
    check(seconds < 2, f"{seconds} s")
    check({"memlock", "cma", "io_uring", "rdma", "pid namespace", "memory"} <= set(checks), checks)
    for name in ("shm", "tcp", "loopback", "library"):
        found(checks, name, "ok")


def case_limits():
    checks, _ = doctor(limits=[(resource.RLIMIT_MEMLOCK, 65536)])
    check(checks["memlock"]["health"] != "ok", checks["memlock"])
    check("64 KiB" in checks["memlock"]["state"], checks["memlock"])
    checks, _ = doctor(limits=[(resource.RLIMIT_FSIZE, 65536)], status=1)
    found(checks, "file size", "wrong", "ulimit -f")
    checks, _ = doctor(limits=[(resource.RLIMIT_NOFILE, 12)], status=1)
    found(checks, "files", "wrong", "ulimit -n", "12 ")
    found(checks, "library", "wrong", "no context can be opened")


def case_denied():
    if subprocess.run([*program, "true"]).returncode:
        skip("no seccomp filter may be set here")
    checks, seconds = doctor(before=program)
    check(seconds < 2, f"{seconds} s")
    found(checks, "io_uring", "note", "seccomp", "tcp uses epoll")
    found(checks, "cma", "note", "seccomp")
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
    checks, seconds = doctor(before=spaces, status=1)
    check(seconds < 2, f"{seconds} s")
    found(checks, "loopback", "wrong", "ip link set lo up")
    found(checks, "pid namespace", "note", "its own")
    found(checks, "tcp", "wrong")


def case_probes():
    if not shutil.which("readelf"):
        skip("readelf is not installed")
    library = program[0]
    notes = subprocess.run(["readelf", "-n", library], check=True, text=True,
                           capture_output=True).stdout
    there = set(re.findall(r"Provider: urccl\n\s*Name: (\w+)", notes))
    if not there and program[1] == "0":
        skip("built without sys/sdt.h")
    wanted = {"entry_taken", "entry_ended", "chunk_posted", "peer_up", "peer_lost", "sleep", "wake"}
    check(there == wanted, f"probes: {there}")


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
        for word in ("stopped", "transport", "ring 1: of", "peer 0x", " up, ", "bulk writes:"):
            check(word in dumped, f"the dump has no {word!r}:\n{dumped}")
        check(contexts(child.pid)[0]["entries_per_s"] == 0, "a stopped process moves")
    finally:
        child.kill()
        child.wait()
    check("none of that number" in run("--dump", str(child.pid), status=1)[1], "a dead process")


info, case, program = sys.argv[1], sys.argv[2], sys.argv[3:]
globals()["case_" + case]()
