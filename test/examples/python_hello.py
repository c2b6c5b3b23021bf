#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A greeting written from asyncio arrives, and an entry that fails raises with its sentence."""
import sys

from example_run import check, refused, run

library = sys.argv.pop()
placed, heard, failed = run(library)
check(placed == "writer: 19 bytes are placed", placed)
check(heard == "owner: notification 42, and my memory says \"hello, other memory\"", heard)
check(failed.startswith("writer: [Errno 34] "), failed)
refused("/none/liburccl-ffi.so", status=1, words="hello_ctypes.py: /none/liburccl-ffi.so")
refused("libc.so.6", status=1, words="hello_ctypes.py: ")
refused(library, library, status=1, words="usage: hello_ctypes.py [LIBRARY]")
