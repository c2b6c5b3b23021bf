/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU of the peer hangs in the middle of the relay: entries end at their deadlines, and a write
 * is not said to be quiet; UNREGISTER there waits for the GPU, and succeeds once it goes on. From
 * then on nothing of the entries lands, and the next ones find all slots free. Where the GPU here
 * hangs, the outcome comes with MORE. */
#include "relay.h"

#define LEN    (8u << 20)
#define PART   (1u << 20)
#define PARTS  (LEN / PART)
#define WAIT   300000u
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct device_target t;
static struct relay_local local;

static void submit_all(int reads, uint32_t us)
{
	uint32_t i;

	for (i = 0; i < PARTS; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		if (reads)
			urccl_prep_read(sqe, t.remote, relay_at(&local, i * PART), PART, i * PART);
		else
			urccl_prep_write(sqe, t.remote, relay_at(&local, i * PART), PART, i * PART);
		urccl_sqe_set_deadline_us(sqe, us);
	}
	CHECK_EQ(urccl_submit(p.a.ring), (int)PARTS);
}

/* All with res; how many of them were quiet at the peer. */
static uint32_t take_all(int64_t res)
{
	struct urccl_cqe cqe;
	uint32_t i, quiet = 0;

	for (i = 0; i < PARTS; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK(!(cqe.flags & URCCL_CQE_MORE));
		CHECK_EQ(cqe.res, res);
		quiet += !!(cqe.flags & URCCL_CQE_REMOTE_QUIET);
	}
	return quiet;
}

static int64_t unregister(uint32_t us)
{
	struct urccl_sqe *sqe = side_sqe(&p.b);

	urccl_prep_unregister(sqe, t.region);
	urccl_sqe_set_deadline_us(sqe, us);
	return pair_run(&p, &p.b, sqe).res;
}

static void there(int reads, const char *hang)
{
	device_target_open(&p, &t, LEN);
	submit_all(reads, 0);
	CHECK_EQ(take_all(PART), PARTS);
	device_set(hang);
	submit_all(reads, WAIT);
	CHECK_LE(take_all(-ETIMEDOUT), reads ? PARTS : PARTS - 1);
	CHECK_EQ(unregister(WAIT), -ETIMEDOUT);
	device_set("hang=0");
	CHECK_EQ(unregister(0), 0);
	device_fill(t.device, LEN, 0, 5);
	if (local.host)
		memset(local.host, 0x5a, LEN);
	CHECK_EQ(urccl_unimport(p.a.ctx, t.remote), 0);
	device_target_open(&p, &t, LEN);
	submit_all(reads, 0);
	CHECK_EQ(take_all(PART), PARTS);
	CHECK_EQ(unregister(0), 0);
	CHECK_EQ(urccl_unimport(p.a.ctx, t.remote), 0);
}

static void here(void)
{
	const struct relay_local device = {.device = device_alloc(PART, 0)};
	struct urccl_region r = side_register(&p.a, relay_at(&device, 0), PART, 0);
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;
	unsigned long calls;

	device_target_open(&p, &t, LEN);
	device_fill(t.device, LEN, 0, 6);
	device_set("hang=7"); /* the streams of b are before it */
	calls = device_calls(NULL, "cuMemcpy");
	urccl_prep_write(sqe, t.remote, relay_at(&device, 0), PART, 0);
	urccl_sqe_set_deadline_us(sqe, WAIT);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	while (device_calls(NULL, "cuMemcpy") == calls) { /* or it is taken back */
		side_turn(&p.a);
		side_turn(&p.b);
	}
	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	CHECK(cqe.flags & URCCL_CQE_MORE);
	device_set("hang=0");
	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	CHECK(!(cqe.flags & URCCL_CQE_MORE));
	CHECK(cqe.flags & URCCL_CQE_REMOTE_QUIET);
	CHECK(device_check(t.device, LEN, 0, 6));
	CHECK_EQ(urccl_unregister(p.a.ctx, r), 0);
}

int main(int argc, char **argv)
{
	relay_begin(&p, argc, argv);
	local = relay_ordinary(LEN);
	side_register(&p.a, local.host, LEN, 0);
	there(0, "hang=2");
	there(1, "hang=1");
	here();
	pair_close(&p);
	free(local.host);
	return 0;
}
