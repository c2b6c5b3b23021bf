#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That gnuplot draws the curves of a sweep, those with gaps too."""
import os
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import plot


class Sweep:
    """Two lines, of which one was not measured at the middle size."""
    name, title, unit, logscale = "s", "A sweep", "GB/s", True

    def drawn(self):
        return ["a", "b"]

    def points(self):
        return [(8, [(1, 1, 2), (3, 2, 4)]), (64, [(2, 2, 2), None]), (512, [(5, 4, 6), (7, 7, 8)])]


def main():
    if not shutil.which("gnuplot"):
        print("skipped: gnuplot is not installed (Debian's gnuplot-nox)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as tmp:
        drawn = plot.draw(Sweep(), tmp)
        if [os.path.basename(d) for d in drawn] != ["s.svg", "s.png"]:
            sys.exit("failed: drawn were %s" % drawn)
        for path in drawn:
            if os.path.getsize(path) < 1000:
                sys.exit("failed: %s is %d bytes" % (path, os.path.getsize(path)))
        with open(drawn[0]) as f:
            text = f.read()
        for word in "A sweep", "GB/s", ">a<", ">b<":
            if word not in text:
                sys.exit("failed: the drawing does not say %s" % word)


main()
