/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of storm.c; storm_ends.c has what must be true of each when it ends. */
#include "storm.h"

struct entry entries[ROUND + 64];
struct pair p;
struct target t;
struct urccl_region local;
struct place places[PLACES];
uint8_t *bytes;
uint64_t state, ticks, submitted, ended, done[WORDS], unknown[WORDS];
uint32_t n, nopen, others, dialling, warming, connected, revoking, frozen, retired;
uint32_t draining, stale, doubtful, calm;
struct causes causes;
uint64_t all_good, all_bad, all_notes, all_lost, all_revoked, all_restarted, all_proved, all_silent,
	all_torn;

static const struct entry *last;  /* of the SQEs, if that was an entry */
static const struct entry *chain; /* what the newest SQE is linked to */

uint64_t below(uint64_t limit)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 20) % limit;
}

struct urccl_sqe *next_sqe(uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	submitted++;
	sqe->user_data = user_data;
	chain = last && last->flags & URCCL_SQE_LINK ? last : NULL;
	last = NULL;
	return sqe;
}

/* ---- entries ---- */

void look_untouched(const struct place *at)
{
	if (!at->version)
		return;
	CHECK(pattern_holds(bytes + at->off, at->len, at->off, at->version));
	CHECK(at->lost || at->owed ||
	      pattern_holds(t.bytes + at->off, at->len, at->off, at->version));
}

static struct place *take_place(void)
{
	uint32_t i, from = (uint32_t)(below(16) ? below(SMALL) : SMALL + below(LARGE));

	for (i = 0; i < PLACES; i++) {
		struct place *at = &places[(from + i) % PLACES];

		if (at->busy || at->lost || at->owed)
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
	if (e->opcode == URCCL_OP_READ || e->opcode == URCCL_OP_WRITE)
		urccl_sqe_set_region(sqe, local);
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

static uint32_t maybe_flag(uint32_t one_in, uint32_t flag)
{
	return below(one_in) ? 0 : flag;
}

static uint32_t data_flags(const struct entry *e)
{
	uint32_t flags = maybe_flag(8, URCCL_SQE_NO_REPLAY);

	if (causes.flips ? below(16) != 0 : !below(8))
		flags |= URCCL_SQE_CHECKSUM;
	if (!is_read(e))
		flags |= maybe_flag(5, URCCL_SQE_ACKED);
	return flags;
}

static void add_flags(struct urccl_sqe *sqe, struct entry *e)
{
	uint32_t flags = maybe_flag(8, calm ? 0 : URCCL_SQE_LINK) |
			 maybe_flag(64, URCCL_SQE_DRAIN) | maybe_flag(16, URCCL_SQE_SKIP_SUCCESS);

	if (e->opcode != URCCL_OP_NOP) {
		flags |= maybe_flag(16, URCCL_SQE_FENCE);
		e->group = (uint32_t)below(4);
		urccl_sqe_set_group(sqe, e->group);
		urccl_sqe_set_class(sqe, (enum urccl_class)below(3));
	}
	if (e->place)
		flags |= data_flags(e);
	e->torn = e->place && causes.flips && !(flags & URCCL_SQE_CHECKSUM);
	if (e->place && !below(4)) {
		urccl_sqe_set_notify(p.a.ring, sqe, n, NULL, 0);
		e->promised = 1;
	}
	urccl_sqe_add_flags(sqe, flags);
	e->flags = flags;
	e->peer = p.a.peer.id;
	e->ms = DEADLINE_MS;
	if (!below(12) && !calm) {
		uint32_t us = (uint32_t)(1 + below(below(2) ? 300 : 20000));

		urccl_sqe_set_deadline_us(sqe, us);
		e->ms = us / 1000 + 1;
		e->own_us = us;
	}
}

static void enter(struct urccl_sqe *sqe, struct entry *e)
{
	urccl_sqe_set_data64(sqe, BASE + n);
	e->tick = ticks;
	e->remote = t.remote.id;
	e->after = chain;
	last = e;
	e->open = 1;
	nopen++;
	n++;
}

/* What was acknowledged is asked for soon, by a notification behind it, or in its time. */
static void ask_for(const struct entry *acked)
{
	struct entry *e = &entries[n];
	struct urccl_sqe *sqe = next_sqe(0);

	*e = (struct entry){.opcode = URCCL_OP_NOTIFY,
			    .promised = 1,
			    .group = below(2) ? acked->group : 0,
			    .flags = URCCL_SQE_FENCE,
			    .peer = acked->peer,
			    .ms = DEADLINE_MS};
	urccl_prep_notify(sqe, p.a.peer, n, NULL, 0);
	urccl_sqe_add_flags(sqe, e->flags);
	urccl_sqe_set_group(sqe, e->group);
	enter(sqe, e);
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
	enter(sqe, e);
	if (!(e->flags & URCCL_SQE_ACKED) || below(4) == 0)
		return;
	ask_for(e);
	ask_for(e); /* an earlier failure ends the first */
}

static int is_of(const struct entry *e, enum urccl_cancel_by how, uint64_t key)
{
	switch (how) {
	case URCCL_CANCEL_BY_USER_DATA:
		return key == BASE + (uint64_t)(e - entries);
	case URCCL_CANCEL_BY_PEER:
		return e->opcode != URCCL_OP_NOP && e->peer == key;
	case URCCL_CANCEL_BY_REGION:
		return e->place != NULL;
	case URCCL_CANCEL_BY_REMOTE:
		return e->opcode != URCCL_OP_NOP && e->opcode != URCCL_OP_NOTIFY &&
		       e->remote == key;
	default:
		return 1;
	}
}

void cancel(void)
{
	static const enum urccl_cancel_by by[] = {
		URCCL_CANCEL_BY_USER_DATA, URCCL_CANCEL_BY_USER_DATA, URCCL_CANCEL_BY_PEER,
		URCCL_CANCEL_BY_REGION,	   URCCL_CANCEL_BY_REMOTE,    URCCL_CANCEL_BY_ALL};
	enum urccl_cancel_by how = by[below(below(8) ? 2 : 6)];
	struct urccl_sqe *sqe = next_sqe(OTHER);
	uint32_t i;
	uint64_t key = BASE + (n ? n - 1 - below(n < 32 ? n : 32) : 0);

	if (how == URCCL_CANCEL_BY_PEER)
		key = p.a.peer.id;
	if (how == URCCL_CANCEL_BY_REGION)
		key = local.id;
	if (how == URCCL_CANCEL_BY_REMOTE)
		key = t.remote.id;
	if (how == URCCL_CANCEL_BY_ALL)
		key = 0;
	urccl_prep_cancel(sqe, how, key);
	sqe->user_data = OTHER;
	others++;
	for (i = 0; i < n; i++)
		entries[i].cancelled |= entries[i].open && is_of(&entries[i], how, key);
}
