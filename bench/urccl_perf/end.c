/* SPDX-License-Identifier: Apache-2.0 */
#include "end.h"
#include "load.h"

#include "../common/cuda.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

enum { IDLE_MS = 100, WAKE_MS = 5000, RING_MIN = 1024, RING_MAX = 32768 };

struct urccl *end_context(const struct options *o, int which, const char *listen)
{
	struct urccl_params p = {.size = sizeof(p)};
	struct urccl *ctx;

	urccl_params_init(&p);
	if (urccl_params_from_env(&p))
		bench_die("%s", urccl_errmsg());
	if (o->transport)
		p.transport = o->transport;
	p.listen = listen;
	if (o->cc)
		p.tcp_congestion = o->cc;
	if (o->driver)
		p.tcp_driver = (uint8_t)o->driver;
	if (o->is_inline)
		p.flags |= URCCL_OPEN_INLINE;
	if (o->streams)
		p.tcp_streams = o->streams;
	if (o->spin_us_given)
		p.spin_us = o->spin_us;
	if (o->device[which])
		p.rdma_dev = o->device[which];
	if (o->chunk)
		p.chunk_bytes = o->chunk;
	if (which == OURS)
		p.max_warm = o->max_warm;
	/* The library pins nothing: its threads run where the thread was that opened it. */
	bench_pin(o->engine_cpu[which]);
	if (urccl_open(&p, &ctx) < 0)
		bench_die("cannot open a context: %s", urccl_errmsg());
	bench_pin(o->cpu[which]);
	return ctx;
}

static uint32_t ring_entries(const struct options *o)
{
	uint32_t want = 2 * (o->depth + o->background_depth) + 64, entries = RING_MIN;

	while (entries < want && entries < RING_MAX)
		entries *= 2;
	return entries;
}

void end_open(struct end *e, const struct options *o, struct urccl *ctx, enum perf_wait wait)
{
	struct urccl_ring_params p = {.size = sizeof(p), .event_slots = RING_MIN};
	struct epoll_event interest = {.events = EPOLLIN};

	memset(e, 0, sizeof(*e));
	e->options = o;
	e->ctx = ctx;
	e->wait = wait;
	e->numbers = 1;
	e->idle_ms = IDLE_MS;
	p.entries = ring_entries(o);
	if (urccl_ring_open(ctx, &p, &e->ring) < 0)
		bench_die("cannot open a ring: %s", urccl_errmsg());
	e->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (e->epfd < 0 || epoll_ctl(e->epfd, EPOLL_CTL_ADD, urccl_ring_fd(e->ring), &interest) < 0)
		bench_die("cannot watch the ring: %s", strerror(errno));
}

void end_close(struct end *e)
{
	close(e->epfd);
	urccl_ring_close(e->ring);
}

uint32_t end_reap(struct end *e)
{
	struct urccl_cqe *cqe;
	uint32_t head, n = 0;

	if (!urccl_peek_cqe(e->ring))
		return 0;
	urccl_for_each_cqe(e->ring, head, cqe) {
		uint64_t tag = cqe->user_data >> TAG_SHIFT;

		n++;
		if (tag < TAG_LOADS)
			load_ended(e->load[tag], cqe);
		else
			e->event(e, cqe);
	}
	urccl_cq_advance(e->ring, n);
	return n;
}

/*
 * One sleep on the ring's fd, by the book: nothing is there when it begins, and no wake-up may be
 * lost.
 */
static void sleep_on_fd(struct end *e)
{
	struct epoll_event event;
	int n, armed;

	armed = urccl_arm(e->ring, URCCL_ARM_FOR_CQE, 0);
	if (armed < 0)
		bench_die("urccl_arm: %s", strerror(-armed));
	if (armed)
		return;
	n = epoll_wait(e->epfd, &event, 1, e->idle_ms);
	/* A completion is seen before its wake-up is written: that one may be on its way. */
	if (!n && urccl_cq_ready(e->ring) && !e->options->is_inline)
		n = epoll_wait(e->epfd, &event, 1, WAKE_MS);
	if (n > 0) {
		e->sleeps++;
		/*
		 * An INLINE context's fd may also say that it wants to be driven: not counted as
		 * empty.
		 */
		e->empty += !urccl_cq_ready(e->ring) && !e->options->is_inline;
	} else if (!n && urccl_cq_ready(e->ring) && !e->options->is_inline) {
		bench_die("a completion came and nobody was woken");
	}
}

