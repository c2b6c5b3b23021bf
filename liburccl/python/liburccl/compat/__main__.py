# SPDX-License-Identifier: Apache-2.0
"""python -m liburccl.compat SCRIPT ARGUMENTS...: runs it with `uccl.p2p` on liburccl."""
import os
import runpy
import sys
import types

from . import uccl_p2p


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    package = types.ModuleType("uccl")
    package.p2p = uccl_p2p          # type: ignore[attr-defined]
    package.__path__ = []
    sys.modules["uccl"], sys.modules["uccl.p2p"] = package, uccl_p2p
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
