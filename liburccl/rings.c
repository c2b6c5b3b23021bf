/* SPDX-License-Identifier: Apache-2.0 */
/* A context's rings. */
#include <stdlib.h>

#include "context.h"

/* Makes this thread run the engine, once a call that runs it on another has ended. */
__attribute__((noinline)) static void take_over(struct urccl *ctx)
{
	pthread_mutex_lock(&ctx->driving);
	store_relaxed(&ctx->driver, this_thread());
	pthread_mutex_unlock(&ctx->driving);
}

static void ring_drive(void *arg)
{
	struct context_ring *cr = arg;

	/* A program may hand its ring from thread to thread. */
	if (load_relaxed(&cr->ctx->driver) != this_thread())
		take_over(cr->ctx);
	engine_drive(cr->ctx->engine);
}

static int ring_sleep(void *arg, uint64_t ns)
{
	struct context_ring *cr = arg;

	return engine_sleep(cr->ctx->engine, ns);
}

static uint64_t spin_ns(const struct urccl *ctx)
{
	uint32_t us = ctx->settings.p.spin_us;

	return us == UINT32_MAX ? NEVER_NS : us * NSEC_PER_USEC;
}

/* Makes the ring and connects it to the context. */
static int ring_make(struct context_ring *cr, const struct urccl_ring_params *p)
{
	struct urccl *ctx = cr->ctx;
	uint32_t id;
	int err;

	pthread_mutex_lock(&ctx->lock);
	id = ++ctx->next_ring;
	pthread_mutex_unlock(&ctx->lock);
	err = ring_open(p, ctx->is_inline ? URCCL_RING_INLINE : 0, id, &cr->ring);
	if (err)
		return err;
	if (cr->device) { /* only the lanes submit */
		cr->ring->device = cr->device;
		cr->ring->pub.sq_tail = NULL;
	}
	cr->ring->home = engine_mailbox(ctx->engine);
	cr->ring->drive = ring_drive;
	cr->ring->sleep = ring_sleep;
	cr->ring->arg = cr;
	cr->ring->clock = ctx->clock;
	cr->ring->log = &ctx->log;
	cr->ring->spin_ns = ctx->clock ? 0 : spin_ns(ctx); /* spinning stops a simulated clock */
	if (ctx->is_inline)
		cr->ring->pub.fd = engine_fd(ctx->engine);
	return 0;
}

/* Lists the ring; an INLINE context has one. */
static int ring_list(struct context_ring *cr)
{
	struct urccl *ctx = cr->ctx;
	int err = 0;

	pthread_mutex_lock(&ctx->lock);
	if (ctx->is_inline && !list_empty(&ctx->rings))
		err = fail(-EBUSY, "an INLINE context has one ring, and it is open");
	else
		list_add_tail(&cr->link, &ctx->rings);
	pthread_mutex_unlock(&ctx->lock);
	return err;
}

static void ring_unlist(struct context_ring *cr)
{
	pthread_mutex_lock(&cr->ctx->lock);
	list_del(&cr->link);
	pthread_mutex_unlock(&cr->ctx->lock);
}

static int ring_call(struct context_ring *cr, uint32_t type)
{
	struct control_call call = {.msg.type = type, .ring = cr->engine_ring};

	return context_call(cr->ctx, &call, 1);
}

/* Makes the ring and the engine's side of it. */
static int ring_begin(struct context_ring *cr, const struct urccl_ring_params *p)
{
	int err = ring_make(cr, p);

	if (err)
		return err;
	err = engine_ring_new(cr->ctx->engine, cr->ring, &cr->engine_ring);
	if (err)
		goto close_ring;
	err = ring_call(cr, CALL_RING_ADD);
	if (!err)
		return 0;
	engine_ring_free(cr->engine_ring);
close_ring:
	ring_close(cr->ring);
	return err;
}

int context_ring_begin(struct urccl *ctx, const struct urccl_ring_params *p,
		       struct context_ring *cr)
{
	int err;