void end_idle(struct end *e)
{
	struct urccl_wait_args args = {.size = sizeof(args),
				       .timeout_ns = (uint64_t)e->idle_ms * 1000000u};

	switch (e->wait) {
	case WAIT_EPOLL:
		sleep_on_fd(e);
		break;
	case WAIT_CALL:
		urccl_wait(e->ring, NULL, &args);
		break;
	default:
		if (!e->options->is_inline)
			bench_relax();
	}
}

struct urccl_sqe *end_sqe(struct end *e)
{
	struct urccl_sqe *sqe = urccl_get_sqe(e->ring);

	if (!sqe)
		bench_die("the ring is full");
	return sqe;
}

uint64_t end_submit(struct end *e, struct urccl_sqe *sqe)
{
	uint64_t number = e->numbers++;

	sqe->user_data = (uint64_t)TAG_CONTROL << TAG_SHIFT | number;
	urccl_submit(e->ring);
	return number;
}

int64_t end_submit_wait(struct end *e, struct urccl_sqe *sqe)
{
	uint64_t number = end_submit(e, sqe);

	while (e->ended != number)
		if (!end_reap(e))
			end_idle(e);
	return e->res;
}

void end_note_end(struct end *e, const struct urccl_cqe *cqe)
{
	e->ended = cqe->user_data & ~TAG_MASK;
	e->res = cqe->res;
	e->handle = cqe->handle;
}

void end_fail(struct end *e, const char *what, const struct urccl_cqe *cqe)
{
	char why[512];

	urccl_explain(e->ctx, cqe, why, sizeof(why));
	bench_die("%s failed: %s (%s)", what, why, strerror((int)-cqe->res));
}

static void *memory_make(struct urccl *ctx, uint64_t len, const struct memory *m)
{
	void *base = NULL;

	if (m->kind == MEMORY_GPU)
		return cuda_alloc(m->gpu, len);
	if (m->kind == MEMORY_PINNED)
		return cuda_alloc_host(m->gpu, len);
	if (!m->alloc)
		return bench_try_map(len, m->pages);
	errno = -urccl_alloc(ctx, len, &base);
	if (base)
		memset(base, 1, len);
	return base;
}

void memory_copy(const struct memory *m, void *to, const void *from, uint64_t len)
{
	if (m->kind == MEMORY_GPU)
		cuda_copy(m->gpu, to, from, len);
	else
		memcpy(to, from, len);
}

static void area_free(struct area *a, struct urccl *ctx)
{
	if (a->memory.kind == MEMORY_GPU)
		cuda_free(a->memory.gpu, a->base);
	else if (a->memory.kind == MEMORY_PINNED)
		cuda_free_host(a->memory.gpu, a->base);
	else if (a->memory.alloc)
		urccl_free(ctx, a->base);
	else
		munmap(a->base, a->len);
}

int area_try(struct area *a, struct urccl *ctx, uint64_t len, const struct memory *m)
{
	struct urccl_range range = {.len = len, .fd = -1};
	int err;

	errno = ENOMEM;
	a->base = memory_make(ctx, len, m);
	if (!a->base)
		return -errno;
	a->len = len;
	a->memory = *m;
	a->rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;
	if (m->kind != MEMORY_GPU)
		a->rights |= URCCL_RIGHT_ATOMIC;
	range.addr = (uintptr_t)a->base;
	err = urccl_register(ctx, &range, 1, a->rights, &a->region);
	if (err < 0)
		area_free(a, ctx);
	return err;
}

void area_open(struct area *a, struct urccl *ctx, uint64_t len, const struct memory *m)
{
	int err = area_try(a, ctx, len, m);

	if (err < 0)
		bench_die("cannot make and register %lu bytes: %s", len,
			  *urccl_errmsg() ? urccl_errmsg() : strerror(-err));
}

int area_close(struct area *a, struct urccl *ctx)
{
	int err = urccl_unregister(ctx, a->region);

	if (err < 0)
		return err;
	area_free(a, ctx);
	return 0;
}
