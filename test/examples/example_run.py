# SPDX-License-Identifier: Apache-2.0
"""What the tests of the small examples share. Their arguments are the example's command line."""
import subprocess
import sys

LIMIT = 100         # seconds, far more than any example needs


def check(held, *what):
    if not held:
        print("failed:", *what, file=sys.stderr)
        sys.exit(1)


def end(status, *args):
    done = subprocess.run([*sys.argv[1:], *map(str, args)], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, timeout=LIMIT)
    if done.returncode == 77:
        print(done.stderr)
        sys.exit(77)
    check(done.returncode == status, f"exit status {done.returncode}, not {status}: {done}")
    return done


def run(*args):
    """Runs the example, which must succeed and not complain; returns the lines it prints."""
    done = end(0, *args)
    check(done.stderr == "", done)
    return done.stdout.splitlines()


def refused(*args, words, status=2):
    """The example must not take these arguments, and say why in a line with these words."""
    done = end(status, *args)
    check(done.stdout == "", done)
    check(words in done.stderr, f"no \"{words}\" in: {done.stderr}")
