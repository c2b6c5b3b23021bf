#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ffi.py LIBRARY HEADER FFI_HEADER: the library for bindings has each inline and each twin."""
import sys

from public import declared, exported, inlines, same

library, header, ffi_header = sys.argv[1:]
same("the ffi library", exported(library), inlines(header) | declared(ffi_header))
