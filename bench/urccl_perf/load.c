/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include <string.h>

/*
 * The clock is looked at every so many turns, so that looking costs next to nothing and comes soon
 * enough.
 */
enum { LOOK_NS_MIN = 100000, LOOK_NS_MAX = 1000000, TURNS_MAX = 1 << 14 };

void load_open(struct load *l, struct end *e, const struct options *o, enum tag tag)
{
	l->end = e;
	l->tag = tag;
	l->op = o->op;
	l->depth = o->depth;
	l->lookup = o->lookup;
	l->forgiving = 0;
	l->flags = o->cls << URCCL_SQE_CLASS_SHIFT | (o->checksum ? URCCL_SQE_CHECKSUM : 0) |
		   (o->acked ? URCCL_SQE_ACKED : 0);
	l->bytes = options_entry_bytes(o);
	l->limit = l->posted = l->ended = l->inflight = l->next = 0;
	places_open(&l->places, o, &l->target);
	e->load[tag] = l;
}

void load_close(struct load *l)
{
	l->end->load[l->tag] = NULL;
	places_close(&l->places);
}

void load_start(struct load *l, uint64_t limit)
{
	l->posted = l->ended = 0;
	l->limit = limit;
	l->sample_in = 1;
	l->started = bench_now();
}

/* data: the entry's user_data */
static void prep(struct load *l, struct urccl_sqe *sqe, uint64_t data)
{
	const struct places *p = &l->places;
	const struct target *t = &l->target;
	uint64_t at = l->next * p->step;

	switch (l->op) {
	case URCCL_OP_NOP:
		urccl_prep_nop(sqe);
		break;
	case URCCL_OP_READ:
		urccl_prep_read(sqe, t->remote, t->local + at, p->block, t->remote_off + at);
		break;
	case URCCL_OP_WRITEV:
		urccl_prep_writev(sqe, t->peer, p->segs + (uint64_t)l->next * p->each, p->each);
		break;
	case URCCL_OP_READV:
		urccl_prep_readv(sqe, t->peer, p->segs + (uint64_t)l->next * p->each, p->each);
		break;
	case URCCL_OP_WRITE_PAGED:
		urccl_prep_write_paged(sqe, t->remote, t->region, p->paged + l->next, 1);
		break;
	case URCCL_OP_READ_PAGED:
		urccl_prep_read_paged(sqe, t->remote, t->region, p->paged + l->next, 1);
		break;
	case URCCL_OP_NOTIFY:
		urccl_prep_notify(sqe, t->peer, 0, t->local, (uint32_t)p->block);
		break;
	case URCCL_OP_FETCH_ADD:
		urccl_prep_fetch_add(sqe, t->remote, t->remote_off + at, 1);
		break;
	case URCCL_OP_CMP_SWAP:
		urccl_prep_cmp_swap(sqe, t->remote, t->remote_off + at, l->posted, l->posted + 1);
		break;
	case URCCL_OP_MSG_RING:
		urccl_prep_msg_ring(sqe, t->ring, (uint64_t)TAG_MESSAGE << TAG_SHIFT, 0,
				    data & ~TAG_MASK);
		break;
	default:
		urccl_prep_write(sqe, t->remote, t->local + at, p->block, t->remote_off + at);
	}
	if (!l->lookup && (l->op == URCCL_OP_WRITE || l->op == URCCL_OP_READ))
		urccl_sqe_set_region(sqe, t->region);
	urccl_sqe_add_flags(sqe, l->flags);
	if (++l->next >= p->entries)
		l->next = 0;
}

/* user_data of the next entry: its tag, and the time if it is one of those that are timed. */
static uint64_t stamp(struct load *l)
{
	uint64_t data = (uint64_t)l->tag << TAG_SHIFT;

	if (!l->sample || --l->sample_in)
		return data;
	l->sample_in = l->sample;
	return data | (bench_now() & ~TAG_MASK);
}

static void submit(struct load *l)
{
	uint64_t before;

	if (!l->submit) {
		urccl_submit(l->end->ring);
		return;
	}
	before = bench_now();
	urccl_submit(l->end->ring);
	hist_add(l->submit, bench_now() - before);
}

uint32_t load_post(struct load *l)
{
	struct urccl_ring *ring = l->end->ring;
	uint64_t left = l->limit - l->posted;
	uint32_t room = l->depth - l->inflight, n;

	if (left < room)
		room = (uint32_t)left;
	for (n = 0; n < room; n++) {
		uint64_t data = stamp(l);
		struct urccl_sqe *sqe = urccl_get_sqe(ring);

		if (!sqe)
			break;
		prep(l, sqe, data);
		sqe->user_data = data;
	}
	if (!n)
		return 0;
	/* Before the call: an inline context may end them within it. */
	l->inflight += n;
	l->posted += n;
	submit(l);
	return n;
}

void load_ended(struct load *l, const struct urccl_cqe *cqe)
{
	uint64_t when = cqe->user_data & ~TAG_MASK;

	/* The outcome comes first and the end later: it is counted at its end. */
	if (cqe->flags & URCCL_CQE_MORE)
		return;
	if (cqe->res < 0 && !l->forgiving)
		end_fail(l->end, options_op_name(l->op), cqe);
	if (cqe->res < 0)
		l->limit = l->posted;
	if (when)
		hist_add(l->latency, (bench_now() & ~TAG_MASK) - when);
	l->inflight--;
	l->ended++;
	l->path = cqe->path;
}

void load_stop(struct load *l)
{
	l->limit = l->posted;
	while (l->inflight)
		if (!end_reap(l->end))
			end_idle(l->end);
	l->stopped = bench_now();
}

/* A load beside this one is kept going by the same turns. */
static void turn(struct load *l)
{
	struct load *beside = l->end->load[TAG_BACKGROUND];

	load_post(l);
	if (beside && beside != l)
		load_post(beside);
	if (!end_reap(l->end))
		end_idle(l->end);
}

void load_run(struct load *l, double seconds, uint64_t count)
{
	uint64_t last, now, goal = (uint64_t)(seconds * 1e9);
	uint32_t turns = 0, every = 1;

	load_start(l, count ? count : ~0ull);
	last = l->started;
	while (l->ended < l->limit) {
		turn(l);
		if (++turns < every)
			continue;
		now = bench_now();
		turns = 0;
		if (now - last < LOOK_NS_MIN && every < TURNS_MAX)
			every *= 2;
		else if (now - last > LOOK_NS_MAX && every > 1)
			every /= 2;
		last = now;
		if (!count && now - l->started >= goal)
			break;
	}
	load_stop(l);
}
