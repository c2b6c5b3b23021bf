/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of a cell and what becomes of them. */
#include "faults.h"

#define PAGE	 4096u
#define SEGS	 4u
#define PATIENCE 10000000000ull

static struct urccl_seg segs[PLACES][SEGS]; /* of all places in a row, too */
static struct urccl_paged paged[PLACES + 1];

static void fill_arrays(const struct run *r)
{
	uint64_t len = PLACE_LEN / SEGS, off;
	uint32_t i, k;

	for (i = 0; i < PLACES; i++)
		for (k = 0; k < SEGS; k++) {
			off = (uint64_t)i * PLACE_LEN + k * len;
			segs[i][k] = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)r->local + off,
							.len = len,
							.off = off,
							.region = r->region.id,
							.remote = r->remote.id};
		}
	for (i = 0; i <= PLACES; i++) {
		off = i < PLACES ? (uint64_t)i * PLACE_LEN : 0;
		paged[i] = (struct urccl_paged){.size = sizeof(paged[i]),
						.ndims = 1,
						.local_off = off,
						.remote_off = off,
						.block = PAGE};
		paged[i].dim[0] =
			(struct urccl_dim){.count = (i < PLACES ? PLACE_LEN : MEMORY) / PAGE,
					   .local_stride = PAGE,
					   .remote_stride = PAGE};
	}
}

static int is_bare(const struct run *r, uint32_t i)
{
	return r->cell.kind == NOTIFY && r->cell.fault != REVOKED &&
	       (i + (uint32_t)r->cell.with_data) % 2 == 0;
}

/* One entry is as large as all the memory; of many each has a place, which it shares with some. */
static void prepare(struct run *r, struct urccl_sqe *sqe, uint32_t i, uint32_t n)
{
	uint64_t len = n == 1 ? MEMORY : PLACE_LEN, off = n == 1 ? 0 : (i % PLACES) * len;
	enum kind kind = r->cell.kind;

	if (kind == READ)
		urccl_prep_read(sqe, r->remote, r->local + off, len, off);
	else if (kind == WRITEV)
		urccl_prep_writev(sqe, r->p.a.peer, segs[i % PLACES],
				  n == 1 ? PLACES * SEGS : SEGS);
	else if (kind == PAGED)
		urccl_prep_write_paged(sqe, r->remote, r->region,
				       &paged[n == 1 ? PLACES : i % PLACES], 1);
	else if (kind == ATOMIC)
		urccl_prep_fetch_add(sqe, r->remote, off, 1);
	else if (is_bare(r, i))
		urccl_prep_notify(sqe, r->p.a.peer, r->tags + i, NULL, 0);
	else
		urccl_prep_write(sqe, r->remote, r->local + off, len, off);
	if (kind == NOTIFY && sqe->opcode == URCCL_OP_WRITE)
		urccl_sqe_set_notify(r->p.a.ring, sqe, r->tags + i, NULL, 0);
}

static int64_t expected(const struct run *r, uint32_t i, uint32_t n)
{
	if (r->cell.kind == ATOMIC)
		return sizeof(uint64_t);
	if (is_bare(r, i))
		return 0;
	return n == 1 ? (int64_t)MEMORY : PLACE_LEN;
}

void run_submit(struct run *r, uint32_t n, uint32_t deadline_us)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	fill_arrays(r);
	for (i = 0; i < n; i++) {
		sqe = side_sqe(&r->p.a);
		prepare(r, sqe, i, n);
		urccl_sqe_set_data64(sqe, i);
		urccl_sqe_set_deadline_us(sqe, deadline_us);
	}
	CHECK_EQ(urccl_submit(r->p.a.ring), (int)n);
}

/* ---- what comes back ---- */

void run_events(struct run *r)
{
	struct urccl_cqe cqe;

	while (r->is_sim && r->p.b.ring && side_take_within(&r->p.b, NULL, 0, &cqe, NULL)) {
		r->peers_lost += urccl_cqe_kind(&cqe) == URCCL_KIND_LOST;
		if (cqe.user_data == REVOKE && urccl_cqe_kind(&cqe) == URCCL_KIND_OP) {
			CHECK_EQ(cqe.res, 0);
			r->revoked = 1;
		}
		if (urccl_cqe_kind(&cqe) == URCCL_KIND_NOTE && cqe.tag < N_MAX)
			r->notes[cqe.tag] = (int8_t)(r->notes[cqe.tag] ? 2 : cqe.res < 0 ? -1 : 1);
	}
}

static void on_cqe(struct run *r, const struct urccl_cqe *cqe, uint32_t n)
{
	struct outcome *o = &r->out;
	uint64_t i = cqe->user_data;

	if (urccl_cqe_kind(cqe) == URCCL_KIND_LOST) {
		r->lost++;
		return;
	}
	CHECK_EQ(urccl_cqe_kind(cqe), URCCL_KIND_OP);
	CHECK(i < n && o->told[i] < 2);
	if (o->told[i])
		CHECK_EQ(o->res[i], cqe->res);
	else
		o->last_ns = now_ns();
	o->told[i] = cqe->flags & URCCL_CQE_MORE ? 1 : 2;
	o->res[i] = cqe->res;
	o->old[i] = cqe->old;
	o->unknown[i] = !!(cqe->flags & URCCL_CQE_UNKNOWN);
	if (o->told[i] == 1)
		return;
	o->ended++;
	o->failed += cqe->res < 0;
	if (cqe->res >= 0)
		CHECK_EQ(cqe->res, expected(r, (uint32_t)i, n));
}

