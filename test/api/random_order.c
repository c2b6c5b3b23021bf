/* SPDX-License-Identifier: Apache-2.0 */
/* Random entries of every kind with random order flags against a model of what they promise: each
 * ends once; LINK, DRAIN and FENCE let nothing start that must wait, CANCEL ends after all it
 * names, notifications and messages come once or are reported, an atomic is done as often as it
 * says, no word is too late for what waits for it, or set for nothing, room comes back. In between
 * references to the peer come and go, and at times the last one goes in the middle of everything.
 */
#include "random_order.h"
#include "random.h"

#define PHASE	 1000u /* entries between two looks at an empty ring */
#define BYTES	 (2u << 20)
#define WATCHING 0x3a7cu
#define UNHEARD	 INT64_MIN

static struct urccl_region local;
static uint8_t *bytes, blob[URCCL_METADATA_MAX];
static uint32_t blob_len, watching;
static uint32_t adds_done, adds_unknown, heard_b;
static uint64_t seed;
static struct {
	uint64_t ticks, set[N + 64];
} words;

#ifdef __SANITIZE_THREAD__
const char *__tsan_default_suppressions(void);

/* Entries that are under way together move the same bytes here, of which a program must make no
 * sense. Where two threads drive a provider, that is a race between them. */
const char *__tsan_default_suppressions(void)
{
	return "race:test/provider/wire.c\n";
}
#endif

static uint32_t below(uint32_t max)
{
	return (uint32_t)(random_next(&seed) % max);
}

/* ---- making entries ---- */

static void maybe_tell(struct entry *e, struct urccl_sqe *sqe)
{
	if (below(4))
		return;
	e->promised = 1;
	urccl_sqe_set_notify(p.a.ring, sqe, n, NULL, 0);
}

static void maybe_words(struct entry *e, struct urccl_sqe *sqe)
{
	if (!below(6)) {
		e->wait = words.ticks + below(4);
		urccl_sqe_set_wait(p.a.ring, sqe, &words.ticks, e->wait);
	}
	if (!below(6)) {
		e->signals = 1;
		urccl_sqe_set_signal(p.a.ring, sqe, &words.set[n], 1);
	}
}

static void prep_data(struct entry *e, struct urccl_sqe *sqe)
{
	uint32_t len = below(16) ? below(3000) : below(BYTES / 2), off = below(BYTES / 2);
	uint32_t kind = below(6);

	e->segs[0] =
		(struct urccl_seg){(uint64_t)(uintptr_t)bytes, len, off, local.id, t.remote.id};
	e->segs[1] = (struct urccl_seg){(uint64_t)(uintptr_t)bytes + off, 100, 0, 0, t.remote.id};
	e->paged = (struct urccl_paged){.size = sizeof(e->paged), .ndims = 1, .block = 64};
	e->paged.dim[0] = (struct urccl_dim){.count = len / 64,
					     .local_stride = 64,
					     .remote_stride = below(2) ? 64 : 128};
	if (kind == 0)
		urccl_prep_write(sqe, t.remote, bytes, len, off);
	else if (kind == 1)
		urccl_prep_read(sqe, t.remote, bytes + off, len, off);
	else if (kind == 2)
		urccl_prep_writev(sqe, p.a.peer, e->segs, 2);
	else if (kind == 3)
		urccl_prep_readv(sqe, p.a.peer, e->segs, 2);
	else if (kind == 4)
		urccl_prep_write_paged(sqe, t.remote, local, &e->paged, 1);
	else
		urccl_prep_read_paged(sqe, t.remote, local, &e->paged, 1);
	if (kind < 2 && below(2))
		urccl_sqe_set_region(sqe, local);
	maybe_tell(e, sqe);
	maybe_words(e, sqe);
}

/* Each that is done adds 1 to the word behind the bytes that all others move. */
static void prep_atomic(struct entry *e, struct urccl_sqe *sqe)
{
	if (below(4))
		urccl_prep_fetch_add(sqe, t.remote, BYTES, 1);
	else
		urccl_prep_cmp_swap(sqe, t.remote, BYTES + 8, below(2), below(2));
	maybe_tell(e, sqe);
}

