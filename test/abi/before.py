#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
before.py DEV: what `./dev abi` compares with, in repositories made for that: the last release, and
never one with itself; without a release what had another set of symbols, in a whole clone.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

MAP = "liburccl/liburccl.map"


def git(where, *arguments):
    who = ["-c", "user.name=x", "-c", "user.email=x@x.example", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *who, *arguments], cwd=where, check=True, capture_output=True,
                          text=True).stdout.strip()


def commit(where, name):
    path = where / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + "line\n")
    git(where, "add", name)
    git(where, "commit", "-q", "-m", name)
    return git(where, "rev-parse", "--short", "HEAD")


def says(where, function, wanted, what):
    """The functions of dev, without what it does when it is called."""
    text = pathlib.Path(sys.argv[1]).read_text()
    script = text[:text.index("\nyes=no\n")] + f"\n{function}\n"
    said = subprocess.run(["bash", "-c", script, where / "dev"], capture_output=True, text=True,
                          check=True).stdout.strip()
    print(f"{what}: {said or 'nothing'}")
    if said != wanted:
        sys.exit(f"failed: {what}: {function} says {said!r}, not {wanted!r}")


def main(work):
    repository, shallow, none = work / "repository", work / "shallow", work / "none"
    repository.mkdir()
    none.mkdir()
    git(repository, "init", "-q")
    first = commit(repository, MAP)
    commit(repository, "other.c")
    changed = commit(repository, MAP)
    says(repository, "abi_release", "", "no release")
    says(repository, "abi_symbols", first, "a commit that changes the symbols")
    commit(repository, "other.c")
    says(repository, "abi_symbols", changed, "one that does not")
    git(work, "clone", "-q", "--depth", "2", repository.as_uri(), shallow)
    says(shallow, "abi_symbols", "", "a shallow clone")
    says(none, "abi_release", "", "no clone, releases")
    says(none, "abi_symbols", "", "no clone, symbols")
    git(repository, "tag", "v0.1")
    says(repository, "abi_release", "", "the first release itself")
    (repository / "other.c").write_text("changed\n")
    says(repository, "abi_release", "v0.1", "it, changed")
    commit(repository, "other.c")
    says(repository, "abi_release", "v0.1", "what follows it")
    git(repository, "tag", "v0.2")
    git(repository, "tag", "some-other")
    says(repository, "abi_release", "v0.1", "the second release itself")


if not shutil.which("git"):
    print("skipped: git is not installed")
    sys.exit(77)
with tempfile.TemporaryDirectory() as tmp:
    main(pathlib.Path(tmp))
