/* SPDX-License-Identifier: Apache-2.0 */
/* In a forked child the rings and the context are dead and say so, whatever it calls; what the
 * parent had in flight and does next is not touched by that, nor by the child's end. */
#include <sys/wait.h>
#include "pair.h"

#define N   64u
#define LEN (256u << 10)

static struct pair p;
static struct target t;
static uint8_t *local;

static void is_dead(int res)
{
	CHECK_EQ(res, -EPERM);
	CHECK(strstr(urccl_errmsg(), "forked"));
}

static void child(void)
{
	struct urccl_peer_info info = {.size = sizeof(info)};
	struct urccl_stats stats = {.size = sizeof(stats)};
	struct urccl_range range = {.addr = (uintptr_t)local, .len = LEN, .fd = -1};
	struct urccl_cqe cqe = {.res = -EIO}, *first = &cqe;
	struct urccl_region region;
	struct urccl_remote remote;
	struct urccl_advert advert;
	struct urccl_ring *ring;
	uint8_t buf[512];
	void *addr;

	CHECK(!urccl_get_sqe(p.a.ring));
	CHECK_EQ(urccl_sq_space_left(p.a.ring), 0);
	CHECK(!urccl_peek_cqe(p.a.ring));
	CHECK_EQ(urccl_cq_ready(p.a.ring), 0);
	CHECK_EQ(urccl_submit(p.a.ring), -EPERM);
	is_dead(urccl_submit_and_wait(p.a.ring, 1));
	is_dead(urccl_wait(p.a.ring, &first, NULL));
	is_dead(urccl_arm(p.a.ring, URCCL_ARM_FOR_CQE, 0));
	CHECK_EQ(urccl_ring_fd(p.a.ring), -EPERM);
	urccl_cq_advance(p.a.ring, 1);
	is_dead(urccl_register(p.a.ctx, &range, 1, 0, &region));
	is_dead(urccl_unregister(p.b.ctx, t.region));
	is_dead(urccl_alloc(p.a.ctx, 4096, &addr));
	is_dead(urccl_free(p.a.ctx, t.bytes));
	is_dead(urccl_advertise(p.b.ctx, t.region, 0, 1, URCCL_RIGHT_READ, 0, &advert));
	is_dead(urccl_import(p.a.ctx, p.a.peer, &t.advert, 1, &remote));
	is_dead(urccl_unimport(p.a.ctx, t.remote));
	is_dead(urccl_metadata(p.a.ctx, buf, sizeof(buf)));
	is_dead(urccl_get_peer_info(p.a.ctx, p.a.peer, &info));
	is_dead(urccl_get_stats(p.a.ctx, &stats));
	is_dead(urccl_dump(p.a.ctx, 2));
	is_dead(urccl_explain(p.a.ctx, &cqe, (char *)buf, sizeof(buf)));
	is_dead(urccl_ring_open(p.a.ctx, NULL, &ring));
	urccl_ring_close(p.a.ring);
	urccl_close(p.a.ctx);
	urccl_close(p.b.ctx);
	test_end(0);
}

static void submit_writes(uint64_t version)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	pattern_fill(local, LEN, 0, version);
	for (i = 0; i < N; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, local, LEN, 0);
	}
	CHECK_EQ(urccl_submit(p.a.ring), N);
}

static void take_writes(uint64_t version)
{
	uint32_t i;

	for (i = 0; i < N; i++)
		CHECK_EQ(pair_end(&p, &p.a, 0).res, LEN);
	CHECK(pattern_holds(t.bytes, LEN, 0, version));
}

int main(int argc, char **argv)
{
	uint64_t round;
	int status;
	pid_t pid;

	pair_begin(&p, argc, argv);
	target_open(&p, &t, LEN, 1);
	local = calloc(1, LEN);
	CHECK(local);
	side_register(&p.a, local, LEN, 0);
	for (round = 0; round < 5; round++) {
		submit_writes(round);
		pid = fork();
		CHECK(pid >= 0);
		if (!pid)
			child();
		take_writes(round);
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		submit_writes(round + 10);
		take_writes(round + 10);
	}
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
