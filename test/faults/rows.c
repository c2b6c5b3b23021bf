/* SPDX-License-Identifier: Apache-2.0 */
/* One cell: the fault comes while entries are under way; every one ends once, in time and with the
 * right code; what succeeded is there; new entries on the old handles fail as they should; and when
 * the peer goes on it hears of what will not come, and our memory is left alone. */
#include <pthread.h>
#include <sys/mman.h>
#include "faults.h"

#define MS	  1000000ull
#define SLACK_MS  50u  /* after a deadline, and after the kernel's word of a death */
#define SHORT_MS  300u /* deadline */
#define LONG_MS	  10000u
#define DEAD_MS	  1000u
#define ALIVE_MS  2000u	 /* dead_after of a peer that is soon back, at first */
#define ALIVE_MAX 64000u /* on a machine where it was not */
#define RAIL_MS	  400u
#define ASLEEP	  0x5a
#define RW	  (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

struct row {
	int codes[5];	     /* of entries under way that need the peer's CPU, 0 ends */
	int new_codes[5];    /* of new ones */
	int mapped_codes[2]; /* of those that do not; none: they succeed */
	uint32_t deadline_ms, dead_after_ms;
	uint32_t within_ms; /* for the last outcome */
	int loses;	    /* a peer that is awaited */
};

static const struct row rows[FAULTS] = {
	[KILL] = {{ECONNRESET}, {ECONNRESET}, {ECONNRESET}, LONG_MS, LONG_MS, SLACK_MS, 1},
	[STOP_SHORT] = {{ETIMEDOUT}, {ETIMEDOUT}, {0}, SHORT_MS, ALIVE_MS, SHORT_MS + SLACK_MS, 0},
	[STOP_DEAD] = {{ECONNRESET}, {ECONNRESET}, {0}, LONG_MS, DEAD_MS, 3 * DEAD_MS, 1},
	[DROP_SHORT] = {{ETIMEDOUT}, {ETIMEDOUT}, {0}, SHORT_MS, ALIVE_MS, SHORT_MS + SLACK_MS, 0},
	[DROP_DEAD] = {{ECONNRESET}, {ECONNRESET}, {0}, LONG_MS, DEAD_MS, 3 * DEAD_MS, 1},
	/* Of a NIC, before any deadline: its port says so. */
	[LINK_DOWN] = {{ENETDOWN}, {ENETDOWN}, {0}, LONG_MS, LONG_MS, SHORT_MS, 0},
	[REVOKED] = {{EACCES}, {EACCES}, {EACCES}, LONG_MS, LONG_MS, 2000, 0},
	[RESTART] = {{ECONNRESET}, {ECONNRESET}, {ECONNRESET}, LONG_MS, LONG_MS, 2000, 1},
	/* It forgets its connections and gets new ones, and what was on its way goes again. */
	[RESET] = {{0}, {0}, {0}, LONG_MS, LONG_MS, SLACK_MS + RAIL_MS, 0},
};

static int one_of(int64_t res, const int *codes)
{
	while (*codes)
		if (res == -*codes++)
			return 1;
	return 0;
}

static int is_asleep(const struct run *r)
{
	return r->cell.fault == STOP_SHORT || r->cell.fault == STOP_DEAD;
}

/* Nobody has a word of the end of a simulated peer: its device is dead, and goes on being. */
static const struct row *row_of(const struct run *r)
{
	/* Nobody tells of an interface. */
	if (r->cell.fault == LINK_DOWN && !r->is_nic)
		return &rows[DROP_SHORT];
	return &rows[r->is_sim && r->cell.fault == KILL ? DROP_DEAD : r->cell.fault];
}

/* The guest's processor, which is emulated, is away for longer. */
static uint32_t dead_after_ms(const struct run *r)
{
	uint32_t ms = row_of(r)->dead_after_ms;

	if (ms != ALIVE_MS)
		return ms;
	return emulated_ns() && r->alive_ms < LONG_MS ? LONG_MS : r->alive_ms;
}

/* It was to be back soon, and half of the time for which it may be silent is over: what comes from
 * now on may be its loss. A simulated one's control connection is not cut. */
static int is_overdue(const struct run *r)
{
	return !r->is_sim && row_of(r)->dead_after_ms == ALIVE_MS &&
	       now_ns() - r->met_ns > dead_after_ms(r) * MS / 2;
}

static int dies(const struct run *r)
{
	return r->cell.fault == KILL || r->cell.fault == RESTART;
}

static int cuts_network(const struct run *r)
{
	return r->cell.fault == DROP_SHORT || r->cell.fault == DROP_DEAD ||
	       r->cell.fault == LINK_DOWN;
}

