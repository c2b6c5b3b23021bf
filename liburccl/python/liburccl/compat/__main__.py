# SPDX-License-Identifier: Apache-2.0
"""python -m liburccl.compat SCRIPT ARGUMENTS...: runs it with `uccl.p2p` on liburccl."""
import multiprocessing.spawn
import os
import runpy
import sys
from typing import Any

from . import install


def spawn_compat(script: str) -> None:
    """Processes that the script spawns begin with liburccl.compat.spawned instead of the script."""
    prepare = multiprocessing.spawn.get_preparation_data
    os.environ["LIBURCCL_COMPAT_SCRIPT"] = script

    def prepare_compat(name: str) -> dict[str, Any]:
        data = prepare(name)
        data.pop("init_main_from_path", None)
        data["init_main_from_name"] = "liburccl.compat.spawned"
        return data

    multiprocessing.spawn.get_preparation_data = prepare_compat


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    install()
    del sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    spawn_compat(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