static void prep_cancel(struct urccl_sqe *sqe)
{
	uint32_t kind = below(24);

	if (kind == 0)
		urccl_prep_cancel(sqe, URCCL_CANCEL_BY_ALL, 0);
	else if (kind == 1)
		urccl_prep_cancel(sqe, URCCL_CANCEL_BY_PEER, p.a.peer.id);
	else if (kind == 2)
		urccl_prep_cancel(sqe, URCCL_CANCEL_BY_REGION, local.id);
	else if (kind == 3)
		urccl_prep_cancel(sqe, URCCL_CANCEL_BY_REMOTE, t.remote.id);
	else if (kind == 4)
		urccl_prep_cancel(sqe, URCCL_CANCEL_BY_GROUP, 1 + below(3));
	else
		urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA,
				  BASE + n - below(n < 40 ? n + 1 : 40));
}

/* Of memory and remotes of their own, which come and go. */
static void prep_slow(struct entry *e, struct urccl_sqe *sqe)
{
	static uint8_t memory[1u << 16];
	uint32_t kind = below(4);

	e->range = (struct urccl_range){.addr = (uintptr_t)memory + below(60000),
					.len = 1 + below(5000),
					.fd = -1};
	if (kind == 0 && nregions)
		urccl_prep_unregister(sqe, regions[--nregions]);
	else if (kind == 1)
		urccl_prep_import(sqe, p.a.peer, &t.advert, 1);
	else if (kind == 2)
		urccl_prep_warm(sqe, p.a.peer);
	else
		urccl_prep_register(sqe, &e->range, 1, below(2) ? 0 : URCCL_RIGHT_READ);
}

static void prep_other(struct entry *e, struct urccl_sqe *sqe)
{
	uint32_t kind = below(17);

	if (kind >= 15) {
		prep_slow(e, sqe);
	} else if (kind >= 14) {
		urccl_prep_msg_ring(sqe, urccl_ring_id(p.a.ring), 5, 6, n);
	} else if (kind >= 12) {
		prep_atomic(e, sqe);
	} else if (kind < 3) {
		urccl_prep_nop(sqe);
	} else if (kind < 6) {
		urccl_prep_notify(sqe, p.a.peer, n, NULL, 0);
		e->promised = 1;
	} else if (kind < 8) {
		urccl_prep_timeout(sqe, below(3000000), below(6), below(2));
	} else if (kind == 8 && refs < 4) {
		urccl_prep_connect(sqe, blob, blob_len);
	} else if (kind == 9 && refs > 1) {
		refs--;
		urccl_prep_close(sqe, p.a.peer);
	} else {
		prep_cancel(sqe);
	}
}

static void add_flags(struct entry *e, struct urccl_sqe *sqe)
{
	uint32_t op = sqe->opcode;

	e->has_peer = op >= URCCL_OP_READ && op <= URCCL_OP_CMP_SWAP;
	urccl_sqe_add_flags(sqe, (below(5) ? 0 : URCCL_SQE_LINK) |
					 (below(40) ? 0 : URCCL_SQE_DRAIN) |
					 (below(4) ? 0 : URCCL_SQE_SKIP_SUCCESS) |
					 (below(6) ? 0 : URCCL_SQE_NO_WAKE));
	if (op == URCCL_OP_CONNECT || op == URCCL_OP_CLOSE || op == URCCL_OP_REGISTER ||
	    op == URCCL_OP_IMPORT) /* their ends count */
		sqe->flags &= (uint16_t)~URCCL_SQE_SKIP_SUCCESS;
	if (e->has_peer) {
		urccl_sqe_add_flags(sqe, below(6) ? 0 : URCCL_SQE_FENCE);
		urccl_sqe_set_class(sqe, (enum urccl_class)below(3));
		urccl_sqe_set_group(sqe, below(4));
	}
	if (op != URCCL_OP_TIMEOUT && op != URCCL_OP_CONNECT && op != URCCL_OP_CLOSE && !below(16))
		urccl_sqe_set_deadline_us(sqe, 1 + below(2000));
	if (!below(40) && op != URCCL_OP_CLOSE) {
		sqe->reserved = e->bad = 1;
	} else if (!below(40) &&
		   (op == URCCL_OP_READ || op == URCCL_OP_WRITE || op == URCCL_OP_FETCH_ADD)) {
		sqe->off = t.len + 1;
		e->bad = 1;
	}
}

