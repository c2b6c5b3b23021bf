/* SPDX-License-Identifier: Apache-2.0 */
/* A context, made by urccl_open(). */
#ifndef CONTEXT_H
#define CONTEXT_H

#include <pthread.h>

#include "params.h"
#include "control/control.h"
#include "engine/engine.h"

#define REFUSALS_MAX (DEVICES_MAX + TRANSPORTS_MAX)

/* A device, or a whole transport, that is not in use, and the reason. */
struct refusal {
	uint32_t transport; /* enum urccl_transport */
	int err;	    /* -errno */
	char why[512];
};

/* Has pages of its own, which are zero in a forked child: calls there see live 0. Fields without a
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
	struct gpu *gpu;	/* owned by the control thread */
	struct engine *engine;
	char left_out[512]; /* optional devices that did not open, and why */
	struct refusal refused[REFUSALS_MAX];
	uint32_t nrefused;

	pthread_mutex_t lock; /* protects rings and next_ring */
	struct list rings;    /* struct context_ring.link */
	uint32_t next_ring;

	/* Serialises allocations, so that each sees the memory that is left. */
	pthread_mutex_t allocating;

	/* INLINE: a thread holds driving while it runs the engine for a call. Once a ring is open,
	 * only its thread runs the engine, and is stored in driver. */
	pthread_mutex_t driving;
	uintptr_t driver; /* 0: no ring */

	/* Used by urccl_close(). */
	uint64_t closing_ns;  /* clock_ns() when closing began; 0: not yet */
	char stuck[256]; /* a driver or GPU that does not return, so waits end; "": none */
	struct control_call shutdown;
};

/* A value that is unique to each thread. */
static inline uintptr_t this_thread(void)
{
#if __has_builtin(__builtin_thread_pointer) /* no call; clang 14 has it for few machines */
	return (uintptr_t)__builtin_thread_pointer();
#else
	return (uintptr_t)pthread_self();
#endif
}

/* A ring with its context and engine; struct ring.arg points here. */
struct context_ring {
	struct list link;
	struct urccl *ctx;
	struct ring *ring;
	struct engine_ring *engine_ring;
	struct device_ring *device; /* its lanes; NULL: the program submits entries */
	struct gpu_dev *gpu;	    /* the GPU that its lanes are pinned for; NULL: none */
	int is_open;		 /* under lock: the ring is the program's */
	struct control_call del; /* the call that ends it */
};

/* Sends the call to the control thread and waits. Returns its result, with text for urccl_errmsg().
 * needs_engine: in an INLINE context this thread drives the engine meanwhile (-EBUSY: another
 * thread drives it). */
int context_call(struct urccl *ctx, struct control_call *call, int needs_engine);
/* The same in two steps. drives: this thread runs the engine of the INLINE context meanwhile. */
void context_ask(struct urccl *ctx, struct control_call *call);
/* -EBUSY and ctx->stuck set: no answer came, and the control thread keeps the call. */
int context_answer(struct urccl *ctx, struct control_call *call, int drives);

/* 0, -EINVAL (ctx is NULL) or -EPERM (in a forked child), with fail() text. */
int context_check(const struct urccl *ctx);
/* Also -EINVAL if out, the place for the answer, is NULL. */
int context_check_out(const struct urccl *ctx, const void *out);

/* Makes a request that an entry can make too. *out: the resulting handle; out may be NULL. */
int context_request(struct urccl *ctx, struct control_req req, uint32_t *out);

/* INLINE: lets this thread run the engine until context_drive_end(), else -EBUSY. Calls that need
 * the engine take the same lock: make none in between. */
int context_drive_begin(struct urccl *ctx);
void context_drive_end(struct urccl *ctx);

/* Opens a ring for the program. cr has device and gpu set, all else 0. p was read by
 * ring_params_read(). 0: the ring is the program's. */
int context_ring_begin(struct urccl *ctx, const struct urccl_ring_params *p,
		       struct context_ring *cr);
/* device_ring.c: frees the lanes. Their ring has ended, or was never made. */
void context_lanes_free(struct context_ring *cr);

/* Opens a ring for the library, used within one call. In an INLINE context its user holds the
 * engine by context_drive_begin(). */
int context_ring_open(struct urccl *ctx, struct context_ring **out);
void context_ring_close(struct context_ring *cr);

/* NULL: this version does not have the transport. */
const struct backend *context_backend(uint32_t transport);

/* Exports unsubmitted entries of rings to the segment, also while the engine sleeps. */
void context_rings_export(struct urccl *ctx);

/* Ends all rings that are still open, in parallel, as each may wait for a peer. */
void context_rings_end(struct urccl *ctx);

#endif
