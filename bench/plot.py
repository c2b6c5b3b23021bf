# SPDX-License-Identifier: Apache-2.0
"""Curves of compare.py's sweeps, drawn by gnuplot: a line a program, size along x."""
import os
import shutil
import subprocess

SCRIPT = """set terminal {terminal} size 800,500
set output "{out}"
set title "{title}" noenhanced
set logscale x 2
{scale}set format x "%.0b %BB"
set xlabel "bytes of an entry"
set ylabel "{unit}"
set grid
set key {key}
plot {curves}
"""
CURVE = '"{data}" using 1:{median} with linespoints lc {color} pt 7 ps 0.4 title "{name}" noenhanced, ' \
    '"" using 1:{median}:{low}:{high} with yerrorbars lc {color} pt 7 ps 0.4 notitle'


def rows(sweep):
    """A row a size: the size, then median, least and most of each line; "?" where there is none."""
    for size, points in sweep.points():
        row = [str(size)]
        for point in points:
            row += ["%g" % p for p in point] if point else ["?"] * 3
        yield row


def script(sweep, data, out, terminal):
    curves = [CURVE.format(data=data, name=name, median=2 + 3 * i, low=3 + 3 * i, high=4 + 3 * i,
                           color=i + 1)
              for i, name in enumerate(sweep.drawn())]
    return SCRIPT.format(terminal=terminal, out=out, title=sweep.title, unit=sweep.unit,
                         scale="set logscale y\n" if sweep.logscale else "",
                         key="top left", curves=", \\\n  ".join(curves))


def draw(sweep, folder):
    """The curves of one sweep: NAME.dat, NAME.gp and, where gnuplot is, NAME.svg and NAME.png."""
    os.makedirs(folder, exist_ok=True)
    base = os.path.join(folder, sweep.name)
    with open(base + ".dat", "w") as f:
        f.write("# size, then median, least and most of: %s\n" % ", ".join(sweep.drawn()))
        for row in rows(sweep):
            f.write(" ".join(row) + "\n")
    drawn = []
    for terminal, ending in ("svg", ".svg"), ("pngcairo", ".png"):
        with open(base + ".gp", "w") as f:
            f.write('set datafile missing "?"\n' +
                    script(sweep, base + ".dat", base + ending, terminal))
        if shutil.which("gnuplot"):
            subprocess.run(["gnuplot", base + ".gp"], check=True, stdin=subprocess.DEVNULL)
            drawn.append(base + ending)
    return drawn