static struct entry *next_entry(struct urccl_sqe **sqe)
{
	struct entry *e = &entries[n];

	*sqe = side_sqe(&p.a);
	CHECK(n < N + 64);
	e->heard = UNHEARD;
	return e;
}

static void add(struct entry *e, struct urccl_sqe *sqe)
{
	urccl_sqe_set_data64(sqe, BASE + n++);
	e->sqe = *sqe;
	e->outcome = sqe->flags & URCCL_SQE_SKIP_SUCCESS ? SILENT : OPEN;
	nopen += e->outcome == OPEN;
	asking += sqe->opcode == URCCL_OP_CONNECT || sqe->opcode == URCCL_OP_CLOSE;
}

static void start(void)
{
	struct urccl_sqe *sqe;
	struct entry *e = next_entry(&sqe);

	if (below(2))
		prep_data(e, sqe);
	else
		prep_other(e, sqe);
	add_flags(e, sqe);
	if (n % PHASE == PHASE - 1)
		sqe->flags &= (uint16_t)~URCCL_SQE_LINK;
	add(e, sqe);
}

/* ---- taking ---- */

/* Of an entry that has ended. */
static void check_words(uint32_t i)
{
	const struct entry *e = &entries[i];
	uint64_t set = __atomic_load_n(&words.set[i], __ATOMIC_ACQUIRE);

	CHECK(e->outcome != DONE || e->wait <= words.ticks);
	CHECK_EQ(set, e->outcome == DONE && e->signals);
}

static void take(uint64_t ns)
{
	struct urccl_cqe cqe;

	__atomic_store_n(&words.ticks, words.ticks + below(2), __ATOMIC_RELEASE);
	while (side_take_within(&p.a, &p.b, ns, &cqe, NULL)) {
		ns = 0;
		if (urccl_cqe_kind(&cqe) == URCCL_KIND_MSG) {
			CHECK(cqe.tag < n && entries[cqe.tag].sqe.opcode == URCCL_OP_MSG_RING);
			CHECK(!entries[cqe.tag].messages++);
			continue;
		}
		if (cqe.user_data == WATCHING) {
			watching = 0;
			continue;
		}
		if (cqe.flags & URCCL_CQE_MORE)
			continue;
		on_end((uint32_t)(cqe.user_data - BASE), &cqe);
		check_words((uint32_t)(cqe.user_data - BASE));
	}
}

/* b's events; 1: LOST. */
static int take_b(uint64_t ns)
{
	struct urccl_cqe cqe;
	int lost = 0;

	while (side_take_within(&p.b, &p.a, ns, &cqe, NULL)) {
		ns = 0;
		lost |= urccl_cqe_kind(&cqe) == URCCL_KIND_LOST;
		if (urccl_cqe_kind(&cqe) != URCCL_KIND_NOTE)
			continue;
		CHECK(cqe.tag < n && entries[cqe.tag].promised);
		CHECK_EQ(entries[cqe.tag].heard, UNHEARD);
		entries[cqe.tag].heard = cqe.res;
		heard_b++;
	}
	return lost;
}

/* Its receiver is to hear of its end, for certain. */
static int is_owed(const struct entry *e)
{
	return e->promised && !closing && e->res == -ECANCELED && !e->unknown &&
	       !e->sqe.deadline_us;
}

static void check_notes(uint32_t i)
{
	struct entry *e = &entries[i];

	if (!e->promised)
		return;
	if (e->outcome == DONE)
		CHECK_GE(e->heard, 0);
	else if (!e->unknown)
		CHECK(e->heard < 0);
	if (is_owed(e))
		CHECK_EQ(e->heard, -ECANCELED);
}