	cr->ctx = ctx;
	err = ring_list(cr);
	if (err)
		return err;
	err = ring_begin(cr, p);
	if (err) {
		ring_unlist(cr);
		return err;
	}
	if (ctx->is_inline)
		take_over(ctx);
	pthread_mutex_lock(&ctx->lock);
	cr->is_open = 1;
	pthread_mutex_unlock(&ctx->lock);
	return 0;
}

int urccl_ring_open(struct urccl *ctx, const struct urccl_ring_params *p, struct urccl_ring **ring)
{
	struct urccl_ring_params params;
	struct context_ring *cr;
	int err;

	err = context_check_out(ctx, ring);
	if (err)
		return err;
	err = ring_params_read(&params, p, &ctx->settings);
	if (err)
		return err;
	cr = calloc(1, sizeof(*cr));
	if (!cr)
		return fail(-ENOMEM, "no memory for a ring");
	err = context_ring_begin(ctx, &params, cr);
	if (err)
		free(cr);
	else
		*ring = &cr->ring->pub;
	return err;
}

/* Frees the ring. After a failed CALL_RING_DEL (err) the engine keeps it for good. */
static void ring_gone(struct context_ring *cr, int err)
{
	if (err)
		return;
	engine_ring_free(cr->engine_ring);
	ring_close(cr->ring);
	context_lanes_free(cr);
	free(cr);
}

static void drive_alone(void *arg)
{
	struct context_ring *cr = arg;

	engine_drive(cr->ctx->engine);
}

int context_ring_open(struct urccl *ctx, struct context_ring **out)
{
	struct urccl_ring_params p = {.size = sizeof(p), .entries = 16, .event_slots = 1};
	struct context_ring *cr = calloc(1, sizeof(*cr));
	int err;

	if (!cr)
		return fail(-ENOMEM, "no memory for a ring");
	cr->ctx = ctx;
	err = ring_begin(cr, &p);
	if (err) {
		free(cr);
		return err;
	}
	cr->ring->drive = drive_alone;
	*out = cr;
	return 0;
}

void context_ring_close(struct context_ring *cr)
{
	ring_gone(cr, ring_call(cr, CALL_RING_DEL));
}

void urccl_ring_close(struct urccl_ring *ring)
{
	struct context_ring *cr;

	if (!ring || !ring->flags)
		return;
	cr = container_of(ring, struct ring, pub)->arg;
	ring_check_close(cr->ring);
	/* Any thread may close the ring: the call then drives an INLINE engine. */
	store_relaxed(&cr->ctx->driver, 0);
	ring_unlist(cr);
	ring_gone(cr, ring_call(cr, CALL_RING_DEL));
}

/* A thread that opens or closes a ring may hold the lock: the dump then shows what was exported
 * before. */
void context_rings_export(struct urccl *ctx)
{
	const struct context_ring *cr;

	if (pthread_mutex_trylock(&ctx->lock))
		return;
	list_for_each_entry(cr, &ctx->rings, link) {
		if (cr->is_open)
			ring_export_unsubmitted(cr->ring);
	}
	pthread_mutex_unlock(&ctx->lock);
}

void context_rings_end(struct urccl *ctx)
{
	struct context_ring *cr;

	store_relaxed(&ctx->driver, 0);
	list_for_each_entry(cr, &ctx->rings, link) {
		ring_check_close(cr->ring);
		cr->del = (struct control_call){.msg.type = CALL_RING_DEL, .ring = cr->engine_ring};
		context_ask(ctx, &cr->del);
	}
	pthread_mutex_lock(&ctx->driving);
	while (!list_empty(&ctx->rings) && !ctx->stuck[0]) {
		cr = list_first(&ctx->rings, struct context_ring, link);
		ring_unlist(cr);
		ring_gone(cr, context_answer(ctx, &cr->del, ctx->is_inline));
	}
	pthread_mutex_unlock(&ctx->driving);
}
