/* SPDX-License-Identifier: Apache-2.0 */
/* The prefill role: one connection, and the requests that are under way over it. */
#ifndef PUSH_H
#define PUSH_H

#include <pthread.h>
#include "proto.h"
#include "report.h"

enum slot_state {
	SLOT_IDLE = 0,
	SLOT_ASKED,	/* decode looks for prefix blocks and pages */
	SLOT_READY,	/* the page table is here; waits for its turn to compute */
	SLOT_COMPUTING, /* layers are computed, and sent as they come */
	SLOT_SENT,	/* DONE is under way, or decode checks */
	SLOT_SETTLING,	/* aborted: writes are ending */
	SLOT_LEAVING,	/* aborted: decode is told */
};

/* What an entry is, in the top byte of its user_data; the slot is below. All writes of a request
 * have the same user_data, so that one CANCEL reaches them. */
enum push_entry {
	ENTRY_CONNECT = 1,
	ENTRY_KEYS,
	ENTRY_CLOSE,
	ENTRY_BYE,
	ENTRY_ASK,
	ENTRY_WRITE,
	ENTRY_LAYER,
	ENTRY_DONE,
	ENTRY_CANCEL,
	ENTRY_SETTLE,
	ENTRY_ABORT,
};

struct slot { /* one request under way */
	enum slot_state state;
	uint32_t index;
	const struct request *req;
	uint32_t id; /* its number from 1, and its group */
	uint32_t npages;
	uint32_t *pages; /* ours, of the whole request */
	uint32_t nsend;	 /* of those that decode lacks: */
	uint32_t *src, *dst,
		*logical; /*   our page, decode's, and the how manieth of the request it is */
	struct urccl_paged
		*descs; /* of all layers: the library reads them until the write has ended */
	struct msg_layer *ready; /* of all layers: payloads likewise */
	struct msg_abort abort;
	uint32_t held;	      /* blocks that decode has */
	uint32_t layer;	      /* the next one to send */
	uint32_t abort_after; /* layers; 0: not to be aborted */
	bool computed;	      /* the next layer's bytes are there */
	bool cancelled, failed, give_up;
	bool told;	   /* decode has DONE, or (pull) has read everything */
	bool settling;	   /* the write of nothing is under way, or has ended */
	uint32_t inflight; /* entries that have not ended */
	uint64_t due;	   /* of the next layer */
	uint64_t begun;	   /* when it was asked for or, replaying at a speed, due */
	uint64_t last_compute, told_at;
	uint64_t order; /* of page tables' arrival: who computes first */
	bool answered;
	uint32_t verdict;
};

struct push {
	const struct job *job;
	const struct options *o;
	struct push *first;    /* of several contexts, that each replay a share of the trace */
	pthread_mutex_t *lock; /* of the first one's tally.busy */
	struct node node;
	struct urccl_peer peer;
	struct side cache, pool; /* ours, and decode's as we know it */
	struct pool pages;	 /* of the cache */
	struct urccl_region cache_region, post_region;
	uint8_t *post; /* slots x mailbox, then slots x question */
	uint64_t mailbox_bytes, question_bytes;
	struct msg_hello hello;
	struct msg_welcome welcome;
	struct urccl_remote pool_remote, asks_remote;
	struct urccl_paged touch; /* of the pool, before the first request */
	struct slot *slots;
	uint32_t nslots, ndescs;
	struct slot *computing;
	uint32_t next; /* request of the trace; every contexts-th is ours */
	uint64_t orders;
	struct tally tally;
	uint64_t fill_cpu; /* CPU time of making page bytes */
	uint64_t started;
	bool welcomed, lost, stopping, leaving, over;
};

/* Something that ends the run; says so once. Returns -1. */
int push_fatal(struct push *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The entry failed because the connection broke: LOST follows and says so. */
bool push_breaks(const struct push *p, const struct urccl_cqe *cqe);

uint64_t push_data(enum push_entry what, const struct slot *s);

/* A write begins (1) or ends (-1). */
void push_busy(struct push *p, int change);

/* ---- requests (push_request.c) ---- */

/* Takes the next request if it is due and there are a slot and pages for it. Returns false if
 * not. */
bool request_next(struct push *p);
/* One step of computing. Returns true if there is more to do at once. */
bool request_compute(struct push *p);
void request_end_of_entry(struct push *p, struct slot *s, enum push_entry what,
			  const struct urccl_cqe *cqe);
void request_note(struct push *p, struct slot *s, enum message what, const void *payload,
		  uint32_t len);
/* Ctrl-C: cancels what is under way. */
void request_give_up(struct push *p, struct slot *s);

#endif
