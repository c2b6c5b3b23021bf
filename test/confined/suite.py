# SPDX-License-Identifier: Apache-2.0
"""The tests of a build, for those that run them again in another place."""
import json
import pathlib
import sys


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def tests(build, suites):
    """(name, seconds, program, arguments) of each test of these suites that was built here."""
    found = []
    for test in json.loads((build / "meson-info/intro-tests.json").read_text()):
        program = pathlib.Path(test["cmd"][0])
        if build in program.parents and {s.split(":")[-1] for s in test["suite"]} & set(suites):
            found.append((test["name"], test["timeout"], program, test["cmd"][1:]))
    if not found:
        sys.exit(f"failed: no test in {suites}")
    return found