/* The peer's CPU is in the way of every notification, and of data but where its memory is mapped
 * or its NIC gives and takes it. */
static int needs_cpu(const struct run *r)
{
	if (r->cell.kind == NOTIFY || r->cell.kind == ATOMIC)
		return 1;
	if (r->is_nic)
		return cuts_network(r) || r->cell.fault == REVOKED;
	return !r->cell.mapped;
}

/* ---- begin ---- */

static void open_peer(struct run *r, struct settings *s, const char *transport, int in_net)
{
	struct urccl_cqe cqe;

	snprintf(s->transport, sizeof(s->transport), "%s%s", transport,
		 r->is_rxm ? "@" RXM_PEER : "");
	/* libfabric's providers on sockets are bound to where the context listens. */
	if (in_net && !strncmp(transport, "fabric:", 7))
		r->p.params.listen = NET_OURS ":0";
	if (in_net)
		snprintf(s->listen, sizeof(s->listen), NET_PEER ":7801");
	else
		place_v4(s->listen, free_port());
	s->mapped = (uint32_t)r->cell.mapped;
	s->tcp_driver = r->cell.tcp_driver;
	s->dead_after_ms = r->p.params.dead_after_ms;
	peer_start(&r->peer, s);
	side_open(&r->p, &r->p.a);
	cqe = side_dialled(&r->p.a, NULL, r->peer.blob, r->peer.blob_len, 20000000);
	CHECK_EQ(cqe.res, 0);
	r->p.a.peer.id = (uint32_t)cqe.handle;
	side_watch(&r->p.a, r->p.a.peer, 1);
	CHECK_EQ(urccl_import(r->p.a.ctx, r->p.a.peer, &r->peer.advert, 1, &r->remote), 0);
}

/* Keys are fetched and memory mapped by the first entry. */
static void warm(struct run *r)
{
	struct urccl_sqe *sqe = side_sqe(&r->p.a);

	urccl_prep_read(sqe, r->remote, r->local, 1, 0);
	CHECK_EQ(pair_run(&r->p, &r->p.a, sqe).res, 1);
}

static void begin(struct run *r, struct settings *s, const char *transport, int in_net)
{
	r->p.params.size = sizeof(r->p.params);
	urccl_params_init(&r->p.params);
	r->is_sim = !strcmp(transport, "sim");
	r->is_ib = !strcmp(transport, "ib");
	r->is_rxm = !strcmp(transport, RXM);
	r->is_nic = r->is_ib || r->is_rxm;
	r->p.params.transport = r->is_rxm ? RXM "@" RXM_OURS : transport;
	r->p.params.tcp_driver = r->cell.tcp_driver;
	if (r->is_ib)
		r->p.params.rdma_dev = RAIL_OURS;
	r->p.params.dead_after_ms = dead_after_ms(r);
	r->p.ring_params = (struct urccl_ring_params){.size = sizeof(r->p.ring_params),
						      .entries = 1024,
						      .event_slots = 256};
	r->p.seed = 1;
	if (r->is_sim)
		sim_open(r);
	else
		open_peer(r, s, transport, in_net);
	r->local = malloc(MEMORY);
	CHECK(r->local);
	r->region = side_register(&r->p.a, r->local, MEMORY, 0);
	r->met_ns = now_ns();
	warm(r);
	if (r->cell.kind == READ)
		memset(r->local, 0, MEMORY);
	else
		pattern_fill(r->local, MEMORY, 0, OURS);
}

/* ---- the fault ---- */

static void freeze(struct run *r, int on)
{
	if (r->is_sim)
		urccl_sim_freeze(r->p.sim, on);
	else if (on)
		peer_stop(&r->peer);
	else
		peer_go_on(&r->peer);
}

static void drop(const struct run *r, int on)
{
	if (r->is_nic)
		rails_drop(r->is_rxm, on);
	else
		net_drop(on);
}

static void our_link(const struct run *r, int up)
{
	if (r->is_nic)
		rails_link(up);
	else
		net_link(up);
}

static int drops(const struct run *r)
{
	return r->cell.fault == DROP_SHORT || r->cell.fault == DROP_DEAD;
}

/* One entry, or what is quick, would be through before the fault comes: then the peer is cut off
 * first, and nothing that needs it can succeed. */
int run_is_cut_first(const struct run *r)
{
	return r->early || r->cell.n == 1 || r->cell.kind == NOTIFY || r->cell.kind == ATOMIC ||
	       r->cell.mapped;
}

