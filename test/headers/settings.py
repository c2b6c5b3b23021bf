#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""settings.py TABLE PAGE: each setting, and the variable of UCCL or NCCL that means the same, is on
the page, and the page has no other."""
import re
import sys

from public import check, same

table, page = (open(name).read() for name in sys.argv[1:])
rows = re.findall(r"^\t\{(?:TEXT|NUMBER|CHOICE|EACH_CLASS)\((\w+)", table, re.M)
check(len(rows) > 40 and len(rows) == len(set(rows)), f"{len(rows)} settings in the table")
items = re.findall(r"^\.It Va (.*)$", page, re.M)
shown = {name for item in items for name in re.split(r"[ ,]+", item.split(" Pq")[0])}
same("settings on the page", shown, set(rows))
same("variables of UCCL on the page", set(re.findall(r"Pq Ev ((?:UCCL|NCCL)_\w+)", page)),
     set(re.findall(r'\.uccl = "(\w+)"', table)))
