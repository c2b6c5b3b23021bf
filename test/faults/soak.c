/* SPDX-License-Identifier: Apache-2.0 */
/* soak [--ops=N] [--every=MS]: entries of all kinds to two peers over tcp, of which one is killed
 * and started anew at the same address every so often. Each entry ends once, those to the other
 * peer succeed, and neither we nor that one hold more of memory and file descriptors in the end
 * than after a while. */
#include "faults.h"

#define EACH	256u /* entries in flight to a peer */
#define SETTLED 4u   /* rounds after which nothing is to grow */

enum { MARK_CONNECT = 1u << 20, MARK_CLOSE, MARK_WATCH };
enum state { UP, DYING, CLOSING, DIALLING };

static struct pair p;
static struct settings place[2];
static struct peer peers[2]; /* the second one is killed */
static struct urccl_peer handles[2];
static struct urccl_remote remotes[2];
static uint8_t *local;
static uint8_t busy[2 * EACH];
static uint32_t flying[2];
static enum state state;
static uint64_t sqes, cqes, moved, failed, rounds, up_since, every_ns = 1000000000ull;
static struct held base[2]; /* what we held after SETTLED rounds, and the peer that lives */

static struct urccl_sqe *entry(void)
{
	struct urccl_sqe *sqe = urccl_get_sqe(p.a.ring);

	CHECK(sqe);
	sqes++;
	return sqe;
}

static void watch(uint32_t i)
{
	struct urccl_sqe *sqe = entry();

	urccl_prep_watch(sqe, handles[i]);
	urccl_sqe_set_data64(sqe, MARK_WATCH);
}

static void import(uint32_t i)
{
	CHECK_EQ(urccl_import(p.a.ctx, handles[i], &peers[i].advert, 1, &remotes[i]), 0);
}

static void begin(void)
{
	struct urccl_cqe cqe;
	uint32_t i;

	p.params.size = sizeof(p.params);
	urccl_params_init(&p.params);
	p.params.transport = "tcp";
	p.ring_params = (struct urccl_ring_params){.size = sizeof(p.ring_params), .entries = 1024};
	for (i = 0; i < 2; i++) {
		snprintf(place[i].transport, sizeof(place[i].transport), "tcp");
		place_v4(place[i].listen, free_port());
		peer_start(&peers[i], &place[i]);
	}
	side_open(&p, &p.a);
	local = calloc(1, MEMORY);
	CHECK(local);
	side_register(&p.a, local, MEMORY, 0);
	for (i = 0; i < 2; i++) {
		cqe = side_dialled(&p.a, NULL, peers[i].blob, peers[i].blob_len, 20000000);
		CHECK_EQ(cqe.res, 0);
		handles[i].id = (uint32_t)cqe.handle;
		import(i);
		watch(i);
	}
	up_since = now_ns();
}

/* ---- entries ---- */

static void prepare(uint32_t slot, uint32_t i)
{
	struct urccl_sqe *sqe = entry();
	uint64_t off = (uint64_t)(slot % PLACES) * PLACE_LEN;
	uint32_t len = moved % 61 ? 64 : PLACE_LEN;

	switch (moved % 4) {
	case 0:
		urccl_prep_read(sqe, remotes[i], local + off, len, off);
		break;
	case 1:
		urccl_prep_notify(sqe, handles[i], N_MAX, NULL, 0); /* which nobody counts */
		break;
	case 2:
		urccl_prep_write(sqe, remotes[i], local + off, len, off);
		urccl_sqe_set_notify(p.a.ring, sqe, N_MAX, NULL, 0);
		break;
	default:
		urccl_prep_write(sqe, remotes[i], local + off, len, off);
		break;
	}
	urccl_sqe_set_data64(sqe, slot);
	busy[slot] = 1;
	flying[i]++;
	moved++;
}

static void fill(uint64_t ops)
{
	uint32_t i, slot;

	for (i = 0; i < 2; i++) {
		if (i == 1 && state > DYING)
			continue;
		for (slot = i * EACH; slot < (i + 1) * EACH && moved < ops; slot++)
			if (!busy[slot])
				prepare(slot, i);
	}
	urccl_submit(p.a.ring);
}

/* ---- the one that dies ---- */

static void dial(void)
{
	struct urccl_sqe *sqe = entry();

	urccl_prep_connect(sqe, place[1].listen, (uint32_t)strlen(place[1].listen));
	urccl_sqe_set_data64(sqe, MARK_CONNECT);
	state = DIALLING;
}

