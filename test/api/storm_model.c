/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of storm.c, and what must be true of each when it ends. */
#include "storm.h"

struct entry entries[ROUND + 64];
struct pair p;
struct target t;
struct urccl_region local;
struct place places[PLACES];
uint8_t *bytes;
uint64_t state, ticks, submitted, ended, done[WORDS], unknown[WORDS];
uint32_t n, open, others, dialling, warming, connected, revoking, frozen, may_fail, retired;
uint64_t all_good, all_bad, all_notes, all_lost, all_revoked;

uint64_t below(uint64_t limit)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 20) % limit;
}

static uint64_t versions(const struct entry *e, uint32_t scribbled)
{
	return 2 * (uint64_t)(e - entries) + 2 + scribbled;
}

struct urccl_sqe *next_sqe(uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	submitted++;
	sqe->user_data = user_data;
	return sqe;
}

/* ---- entries ---- */

static int is_read(const struct entry *e)
{
	return e->opcode == URCCL_OP_READ || e->opcode == URCCL_OP_READV ||
	       e->opcode == URCCL_OP_READ_PAGED;
}

void look_untouched(const struct place *at)
{
	if (!at->version)
		return;
	CHECK(pattern_holds(bytes + at->off, at->len, at->off, at->version));
	CHECK(at->lost || pattern_holds(t.bytes + at->off, at->len, at->off, at->version));
}

static struct place *take_place(void)
{
	uint32_t i, from = (uint32_t)(below(16) ? below(SMALL) : SMALL + below(LARGE));

	for (i = 0; i < PLACES; i++) {
		struct place *at = &places[(from + i) % PLACES];

		if (at->busy || at->lost)
			continue;
		look_untouched(at);
		at->busy = 1;
		at->version = 0;
		return at;
	}
	return NULL;
}

static void prep_vector(struct urccl_sqe *sqe, struct entry *e)
{
	uint64_t at = 0, len;
	uint32_t i;

	for (i = 0; i < 4; i++) {
		len = i < 3 ? below(e->len - at + 1) : e->len - at;
		e->segs[i] = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)(bytes +
									      e->place->off + at),
						.len = len,
						.off = e->place->off + at,
						.remote = t.remote.id};
		at += len;
	}
	if (is_read(e))
		urccl_prep_readv(sqe, p.a.peer, e->segs, 4);
	else
		urccl_prep_writev(sqe, p.a.peer, e->segs, 4);
}

static void prep_paged(struct urccl_sqe *sqe, struct entry *e)
{
	uint64_t block = 1 + below(500), count = e->len / block;

	e->len = count * block;
	e->paged = (struct urccl_paged){.size = sizeof(e->paged),
					.ndims = 1,
					.local_off = e->place->off,
					.remote_off = e->place->off,
					.block = block};
	e->paged.dim[0] = (struct urccl_dim){.count = count,
					     .local_stride = (int64_t)block,
					     .remote_stride = (int64_t)block};
	if (is_read(e))
		urccl_prep_read_paged(sqe, t.remote, local, &e->paged, 1);
	else
		urccl_prep_write_paged(sqe, t.remote, local, &e->paged, 1);
}

static void prep_data(struct urccl_sqe *sqe, struct entry *e)
{
	uint64_t off = e->place->off;

	e->len = below(e->place->size - MARGIN);
	if (e->opcode == URCCL_OP_READ)
		urccl_prep_read(sqe, t.remote, bytes + off, e->len, off);
	else if (e->opcode == URCCL_OP_WRITE)
		urccl_prep_write(sqe, t.remote, bytes + off, e->len, off);
	else if (e->opcode == URCCL_OP_READV || e->opcode == URCCL_OP_WRITEV)
		prep_vector(sqe, e);
	else
		prep_paged(sqe, e);
	pattern_fill((is_read(e) ? t.bytes : bytes) + off, e->len, off, versions(e, 0));
}

