/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a measurement: a context, one ring of it, and how its thread waits. Entries carry what
 * they are in the top byte of user_data, so that the completions of a load are told from all else
 * with one comparison.
 */
#ifndef URCCL_PERF_END_H
#define URCCL_PERF_END_H

#include "options.h"

#include <liburccl.h>

enum tag {
	TAG_LOAD = 0,	 /* the measured load: the low bits are a time, or 0 */
	TAG_BACKGROUND,	 /* the load beside it */
	TAG_LOADS,	 /* so many loads an end can have */
	TAG_MESSAGE = 4, /* an event of MSG_RING: its tag is a time, or 0 */
	TAG_CONTROL = 8, /* everything else: the low bits are the end's own number */
};
#define TAG_SHIFT 56
#define TAG_MASK  (~0ull << TAG_SHIFT)

struct load;

struct end {
	const struct options *options;
	struct urccl *ctx;
	struct urccl_ring *ring;
	struct load *load[TAG_LOADS]; /* NULL: none is running */
	/* Called for whatever is no load's completion; its CQE is taken afterwards. */
	void (*event)(struct end *e, const struct urccl_cqe *cqe);
	void *owner; /* event()'s */
	enum perf_wait wait;
	int epfd;
	int idle_ms;	  /* longest sleep */
	uint64_t numbers; /* control entries so far */
	uint64_t ended;	  /* number of the last control entry that ended */
	int64_t res;	  /* and how */
	uint64_t handle;
	uint64_t sleeps, empty; /* returns from epoll_wait(), and those that brought nothing */
};

/* A range of memory, and the region it is. */
struct area {
	uint8_t *base;
	uint64_t len;
	struct memory memory;
	uint32_t rights;
	struct urccl_region region;
};

/*
 * Opens a context as the options say and a first ring; which: OURS or SERVERS. Exits where it
 * cannot.
 */
struct urccl *end_context(const struct options *o, int which, const char *listen);

/* Opens a ring of ctx. The caller says where events go before it submits anything. */
void end_open(struct end *e, const struct options *o, struct urccl *ctx, enum perf_wait wait);
void end_close(struct end *e);

/* Takes the CQEs that are there. Returns how many. */
uint32_t end_reap(struct end *e);

/* Waits until something may be there, at most e->idle_ms; a spinning end returns at once. */
void end_idle(struct end *e);

/* The next entry; the ring has room for what we do, so NULL is our mistake. */
struct urccl_sqe *end_sqe(struct end *e);

/* Numbers a control entry, submits it, and returns its number. */
uint64_t end_submit(struct end *e, struct urccl_sqe *sqe);

/* The same, and reaps until it has ended. Returns its res; e->handle has its handle. */
int64_t end_submit_wait(struct end *e, struct urccl_sqe *sqe);

/* Notes that a control entry ended; event() calls it for CQEs of TAG_CONTROL. */
void end_note_end(struct end *e, const struct urccl_cqe *cqe);

/* Exits with what failed and urccl_explain()'s sentence on it. */
void end_fail(struct end *e, const char *what, const struct urccl_cqe *cqe)
	__attribute__((noreturn));

/* Memory of len bytes, every page present, registered with all rights that it may have. 0, or
 * -errno: nothing was made. */
int area_try(struct area *a, struct urccl *ctx, uint64_t len, const struct memory *m);

/* The same; exits where it cannot be had. */
void area_open(struct area *a, struct urccl *ctx, uint64_t len, const struct memory *m);

/* Copies between memory of an end and ordinary memory. */
void memory_copy(const struct memory *m, void *to, const void *from, uint64_t len);

/* 0, or -errno if a peer still uses it; then it is left as it is. */
int area_close(struct area *a, struct urccl *ctx);

#endif
