/* SPDX-License-Identifier: Apache-2.0 */
/* What must be true of each entry of storm.c when it ends, and of each notification. */
#include "storm.h"

static void in_time(const struct entry *e)
{
	CHECK_LE(ticks - e->tick, e->ms + SLACK_MS);
}

static int is_owed(const struct entry *e, const struct urccl_cqe *cqe)
{
	return e->flags & URCCL_SQE_ACKED && !e->promised && !(cqe->flags & URCCL_CQE_REMOTE_QUIET);
}

static int first_hold(const struct entry *e, uint64_t len)
{
	const uint8_t *base = is_read(e) ? bytes : t.bytes;
	int hold = pattern_holds(base + e->place->off, len, e->place->off, versions(e, 0));

	all_torn += !hold && e->torn;
	return hold || e->torn;
}

static int bytes_hold(const struct entry *e)
{
	return first_hold(e, e->len);
}

static uint64_t bytes_before(const struct entry *e, uint32_t segment)
{
	uint64_t sum = 0;
	uint32_t i;

	if (segment == UINT32_MAX)
		return e->len;
	if (e->opcode == URCCL_OP_READ_PAGED || e->opcode == URCCL_OP_WRITE_PAGED)
		return segment * e->paged.block;
	for (i = 0; i < segment; i++)
		sum += e->segs[i].len;
	return sum;
}

/* A program may go on from the segment that is named. */
static void check_placed(const struct entry *e, const struct urccl_cqe *cqe)
{
	if (e->place && cqe->res < 0)
		CHECK(first_hold(e, bytes_before(e, cqe->fail.segment)));
}

/* Both buffers are the program's: it overwrites them, and nobody else may. But those of the peer
 * that were only acknowledged are not to be looked at yet. */
static void end_data(struct entry *e, const struct urccl_cqe *cqe)
{
	struct place *at = e->place;
	uint64_t off = at->off;

	at->owed = cqe->res >= 0 && is_owed(e, cqe) ? (uint32_t)(e - entries) + 1 : 0;
	at->lost = e->told && at->owed;
	at->owed = e->told ? 0 : at->owed;
	if (cqe->res >= 0 && !at->owed && !at->lost)
		CHECK(bytes_hold(e));
	at->busy = 0;
	at->len = e->len;
	at->version = versions(e, 1);
	at->lost |= cqe->res < 0 && !is_read(e) && !(cqe->flags & URCCL_CQE_REMOTE_QUIET);
	retired += at->lost;
	pattern_fill(bytes + off, e->len, off, at->version);
	if (!at->lost && !at->owed)
		pattern_fill(t.bytes + off, e->len, off, at->version);
}

/* The notification behind a FENCE has come: so have the bytes of what it follows. */
static void proves(const struct entry *fence)
{
	uint32_t i;

	for (i = 0; i < PLACES; i++) {
		struct place *at = &places[i];
		const struct entry *e = at->owed ? &entries[at->owed - 1] : NULL;

		if (!e || e > fence || e->peer != fence->peer ||
		    (fence->group && fence->group != e->group))
			continue;
		CHECK(bytes_hold(e));
		at->owed = 0;
		all_proved++;
		pattern_fill(t.bytes + at->off, at->len, at->off, at->version);
	}
}

/* Somebody was told of all that is lost: also of what ended in silence, before that or after. */
void owe_nothing(void)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		entries[i].told |= entries[i].open && entries[i].flags & URCCL_SQE_SKIP_SUCCESS;
	for (i = 0; i < PLACES; i++) {
		if (!places[i].owed)
			continue;
		places[i].owed = 0;
		places[i].lost = 1;
		retired++;
	}
}

/* It may be that one FENCE which is told of what was lost, as those behind it are not: unless an
 * entry that it waited for failed, it failed for itself, or is of a peer that is gone. */
static int may_tell(const struct urccl_cqe *cqe)
{
	char why[300];

	if (cqe->res != -ECANCELED)
		return 0;
	urccl_explain(p.a.ctx, cqe, why, sizeof(why));
	return !strstr(why, "the fence waits for");
}

static void end_fence(const struct entry *e, const struct urccl_cqe *cqe)
{
	if (!(e->flags & URCCL_SQE_FENCE))
		return;
	if (!e->good && may_tell(cqe))
		owe_nothing();
	else if (e->good && e->promised)
		proves(e);
}

static void check_flags(const struct entry *e, const struct urccl_cqe *cqe)
{
	uint32_t checked = cqe->flags & URCCL_CQE_CHECKED;

	CHECK(!checked == !(e->flags & URCCL_SQE_CHECKSUM && (e->good || cqe->res == -EBADMSG)));
	if (e->good && e->flags & URCCL_SQE_NO_REPLAY)
		CHECK(!(cqe->path & URCCL_PATH_REPLAYED));
	CHECK(!e->good || !(e->flags & URCCL_SQE_SKIP_SUCCESS));
}

