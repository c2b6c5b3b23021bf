/* SPDX-License-Identifier: Apache-2.0 */
/* Of eight peers one does nothing while much is to go to it: its entries wait with no more memory
 * than before, all that goes to the others gets through meanwhile, and when it works again so does
 * what waited. */
#include "crowd.h"

#define OTHERS	 7u
#define LEN	 (1u << 20)
#define WAITING	 200u /* MiB, far above what sockets and rings hold */
#define EACH	 60u
#define FIRST	 30u
#define GROWTH	 (24ull << 20) /* a tenth of it, and what pools a provider of libfabric fills */
#define DEADLINE 100000000u

static struct pair p; /* a writes; b is stalled */
static struct target t;
static struct side others[OTHERS];
static struct urccl_remote remotes[OTHERS];
static uint8_t *local, *there;

static struct urccl_remote import(struct side *s, uint8_t *at)
{
	struct urccl_region region = side_register(s, at, LEN, URCCL_RIGHT_WRITE);
	struct urccl_remote remote;
	struct urccl_advert ad;

	CHECK_EQ(urccl_advertise(s->ctx, region, 0, LEN, URCCL_RIGHT_WRITE, 0, &ad), 0);
	CHECK_EQ(urccl_import(p.a.ctx, s->peer, &ad, 1, &remote), 0);
	return remote;
}

static void begin(int argc, char **argv)
{
	struct side a;
	uint32_t i;

	pair_begin_idle(&p, argc, argv);
	local = malloc(LEN);
	there = calloc(OTHERS, LEN);
	CHECK(local && there);
	pattern_fill(local, LEN, 0, 1);
	side_register(&p.a, local, LEN, 0);
	target_open(&p, &t, LEN, 0);
	urccl_prep_write(side_sqe(&p.a), t.remote, local, 1, 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(pair_end(&p, &p.a, 0).res, 1);
	for (i = 0; i < OTHERS; i++) {
		side_open(&p, &others[i]);
		side_accept(&others[i], 1);
		a = p.a;
		side_connect(&a, &others[i]);
		others[i].peer = a.peer; /* a's handle */
		remotes[i] = import(&others[i], there + (uint64_t)i * LEN);
	}
}

/* All large to who is stalled; every other one to the others. */
static void submit(struct urccl_remote remote, uint32_t n, uint64_t user_data)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		urccl_prep_write(sqe, remote, local, user_data == OTHERS || i % 2 ? LEN : 64, 0);
		urccl_sqe_set_deadline_us(sqe, DEADLINE);
		urccl_sqe_set_data64(sqe, user_data);
	}
	CHECK_EQ(urccl_submit(p.a.ring), (int)n);
}

/* n ends, of which those of the stalled peer are counted. */
static uint32_t take(uint32_t n, int stalled)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	uint32_t i, of_stalled = 0, got = 0;
	struct urccl_cqe cqe;

	while (got < n) {
		CHECK(!is_late(late));
		for (i = 0; i < OTHERS; i++)
			side_turn(&others[i]);
		if (!side_take_within(&p.a, stalled ? NULL : &p.b, 100000, &cqe, NULL))
			continue;
		CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
		CHECK_GE(cqe.res, 64);
		of_stalled += cqe.user_data == OTHERS;
		got += cqe.user_data != OTHERS || !stalled;
	}
	return of_stalled;
}

/* Pools of a provider of libfabric are filled by what goes first. */
static void warm(void)
{
	uint32_t i;

	for (i = 0; i < OTHERS; i++)
		submit(remotes[i], FIRST, i);
	submit(t.remote, FIRST, OTHERS);
	take((OTHERS + 1) * FIRST, 0);
}

int main(int argc, char **argv)
{
	uint32_t i, k, early = 0;
	uint64_t before;

	begin(argc, argv);
	warm();
	before = resident();
	submit(t.remote, WAITING, OTHERS);
	for (k = 0; k < EACH / 6; k++) {
		for (i = 0; i < OTHERS; i++)
			submit(remotes[i], 6, i);
		early += take(OTHERS * 6, 1);
	}
	/* A simulated device does without its peer's CPU. */
	if (p.transport != URCCL_TRANSPORT_SIM)
		CHECK_EQ(early, 0);
	CHECK_LE(resident(), before + GROWTH);
	for (i = 0; i < OTHERS; i++)
		CHECK(pattern_holds(there + (uint64_t)i * LEN, LEN, 0, 1));
	CHECK_EQ(take(WAITING - early, 0), WAITING - early);
	CHECK(pattern_holds(t.bytes, LEN, 0, 1));
	for (i = 0; i < OTHERS; i++)
		side_close(&others[i]);
	pair_close(&p);
	free(local);
	free(there);
	return 0;
}
