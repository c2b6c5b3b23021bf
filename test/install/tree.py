#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a tree into which the library was installed or unpacked must be."""
import gzip
import os
import re
import subprocess
import sys

TIMEOUT = 60
HEADERS = {"liburccl.h", "liburccl/abi.h", "liburccl/codec.h", "liburccl/device.cuh",
           "liburccl/ep.h", "liburccl/ffi.h", "liburccl/inspect.h"}
SAYS = '20 bytes written: "hello, other memory"\n'     # README's program
# Loaded before a program: a signal that ends every wait, again and again.
SIGNALS = """
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <sys/time.h>
static void nothing(int s) { (void)s; }
__attribute__((constructor)) static void begin(void)
{
	struct sigaction act = {.sa_handler = nothing};
	struct itimerval often = {{0, 1000}, {0, 1000}};
	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
}
"""


def check(ok, why):
    if not ok:
        sys.exit("failed: " + why)


def run(*args, **kw):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=TIMEOUT, **kw)
    check(not done.returncode, f"{' '.join(map(str, args))}: {done.returncode}\n{done.stdout}")
    return done.stdout


def program(readme):
    for block in re.findall(r"^```c\n(.*?)^```$", readme.read_text(), re.S | re.M):
        if "int main(" in block:
            check(block.count("\n") <= 75, f"README's program has {block.count(chr(10))} lines")
            return block
    sys.exit(f"failed: {readme} has no C program")


def one(tree, name):
    found = list(tree.rglob(name))
    check(len(found) == 1, f"{len(found)} {name} installed")
    return found[0]


def libraries(tree):
    """The names a linker and a loader ask for lead to the file; nothing remembers where it was
    built."""
    for stem in "liburccl", "liburccl-ep", "liburccl-ffi":
        link = one(tree, stem + ".so")
        dynamic = run("readelf", "-d", link)
        soname = re.search(r"SONAME.*\[(.*)\]", dynamic)
        check(soname and soname[1] == stem + ".so.0", f"{stem}: {soname and soname[1]}")
        loaded = link.parent / soname[1]
        check(link.is_symlink() and loaded.is_symlink(), f"{stem}: not symbolic links")
        check(loaded.resolve() == link.resolve() and link.resolve().is_file(),
              f"{stem}: {link} and {loaded} are two files")
        check("RPATH" not in dynamic and "RUNPATH" not in dynamic, f"{stem} has a path of its own")


def headers(tree):
    include = one(tree, "liburccl.h").parent
    found = {str(p.relative_to(include)) for p in include.rglob("*") if p.is_file()}
    check(found == HEADERS, f"headers: {sorted(found)}")


def page_there(man, name):
    """As it is, or as a package has it."""
    return any((man / (name + ending)).is_file() for ending in ("", ".gz"))


def man_pages(tree, root):
    man = one(tree, "liburccl.7*").parent.parent
    for page in sorted((root / "liburccl/man").glob("*.[1-9]")):
        check(page_there(man, f"man{page.suffix[1:]}/{page.name}"), f"{page.name} is not installed")
    for page in man.rglob("*.3*"):
        read = gzip.open if page.suffix == ".gz" else open
        with read(page, "rt") as f:
            first = f.readline().strip()
        if first.startswith(".so "):
            check(page_there(man, first[4:]), f"{page.name} leads to {first[4:]}")


def texts(tree, build):
    """Nothing that is read as text names the build or the folder installed to."""
    for path in tree.rglob("*"):
        if path.is_file() and path.suffix in (".pc", ".h", ".3", ".7", ".1"):
            text = path.read_text()
            check(str(tree) not in text and build not in text, f"{path.name} names the build")


def runs(program, **kw):
    said = run(program, **kw)
    check(said == SAYS, f"README's program says {said!r}")


def interrupted(program, work, env):
    """A wait that a signal ends is no completion."""
    (work / "signals.c").write_text(SIGNALS)
    run("cc", "-shared", "-fPIC", work / "signals.c", "-o", work / "signals.so")
    runs(program, env=dict(env, LD_PRELOAD=str(work / "signals.so")), cwd=work)


# README's program with a mistake, and what it says of that.
MISTAKES = (
    ("region, 0, sizeof(memory)", "region, 1, sizeof(memory)", "pass the end of the region"),
    ("urccl_metadata(there, blob", "urccl_metadata(here, blob", "this context's own"),
    ("&advert, 1, &remote)", "&advert, 0, &remote)", "a remote needs an advert"),
    ("text, sizeof(text), 0)", "text, sizeof(text), 64)", "pass the end of the remote"),
)


def fails(source, flags, work, env):
    """It does not say it has succeeded, and says why not."""
    text = source.read_text()
    for right, wrong, words in MISTAKES:
        check(text.count(right) == 1, f"README's program has {text.count(right)} {right!r}")
        (work / "wrong.c").write_text(text.replace(right, wrong))
        run("cc", "-std=c11", work / "wrong.c", *flags, "-o", work / "wrong")
        done = subprocess.run([work / "wrong"], env=env, cwd=work, timeout=TIMEOUT, check=False,
                              capture_output=True, text=True)
        check((done.returncode, done.stdout) == (1, "") and words in done.stderr,
              f"README's program with {wrong!r}: {done.returncode}\n{done.stdout}{done.stderr}")


def compiles(tree, root, work):
    """README's program, both ways that pkg-config offers, made and run in work."""
    pc = one(tree, "liburccl.pc")
    env = dict(os.environ, PKG_CONFIG_PATH=str(pc.parent), PKG_CONFIG_SYSROOT_DIR=str(tree))
    at_run = dict(env, LD_LIBRARY_PATH=str(pc.parent.parent))
    warn = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
    source = work / "program.c"
    source.write_text(program(root / "README.md"))
    flags = run("pkg-config", "--cflags", "--libs", "liburccl", env=env).split()
    run("cc", *warn, source, *flags, "-o", work / "shared")
    runs(work / "shared", env=at_run, cwd=work)
    interrupted(work / "shared", work, at_run)
    fails(source, flags, work, at_run)
    check("liburccl.so.0" in run("readelf", "-d", work / "shared"), "the shared program needs no .so")
    # As a program does that wants this one library in itself and libc as it is.
    flags = run("pkg-config", "--static", "--cflags", "--libs", "liburccl", env=env).split()
    run("cc", *warn, source, "-Wl,-Bstatic", *[f for f in flags if f != "-pthread"], "-Wl,-Bdynamic",
        "-pthread", "-o", work / "static")
    check("liburccl" not in run("readelf", "-d", work / "static"), "the static program needs a .so")
    runs(work / "static", env=env, cwd=work)
    version = run("pkg-config", "--modversion", "liburccl", env=env).strip()
    check((one(tree, "liburccl.so").resolve()).name.endswith(version), f"the .pc says {version}")
