#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exports.py LIBRARY MAP HEADER...: what is declared, what the map lists and what is there are one."""
import sys

from public import declared, exported, mapped, same

library, version_map, *headers = sys.argv[1:]
same("the map, against the headers", mapped(version_map), set.union(*map(declared, headers)))
same("the library, against the map", exported(library), mapped(version_map))
