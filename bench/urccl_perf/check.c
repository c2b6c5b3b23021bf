/* SPDX-License-Identifier: Apache-2.0 */
/* Are the bytes right? A figure about bytes that did not arrive is none. */
#include "load.h"

#include <string.h>

/* Bytes of the span that the places of a load use. */
static uint64_t span_of(const struct places *p)
{
	uint64_t blocks = (uint64_t)p->blocks * p->planes;

	return (blocks - 1) * p->step + p->block;
}

static void fill(uint8_t *to, uint64_t len)
{
	uint64_t state = 0x5eed, i, word;

	for (i = 0; i < len; i += sizeof(word)) {
		uint64_t n = len - i < sizeof(word) ? len - i : sizeof(word);

		word = bench_random(&state);
		memcpy(to + i, &word, n);
	}
}

/* One plain entry between the whole span there and memory here. */
static void move_all(struct load *l, enum urccl_op op, uint8_t *here, uint64_t len)
{
	struct urccl_sqe *sqe = end_sqe(l->end);
	const struct target *t = &l->target;

	if (op == URCCL_OP_READ)
		urccl_prep_read(sqe, t->remote, here, len, t->remote_off);
	else
		urccl_prep_write(sqe, t->remote, here, len, t->remote_off);
	if (end_submit_wait(l->end, sqe) < 0)
		bench_die("cannot look at the other end's memory");
}

static void compare(const struct places *p, const uint8_t *here, const uint8_t *there)
{
	uint32_t k, i;

	for (k = 0; k < p->entries; k++)
		for (i = 0; i < p->each * p->planes; i++)
			if (memcmp(here + places_local(p, k, i), there + places_remote(p, k, i),
				   p->block))
				bench_die("block %u of entry %u has wrong bytes", i, k);
}

/* What the word of the first place was. */
static uint64_t on_word(struct load *l, struct urccl_sqe *sqe)
{
	if (end_submit_wait(l->end, sqe) < 0)
		bench_die("cannot look at the other end's word");
	return l->end->handle;
}

static uint64_t word_there(struct load *l)
{
	struct urccl_sqe *sqe = end_sqe(l->end);

	urccl_prep_fetch_add(sqe, l->target.remote, l->target.remote_off, 0);
	return on_word(l, sqe);
}

static uint64_t swap_there(struct load *l, uint64_t expected, uint64_t desired)
{
	struct urccl_sqe *sqe = end_sqe(l->end);

	urccl_prep_cmp_swap(sqe, l->target.remote, l->target.remote_off, expected, desired);
	return on_word(l, sqe);
}

/* A swap of what the word is, and one of what it is not. */
static void check_swaps(struct load *l)
{
	uint64_t before = word_there(l);

	if (swap_there(l, before, before + 7) != before || swap_there(l, before, 1) != before + 7 ||
	    word_there(l) != before + 7)
		bench_die("the word there was not swapped as it should be");
}

/* Every add of a load counts. */
static void check_adds(struct load *l)
{
	uint64_t before = word_there(l), passes = 1 + 1000 / l->places.entries, now;

	l->next = 0;
	load_run(l, 0, passes * l->places.entries);
	now = word_there(l);
	if (now != before + passes)
		bench_die("the word there is %lu and not %lu", now, before + passes);
}

static uint64_t check_words(struct load *l)
{
	if (l->op == URCCL_OP_FETCH_ADD)
		check_adds(l);
	else
		check_swaps(l);
	return sizeof(uint64_t);
}

/* Memory that a device which reaches our memory of a GPU reaches as well. */
static struct memory scratch_memory(const struct target *t)
{
	struct memory m = t->memory;

	if (m.kind == MEMORY_GPU)
		m.kind = MEMORY_PINNED;
	m.alloc = 0;
	m.pages = BENCH_PAGES_4K;
	return m;
}

uint64_t load_check(struct load *l)
{
	const struct places *p = &l->places;
	const struct memory *memory = &l->target.memory;
	struct memory plain = scratch_memory(&l->target);
	uint64_t len = span_of(p);
	struct area here, there;
	int reads =
		l->op == URCCL_OP_READ || l->op == URCCL_OP_READV || l->op == URCCL_OP_READ_PAGED;

	if (!p->block || l->op == URCCL_OP_NOP || l->op == URCCL_OP_NOTIFY)
		return 0;
	if (l->op == URCCL_OP_FETCH_ADD || l->op == URCCL_OP_CMP_SWAP)
		return check_words(l);
	area_open(&here, l->end->ctx, len, &plain);
	area_open(&there, l->end->ctx, len, &plain);
	fill(here.base, len);
	memory_copy(memory, l->target.local, here.base, len);
	if (reads) {
		/* What will be read goes there first, and away here. */
		move_all(l, URCCL_OP_WRITE, l->target.local, len);
		memset(here.base, 0, len);
		memory_copy(memory, l->target.local, here.base, len);
	}
	l->next = 0;
	load_run(l, 0, p->entries);
	move_all(l, URCCL_OP_READ, there.base, len);
	memory_copy(memory, here.base, l->target.local, len);
	compare(p, here.base, there.base);
	area_close(&here, l->end->ctx);
	area_close(&there, l->end->ctx);
	return (uint64_t)p->entries * l->bytes;
}
