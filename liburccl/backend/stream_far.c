/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads that stay where they are until the peer fetches them.
 *
 * Who fetches announces the seal, looks whether it is whole, fetches, and takes the announcement
 * back; who breaks a seal does so before it looks at the announcement. So one of the two always
 * sees the other, and a broken seal without an announcement is the proof that nothing is fetched
 * under it ever again. The kernel is asked to copy the seal behind the bytes and over the
 * announcement: what was fetched counts only if the seal was still whole then, and a peer that is
 * stopped after its call holds up nobody. Of one that is stopped before it the driver may know that
 * the call will fail: then the announcement counts for nothing.
 */
#include "backend/stream_wire.h"

/* A seal, less the seed: the number of a WRITE, or ANSWER and that of a READ. */
#define ANSWER	(1ull << 32)
#define NOTHING UINT64_MAX

static uint64_t seal_of(uint64_t seed, int answer, uint32_t number)
{
	return seed + (answer ? ANSWER : 0) + number;
}

static uint64_t *write_seal(const struct stream_far *far, uint32_t number)
{
	return &far->writes[number & (STREAM_WRITES - 1)];
}

/* ---- whose payload it is ---- */

static int stays(const struct stream *s, uint32_t len)
{
	uint32_t least = s->far && len > STREAM_COPY ? load_acquire(s->far->least) : 0;

	return least && len >= least;
}

int stream_far_write(struct stream *s, struct frame *f, uint32_t number, const struct chunk *c)
{
	if (c->kind != CHUNK_WRITE || c->checksum || !stays(s, c->len))
		return 0;
	f->flags |= FRAME_FAR;
	f->far = (uintptr_t)c->local;
	store_release(write_seal(s->far, number), seal_of(s->far->seed, 0, number));
	return 1;
}

void stream_far_next(struct stream *s, uint32_t number)
{
	if (s->far)
		s->far->grants[number & (STREAM_READS - 1)] = 0;
}

/* One that ends by the clock is not left to the peer's. */
int stream_far_answer(struct stream *s, struct frame *f, uint32_t number, const struct exposure *e,
		      uint64_t at)
{
	uint32_t slot = number & (STREAM_READS - 1);
	uint64_t run;
	void *from;

	if (f->flags & FRAME_CHECK || !stays(s, f->len) || e->expires_ns != NEVER_NS)
		return 0;
	from = memory_at(e->memory, at, &run);
	if (run < f->len)
		return 0;
	f->flags |= FRAME_FAR;
	f->far = (uintptr_t)from;
	s->far->grants[slot] = e->id;
	store_release(&s->far->answers[slot], seal_of(s->far->seed, 1, number));
	return 1;
}

/* The seal that the peer has announced, less our seed. */
static uint64_t announced(const struct stream_far *far)
{
	uint64_t word = far->fetching ? __atomic_load_n(far->fetching, __ATOMIC_SEQ_CST) : 0;

	return !word || word == far->stopped ? NOTHING : ~word - far->seed;
}

static int is_fetched(const struct stream_far *far, uint32_t number)
{
	return announced(far) == number;
}

static void hold_end(struct stream *s)
{
	struct chunk *c = s->far->held;

	s->far->held = NULL;
	stream_out(s, c, c->res, 0);
}

void stream_far_break(struct stream *s, uint32_t number)
{
	uint64_t *seal = s->far ? write_seal(s->far, number) : NULL;

	if (seal && *seal == seal_of(s->far->seed, 0, number))
		__atomic_store_n(seal, 0, __ATOMIC_SEQ_CST);
}

int stream_far_hold(struct stream *s, struct chunk *c, int res)
{
	stream_far_break(s, chunk_number(c));
	if (!s->far || !is_fetched(s->far, chunk_number(c)))
		return 0;
	/* One is fetched at a time, so another is no more. */
	if (s->far->held)
		hold_end(s);
	c->res = res;
	s->far->held = c;
	return 1;
}

int stream_far_settle(struct stream *s)
{
	if (!s->far || !s->far->held)
		return 1;
	if (is_fetched(s->far, chunk_number(s->far->held)))
		return 0;
	hold_end(s);
	return 1;
}

/* What a peer says of others than the last answers means nothing. The oldest that it may be at has
 * a whole window behind it. */
int stream_far_behind(const struct stream *s, const struct exposure *e)
{
	uint64_t n = s->far ? announced(s->far) : NOTHING;
	uint32_t slot = n & (STREAM_READS - 1);

	if (n >> 32 != ANSWER >> 32 || s->tx.replied - (uint32_t)n > STREAM_READS ||
	    s->far->answers[slot])
		return 0;
	return e ? s->far->grants[slot] == e->id : s->far->grants[slot] != 0;
}

void stream_far_revoke(struct stream *s, const struct exposure *e)
{
	uint32_t i;

	for (i = 0; s->far && i < STREAM_READS; i++)
		if (s->far->grants[i] == e->id)
			__atomic_store_n(&s->far->answers[i], 0, __ATOMIC_SEQ_CST);
}

/* ---- who fetches it ---- */

int stream_is_far(const struct stream *s)
{
	return s->rx.active && s->rx.left && s->rx.flags & FRAME_FAR;
}

uint64_t stream_far_seal(const struct stream *s, int *answer, uint32_t *index)
{
	uint32_t number = s->rx.placed;

	*answer = s->rx.kind == FRAME_RESP;
	*index = number & (STREAM_WRITES - 1);
	if (*answer) {
		number = s->tx.answered;
		*index = number & (STREAM_READS - 1);
	}
	return seal_of(s->far->peer_seed, *answer, number);
}

void stream_fetch_end(struct stream *s, int err)
{
	uint32_t status = err == -EACCES      ? STATUS_ACCESS
			  : err == -ECANCELED ? STATUS_DROPPED
					      : STATUS_FAULT;

	assert(stream_is_far(s));
	if (err && s->rx.kind == FRAME_RESP) {
		s->rx.fault = status;
	} else if (err) {
		s->rx.exposure = NULL;
		s->rx.status = status;
	}
	stream_placed(s, s->rx.left);
}
