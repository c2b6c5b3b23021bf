/* SPDX-License-Identifier: Apache-2.0 */
/* What random_order.c enters and what it knows of it. */
#ifndef API_RANDOM_ORDER_H
#define API_RANDOM_ORDER_H

#include "pair.h"

#define N    8000u
#define BASE (1ull << 32)

enum outcome { OPEN, SILENT /* open, or ended without a CQE */, DONE, FAILED };

struct entry {
	struct urccl_sqe sqe;
	struct urccl_seg segs[2];
	struct urccl_paged paged;
	struct urccl_range range;
	uint32_t outcome, has_peer, told, promised, unknown, bad, owes, messages, signals;
	uint64_t wait; /* it starts when so many ticks have passed */
	int64_t res, heard;
};

extern struct entry entries[N + 64];
extern struct pair p;
extern struct target t;
extern uint32_t n, phase, nopen, refs, asking, closing;
extern struct urccl_region regions[N]; /* made by entries, */
extern struct urccl_remote remotes[N]; /* and these */
extern uint32_t nregions, nremotes;

/* Entry i has ended. */
void on_end(uint32_t i, const struct urccl_cqe *cqe);

#endif
