/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libibverbs without a device: four that are made up, whose queue pairs reach each other within
 * the process. UCCL_IBV_SO names it, or SHIM_SO for ibv_shim.c on top of it. It is strict where a
 * device is: what has no place in a queue is refused, keys, rights, ranges and states are looked
 * at, and a completion queue that overruns ends the program.
 *
 *	device.c	devices, ports, protection domains, what they tell
 *	memory.c	regions
 *	queue.c		completion queues, queue pairs, what is posted
 *	wire.c		how a request is carried out
 *
 * double_link(DEVICE, up) takes a port's link down, and up: its programs are told, and nothing is
 * carried out meanwhile.
 *
 * A request is done when it is posted; with late=N in SHIM when its completion queue was looked at
 * N times since. One whose peer is not there, or has broken, is never done: the time that a device
 * repeats it for is not over. With regions=N in SHIM an opened device has N memory regions. With
 * posted=1 what is written to a dma-buf is acknowledged and not there: a READ of the same region
 * pushes it, as on the way to a GPU, and nothing else does. With posted=2 it is so of all memory:
 * a READ of any of the host's pushes what that device wrote to the host's. Of a region with
 * IBV_ACCESS_RELAXED_ORDERING what was written last is there first then. With peermem=1 memory of
 * the stand-in for libcuda is registered by its address, too.
 */
#ifndef DOUBLE_H
#define DOUBLE_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>

#define EXPORT	    __attribute__((visibility("default")))
#define NICS	    4u
#define QPS	    65536u /* at a time; a number is not given again before all others were */
#define MRS	    65536u
#define SGES_MAX    4u
#define INLINE_MAX  256u
#define CQE_MAX	    32767
#define QP_WR_MAX   4096u

/* What a correct program does not do. */
#define MUST(cond)                                                                                 \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "double: %s:%d: %s\n", __FILE__, __LINE__, #cond);         \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct nic {
	struct verbs_context verbs;
	struct nic *next;
	uint32_t number;
	uint32_t nregions;
	int bell; /* the other end of async_fd; -1: it was taken away */
};

struct channel {
	struct ibv_comp_channel channel;
	struct channel *next;
	int bell; /* of channel.fd, likewise */
};

struct cq {
	struct ibv_cq cq;
	struct entry {
		struct ibv_wc wc;
		struct qp *qp; /* whose request it was, and which; NULL: a receive's */
		uint32_t number;
	} *entries;
	uint32_t head, tail; /* counted */
	uint32_t polls;
	int armed;
};

struct send {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	int signalled;
	uint64_t remote;
	uint32_t rkey, due; /* cq.polls */
	int nsges;
	struct ibv_sge sges[SGES_MAX];
	uint32_t inlined; /* bytes; they are here */
	uint8_t bytes[INLINE_MAX];
};

struct qp {
	struct ibv_qp qp;
	struct qp *next;
	struct ibv_qp_cap cap;
	struct ibv_qp_attr attr;
	struct send *sends;
	struct receive {
		uint64_t wr_id;
		int nsges;
		struct ibv_sge sge;
	} *receives;
	/* Counted: posted, done, and of how many the program was told. */
	uint32_t posted, done, retired;
	uint32_t rposted, rdone;
};

struct region {
	struct ibv_mr mr;
	uint64_t iova;
	unsigned int access;
	void *mapped; /* a device's, from the begin of a page on; a dma-buf: mapped here */
	size_t mapped_len; /* 0: it is not unmapped */
};

extern pthread_mutex_t double_lock; /* of all */
extern uint32_t double_late, double_regions, double_posted, double_peermem;
extern struct qp *double_qps;

/* device.c */
const uint8_t *nic_gid(uint32_t number);
int nic_has_link(uint32_t number);
struct nic *context_nic(struct ibv_context *context);

/* memory.c */
/* The len bytes at addr by that key; NULL: it does not give them. */
uint8_t *region_at(const struct ibv_pd *pd, uint32_t key, uint64_t addr, uint64_t len,
		   unsigned int access);
/* Where len bytes go that are for at, which that key gave: there, or as far as the way to it. */
uint8_t *region_post(uint32_t key, uint8_t *at, uint32_t len);
/* All that is on its way to where that key leads is there. */
void region_push(uint32_t key);
/* All is that a device wrote. */
void regions_push(const struct ibv_pd *pd);

/* queue.c */
void cq_add(struct ibv_cq *cq, const struct entry *e);
struct qp *qp_find(uint32_t number);
void qp_break(struct qp *q);
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc);
int req_notify_cq(struct ibv_cq *cq, int solicited);

/* wire.c */
/* What can be done of its requests. */
void qp_run(struct qp *q);
void qps_run(void); /* of all */

#endif
