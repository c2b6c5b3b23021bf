# SPDX-License-Identifier: Apache-2.0
"""Modules with the interface of other libraries.

    python -m liburccl.compat SCRIPT ARGUMENTS...

runs a script that was written for `from uccl import p2p`, with liburccl.compat.uccl_p2p in its
place; processes that it spawns, too.
"""
import sys
import types


def install() -> None:
    """Makes `from uccl import p2p` give liburccl.compat.uccl_p2p in this process."""
    from . import uccl_p2p
    package = types.ModuleType("uccl")
    package.p2p = uccl_p2p          # type: ignore[attr-defined]
    package.__path__ = []
    sys.modules["uccl"], sys.modules["uccl.p2p"] = package, uccl_p2p