static void ends(struct entry *e, const struct urccl_cqe *cqe)
{
	e->open = 0;
	nopen--;
	e->res = cqe->res;
	e->good = cqe->res >= 0;
	e->unknown = !!(cqe->flags & URCCL_CQE_UNKNOWN);
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
	end_fence(e, cqe);
}

/* What has no completion has succeeded, once somebody ended that waited for all before. */
static void silent_until(const struct entry *last)
{
	struct entry *e;

	for (e = entries; e < last; e++) {
		struct urccl_cqe cqe = {.res = (int64_t)e->len};

		if (!e->open)
			continue;
		CHECK(e->flags & URCCL_SQE_SKIP_SUCCESS && !e->outcome);
		all_silent++;
		ended++;
		ends(e, &cqe);
	}
}

static void on_end(struct entry *e, const struct urccl_cqe *cqe)
{
	CHECK(e >= entries && e < entries + n && e->open);
	if (!e->outcome)
		in_time(e);
	check_placed(e, cqe);
	if (cqe->flags & URCCL_CQE_MORE) {
		CHECK(!e->outcome);
		e->outcome = 1;
		return;
	}
	if (cqe->res >= 0 && e->flags & URCCL_SQE_DRAIN)
		silent_until(e);
	doubtful |= cqe->res == -ESTALE;
	ends(e, cqe);
	if (!e->good)
		check_cause(e, cqe);
	check_flags(e, cqe);
}

void drain(void)
{
	struct urccl_sqe *sqe;

	urccl_prep_nop(next_sqe(0)); /* a chain ends with it */
	others++;
	sqe = next_sqe(0);
	urccl_prep_nop(sqe);
	urccl_sqe_add_flags(sqe, URCCL_SQE_DRAIN);
	sqe->user_data = DRAINED;
	draining = 1;
}

/* Of an earlier incarnation. */
void try_stale(struct urccl_peer peer, struct urccl_remote remote)
{
	struct urccl_sqe *sqe = next_sqe(0);

	urccl_prep_nop(sqe); /* a chain ends with it */
	others++;
	sqe = next_sqe(0);
	urccl_prep_write(sqe, remote, bytes, 1, 0);
	sqe->user_data = STALE;
	sqe = next_sqe(0);
	urccl_prep_notify(sqe, peer, 0, NULL, 0);
	sqe->user_data = STALE;
	stale = 2;
}

void watch(void)
{
	struct urccl_sqe *sqe = next_sqe(0);

	urccl_prep_watch(sqe, (struct urccl_peer){0});
	sqe->user_data = WATCHING;
}

void tick(void)
{
	struct urccl_sqe *sqe = next_sqe(TICKING);

	urccl_prep_timeout(sqe, 1000000, 0, 0);
	sqe->user_data = TICKING;
	CHECK_GE(urccl_submit(p.a.ring), 1);
}

/* A CANCEL of all ends it too; who is lost before the next one is there is not told of, but what
 * is entered then ends with -ESTALE. */
static void on_watch(const struct urccl_cqe *cqe)
{
	if (urccl_cqe_kind(cqe) == URCCL_KIND_OP) {
		CHECK_EQ(cqe->res, -ECANCELED);
		watch();
		CHECK_GE(urccl_submit(p.a.ring), 1);
	}
	if (urccl_cqe_kind(cqe) != URCCL_KIND_LOST)
		return;
	all_lost++;
	owe_nothing();
	if (cqe->peer == p.a.peer.id)
		connected = 0;
}

void on_a(const struct urccl_cqe *cqe)
{
	ended += !(cqe->flags & URCCL_CQE_MORE);
	if (cqe->user_data >= BASE) {
		on_end(&entries[cqe->user_data - BASE], cqe);
	} else if (cqe->user_data == TICKING) {
		CHECK(cqe->res == -ETIME || cqe->res == -ECANCELED);
		ticks += cqe->res == -ETIME;
		tick();
	} else if (cqe->user_data == WATCHING) {
		on_watch(cqe);
	} else if (cqe->user_data == DRAINED) {
		draining = 0;
		if (!cqe->res)
			silent_until(entries + n);
	} else if (cqe->user_data == STALE) {
		CHECK_EQ(cqe->res, -ESTALE);
		stale--;
	} else if (cqe->user_data == WARMING) {
		warming = 0;
		causes.warm_failed |= cqe->res < 0;
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
		CHECK(bytes_hold(e));
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