/* Those that may have been done may also be done later. */
static void check_adds(void)
{
	uint64_t word = __atomic_load_n((uint64_t *)(void *)(t.bytes + BYTES), __ATOMIC_SEQ_CST);
	uint32_t i;

	for (i = phase; i < n; i++) {
		if (entries[i].sqe.opcode != URCCL_OP_FETCH_ADD)
			continue;
		adds_done += entries[i].outcome == DONE;
		adds_unknown += entries[i].unknown;
	}
	CHECK_GE(word, adds_done);
	CHECK_LE(word, adds_done + adds_unknown);
}

/* Everything ends; then what was silent is known to have ended, and all room is back. */
static void end_phase(void)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	struct urccl_sqe *sqe;
	struct entry *e = next_entry(&sqe);
	uint32_t i, told, lost = 0;

	urccl_prep_nop(sqe);
	urccl_sqe_add_flags(sqe, URCCL_SQE_DRAIN);
	add(e, sqe);
	while (nopen || (closing && !lost)) {
		CHECK_GE(urccl_submit(p.a.ring), 0);
		take(100000);
		lost |= (uint32_t)take_b(0);
		CHECK(!is_late(late));
	}
	CHECK_EQ(e->outcome, DONE);
	for (; nremotes; nremotes--)
		CHECK_EQ(urccl_unimport(p.a.ctx, remotes[nremotes - 1]), closing ? -ESTALE : 0);
	for (i = phase; i < n; i++)
		while (is_owed(&entries[i]) && entries[i].heard == UNHEARD && now_ns() <= late)
			take_b(100000);
	for (i = 0; i < 20; i++) { /* what it may hear of comes one by one */
		told = heard_b;
		take_b(100000);
		if (heard_b != told)
			i = 0;
	}
	for (i = phase; i < n; i++) {
		check_notes(i);
		check_words(i);
		if (entries[i].sqe.opcode == URCCL_OP_MSG_RING)
			CHECK_EQ(entries[i].messages, entries[i].outcome == DONE);
	}
	check_adds();
	CHECK_EQ(urccl_sq_space_left(p.a.ring), p.ring_params.entries - watching);
	phase = n;
}

static void close_all(void)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	struct urccl_sqe *sqe;
	struct entry *e;

	/* For references that come and go. They may wait for notifications, and those for b's event
	 * slots. */
	while (asking) {
		take(100000);
		take_b(0);
		CHECK(!is_late(late));
	}
	for (closing = 1; refs; refs--) {
		while (!urccl_sq_space_left(p.a.ring)) {
			CHECK_GE(urccl_submit(p.a.ring), 0);
			take(100000);
			take_b(0);
			CHECK(!is_late(late));
		}
		e = next_entry(&sqe);
		urccl_prep_close(sqe, p.a.peer);
		add(e, sqe);
	}
}

static void meet_again(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.b);

	closing = 0;
	refs = 1;
	side_connect(&p.a, &p.b);
	urccl_prep_watch(sqe, p.b.peer);
	CHECK_EQ(urccl_submit(p.b.ring), 1);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &t.advert, 1, &t.remote), 0);
}

int main(int argc, char **argv)
{
	uint32_t k;

	pair_options(&p, argc, argv);
	/* The default is no promise of a slow build's. */
	if (PAIR_SLOW)
		p.params.deadline_ms = 300000;
	pair_open(&p);
	seed = p.seed * 0x9e3779b97f4a7c15ull + 1;
	target_open(&p, &t, BYTES + 64, p.shared);
	bytes = calloc(1, BYTES);
	CHECK(bytes);
	local = side_register(&p.a, bytes, BYTES, 0);
	side_register(&p.a, &words, sizeof(words), URCCL_RIGHT_WRITE);
	blob_len = (uint32_t)urccl_metadata(p.b.ctx, blob, sizeof(blob));
	watching = refs = 1;
	while (n < N) {
		for (k = below(12); k && urccl_sq_space_left(p.a.ring) > 8; k--) {
			start();
			if (n % PHASE == 0)
				break;
		}
		CHECK_GE(urccl_submit(p.a.ring), 0);
		take(below(4) ? 0 : 50000);
		take_b(0);
		if (n == phase || n % PHASE)
			continue;
		if (below(2))
			close_all();
		end_phase();
		if (closing)
			meet_again();
	}
	pair_close(&p);
	return 0;
}
