# SPDX-License-Identifier: Apache-2.0
"""python -m liburccl.nixl link | unlink | path"""
import sys

from . import folders, link, path, unlink


def main(words):
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


try:
    sys.exit(main(sys.argv[1:]))
except OSError as error:
    sys.exit(str(error))
