# SPDX-License-Identifier: Apache-2.0
"""The main module of a process that a script under `python -m liburccl.compat` spawned."""
import os
import runpy

from liburccl.compat import install

if __name__ == "__mp_main__":
    install()
    globals().update(runpy.run_path(os.environ["LIBURCCL_COMPAT_SCRIPT"], run_name="__mp_main__"))