static void ask_to_revoke(struct run *r)
{
	if (r->is_sim)
		sim_revoke(r);
	else
		peer_revoke(&r->peer);
}

static void await_revoked(struct run *r)
{
	if (r->is_sim)
		sim_revoked(r);
	else
		CHECK_EQ(peer_revoked(&r->peer), 0);
}

static void before(struct run *r)
{
	if (r->cell.fault == REVOKED) {
		if (r->early)
			ask_to_revoke(r);
		if (r->early == FIRST)
			await_revoked(r);
		return;
	}
	if (r->is_sim && r->cell.fault != STOP_SHORT) {
		sim_before(r);
		return;
	}
	if (!run_is_cut_first(r))
		return;
	if (is_asleep(r))
		freeze(r, 1);
	else if (dies(r) && needs_cpu(r))
		freeze(r, 1);
	else if (drops(r))
		drop(r, 1);
	else if (r->cell.fault == LINK_DOWN)
		our_link(r, 0);
}

/* Commands of a shell, which take their time. */
static void *break_net(void *arg)
{
	struct run *r = arg;

	if (r->cell.fault == LINK_DOWN)
		our_link(r, 0);
	else
		drop(r, 1);
	r->struck_ns = now_ns();
	return NULL;
}

/* Of those that were not cut off first. 1: it goes on by a thread. */
static int during(struct run *r, pthread_t *thread)
{
	if (r->cell.fault == REVOKED) {
		if (!r->early)
			ask_to_revoke(r);
		if (r->early != FIRST)
			await_revoked(r);
	} else if (r->is_sim && r->cell.fault != STOP_SHORT) {
		sim_during(r);
	} else if (dies(r)) {
		peer_kill(&r->peer);
	} else if (run_is_cut_first(r)) {
		return 0;
	} else if (is_asleep(r)) {
		freeze(r, 1);
	} else {
		CHECK_EQ(pthread_create(thread, NULL, break_net, r), 0);
		return 1;
	}
	return 0;
}

static void undo(struct run *r)
{
	if (r->is_sim && r->cell.fault != STOP_SHORT)
		sim_undo(r);
	else if (is_asleep(r))
		freeze(r, 0);
	else if (drops(r))
		drop(r, 0);
	else if (r->cell.fault == LINK_DOWN)
		our_link(r, 1);
}

/* ---- what must hold ---- */

/* Returns what to say of the time. */
static const char *judge_time(const struct run *r, uint64_t since, uint64_t canary)
{
	uint64_t took = r->out.last_ns - since;
	uint64_t within = row_of(r)->within_ms * MS * (PAIR_SLOW ? 40ull : 1ull);

	within += emulated_ns();
	check_took(took, within, canary);
	return took <= within ? "" : ", late as the machine";
}

/* A NIC goes on without its host, but may be too slow for the deadline. */
static int can_fail(const struct run *r)
{
	return needs_cpu(r) || r->is_nic;
}

/* An entry that needs nobody may still find no processor of ours before its deadline, or before its
 * peer counts as dead, if the processor was away for much of that time. */
static int may_be_late(const struct run *r, int64_t res, uint64_t canary)
{
	int late = res == -ETIMEDOUT || (res == -ECONNRESET && row_of(r)->loses);

	return late && !can_fail(r) && (PAIR_SLOW || 2 * canary >= SHORT_MS * MS);
}

static void judge_codes(const struct run *r, uint64_t canary)
{
	const struct row *row = row_of(r);
	const int *codes = can_fail(r) ? row->codes : row->mapped_codes;
	uint32_t i;

	for (i = 0; i < r->cell.n; i++) {
		if (r->out.res[i] >= 0 || one_of(r->out.res[i], codes) ||
		    may_be_late(r, r->out.res[i], canary))
			continue;
		fprintf(stderr, "entry %u ended with %lld\n", i, (long long)r->out.res[i]);
		CHECK(one_of(r->out.res[i], codes));
	}
	/* Where the peer was cut off first, nothing that needs it can have worked. */
	if (r->cell.n == 1 && needs_cpu(r) && r->cell.fault != REVOKED && r->cell.fault != RESET)
		CHECK_EQ(r->out.failed, 1);
}

