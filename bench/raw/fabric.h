/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints of a provider in two processes, by libfabric alone. */
#ifndef BENCH_RAW_FABRIC_H
#define BENCH_RAW_FABRIC_H

#include "pair.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

enum { DEPTH_MAX = 8192, NAME_MAX_LEN = 256 };

/* What an end tells the other. */
struct card {
	uint8_t name[NAME_MAX_LEN];
	uint8_t messages[NAME_MAX_LEN]; /* of the endpoint that has those */
	uint64_t addr, key;
};

/* One end: an endpoint with its queue and the other's name, and memory of span bytes. */
struct end {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	int epoll; /* watches its descriptor; -1: it has none */
	struct fid_av *av;
	struct fid_ep *ep;
	struct fid_cq *messages; /* another endpoint's queue; NULL: there is none */
	struct fid_av *messages_av;
	struct fid_ep *messages_ep;
	uint32_t looks;
	uint64_t deadline; /* ns: of nothing, but it is looked whether it has passed */
	struct fid_mr *mr;
	fi_addr_t peer;
	void *desc; /* of our memory */
	uint8_t *buf;
	uint64_t span;
	struct card ours, theirs;
};

/* An operation, from post to poll. */
struct post {
	struct fi_context2 context;
};

/*
 * Opens an endpoint of o->provider, whose writes are complete as the flags say
 * (FI_DELIVERY_COMPLETE, or 0: as the provider sees it), with memory that holds the bytes of
 * `which`, and tells the process at the other end of the socket fd of it; both return when both
 * know the other. Exits where that fails.
 */
void end_open(struct end *e, const struct raw_options *o, int which, uint64_t flags, int fd);
void end_close(struct end *e);

/* Writes the len bytes at off to the other's memory, or reads them. 0: the queue is full, poll.
 * Exits where it is refused. */
int end_post(struct end *e, struct post *p, int reads, uint64_t off, uint64_t len);

/* What has completed, at most n of them: how many. Exits if one failed. */
uint32_t end_poll(struct end *e, struct post **out, uint32_t n);

#endif
