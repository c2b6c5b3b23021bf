/* SPDX-License-Identifier: Apache-2.0 */
/* A peer process that is stopped: entries end by their deadlines; where those are long the peer
 * counts as lost after dead_after_ms; and when it goes on, nothing of them touches our memory, and
 * what was said to be quiet there is. */
#include <signal.h>
#include <sys/wait.h>
#include "child.h"
#include "meet.h"

#define N   48u
#define LEN (256u << 10)

static struct pair p;
static struct child child;
static struct urccl_remote remote;
static uint8_t *local;

static void submit_all(uint32_t us)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < N; i++) {
		sqe = side_sqe(&p.a);
		if (i % 4 == 3)
			urccl_prep_notify(sqe, p.a.peer, i, NULL, 0);
		else if (i % 2)
			urccl_prep_write(sqe, remote, local + i * LEN, LEN, i * LEN);
		else
			urccl_prep_read(sqe, remote, local + i * LEN, LEN, i * LEN);
		urccl_sqe_set_deadline_us(sqe, us);
		urccl_sqe_set_data64(sqe, i);
	}
	CHECK_EQ(urccl_submit(p.a.ring), N);
}

/* Each ends once; how many with res. */
static uint32_t take_all(int64_t res, const char *why)
{
	uint32_t seen[N] = {0}, ended = 0, failed = 0;
	struct urccl_cqe cqe;

	while (ended < N) {
		side_take(&p.a, NULL, &cqe, NULL);
		if (cqe.flags & URCCL_CQE_MORE)
			continue;
		ended++;
		CHECK(cqe.user_data < N && !seen[cqe.user_data]++);
		if (cqe.res >= 0)
			continue;
		CHECK_EQ(cqe.res, res);
		check_sentence(&p.a, &cqe, why);
		failed++;
	}
	return failed;
}

static void begin(void)
{
	int status;

	child_start(&p, &child, (uint64_t)N * LEN, NULL);
	child_connect(&p, &child);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &child.advert, 1, &remote), 0);
	submit_all(20000000);
	CHECK_EQ(take_all(0, ""), 0);
	CHECK_EQ(kill(child.pid, SIGSTOP), 0);
	CHECK_EQ(waitpid(child.pid, &status, WUNTRACED), child.pid);
	CHECK(WIFSTOPPED(status));
}

/* It goes on; what it still sends or takes is looked at for a while. */
static void end(void)
{
	struct urccl_cqe cqe;
	uint32_t i;

	memset(local, 0x5a, (size_t)N * LEN);
	CHECK_EQ(kill(child.pid, SIGCONT), 0);
	for (i = 0; i < 50; i++)
		side_take_within(&p.a, NULL, 1000000, &cqe, NULL);
	for (i = 0; i < N * LEN; i += 13)
		CHECK_EQ(local[i], 0x5a);
	side_drop(&p.a, NULL, p.a.peer.id);
	child_kill(&child);
}

int main(int argc, char **argv)
{
	uint32_t patience;
	uint64_t start;

	child_main(argc, argv);
	pair_options(&p, argc, argv);
	if (p.transport == URCCL_TRANSPORT_SIM)
		SKIP("a simulated network ends at the process");
	local = calloc(N, LEN);
	CHECK(local);
	side_open(&p, &p.a);
	side_register(&p.a, local, (uint64_t)N * LEN, 0);
	begin();
	submit_all(200000);
	CHECK_GE(take_all(-ETIMEDOUT, "200000 us"), N / 4);
	end();
	side_close(&p.a);

	/* Ours alone is impatient: the child may find the machine late before it is stopped. */
	patience = p.params.dead_after_ms;
	p.params.dead_after_ms = 1000;
	side_open(&p, &p.a);
	p.params.dead_after_ms = patience;
	side_register(&p.a, local, (uint64_t)N * LEN, 0);
	begin();
	start = now_ns();
	submit_all(60000000);
	CHECK_GE(take_all(-ECONNRESET, "1000 ms"), N / 4);
	CHECK(!is_late(start + 8000000000));
	end();
	side_close(&p.a);
	free(local);
	return 0;
}