/* 0: too late to say. */
static int judge_new(struct run *r)
{
	const struct row *row = row_of(r);
	const int *codes = needs_cpu(r) ? row->new_codes : row->mapped_codes;
	uint64_t since;
	int64_t res;

	canary_reset();
	since = now_ns();
	res = run_one(r, row->deadline_ms * 1000);
	if (is_overdue(r))
		return 0;
	/* What was too slow before took its path with it. */
	if (r->is_nic && is_asleep(r) && res < 0)
		codes = row->new_codes;
	if (res == -ETIMEDOUT && may_be_late(r, res, canary_ns()))
		return 1;
	if (!codes[0])
		CHECK_GE(res, 0);
	else if (!one_of(res, codes))
		CHECK_EQ(res, -codes[0]);
	/* The one that the peer itself has to answer. */
	if (r->cell.fault == REVOKED)
		check_within(since, row->within_ms * MS * (PAIR_SLOW ? 40ull : 1ull));
	return 1;
}

static void await_lost(struct run *r)
{
	struct urccl_cqe cqe;

	while (!r->lost) {
		side_take(&r->p.a, NULL, &cqe, NULL);
		CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_LOST);
		/* A simulated peer closes in order. */
		CHECK_EQ(cqe.res, r->is_sim && r->cell.fault == RESTART ? 0 : -ECONNRESET);
		r->lost++;
	}
	CHECK_EQ(r->lost, 1);
}

/* It goes on: nothing of what ended touches our memory, and it hears of what will not come. 0: too
 * late to say. */
static int comes_back(struct run *r)
{
	uint32_t i;

	memset(r->local, ASLEEP, MEMORY);
	undo(r);
	if (is_overdue(r))
		return 0;
	if (r->cell.kind == NOTIFY)
		run_check_notes(r, r->cell.n);
	else if (!r->is_sim)
		peer_notes(&r->peer, r->notes);
	side_silent(&r->p.a, NULL, 20 * MS);
	for (i = 0; i < MEMORY; i += 97)
		CHECK_EQ(r->local[i], ASLEEP);
	if (r->cell.kind == ATOMIC) /* the one of judge_new() besides */
		run_check_words(r, r->cell.n, 1);
	return 1;
}

/* It has lost us, too: what of ours has not come to it by then will not. */
static void peer_loses_us(struct run *r)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	int64_t lost;

	do {
		CHECK(!is_late(late));
		side_silent(&r->p.a, NULL, MS);
		run_events(r);
		lost = r->is_sim ? r->peers_lost : peer_lost(&r->peer);
	} while (!lost);
	CHECK_EQ(lost, 1);
	if (r->cell.kind == NOTIFY)
		run_check_notes_lost(r, r->cell.n);
}

/* From the REVOKE's end on nothing lands. */
static void stays_revoked(struct run *r, uint8_t *snapshot)
{
	const uint8_t *m = r->is_sim ? r->target.bytes : r->peer.memory;

	comes_back(r);
	if (!r->cell.mapped)
		CHECK(!memcmp(m, snapshot, MEMORY));
	if (r->is_sim) {
		CHECK_EQ(urccl_unregister(r->p.b.ctx, r->target.region), 0);
		r->target.region = side_register(&r->p.b, r->target.bytes, MEMORY, RW);
	} else {
		peer_registers_anew(&r->peer);
	}
	CHECK_EQ(run_one(r, LONG_MS * 1000), -ESTALE);
}

/* Another process at the same address: the old handles lead nowhere. */
static void starts_anew(struct run *r, struct settings *s)
{
	uint32_t old = r->p.a.peer.id;
	struct urccl_cqe cqe;
	struct peer dead = r->peer;

	peer_start(&r->peer, s);
	peer_end(&dead);
	cqe = side_dialled(&r->p.a, NULL, s->listen, (uint32_t)strlen(s->listen), 20000000);
	CHECK_EQ(cqe.res, 0);
	CHECK_NE(cqe.handle, old);
	CHECK_EQ(run_one(r, LONG_MS * 1000), -ESTALE);
	CHECK_EQ(side_drop(&r->p.a, NULL, old), 0);
	CHECK_EQ(run_one(r, LONG_MS * 1000), -ESTALE);
	CHECK(peer_is_untouched(&r->peer));
}

/* ---- all of it ---- */

static void end(struct run *r)
{
	if (r->is_sim) {
		pair_close(&r->p);
		munmap(r->target.bytes, MEMORY);
	} else {
		peer_end(&r->peer);
		side_close(&r->p.a);
	}
	free(r->local);
}

static void say_it(const struct run *r, uint64_t since, const char *late, char say[SAY_MAX])
{
	int64_t res = 0;
	uint32_t i;

	for (i = 0; i < r->cell.n; i++)
		if (r->out.res[i] < 0)
			res = -r->out.res[i];
	if (!r->out.failed)
		snprintf(say, SAY_MAX, "%u ok%s", r->cell.n, late);
	else
		snprintf(say, SAY_MAX, "%u ok, %u %s, %llu ms%s", r->cell.n - r->out.failed,
			 r->out.failed, strerrorname_np((int)res),
			 (unsigned long long)((r->out.last_ns - since) / MS), late);
}

