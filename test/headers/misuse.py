#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""misuse.py INCLUDE: mistakes that the compiler catches, because handles are types of their own."""
import subprocess
import sys

from public import check

PROGRAM = """
#include <liburccl.h>
void use(struct urccl *ctx, struct urccl_ring *ring, struct urccl_sqe *sqe, struct urccl_cqe *cqe,
	 struct urccl_peer peer, struct urccl_region region, struct urccl_remote remote, char *buf);
void use(struct urccl *ctx, struct urccl_ring *ring, struct urccl_sqe *sqe, struct urccl_cqe *cqe,
	 struct urccl_peer peer, struct urccl_region region, struct urccl_remote remote, char *buf)
{
	(void)ctx, (void)ring, (void)sqe, (void)cqe, (void)peer, (void)region, (void)remote;
	(void)buf;
	%s
}
"""
RIGHT = [
    "urccl_prep_write(sqe, remote, buf, 8, 0);",
    "urccl_prep_close(sqe, peer);",
    "urccl_sqe_set_region(sqe, region);",
    "urccl_unregister(ctx, region);",
]
WRONG = {
    "a region for a remote": "urccl_prep_write(sqe, region, buf, 8, 0);",
    "a number for a remote": "urccl_prep_read(sqe, 1, buf, 8, 0);",
    "a remote for a peer": "urccl_prep_close(sqe, remote);",
    "a peer for a region": "urccl_sqe_set_region(sqe, peer);",
    "a number for a region": "urccl_unregister(ctx, 1);",
    "a remote for what is advertised": "urccl_advertise(ctx, remote, 0, 8, 1, 0, 0);",
    "a CQE for an SQE": "urccl_prep_nop(cqe);",
    "a read into constant memory": 'urccl_prep_read(sqe, remote, (const char *)"x", 1, 0);',
    "a write to a note": "*urccl_cqe_note(ring, cqe) = 0;",
    "a ring for a context": "urccl_close(ring);",
}


def compiles(line):
    return subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", sys.argv[1],
                           "-fsyntax-only", "-x", "c", "-"], input=PROGRAM % line, text=True,
                          capture_output=True).returncode == 0


for line in RIGHT:
    check(compiles(line), f"does not compile: {line}")
for mistake, line in WRONG.items():
    check(not compiles(line), f"compiles: {mistake}: {line}")
