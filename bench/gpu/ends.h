/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts that the benches write between. Errors end the program. */
#ifndef BENCH_GPU_ENDS_H
#define BENCH_GPU_ENDS_H

#include <liburccl.h>
#include "gather.h"

struct end {
	struct urccl *ctx;
	struct urccl_ring *ring;
	struct urccl_peer peer; /* the other one */
};

void must(int err, const char *call);
/* deadline_ms: of entries; 0: the default. */
void end_open(struct end *e, const char *transport, uint32_t deadline_ms);
struct urccl_region end_register(struct end *e, void *addr, size_t len, uint32_t rights);
/* The next CQE; an error if it failed, or if none comes for 20 s. */
struct urccl_cqe end_take(struct end *e);
void end_close(struct end *e);
/* a dials b, of the same process. */
void ends_connect(struct end *a, struct end *b);
/* b's memory, at a. */
struct urccl_remote ends_share(struct end *a, struct end *b, void *addr, size_t len);

#endif
