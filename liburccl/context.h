/* SPDX-License-Identifier: Apache-2.0 */
/* A context: what urccl_open() made. */
#ifndef CONTEXT_H
#define CONTEXT_H

#include <pthread.h>

#include "params.h"
#include "control/control.h"
#include "engine/engine.h"

#define REFUSALS_MAX (DEVICES_MAX + TRANSPORTS_MAX)

/* A device, or all that a transport has, and why it is not in use. */
struct refusal {
	uint32_t transport; /* enum urccl_transport */
	int err;	    /* -errno */
	char why[512];
};

/* Pages of its own, zeroed in a forked child: there every call finds it dead. Fields without a
 * remark are set by urccl_open() and never change. */
struct urccl {
	uint32_t live;
	int is_inline;
	struct secret secret;
	struct settings settings;
	struct log log;
	uint64_t incarnation;
	struct device *devices[DEVICES_MAX];
	uint32_t ndevices;
	struct clock *clock;	/* simulated; NULL: the real one */
	struct control *control;
	struct gpu *gpu;	/* the control thread's */
	struct engine *engine;
	char left_out[512]; /* what may be left out and did not open, and why */
	struct refusal refused[REFUSALS_MAX];
	uint32_t nrefused;

	pthread_mutex_t lock; /* of rings and next_ring */
	struct list rings;    /* struct context_ring.link */
	uint32_t next_ring;

	/* Held while memory is allocated, so that each sees what room those before it left. */
	pthread_mutex_t allocating;

	/* INLINE. Whoever runs the engine for a call holds driving; once there is a ring, only the
	 * thread that uses it does: that one writes driver. */
	pthread_mutex_t driving;
	uintptr_t driver; /* 0: no ring */

	/* urccl_close()'s. */
	uint64_t closing_ns;  /* clock at which it began; 0: it has not */
	char stuck[256]; /* what does not come back, so that nobody is waited for any more; "":
			  * nothing */
	struct control_call shutdown;
};

/* Another for each thread. */
static inline uintptr_t this_thread(void)
{
#if __has_builtin(__builtin_thread_pointer) /* no call; clang 14 has it for few machines */
	return (uintptr_t)__builtin_thread_pointer();
#else
	return (uintptr_t)pthread_self();
#endif
}

/* A ring and its two other sides; the ring's arg. */
struct context_ring {
	struct list link;
	struct urccl *ctx;
	struct ring *ring;
	struct engine_ring *engine_ring;
	struct device_ring *device; /* for the ring to come; NULL: it gets entries of the program */
	struct gpu_dev *gpu;	    /* its lanes are pinned for; NULL: they are not */
	int is_open;		 /* under lock: the ring is the program's */
	struct control_call del; /* its end is asked for */
};

/* Has the control thread answer the call: its result, with its text for urccl_errmsg().
 * needs_engine: the answer needs the engine, so that in an INLINE context this thread must drive it
 * (-EBUSY: it is another's). */
int context_call(struct urccl *ctx, struct control_call *call, int needs_engine);
/* The same in two steps. drives: this thread runs the engine of the INLINE context meanwhile. */
void context_ask(struct urccl *ctx, struct control_call *call);
/* -EBUSY, and ctx->stuck: there is none, and the call stays the control thread's. */
int context_answer(struct urccl *ctx, struct control_call *call, int drives);

/* 0, or -EPERM with fail() text in a forked child. */
int context_check(const struct urccl *ctx);
/* And that there is somewhere to put the answer, else -EINVAL. */
int context_check_out(const struct urccl *ctx, const void *out);

/* What an entry can ask for too: the handle that comes back, if out is not NULL. */
int context_request(struct urccl *ctx, struct control_req req, uint32_t *out);

/* Of an INLINE context: this thread may run the engine until context_drive_end(); else -EBUSY.
 * Calls that need the engine do it by themselves and are not to be made in between. */
int context_drive_begin(struct urccl *ctx);
void context_drive_end(struct urccl *ctx);

/* Opens the program's next ring, with *cr: its device and gpu, and all else 0. p: read. 0: it is
 * the program's. */
int context_ring_begin(struct urccl *ctx, const struct urccl_ring_params *p,
		       struct context_ring *cr);
/* device_ring.c: the lanes, which are no ring's yet, or whose ring has ended. */
void context_lanes_free(struct context_ring *cr);

/* A ring of the library's own, used within one call. In an INLINE context its user has the engine
 * by context_drive_begin(). */
int context_ring_open(struct urccl *ctx, struct context_ring **out);
void context_ring_close(struct context_ring *cr);

/* NULL: this version does not carry the transport out. */
const struct backend *context_backend(uint32_t transport);

/* Tells the segment what only the rings know, of an engine that sleeps too. */
void context_rings_export(struct urccl *ctx);

/* Ends every ring that the program did not, all at once: each may wait for a peer. */
void context_rings_end(struct urccl *ctx);

#endif
