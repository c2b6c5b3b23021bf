# SPDX-License-Identifier: Apache-2.0
"""The tests of a build, for those that run them again in another place."""
import json
import pathlib
import re
import sys

# What is not run again, and why.
LEFT_OUT = [
    (re.compile(r"fabric|cxi|(^|-)efa(-|$)|provider$"),
     "what a provider of libfabric's does where less is allowed is its own"),
    (re.compile(r"(^|-)ib(-|$)"), "what stands in for libibverbs is only in those tests' environment"),
    (re.compile(r"^(gpu_|cuda-|unit-gpu$|urccl_perf gpu|raw_gpu$|example.gpu)"),
     "what stands in for libcuda is only in those tests' environment"),
    (re.compile(r"^nixl-"), "the plugin that they load is not in their folder"),
]
# What is run again with "all" alone, and why. First what has many rounds, seconds each: of these one
# transport each is enough then, too.
ROUNDS = (re.compile(r"^(evict(_lru)?|threads_beside|sizes|rounds|dials_many|canary|owed|narrow|"
                     r"slow_reader|atomic_stop|losing|fairness|away|address_space|storm|notes)-"),
          "many rounds, seconds each, that ask for no right which the others do not")
OF_ALL = [
    ROUNDS,
    (re.compile(r"(^|-)sim(-|$)|^unit-(codec|engine|ring|stream|verbs|wire)$|"
                r"^(ring_litmus|python_core|unit-control|pusher (layout|model|pool|trace))$"),
     "they ask the kernel for nothing but memory, threads, eventfds and loopback"),
    (re.compile(r"^(computes|evict_(end|inline)|incast|key_retry|note_untaken|shares(-few)?|"
                r"atomic_sum|device_ring(_idle|_bad)?|dials_cold|ending|expires|mapped_frozen|msg_ring|"
                r"paged|random|random_order|register_many|signal_when|stalled|start_when_many|timed_out|"
                r"watch_first)-(shm|tcp)(-mapped|-inline)*$|^device_lanes$"),
     "seconds of what engine and control decide"),
    (re.compile(r"^(shm(-mapped)?|tcp-\w+)-(cancel_\w+|fair|leak|revoked_midway)$"),
     "many rounds of what the others ask for once"),
]
SCRIPT = "scripts that need the source tree, or Python's modules"
# Arguments that say where a behaviour is looked at, and not which.
WHERE = re.compile(r"--(transport|driver)=|--inline$")


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def reason(test, program, build, left_out):
    """Why it is left out, or None."""
    for pattern, why in left_out:
        if pattern.search(test["name"]):
            return why
    return None if build in program.parents else SCRIPT


def once_each(found):
    """Each behaviour in one of its places: the first in its first, the next in its second, ...; and
    by io_uring, which is over at once where it is denied."""
    behaviours, picked = {}, []
    for test in found:
        if "--driver=io_uring" in test[3]:
            picked.append(test)
            continue
        what = (test[2], *(a for a in test[3] if not WHERE.match(a)))
        behaviours.setdefault(what, []).append(test)
    return picked + [places[i % len(places)] for i, places in enumerate(behaviours.values())]


def tests(build, suites, left_out=()):
    """(name, seconds, program, arguments) of the tests of these suites that were built here; says
    what is left out. Each behaviour once, unless one of the suites is "all"."""
    found, rounds, without = [], [], {}
    for test in json.loads((build / "meson-info/intro-tests.json").read_text()):
        program = pathlib.Path(test["cmd"][0])
        if not {s.split(":")[-1] for s in test["suite"]} & set(suites):
            continue
        why = reason(test, program, build, [*LEFT_OUT, *left_out,
                                            *([] if "all" in suites else OF_ALL)])
        if why:
            without.setdefault(why, []).append(test["name"])
        else:
            some = rounds if ROUNDS[0].match(test["name"]) else found
            some.append((test["name"], test["timeout"], program, test["cmd"][1:]))
    for why, names in without.items():
        print(f"left out, {len(names)} ({names[0]}, ...): {why}", flush=True)
    if not found:
        sys.exit(f"failed: no test in {suites}")
    return found + once_each(rounds) if "all" in suites else once_each(found)


def unseen(done):
    """The transports of which no more passed than was skipped; done has each test's arguments and
    exit status."""
    seen = {}
    for arguments, status in done:
        for transport in re.findall(r"--transport[= ](\w+)", " ".join(arguments)):
            seen[transport] = seen.get(transport, 0) + {0: 1, 77: -1}.get(status, 0)
    return [transport for transport, more in seen.items() if more <= 0]
