/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that is stopped takes nothing, so what was sent to it fills the way there. A write that
 * is half sent ends by its deadline all the same, once and without MORE, and its buffer is ours:
 * what is scribbled there never turns up at the peer. Others to the same peer go on when the peer
 * does, and their bytes are right. */
#include <signal.h>
#include <sys/wait.h>
#include "child.h"
#include "meet.h"

#define LEN	(1u << 20)
#define LARGE	(16u * LEN)
#define OTHERS	12u
#define ALL	(LARGE + OTHERS * LEN)
#define DEAD_US 300000u
#define LONG_US 60000000u
#define LATE_NS 2000000000ull /* on a machine that does other things too */
#define FIRST	100u

static struct pair p;
static struct child child;
static struct urccl_remote remote;
static uint8_t *local, *back;

static void submit_write(uint64_t at, uint32_t len, uint32_t us, uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, remote, local + at, len, at);
	urccl_sqe_set_deadline_us(sqe, us);
	urccl_sqe_set_data64(sqe, user_data);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static void submit_others(void)
{
	uint64_t i;

	for (i = 0; i < OTHERS; i++)
		submit_write(LARGE + i * LEN, LEN, LONG_US, FIRST + i);
}

static void submit_read(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_read(sqe, remote, back, LEN, ALL - LEN);
	urccl_sqe_set_deadline_us(sqe, LONG_US);
	urccl_sqe_set_data64(sqe, FIRST + OTHERS);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static void freeze(int sig)
{
	int status;

	CHECK_EQ(kill(child.pid, sig), 0);
	if (sig != SIGSTOP)
		return;
	CHECK_EQ(waitpid(child.pid, &status, WUNTRACED), child.pid);
	CHECK(WIFSTOPPED(status));
}

/* Nothing but its end comes while the peer is stopped, unless others had gone already. */
static uint32_t await_large(uint64_t start)
{
	struct urccl_cqe cqe;
	uint32_t others = 0;

	for (;;) {
		side_take(&p.a, NULL, &cqe, NULL);
		if (pair_is_outcome(&p, &cqe))
			continue;
		CHECK(!(cqe.flags & URCCL_CQE_MORE));
		if (cqe.user_data == 1)
			break;
		CHECK_EQ(cqe.res, LEN);
		others++;
	}
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	/* A device goes on without its process, and ends what it was given. */
	if (!pair_is_nic(&p))
		CHECK(!(cqe.flags & URCCL_CQE_REMOTE_QUIET));
	CHECK(!is_late(start + DEAD_US * 1000ull + LATE_NS));
	return others;
}

static void await_others(uint32_t n)
{
	struct urccl_cqe cqe;

	for (; n; n--) {
		side_take(&p.a, NULL, &cqe, NULL);
		CHECK(!(cqe.flags & URCCL_CQE_MORE));
		CHECK_EQ(cqe.res, LEN);
	}
}

static void read_back(uint64_t at, uint32_t len)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_read(sqe, remote, back, len, at);
	urccl_sqe_set_data64(sqe, 3);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(side_end(&p.a, NULL, 3).res, len);
}

int main(int argc, char **argv)
{
	uint64_t start;
	uint32_t n;

	child_main(argc, argv);
	pair_options(&p, argc, argv);
	if (p.transport == URCCL_TRANSPORT_SIM)
		SKIP("a simulated network ends at the process");
	local = malloc(ALL);
	back = malloc(LARGE);
	CHECK(local && back);
	memset(local, 0x22, ALL);
	side_open(&p, &p.a);
	side_register(&p.a, local, ALL, 0);
	side_register(&p.a, back, LARGE, 0);
	child_start(&p, &child, ALL, NULL);
	child_connect(&p, &child);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &child.advert, 1, &remote), 0);
	read_back(0, LEN);
	freeze(SIGSTOP);
	start = now_ns();
	submit_write(0, LARGE, DEAD_US, 1);
	submit_others();
	submit_read();
	n = await_large(start);
	memset(local, 0x99, LARGE);
	freeze(SIGCONT);
	await_others(OTHERS + 1 - n);
	read_back(0, LARGE);
	CHECK(!memchr(back, 0x99, LARGE));
	read_back(LARGE, OTHERS * LEN);
	CHECK(back[0] == 0x22 && !memcmp(back, back + 1, OTHERS * LEN - 1));
	side_close(&p.a);
	child_kill(&child);
	return 0;
}