void run_take(struct run *r, uint32_t n)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	struct urccl_cqe cqe;

	memset(&r->out, 0, sizeof(r->out));
	while (r->out.ended < n) {
		if (now_ns() > late)
			urccl_dump(r->p.a.ctx, 2);
		CHECK(!is_late(late));
		if (side_take_within(&r->p.a, NULL, 1000000, &cqe, NULL))
			on_cqe(r, &cqe, n);
		run_events(r);
	}
}

int64_t run_one(struct run *r, uint32_t deadline_us)
{
	struct outcome before = r->out;
	int64_t res;

	r->tags = N_MAX; /* which nobody counts */
	run_submit(r, 1, deadline_us);
	run_take(r, 1);
	res = r->out.res[0];
	r->out = before;
	return res;
}

/* ---- whether it is true ---- */

static void peers_places(struct run *r, uint8_t places[PLACES])
{
	const uint8_t *m = r->is_sim ? r->target.bytes : r->peer.memory;
	uint32_t i;

	if (r->cell.mapped) {
		peer_places(&r->peer, places);
		return;
	}
	for (i = 0; i < PLACES; i++)
		places[i] =
			(uint8_t)pattern_holds(m + i * PLACE_LEN, PLACE_LEN, i * PLACE_LEN, OURS);
}

static void our_places(struct run *r, uint8_t places[PLACES])
{
	uint32_t i;

	for (i = 0; i < PLACES; i++)
		places[i] = (uint8_t)pattern_holds(r->local + i * PLACE_LEN, PLACE_LEN,
						   i * PLACE_LEN, THEIRS);
}

/* Those of one word were done one after another. */
static void check_olds(const struct run *r, uint32_t k, uint32_t n, uint64_t was, uint64_t now)
{
	uint32_t i, j;

	for (i = k; i < n; i += PLACES) {
		if (r->out.res[i] < 0)
			continue;
		CHECK(r->out.old[i] - was < now - was);
		for (j = k; j < i; j += PLACES)
			CHECK(r->out.res[j] < 0 || r->out.old[i] != r->out.old[j]);
	}
}

void run_check_words(const struct run *r, uint32_t n, uint32_t more)
{
	const uint8_t *m = r->is_sim ? r->target.bytes : r->peer.memory;
	uint32_t done, unknown, i, k;
	uint64_t was, now;

	for (k = 0; k < PLACES; k++) {
		done = unknown = 0;
		for (i = k; i < n; i += PLACES) {
			done += r->out.res[i] >= 0;
			unknown += r->out.unknown[i];
		}
		pattern_fill(&was, sizeof(was), k * PLACE_LEN, THEIRS);
		now = __atomic_load_n((const uint64_t *)(const void *)(m + k * PLACE_LEN),
				      __ATOMIC_ACQUIRE);
		CHECK_GE(now - was, done);
		CHECK_LE(now - was, done + unknown + (k ? 0 : more));
		check_olds(r, k, n, was, now);
	}
}

void run_check_bytes(struct run *r, uint32_t n, int alive)
{
	uint8_t places[PLACES];
	uint32_t i, k;

	if (r->cell.kind == ATOMIC) {
		run_check_words(r, n, 0);
		return;
	}
	if (r->cell.kind == READ)
		our_places(r, places);
	else if (r->cell.mapped && !alive)
		return; /* it is gone, and what was written with it */
	else
		peers_places(r, places);
	for (i = 0; i < n; i++) {
		if (r->out.res[i] <= 0)
			continue;
		for (k = 0; k < PLACES; k++)
			CHECK(places[k] || (n > 1 && k != i % PLACES));
	}
}

static void take_notes(struct run *r, int8_t notes[N_MAX])
{
	run_events(r);
	if (r->is_sim)
		memcpy(notes, r->notes, N_MAX);
	else
		peer_notes(&r->peer, notes);
}

/* Each has come by now, or the peer was told that it will not: one of both, whatever its sender
 * knows. */
static int notes_hold(const struct run *r, const int8_t *notes, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		CHECK_LE(notes[i], 1);
		if (!notes[i])
			return 0;
		if (!r->out.unknown[i])
			CHECK_EQ(notes[i], r->out.res[i] >= 0 ? 1 : -1);
	}
	return 1;
}

void run_check_notes(struct run *r, uint32_t n)
{
	uint64_t late = now_ns() + PATIENCE;
	int8_t notes[N_MAX];

	do {
		CHECK(!is_late(late));
		side_silent(&r->p.a, NULL, 1000000);
		take_notes(r, notes);
	} while (!notes_hold(r, notes, n));
}

void run_check_notes_lost(struct run *r, uint32_t n)
{
	int8_t notes[N_MAX];
	uint32_t i;

	take_notes(r, notes);
	for (i = 0; i < n; i++) {
		CHECK_LE(notes[i], r->out.res[i] >= 0 || r->out.unknown[i] ? 1 : 0);
		CHECK(r->out.res[i] < 0 || notes[i] == 1);
	}
}
