#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every request of every client is answered from a loop that sleeps in io_uring."""
import re

from example_run import check, refused, run

for wrong in ("0", "65", "-1", "many", "8x", ""):
    refused(wrong, words="usage: iouring_server [CLIENTS], 1 to 64")
refused(1, 2, words="usage: iouring_server [CLIENTS]")
for count in (8, 1, 40):
    lines = run(*[count] if count != 8 else [])
    told = re.fullmatch(r"(\d+) requests of (\d+) clients answered, (\d+) wake-ups", lines[-1])
    check(told and len(lines) == 1, lines)
    requests, clients, wakes = map(int, told.groups())
    check(requests == 50 * count and clients == count, lines)
    # Each client sends its next request when it has its answer, so one of them needs as many
    # wake-ups as requests, unless the server is so late that the next one is there already.
    check(0 < wakes <= 4 * requests + 4 * clients, lines)
