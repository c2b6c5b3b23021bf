/* SPDX-License-Identifier: Apache-2.0 */
/* Reliable queue pairs between two processes, by libibverbs alone. */
#ifndef BENCH_RAW_VERBS_H
#define BENCH_RAW_VERBS_H

#include "raw.h"

#include <infiniband/verbs.h>

enum { QPS_MAX = 16, RECVS = 64, INLINE_WISH = 256 };

/* What an end tells the other. */
struct card {
	uint32_t qpn[QPS_MAX], psn;
	uint32_t rkey;
	uint64_t addr;
	union ibv_gid gid;
	uint16_t lid;
	uint8_t mtu;   /* enum ibv_mtu */
	uint8_t reads; /* that it answers at a time */
};

/* One end: a port of a device, memory of span bytes, and connected queue pairs on one CQ. */
struct link {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[QPS_MAX];
	uint32_t qps;
	uint32_t inline_max; /* what the device gave */
	uint8_t *buf;
	uint8_t port;
	uint8_t gid_index;
	int ethernet; /* RoCE: the GID names the other end, and not the LID */
	struct card ours, theirs;
};

/*
 * Opens the which-th device of o->device (0 or 1) with queue pairs for so many sends each, and
 * connects them to those of the process at the other end of the socket fd; both return when both
 * are connected. Exits where that fails.
 */
void link_open(struct link *l, const struct raw_options *o, int which, uint32_t sends, int fd);
void link_close(struct link *l);

/* The next completion; 0: there is none. Exits if the request failed. */
int link_poll(struct link *l, struct ibv_wc *wc);

/* Posts a chain: one doorbell. Exits if it is refused. */
void link_post(struct link *l, uint32_t qp, struct ibv_send_wr *chain);

/* Posts a receive without memory: for an immediate. */
void link_receive(struct link *l);

#endif