static void is_up(const struct urccl_cqe *cqe)
{
	CHECK_EQ(cqe->res, 0);
	handles[1].id = (uint32_t)cqe->handle;
	import(1);
	watch(1);
	state = UP;
	up_since = now_ns();
	rounds++;
}

static void is_lost(void)
{
	struct urccl_sqe *sqe = entry();

	CHECK_EQ(state, DYING);
	urccl_prep_close(sqe, handles[1]);
	urccl_sqe_set_data64(sqe, MARK_CLOSE);
	state = CLOSING;
}

static void kill_it(void)
{
	struct peer dead = peers[1];

	if (state != UP || now_ns() - up_since < every_ns)
		return;
	peer_kill(&peers[1]);
	dead.pid = 0;
	state = DYING;
	peer_start(&peers[1], &place[1]);
	peer_end(&dead);
}

/* ---- what comes back ---- */

static void on_entry(const struct urccl_cqe *cqe)
{
	uint32_t slot = (uint32_t)cqe->user_data, i = slot / EACH;

	CHECK(slot < 2 * EACH && busy[slot]);
	busy[slot] = 0;
	flying[i]--;
	if (cqe->res >= 0)
		return;
	failed++;
	CHECK_EQ(i, 1);
	CHECK(cqe->res == -ECONNRESET || cqe->res == -ESTALE);
}

static void on_cqe(const struct urccl_cqe *cqe)
{
	if (cqe->flags & URCCL_CQE_MORE)
		return;
	cqes++;
	if (urccl_cqe_kind(cqe) == URCCL_KIND_LOST)
		is_lost();
	else if (cqe->user_data == MARK_CLOSE)
		dial();
	else if (cqe->user_data == MARK_CONNECT)
		is_up(cqe);
	else
		on_entry(cqe);
}

static void reap(void)
{
	struct urccl_wait_args args = {.size = sizeof(args), .timeout_ns = 1000000};
	struct urccl_cqe *cqe, copy;

	urccl_wait(p.a.ring, NULL, &args);
	while ((cqe = urccl_peek_cqe(p.a.ring))) {
		copy = *cqe;
		urccl_cqe_seen(p.a.ring, cqe);
		on_cqe(&copy);
	}
}

/* Between two deaths. */
static void look(void)
{
	if (rounds < SETTLED || base[0].fds || state != UP || now_ns() - up_since < every_ns / 2)
		return;
	base[0] = held_now();
	base[1] = peer_holds(&peers[0]);
}

static int quiet(void)
{
	return state == UP && !flying[0] && !flying[1];
}

static void pause_a_little(void)
{
	side_silent(&p.a, NULL, 1000000);
}

/* What is on its way when the last entry ends may be over a little later, at either end. */
static void check_grown(void)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	struct held now;

	check_held("here", &base[0], pause_a_little);
	do
		now = peer_holds(&peers[0]);
	while (!held_within(&now, &base[1]) && now_ns() < late);
	held_say("there", &now, &base[1]);
	CHECK(held_within(&now, &base[1]));
}

int main(int argc, char **argv)
{
	uint64_t ops = 10000000, start, idle;
	int i;

	peer_main(argc, argv);
	for (i = 1; i < argc; i++)
		if (!strncmp(argv[i], "--ops=", 6))
			ops = strtoull(argv[i] + 6, NULL, 0);
		else if (!strncmp(argv[i], "--every=", 8))
			every_ns = strtoull(argv[i] + 8, NULL, 0) * 1000000ull;
		else
			CHECK(!"an option that this test knows");
	begin();
	start = idle = now_ns();
	while (moved < ops || !quiet()) {
		uint64_t before = cqes;

		kill_it();
		fill(ops);
		reap();
		look();
		if (cqes != before)
			idle = now_ns();
		CHECK_LE(now_ns() - idle, PAIR_LATE_NS);
	}
	if (base[0].fds)
		check_grown();
	else
		printf("too short to tell what grows\n");
	printf("%llu entries and %llu other SQEs, %llu CQEs and 2 WATCH left, %llu failed, in %llu "
	       "ms; %llu deaths\n",
	       (unsigned long long)moved, (unsigned long long)(sqes - moved),
	       (unsigned long long)cqes, (unsigned long long)failed,
	       (unsigned long long)((now_ns() - start) / 1000000), (unsigned long long)rounds);
	CHECK_EQ(cqes + 2, sqes);
	side_close(&p.a);
	peer_end(&peers[0]);
	peer_end(&peers[1]);
	return 0;
}