static void prep_atomic(struct urccl_sqe *sqe, struct entry *e)
{
	uint64_t off = t.len - 8ull * WORDS;

	e->word = (uint32_t)below(WORDS);
	e->len = 8;
	if (e->opcode == URCCL_OP_FETCH_ADD)
		urccl_prep_fetch_add(sqe, t.remote, off + 8ull * e->word, 1);
	else
		urccl_prep_cmp_swap(sqe, t.remote, off + 8ull * e->word, UINT64_MAX, 7);
}

static void prep(struct urccl_sqe *sqe, struct entry *e)
{
	switch (e->opcode) {
	case URCCL_OP_NOP:
		urccl_prep_nop(sqe);
		break;
	case URCCL_OP_NOTIFY:
		urccl_prep_notify(sqe, p.a.peer, n, NULL, 0);
		e->promised = 1;
		break;
	case URCCL_OP_FETCH_ADD:
	case URCCL_OP_CMP_SWAP:
		prep_atomic(sqe, e);
		break;
	default:
		prep_data(sqe, e);
		break;
	}
}

static void add_flags(struct urccl_sqe *sqe, struct entry *e)
{
	uint32_t flags = 0;

	if (!below(8))
		flags |= URCCL_SQE_LINK;
	if (!below(64))
		flags |= URCCL_SQE_DRAIN;
	if (e->opcode != URCCL_OP_NOP) {
		flags |= below(16) ? 0 : (uint32_t)URCCL_SQE_FENCE;
		urccl_sqe_set_group(sqe, (uint32_t)below(4));
		urccl_sqe_set_class(sqe, (enum urccl_class)below(3));
	}
	if (e->place && !below(4)) {
		urccl_sqe_set_notify(sqe, n);
		e->promised = 1;
	}
	urccl_sqe_set_flags(sqe, flags);
	e->ms = TIMEOUT_MS;
	if (!below(12)) {
		uint32_t us = (uint32_t)(1 + below(below(2) ? 300 : 20000));

		urccl_sqe_set_timeout(sqe, us);
		e->ms = us / 1000 + 1;
	}
}

void start(void)
{
	struct entry *e = &entries[n];
	struct urccl_sqe *sqe;

	*e = (struct entry){.opcode = (uint32_t)below(URCCL_OP_CMP_SWAP + 1)};
	if (e->opcode >= URCCL_OP_READ && e->opcode <= URCCL_OP_WRITE_PAGED) {
		e->place = take_place();
		if (!e->place)
			return;
	}
	sqe = next_sqe(0);
	prep(sqe, e);
	add_flags(sqe, e);
	urccl_sqe_set_data64(sqe, BASE + n);
	e->tick = ticks;
	e->open = 1;
	open++;
	n++;
}

void cancel(void)
{
	static const enum urccl_cancel_by by[] = {URCCL_BY_USER_DATA, URCCL_BY_USER_DATA,
						  URCCL_BY_PEER, URCCL_BY_REGION, URCCL_BY_REMOTE};
	enum urccl_cancel_by how = by[below(below(8) ? 2 : 5)];
	struct urccl_sqe *sqe = next_sqe(OTHER);
	uint64_t key = BASE + (n ? n - 1 - below(n < 32 ? n : 32) : 0);

	if (how == URCCL_BY_PEER)
		key = p.a.peer.id;
	if (how == URCCL_BY_REGION)
		key = local.id;
	if (how == URCCL_BY_REMOTE)
		key = t.remote.id;
	urccl_prep_cancel(sqe, how, key);
	sqe->user_data = OTHER;
	others++;
}

/* ---- ends ---- */

static void in_time(const struct entry *e)
{
	CHECK_LE(ticks - e->tick, e->ms + SLACK_MS);
}

static int res_allowed(const struct entry *e, int64_t res)
{
	if (res == -ECANCELED || res == -ETIMEDOUT)
		return 1;
	if (res == -EIO)
		return may_fail && e->opcode != URCCL_OP_NOP;
	return res == -ECONNRESET || res == -ESTALE || (res == -EACCES && all_revoked);
}

