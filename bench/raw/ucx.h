/* SPDX-License-Identifier: Apache-2.0 */
/* A worker of UCX in each of two processes, and the first one's endpoint of the second's memory. */
#ifndef BENCH_RAW_UCX_H
#define BENCH_RAW_UCX_H

#include "pair.h"

#include <ucp/api/ucp.h>

struct end {
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_mem_h memory;
	ucp_ep_h ep;	 /* the first's */
	ucp_rkey_h key;	 /* the first's */
	uint64_t theirs; /* the first's: address of the second's memory */
	uint8_t *buf;
	uint64_t span;
	int alloc; /* the memory is UCX's own */
};

/*
 * Opens an end over o->provider, with memory of o->span bytes that are those of `which`, and meets
 * the other process at the socket fd. Exits where that fails.
 */
void end_open(struct end *e, const struct raw_options *o, int which, int fd);
/* The first's, while the second still drives its own. */
void end_close(struct end *e);

void end_check(ucs_status_t status, const char *what);
/* Until a request that a call gave has ended, well. */
void end_wait(struct end *e, ucs_status_ptr_t request, const char *what);

#endif
