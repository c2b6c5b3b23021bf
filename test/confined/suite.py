# SPDX-License-Identifier: Apache-2.0
"""The tests of a build, for those that run them again in another place."""
import json
import pathlib
import re
import sys

# Sums of many rounds, seconds each: they ask for no right that the others do not.
LONG = re.compile(r"(evict|sizes|rounds|dials_many|canary|owed|narrow|slow_reader|atomic_stop|"
                  r"losing|fairness|away|address_space|storm|notes)-")
# What a provider of libfabric's does where less is allowed is its own.
ELSEWHERE = re.compile(r"fabric|provider$")


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def tests(build, suites):
    """(name, seconds, program, arguments) of the tests of these suites that were built here."""
    found = []
    for test in json.loads((build / "meson-info/intro-tests.json").read_text()):
        program = pathlib.Path(test["cmd"][0])
        if LONG.match(test["name"]) or ELSEWHERE.search(test["name"]):
            continue
        if build not in program.parents:
            continue
        if {s.split(":")[-1] for s in test["suite"]} & set(suites):
            found.append((test["name"], test["timeout"], program, test["cmd"][1:]))
    if not found:
        sys.exit(f"failed: no test in {suites}")
    return found
