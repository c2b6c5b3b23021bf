#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""./dev fmt formats what was changed and leaves headers that are aligned by hand as they are."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

BY_HAND = """struct a {
	int	 x;			/* in */
	uint32_t yy;			/* columns */
};
"""
PLAIN = """int f(void);
"""
SOURCE = """int f(void)
{
	return 1;
}
"""


def run(where, *command):
    done = subprocess.run(command, cwd=where, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def main(root):
    if not shutil.which("git") or not (shutil.which("clang-format-14") or
                                       shutil.which("clang-format")):
        print("skipped: no clang-format, or no git")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        where = pathlib.Path(name)
        for file in ("dev", ".clang-format"):
            shutil.copy(root / file, where / file)
        (where / ".gitignore").write_text("build\n")
        texts = {"hand.h": BY_HAND, "plain.h": PLAIN, "source.c": SOURCE}
        for file, text in texts.items():
            (where / file).write_text(text)
        run(where, "git", "init", "-q")
        run(where, "git", "add", "-A")
        run(where, "git", "-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-qm", "t")
        changed = BY_HAND.replace("};", "	int	 z;			/* more */\n};")
        (where / "hand.h").write_text(changed)
        (where / "plain.h").write_text(PLAIN + "int   g( void );\n")
        (where / "source.c").write_text(SOURCE.replace("return 1", "return  (1)"))
        (where / "new.c").write_text("int g(void){return 2;}\n")
        said = run(where, "./dev", "fmt")
        assert "hand.h" in said, said
        assert (where / "hand.h").read_text() == changed
        assert (where / "plain.h").read_text() == PLAIN + "int g(void);\n"
        assert "return (1);" in (where / "source.c").read_text()
        assert "{\n\treturn 2;\n}" in (where / "new.c").read_text()
        run(where, "./dev", "fmt", "hand.h", "source.c")
        assert (where / "hand.h").read_text() == changed


main(pathlib.Path(sys.argv[1]))
