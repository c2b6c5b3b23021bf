/* SPDX-License-Identifier: Apache-2.0 */
/* A thousand entries are on their way into a region, and some into another, when the first one's
 * adverts are revoked: each of the thousand ends well or with -EACCES, no byte of theirs lands
 * after the revocation, the others all succeed, nobody is lost, and a transport whose connection
 * breaks at a refused access sees that a few times, not a thousand.
 */
#include "pair.h"

#define LEN    (PAIR_SLOW ? 262144u : 16384u)
#define N      1000u
#define OTHERS 100u
#define EVERY  (N / OTHERS)
#define SOME   50u /* ended before the revocation */
#define BREAKS 4u  /* RAIL events: down and up, twice */
#define TRIES  20u
#define RW     (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct target storm, calm;
static uint8_t local[LEN];

static void start(struct urccl_remote remote, uint64_t place, uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, remote, local, LEN, place);
	urccl_sqe_set_data64(sqe, user_data);
}

static void submit_all(void)
{
	uint32_t i;

	for (i = 0; i < N; i++) {
		start(storm.remote, (uint64_t)(i % 64) * LEN, i);
		if (i % EVERY == EVERY - 1)
			start(calm.remote, (uint64_t)(i / EVERY) * LEN, N + i / EVERY);
	}
	CHECK_EQ(urccl_submit(p.a.ring), N + OTHERS);
}

/* Takes the ends of n. How many were refused. */
static uint32_t take(uint32_t n)
{
	struct urccl_cqe cqe;
	uint32_t i, refused = 0;

	for (i = 0; i < n;) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.flags & URCCL_CQE_KIND_MASK, URCCL_KIND_OP);
		if (cqe.flags & URCCL_CQE_MORE)
			continue;
		i++;
		if (cqe.res == LEN)
			continue;
		CHECK(cqe.user_data < N);
		CHECK_EQ(cqe.res, -EACCES);
		refused++;
	}
	return refused;
}

static uint32_t once(void)
{
	struct urccl_sqe *sqe;
	uint32_t refused, i;

	memset(calm.bytes, 0, calm.len);
	submit_all();
	CHECK_EQ(take(SOME), 0);
	sqe = side_sqe(&p.b);
	urccl_prep_revoke(sqe, storm.region);
	urccl_sqe_set_data64(sqe, 1);
	CHECK_EQ(pair_run(&p, &p.b, sqe).res, 0);
	memset(storm.bytes, 0x77, storm.len);
	refused = take(N + OTHERS - SOME);
	for (i = 0; i < storm.len; i += 61)
		CHECK_EQ(storm.bytes[i], 0x77);
	for (i = 0; i < OTHERS; i++)
		CHECK(!memcmp(calm.bytes + (uint64_t)i * LEN, local, LEN));
	return refused;
}

static void advertised_anew(void)
{
	CHECK_EQ(urccl_unimport(p.a.ctx, storm.remote), 0);
	CHECK_EQ(urccl_advertise(p.b.ctx, storm.region, 0, storm.len, RW, 0, &storm.advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &storm.advert, 1, &storm.remote), 0);
}

int main(int argc, char **argv)
{
	uint32_t tries, refused;

	pair_options(&p, argc, argv);
	p.ring_params.entries = 2048;
	pair_open(&p);
	pattern_fill(local, LEN, 0, 1);
	CHECK(side_register(&p.a, local, LEN, 0).id);
	target_open(&p, &storm, 64 * LEN, 0);
	target_open(&p, &calm, (uint64_t)OTHERS * LEN, 0);
	for (tries = 1; !(refused = once()); tries++) { /* all were faster than the revocation */
		CHECK(tries < TRIES);
		advertised_anew();
	}
	printf("%u of %u refused, %u RAIL events\n", refused, N, p.a.rails_told);
	CHECK_LE(p.a.rails_told, BREAKS);
	advertised_anew();
	start(storm.remote, 0, 7);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(pair_end(&p, &p.a, 7).res, LEN);
	target_close(&p, &storm);
	target_close(&p, &calm);
	pair_close(&p);
	return 0;
}