/* Both buffers are the program's: it overwrites them, and nobody else may. */
static void end_data(struct entry *e, const struct urccl_cqe *cqe)
{
	struct place *at = e->place;
	uint64_t off = at->off;

	if (cqe->res >= 0)
		CHECK(pattern_holds((is_read(e) ? bytes : t.bytes) + off, e->len, off,
				    versions(e, 0)));
	at->busy = 0;
	at->len = e->len;
	at->version = versions(e, 1);
	at->lost = cqe->res < 0 && !is_read(e) && !(cqe->flags & URCCL_CQE_REMOTE_QUIET);
	retired += at->lost;
	pattern_fill(bytes + off, e->len, off, at->version);
	if (!at->lost)
		pattern_fill(t.bytes + off, e->len, off, at->version);
}

static void on_end(struct entry *e, const struct urccl_cqe *cqe)
{
	CHECK(e >= entries && e < entries + n && e->open);
	if (!e->outcome)
		in_time(e);
	if (cqe->flags & URCCL_CQE_MORE) {
		CHECK(!e->outcome);
		e->outcome = 1;
		return;
	}
	e->open = 0;
	open--;
	e->good = cqe->res >= 0;
	e->unknown = !!(cqe->flags & URCCL_CQE_UNKNOWN);
	if (!e->good && !res_allowed(e, cqe->res)) {
		char why[300];

		urccl_explain(p.a.ctx, cqe, why, sizeof(why));
		fprintf(stderr, "opcode %u, %lld: %s\n", e->opcode, (long long)cqe->res, why);
		CHECK(!"a reason that it was given");
	}
	if (e->good)
		CHECK_EQ(cqe->res, (int64_t)e->len);
	all_good += e->good;
	all_bad += !e->good;
	if (e->opcode == URCCL_OP_FETCH_ADD) {
		done[e->word] += e->good;
		unknown[e->word] += !e->good && e->unknown;
	}
	if (e->place)
		end_data(e, cqe);
}

void tick(void)
{
	struct urccl_sqe *sqe = next_sqe(TICKING);

	urccl_prep_timeout(sqe, 1000000, 0);
	sqe->user_data = TICKING;
	CHECK_GE(urccl_submit(p.a.ring), 1);
}

void on_a(const struct urccl_cqe *cqe)
{
	ended += !(cqe->flags & URCCL_CQE_MORE);
	if (cqe->user_data >= BASE) {
		on_end(&entries[cqe->user_data - BASE], cqe);
	} else if (cqe->user_data == TICKING) {
		CHECK(cqe->res == -ETIME || cqe->res == -ECANCELED);
		ticks++;
		tick();
	} else if (cqe->user_data == WATCHING) {
		all_lost += urccl_cqe_kind(cqe) == URCCL_KIND_LOST;
		if (urccl_cqe_kind(cqe) == URCCL_KIND_LOST && cqe->peer == p.a.peer.id)
			connected = 0;
	} else if (cqe->user_data == WARMING) {
		warming = 0;
	} else if (cqe->user_data == DIALLING) {
		dialling = 0;
		connected = !cqe->res;
		if (connected)
			p.a.peer.id = (uint32_t)cqe->handle;
	} else {
		others--;
	}
}

static void on_note(const struct urccl_cqe *cqe)
{
	struct entry *e = &entries[cqe->tag];

	CHECK(cqe->tag < n && e->promised && !e->heard);
	e->heard = 1;
	e->heard_res = cqe->res;
	all_notes++;
	if (cqe->res >= 0 && e->open && e->place && !is_read(e))
		CHECK(pattern_holds(t.bytes + e->place->off, e->len, e->place->off,
				    versions(e, 0)));
}

void on_b(const struct urccl_cqe *cqe)
{
	if (cqe->user_data == REVOKING)
		revoking = 0;
	else if (urccl_cqe_kind(cqe) == URCCL_KIND_NOTE)
		on_note(cqe);
	else if (urccl_cqe_kind(cqe) == URCCL_KIND_PEER)
		p.b.peer.id = cqe->peer;
}
