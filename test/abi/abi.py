#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
abi.py OLD_LIBRARY OLD_INCLUDE LIBRARY INCLUDE: what a program that was built with the old library
would notice of the other one. New calls, members at the end of structs that carry their size, and
members in the place of reserved ones are no such thing.

abi.py --sees: that abidiff here sees what it is to see, and no more, by changes to a small header.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# What abidiff says of changes that are none to a program: structs that begin with their size grow
# at their end, enumerators come last. A line that is not among these is a change.
ALLOWED = r"""
    (Functions|Variables)\ changes\ summary:.*
    | \d+\ functions?\ with\ some\ indirect\ sub-type\ changes?:
    | \[C\]\ 'function\ .*'\ (at\ \S+\ )?has\ some\ indirect\ sub-type\ changes:
    | parameter\ \d+\ of\ type\ '.*'\ has\ sub-type\ changes:
    | in\ (pointed\ to|unqualified\ underlying)\ type\ '(const\ )?(struct\ )?(SIZED)(\ const)?'.*:
    | \d+\ data\ member\ insertions?:
    | no\ data\ member\ changes?\ \(\d+\ filtered\);
    | type\ size\ hasn't\ changed
    | (return\ type|type\ of\ .*)\ changed:
    | \d+\ enumerator\ (insertion|change)s?:
    | '(\w+::)?URCCL_\w+'\ value\ '\d+'
    | '(\w+::)?URCCL_\w+_LAST'\ from\ value\ .*
    """
GROWS = re.compile(r"type size changed from (\d+) to \d+ \(in bits\)")
INSERTED = re.compile(r"'.*', at offset (\d+) \(in bits\).*")
# A member in the place of reserved ones, which begin later for it.
RESERVED = re.compile(r"""
    \d+\ data\ member\ changes?:\n
    \s*type\ of\ 'uint(?:8|16|32|64)_t\ reserved\d*\[\d+\]'\ changed:\n
    (?:\s*(?:type\ name|array\ type\ size|array\ type\ subrange)\ .*\n)+
    \s*and\ offset\ changed\ from\ (\d+)\ to\ (\d+)\ \(in\ bits\).*""", re.X)

# A header such as ours, changes to it, and whether a program would notice.
HEADER = """
#include <stdint.h>
struct urccl;
struct urccl_params { uint32_t size; uint32_t spin_us; const char *listen; uint32_t max_peers; };
struct urccl_stats { uint32_t size; uint8_t reserved[4]; uint64_t turns; };
struct urccl_sqe { uint8_t opcode; uint8_t reserved[63]; };
enum urccl_op { URCCL_OP_NOP, URCCL_OP_READ, URCCL_OP_WRITE, URCCL_OP_LAST };
enum urccl_rights { URCCL_RIGHT_READ = 1 << 0, URCCL_RIGHT_WRITE = 1 << 1 };
void urccl_params_init(struct urccl_params *p);
void urccl_close(struct urccl *ctx);
int urccl_get_stats(struct urccl *ctx, struct urccl_stats *s);
enum urccl_op urccl_any(struct urccl_sqe *s);
"""
CHANGES = [
    ("nothing", "", "", False),
    ("a call more", "void urccl_close", "void urccl_open(void);\nvoid urccl_close", False),
    ("a member in the middle", "uint32_t max_peers;", "uint64_t sooner; uint32_t max_peers;", True),
    ("a member of another size", "uint32_t spin_us;", "uint64_t spin_us;", True),
    ("a member of another type", "const char *listen;", "uint64_t listen;", True),
    ("a member that is gone", "uint8_t reserved[4]; ", "", True),
    ("an argument more", "urccl_close(struct urccl *ctx", "urccl_close(struct urccl *ctx, int how", True),
    ("an operation of another number", "URCCL_OP_READ,", "URCCL_OP_LATER, URCCL_OP_READ,", True),
    ("a flag of another value", "WRITE = 1 << 1", "WRITE = 1 << 2", True),
    ("a member at the end of a struct without a size", "reserved[63];", "reserved[63]; int more;", True),
    ("a member at the end of a struct with a size", "turns;", "turns, later;", False),
    ("a member in the place of reserved ones", "reserved[4];", "kind; uint8_t reserved[3];", False),
    ("an operation at the end", "URCCL_OP_LAST", "URCCL_OP_LATER, URCCL_OP_LAST", False),
]

PROGRAM = """
#include <liburccl.h>
void urccl_params_init(struct urccl_params *p) { p->size = 0; }
void urccl_close(struct urccl *ctx%s) { (void)ctx; }
int urccl_get_stats(struct urccl *ctx, struct urccl_stats *s) { (void)ctx; return (int)s->size; }
enum urccl_op urccl_any(struct urccl_sqe *s) { s->opcode = 0; return URCCL_OP_NOP; }
"""


