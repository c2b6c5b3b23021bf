#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
confined.py BUILD SUITE... [all]: runs the tests of these suites once more as a container with the
least rights would, each behaviour that this may change over one transport, or all: an unprivileged
user in user, mount, PID, IPC and network namespaces of its own, with 64 KiB of lockable memory and
nothing writable at /dev/shm.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from suite import skip, tests, unseen

NOBODY = "65534"
SPACES = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--ipc", "--net", "--fork",
          "--mount-proc", "--kill-child"]

LEFT_OUT = [(re.compile("-tcp-io_uring"),
             "what tcp's other driver asks for, the conformance suite asks for, too")]
# The main job, and what takes other ways through it.
PUSHER = "examples/kvcache_pusher/kvcache_pusher"
DEMO = ["--demo", "--json", "--requests", "6", "--pool", "128M", "--cache", "128M", "--transport"]
DEMOS = {"demo": [], "tp": ["--tp", "1:2"], "pull": ["--pull"], "abort": ["--abort", "50"]}
ONE_TRANSPORT = {"tp": "shm", "pull": "tcp", "abort": "shm"}


def as_nobody():
    if os.geteuid():
        return []
    return ["setpriv", "--reuid=" + NOBODY, "--regid=" + NOBODY, "--clear-groups",
            "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]


def copy(build, file, to):
    """The build may be where that user cannot look."""
    place = to / file.relative_to(build)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, place)
    return str(place)


def demos(build, all_of_it):
    if not (build / PUSHER).exists():
        return []
    return [(f"pusher {name} {transport}", 60, build / PUSHER, [*DEMO, transport, *more])
            for name, more in DEMOS.items() for transport in ("shm", "tcp")
            if all_of_it or ONE_TRANSPORT.get(name, transport) == transport]


def main(build, suites):
    for tool in ("setpriv", "unshare", "ip", "timeout"):
        if not shutil.which(tool):
            skip(f"{tool} is not installed")
    if subprocess.run(as_nobody() + SPACES + ["true"], capture_output=True).returncode:
        skip("user namespaces are denied here")
    with tempfile.TemporaryDirectory() as tmp:
        to = pathlib.Path(tmp)
        found = tests(build, suites, LEFT_OUT) + (
            demos(build, "all" in suites) if "examples" in suites else [])
        with open(to / "list", "w") as f:
            for name, seconds, program, arguments in found:
                print(seconds, name.replace(" ", "-"), copy(build, program, to), *arguments, file=f)
        for library in (build / "liburccl").glob("*.so*"):
            if library.is_file():
                copy(build, library, to)
        inside = shutil.copy(pathlib.Path(__file__).parent / "inside.sh", to)
        if not os.geteuid():
            subprocess.run(["chown", "-R", NOBODY, tmp], check=True)
        done = subprocess.run(as_nobody() + SPACES + ["sh", inside, str(to / "list")], cwd=tmp)
        if done.returncode == 3:
            skip("no network or mount may be made in a namespace here")
        statuses = map(int, (to / "list.done").read_text().split())
        hardly = unseen(zip((arguments for *_, arguments in found), statuses))
        if hardly:
            sys.exit(f"failed: more was skipped than passed over {' and '.join(hardly)}")
        sys.exit(done.returncode)


main(pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:])