/* All entries that should have met the fault were through before it came. What moves without the
 * peer's CPU may succeed, whatever becomes of that; and what goes again behind a reset does, too,
 * but there a rail was down meanwhile. */
static int was_missed(const struct run *r)
{
	if (r->cell.fault == RESET)
		return !r->p.a.rails_told;
	return !r->out.failed && (needs_cpu(r) || r->cell.fault == REVOKED);
}

/* 0: the machine was too slow for its dead_after, which is to be longer. */
static int go(struct run *r, struct settings *s, char say[SAY_MAX])
{
	const struct row *row = row_of(r);
	uint8_t *snapshot = NULL;
	uint64_t since, canary;
	pthread_t thread;
	int loses, goes_on;

	before(r);
	canary_reset();
	run_submit(r, r->cell.n, row->deadline_ms * 1000);
	since = now_ns();
	goes_on = during(r, &thread);
	/* The kernel's word of a death is its parent's; a simulated network has its own time. */
	if (dies(r) || r->cell.fault == RESET)
		since = now_ns();
	if (r->cell.fault == REVOKED && !r->cell.mapped) {
		snapshot = malloc(MEMORY);
		CHECK(snapshot);
		memcpy(snapshot, r->is_sim ? r->target.bytes : r->peer.memory, MEMORY);
	}
	run_take(r, r->cell.n);
	canary = canary_ns();
	if (goes_on)
		CHECK_EQ(pthread_join(thread, NULL), 0);
	/* A command may be slow to get there. */
	if (goes_on && r->cell.fault == LINK_DOWN)
		since = r->struck_ns < r->out.last_ns ? r->struck_ns : r->out.last_ns;
	if (is_overdue(r)) {
		undo(r);
		return 0;
	}
	say_it(r, since, judge_time(r, since, canary), say);
	judge_codes(r, canary);
	r->missed = was_missed(r) || (goes_on && drops(r) && r->struck_ns > r->out.last_ns);
	/* A mapping's owner can be asked again when it goes on. */
	if (!r->cell.mapped || r->cell.kind == READ)
		run_check_bytes(r, r->cell.n, 0);
	loses = row->loses && (needs_cpu(r) || dies(r));
	if (loses)
		await_lost(r);
	if (!judge_new(r)) {
		undo(r);
		return 0;
	}
	if (r->cell.fault == RESTART && r->is_sim)
		sim_anew(r);
	else if (r->cell.fault == RESTART)
		starts_anew(r, s);
	else if (r->cell.fault == REVOKED)
		stays_revoked(r, snapshot);
	else if (!row->loses && !comes_back(r))
		return 0;
	else if (row->loses && r->cell.fault != KILL)
		undo(r);
	if (loses && (!dies(r) || (r->is_sim && r->cell.fault == KILL)))
		peer_loses_us(r);
	if (r->cell.mapped && !dies(r) && r->cell.kind != READ)
		run_check_bytes(r, r->cell.n, 1);
	free(snapshot);
	return 1;
}

/* As go(). *early: when its fault comes, earlier where no entry has met it. */
static int try_cell(const struct cell *cell, const char *transport, int in_net, uint32_t alive_ms,
		    uint32_t *early, char say[SAY_MAX])
{
	static struct run r;
	struct settings s = {0};
	int done;

	memset(&r, 0, sizeof(r));
	r.cell = *cell;
	r.alive_ms = alive_ms;
	r.early = *early;
	begin(&r, &s, transport, in_net);
	done = go(&r, &s, say);
	end(&r);
	if (!done || !r.missed)
		return done;
	if (++*early > FIRST)
		fprintf(stderr, "no entry met the fault, however early it came: %s\n", say);
	CHECK_LE(*early, FIRST);
	return 0;
}

void run_cell(const struct cell *cell, const char *transport, int in_net, char say[SAY_MAX])
{
	uint32_t alive_ms = PAIR_SLOW ? 5 * ALIVE_MS : ALIVE_MS, early = LATE, before;
	int done;

	do {
		before = early;
		done = try_cell(cell, transport, in_net, alive_ms, &early, say);
		if (!done && early == before)
			alive_ms *= 2;
		CHECK_LE(alive_ms, ALIVE_MAX);
	} while (!done);
	if (early)
		strncat(say, early == FIRST ? ", fault first" : ", fault early",
			SAY_MAX - strlen(say) - 1);
}
