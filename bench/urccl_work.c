/* SPDX-License-Identifier: Apache-2.0 */
/*
 * urccl_work nop|write|mapped COUNT DEPTH: so many entries, so many in flight, all on one thread,
 * by a program that does nothing else. What an entry took: the least and the mean of a hundred
 * batches.
 */
#include <liburccl.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "common.h"

#define LEN	  4096u
#define DEPTH_MAX 256u
#define ROUNDS	  100u

struct end {
	struct urccl *ctx;
	struct urccl_ring *ring;
};

static struct end a, b;
static _Alignas(64) char from[LEN], to[LEN];
static struct urccl_remote remote;
static struct urccl_region source;
static int yields = 1; /* while other threads have something to do */

static void must(int res)
{
	if (res < 0)
		bench_die("%s", urccl_errmsg());
}

static void end_open(struct end *e)
{
	struct urccl_params p = {.size = sizeof(p)};

	urccl_params_init(&p);
	p.transport = "shm";
	p.flags = URCCL_OPEN_INLINE;
	must(urccl_open(&p, &e->ctx));
	must(urccl_ring_open(e->ctx, NULL, &e->ring));
}

/* The next end of an entry of e, both driven meanwhile. */
static struct urccl_cqe next(struct end *e)
{
	struct urccl_cqe *cqe, copy;

	while (!(cqe = urccl_peek_cqe(e->ring))) {
		__urccl_ring_drive(e == &a ? b.ring : a.ring);
		if (yields)
			sched_yield();
	}
	copy = *cqe;
	urccl_cqe_seen(e->ring, cqe);
	if (copy.res < 0)
		bench_die("an entry failed: %lld", (long long)copy.res);
	return copy;
}

static struct urccl_region enrol(struct end *e, void *addr)
{
	struct urccl_range r = {.addr = (uint64_t)(uintptr_t)addr, .len = LEN, .fd = -1};
	struct urccl_region region;

	must(urccl_register(e->ctx, &r, 1, URCCL_RIGHT_WRITE, &region));
	return region;
}

static void meet(int mapped)
{
	uint8_t blob[URCCL_METADATA_MAX];
	struct urccl_advert advert;
	struct urccl_peer peer;
	void *target = to;
	int n = urccl_metadata(b.ctx, blob, sizeof(blob));

	must(n);
	urccl_prep_accept(urccl_get_sqe(b.ring));
	urccl_submit(b.ring);
	urccl_prep_connect(urccl_get_sqe(a.ring), blob, (uint32_t)n);
	urccl_submit(a.ring);
	peer.id = (uint32_t)next(&a).handle;
	if (mapped)
		must(urccl_alloc(b.ctx, LEN, &target));
	must(urccl_advertise(b.ctx, enrol(&b, target), 0, LEN, URCCL_RIGHT_WRITE, 0, &advert));
	source = enrol(&a, from);
	must(urccl_import(a.ctx, peer, &advert, 1, &remote));
}

static void start(int writes)
{
	struct urccl_sqe *sqe = urccl_get_sqe(a.ring);

	if (!writes) {
		urccl_prep_nop(sqe);
		return;
	}
	urccl_prep_write(sqe, remote, from, 8, 0);
	urccl_sqe_set_region(sqe, source);
}

/* Batches: what was handed over ends before the next. */
static void work(int writes, uint64_t count, uint32_t depth)
{
	uint64_t done;
	uint32_t i;

	for (done = 0; done < count; done += depth) {
		for (i = 0; i < depth; i++)
			start(writes);
		urccl_submit(a.ring);
		for (i = 0; i < depth; i++)
			next(&a);
	}
}

/* By its name it is known to cost.py. */
__attribute__((noinline)) static void counted(int writes, uint64_t count, uint32_t depth)
{
	uint64_t best = UINT64_MAX, sum = 0, each = count / ROUNDS, began, took;
	uint32_t i;

	for (i = 0; i < ROUNDS; i++) {
		began = bench_now();
		work(writes, each, depth);
		took = bench_now() - began;
		sum += took;
		if (took < best)
			best = took;
	}
	printf("work.least %.3f ns\n", (double)best / (double)each);
	printf("work.mean %.3f ns\n", (double)sum / (double)(each * ROUNDS));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
	uint32_t depth = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
	int mapped = !strcmp(what, "mapped"), writes = mapped || !strcmp(what, "write");

	if (argc != 4 || !count || !depth || depth > DEPTH_MAX || (!writes && strcmp(what, "nop")))
		bench_die("usage: urccl_work nop|write|mapped COUNT DEPTH");
	end_open(&a);
	end_open(&b);
	if (writes)
		meet(mapped);
	work(writes, depth, depth); /* keys are fetched */
	yields = 0;
	counted(writes, count, depth);
	urccl_close(a.ctx);
	urccl_close(b.ctx);
	return 0;
}
