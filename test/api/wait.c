/* SPDX-License-Identifier: Apache-2.0 */
/* urccl_wait() against real traffic: for several CQEs, for fewer after a while, for room, up to a
 * time; and an entry whose CQE is to wake nobody wakes nobody. */
#include <poll.h>
#include "pair.h"

#define N   16u
#define LEN (256u << 10)

static struct pair p;
static struct target t;
static uint8_t *local;

static void submit_writes(uint32_t n)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < n; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, local, LEN, 0);
		urccl_sqe_set_data64(sqe, i);
	}
	CHECK_EQ(urccl_submit(p.a.ring), (int)n);
}

static void submit_timeout(uint64_t ns, uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_timeout(sqe, ns, 0, 0);
	urccl_sqe_set_data64(sqe, user_data);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static int wait(uint32_t min_n, uint64_t timeout_ns, uint64_t min_wait_ns, struct urccl_cqe **cqe)
{
	struct urccl_wait_args args = {.size = sizeof(args),
				       .min_n = min_n,
				       .timeout_ns = timeout_ns,
				       .min_wait_ns = min_wait_ns};

	return urccl_wait(p.a.ring, cqe, &args);
}

static void several(void)
{
	struct urccl_cqe *cqe;
	int n;

	submit_writes(N);
	CHECK_EQ(wait(N, PAIR_LATE_NS, 0, &cqe), N);
	CHECK_EQ(cqe->res, LEN);
	/* There are no more: the time runs out, and what is there is shown. */
	CHECK_EQ(wait(N + 1, 1000000, 0, &cqe), -ETIME);
	CHECK(cqe);
	urccl_cq_advance(p.a.ring, N);
	CHECK_EQ(wait(1, 0, 0, &cqe), -ETIME);
	CHECK(!cqe);
	for (n = N / 2; n; n--)
		submit_writes(2);
	CHECK_EQ(urccl_submit_and_wait(p.a.ring, N), 0);
	CHECK_EQ(urccl_cq_ready(p.a.ring), N);
	urccl_cq_advance(p.a.ring, N);
}

/* With min_wait one is enough after that time, and not before. */
static void gather(void)
{
	struct urccl_cqe *cqe;
	uint64_t start;

	submit_writes(3);
	CHECK_EQ(wait(3, PAIR_LATE_NS, 0, &cqe), 3);
	start = now_ns();
	CHECK_EQ(wait(10, PAIR_LATE_NS, 50000000, &cqe), 3);
	CHECK_GE(now_ns() - start, 50000000);
	urccl_cq_advance(p.a.ring, 3);
	start = now_ns();
	submit_timeout(60000000, 7);
	CHECK_EQ(wait(10, PAIR_LATE_NS, 1000000, &cqe), 1);
	CHECK_GE(now_ns() - start, 60000000);
	CHECK_EQ(cqe->res, -ETIME);
	urccl_cq_advance(p.a.ring, 1);
}

static void room(void)
{
	uint32_t i, entries = urccl_sq_space_left(p.a.ring);
	uint64_t start;
	int n;

	for (i = 0; i < entries - 1; i++)
		submit_timeout(100000000000, 1);
	start = now_ns();
	submit_timeout(30000000, 2);
	CHECK(!urccl_get_sqe(p.a.ring));
	n = urccl_wait_room(p.a.ring, 1, 1000000);
	CHECK(n == -ETIME || (n == 1 && now_ns() - start >= 30000000));
	/* Room is counted as if what is there had been seen. */
	CHECK_EQ(urccl_wait_room(p.a.ring, 1, PAIR_LATE_NS), 1);
	CHECK(!urccl_get_sqe(p.a.ring));
	CHECK_EQ(urccl_wait_room(p.a.ring, 1, PAIR_LATE_NS), 1);
	CHECK_EQ(pair_end(&p, &p.a, 2).res, -ETIME);
	urccl_prep_cancel(side_sqe(&p.a), URCCL_CANCEL_BY_USER_DATA, 1);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_GE(urccl_wait_room(p.a.ring, entries / 2, PAIR_LATE_NS), (int)(entries / 2));
	for (i = 0; i < entries - 1; i++)
		CHECK_EQ(pair_end(&p, &p.a, 1).res, -ECANCELED);
	CHECK_EQ(pair_end(&p, &p.a, 0).res, entries - 1);
}

static int is_readable(int timeout_ms)
{
	struct pollfd pfd = {.fd = urccl_ring_fd(p.a.ring), .events = POLLIN};

	return poll(&pfd, 1, timeout_ms);
}

static void wakes_nobody(void)
{
	struct urccl_sqe *sqe;

	while (urccl_arm(p.a.ring, URCCL_ARM_FOR_CQE, 0))
		;
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	urccl_sqe_add_flags(sqe, URCCL_SQE_NO_WAKE);
	urccl_sqe_set_data64(sqe, 1);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	while (!urccl_cq_ready(p.a.ring))
		;
	CHECK_EQ(is_readable(20), 0);
	/* The next one wakes for both. */
	sqe = side_sqe(&p.a);
	urccl_prep_nop(sqe);
	urccl_sqe_set_data64(sqe, 2);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(is_readable((int)(PAIR_LATE_NS / 1000000)), 1);
	CHECK_EQ(urccl_cq_ready(p.a.ring), 2);
	CHECK_EQ(pair_end(&p, &p.a, 1).res, LEN);
	CHECK_EQ(pair_end(&p, &p.a, 2).res, 0);
}

static void refused(void)
{
	struct urccl_wait_args args = {.size = sizeof(args), .min_n = 1u << 20};

	CHECK_EQ(urccl_wait(p.a.ring, NULL, &args), -EINVAL);
	CHECK_EQ(urccl_wait_room(p.a.ring, 1u << 20, 0), -EINVAL);
	CHECK_EQ(urccl_arm(p.a.ring, 0, 0), -EINVAL);
	CHECK_EQ(urccl_arm(p.a.ring, URCCL_ARM_FOR_ROOM, 1u << 20), -EINVAL);
	CHECK(strstr(urccl_errmsg(), "room"));
}

int main(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	target_open(&p, &t, LEN, 0);
	local = calloc(1, LEN);
	CHECK(local);
	side_register(&p.a, local, LEN, 0);
	several();
	gather();
	room();
	wakes_nobody();
	refused();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
