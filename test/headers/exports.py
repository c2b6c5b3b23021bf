#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""exports.py LIBRARY MAP HEADER: what is declared, what the map lists and what is there are one."""
import sys

from public import declared, exported, mapped, same

library, version_map, header = sys.argv[1:]
same("the map, against the header", mapped(version_map), declared(header))
same("the library, against the map", exported(library), mapped(version_map))