def texts(include):
    """The headers without their comments."""
    text = "".join(p.read_text() for p in sorted(pathlib.Path(include).rglob("*.h")))
    return re.sub(r"/\*.*?\*/|//.*?$", " ", text, flags=re.S | re.M)


def sized(include):
    """The structs that begin with their size."""
    return re.findall(r"\bstruct\s+(urccl_\w+)\s*\{\s*uint32_t\s+size;", texts(include))


def abidiff(old, old_include, new, new_include):
    """The lines that tell of a change."""
    done = subprocess.run(["abidiff", "--no-added-syms", "--drop-private-types",
                           "--headers-dir1", old_include, "--headers-dir2", new_include, old, new],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode & 3:
        sys.exit(f"failed: abidiff: {done.stderr or done.stdout}")
    if done.returncode & 8:
        return done.stdout
    allowed = re.compile(ALLOWED.replace("SIZED", "|".join(sized(old_include))), re.X)
    taken = [range(int(a), int(b)) for a, b in RESERVED.findall(done.stdout)]
    size, told = 0, []
    for line in RESERVED.sub("", done.stdout).splitlines():
        grows, inserted = GROWS.fullmatch(line.strip()), INSERTED.fullmatch(line.strip())
        at = int(inserted[1]) if inserted else -1
        if grows:
            size = int(grows[1])
        elif not (at >= size > 0 or any(at in r for r in taken) or allowed.fullmatch(line.strip())):
            told += [line] if line.strip() else []
    return done.stdout if told else ""


def values(include):
    """The enumerators of the headers: programs have their values in them."""
    bodies = re.findall(r"\benum\s+\w*\s*\{(.*?)\}", texts(include), re.S)
    names = re.findall(r"(?:^|,)\s*(URCCL_\w+)", "\n,".join(bodies))
    lines = "".join(f'printf("%s %lld\\n", "{n}", (long long){n});\n' for n in names)
    with tempfile.TemporaryDirectory() as tmp:
        source, out = pathlib.Path(tmp) / "values.c", pathlib.Path(tmp) / "values"
        headers = "".join(f"#include <{p.relative_to(include)}>\n"
                          for p in sorted(pathlib.Path(include).rglob("*.h")))
        source.write_text(f"#include <stdio.h>\n{headers}int main(void)\n{{\n{lines}}}\n")
        subprocess.run(["cc", "-I", include, "-Wl,--unresolved-symbols=ignore-all", source,
                        "-o", out], check=True)
        said = subprocess.run([out], check=True, capture_output=True, text=True).stdout
    return dict(line.split() for line in said.splitlines())


def revalued(old_include, new_include):
    """Enumerators that are gone or mean something else, but for those that count the others."""
    old, new = values(old_include), values(new_include)
    if not old:
        sys.exit(f"failed: no enumerators found in {old_include}")
    return [f"{n} was {v} and is {new.get(n, 'gone')}" for n, v in old.items()
            if new.get(n) != v and not n.endswith("_LAST")]


def compare(old, old_include, new, new_include):
    return "\n".join([x for x in [abidiff(old, old_include, new, new_include)] if x] +
                     revalued(old_include, new_include))


def library(work, include, how):
    source, out = work / "some.c", work / "libsome.so"
    source.write_text(PROGRAM % how)
    subprocess.run(["cc", "-g", "-shared", "-fPIC", "-I", include, source, "-o", out], check=True)
    return out


def sees():
    with tempfile.TemporaryDirectory() as tmp:
        for number, (what, old, new, notices) in enumerate(CHANGES):
            given = []
            for side, text in ("old", HEADER), ("new", HEADER.replace(old, new) if old else HEADER):
                include = pathlib.Path(tmp) / f"{number}-{side}"
                include.mkdir()
                (include / "liburccl.h").write_text(text)
                given += [library(include, include, ", int how" if "int how" in text else ""), include]
            if old and HEADER.count(old) != 1:
                sys.exit(f"failed: {old!r} is {HEADER.count(old)} times in the header")
            said = compare(*given)
            print(f"{what}: {'seen' if said else 'not seen'}")
            if bool(said) != notices:
                sys.exit(f"failed: {what}: {said or 'nothing was said'}")


def main(args):
    if not shutil.which("abidiff"):
        print("skipped: abidiff is not installed (Debian's abigail-tools)")
        sys.exit(77)
    if args[0] == "--sees":
        sees()
        return
    said = compare(*args)
    if said:
        sys.exit("failed: a program would notice:\n" + said)
    print("no program would notice")


main(sys.argv[1:])
