# SPDX-License-Identifier: Apache-2.0
"""python -m liburccl.nixl link | unlink | path"""
import sys

from . import folders, link, path, unlink


def main(words: list[str]) -> int | str | None:
    if words == ["path"]:
        print(path())
    elif words in (["link"], ["unlink"]):
        if not folders():
            return "no NIXL wheel is installed for this Python: pip install nixl"
        changed = link() if words == ["link"] else unlink()
        for at in changed:
            print(f"{words[0]}ed {at}")
        if not changed:
            print("no link was there")
    else:
        return __doc__
    return 0


def run() -> int | str | None:
    try:
        return main(sys.argv[1:])
    except OSError as error:
        return str(error)


if __name__ == "__main__":
    sys.exit(run())
