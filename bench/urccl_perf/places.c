/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include <stdlib.h>
#include <string.h>

static void *zeroed(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		bench_die("out of memory");
	return p;
}

/* 0 .. n - 1 in an order of their own for each seed: runs stay together. */
static uint32_t *order(uint32_t n, uint32_t run, uint64_t seed)
{
	uint32_t *t = zeroed(n, sizeof(*t)), runs = n / run, i, k;

	/*
	 * First the order of the runs, in the first cells; then each run is laid out, from the
	 * last.
	 */
	for (i = 0; i < runs; i++)
		t[i] = i;
	for (i = runs; i > 1; i--) {
		uint32_t other = (uint32_t)(bench_random(&seed) % i), kept = t[i - 1];

		t[i - 1] = t[other];
		t[other] = kept;
	}
	for (i = runs; i-- > 0;) {
		uint32_t first = t[i] * run;

		for (k = run; k-- > 0;)
			t[i * run + k] = first + k;
	}
	for (i = runs * run; i < n; i++)
		t[i] = i;
	return t;
}

static void open_tables(struct places *p, const struct options *o)
{
	if (o->table == TABLE_DENSE)
		return;
	p->local = order(p->blocks, o->table == TABLE_RUN ? o->run : 1, 11);
	p->remote = order(p->blocks, o->table == TABLE_RUN ? o->run : 1, 12);
}

static void open_segs(struct places *p, const struct target *t)
{
	uint32_t i;

	p->segs = zeroed(p->blocks, sizeof(*p->segs));
	for (i = 0; i < p->blocks; i++)
		p->segs[i] = (struct urccl_seg){
			.addr = (uintptr_t)t->local + (p->local ? p->local[i] : i) * p->step,
			.len = p->block,
			.off = t->remote_off + (p->remote ? p->remote[i] : i) * p->step,
			.region = t->region.id,
			.remote = t->remote.id,
		};
}

static struct urccl_paged descriptor(const struct places *p, const struct target *t, uint32_t k)
{
	uint64_t first = (uint64_t)k * p->each;
	struct urccl_dim pages = {
		.count = p->each,
		.local_stride = (int64_t)p->step,
		.remote_stride = (int64_t)p->step,
		.local_index = p->local ? (uintptr_t)(p->local + first) : 0,
		.remote_index = p->remote ? (uintptr_t)(p->remote + first) : 0,
	};
	struct urccl_dim planes = {
		.count = p->planes,
		.local_stride = (int64_t)(p->step * p->blocks),
		.remote_stride = (int64_t)(p->step * p->blocks),
	};
	uint64_t dense = p->local ? 0 : first * p->step;
	struct urccl_paged d = {
		.size = sizeof(d),
		.local_off = t->local_off + dense,
		.remote_off = t->remote_off + dense,
		.block = p->block,
	};

	if (p->planes > 1)
		d.dim[d.ndims++] = planes;
	d.dim[d.ndims++] = pages;
	return d;
}

static void open_paged(struct places *p, const struct target *t)
{
	uint32_t k;

	p->paged = zeroed(p->entries, sizeof(*p->paged));
	for (k = 0; k < p->entries; k++)
		p->paged[k] = descriptor(p, t, k);
}

static void set_blocks(struct places *p, uint64_t blocks)
{
	if (blocks > UINT32_MAX - 1)
		bench_die("a span of %lu blocks is too much: --span", blocks);
	p->blocks = (uint32_t)blocks;
	p->entries = p->blocks / p->each;
}

void places_open(struct places *p, const struct options *o, const struct target *t)
{
	memset(p, 0, sizeof(*p));
	p->planes = 1;
	p->each = 1;
	p->block = o->size;
	switch (o->op) {
	case URCCL_OP_WRITEV:
	case URCCL_OP_READV:
		p->each = o->iovs;
		p->block = p->step = o->size / o->iovs;
		set_blocks(p, o->span / p->step);
		open_tables(p, o);
		open_segs(p, t);
		break;
	case URCCL_OP_WRITE_PAGED:
	case URCCL_OP_READ_PAGED:
		p->each = o->blocks;
		p->planes = o->planes;
		p->step = p->block;
		set_blocks(p, o->span / p->step / p->planes);
		open_tables(p, o);
		open_paged(p, t);
		break;
	default:
		/* A cache line at least, so that entries in flight do not fight for one. */
		p->step = (o->size + 63) / 64 * 64;
		set_blocks(p, p->step ? (o->span - o->size) / p->step + 1 : 1);
	}
}

void places_close(struct places *p)
{
	free(p->local);
	free(p->remote);
	free(p->segs);
	free(p->paged);
}

static uint64_t place(const struct places *p, const uint32_t *table, uint32_t k, uint32_t i)
{
	uint64_t plane = i / p->each, block = (uint64_t)k * p->each + i % p->each;

	return (plane * p->blocks + (table ? table[block] : block)) * p->step;
}

uint64_t places_local(const struct places *p, uint32_t k, uint32_t i)
{
	return place(p, p->local, k, i);
}

uint64_t places_remote(const struct places *p, uint32_t k, uint32_t i)
{
	return place(p, p->remote, k, i);
}
