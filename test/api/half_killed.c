/* SPDX-License-Identifier: Apache-2.0 */
/* A peer is killed while this process is stopped for a moment, with READs of ours under way, much
 * of which is here and not taken, and WRITEs that cannot go on. Each ends, the process lives, and
 * what is said to be read is. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "child.h"

#define READS	220u
#define WRITES	20u
#define ENTRIES (READS + WRITES)
#define SIZE	4000u
#define LEN	(ENTRIES * SIZE)
#define ROUNDS	5u
#define MOST_US 500 /* that the entries have before we are stopped */

static struct pair p;
static uint8_t *local;

static void away(long us)
{
	struct timespec time = {.tv_nsec = us * 1000};

	nanosleep(&time, NULL);
}

/* Stops us at a random moment, kills the peer meanwhile, and lets us go on. */
static pid_t killer_start(pid_t peer)
{
	long moment = 1 + rand() % MOST_US;
	pid_t us = getpid(), pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	away(moment);
	kill(us, SIGSTOP);
	away(30000);
	kill(peer, SIGKILL);
	away(20000);
	kill(us, SIGCONT);
	_exit(0);
}

static int is_write(uint64_t i)
{
	return i >= READS / 2 && i < READS / 2 + WRITES;
}

static void submit(struct urccl_remote remote, uint32_t from, uint32_t to)
{
	uint32_t i, off;

	for (i = from; i < to; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		off = i * SIZE;
		if (is_write(i))
			urccl_prep_write(sqe, remote, local + off, SIZE, off);
		else
			urccl_prep_read(sqe, remote, local + off, SIZE, off);
		urccl_sqe_set_data64(sqe, i);
	}
	CHECK_EQ(urccl_submit(p.a.ring), (int)(to - from));
}

/* The peer's memory is zero but where we write. */
static void take_one(void)
{
	struct urccl_cqe cqe;
	const uint8_t *at;

	do
		side_take(&p.a, NULL, &cqe, NULL);
	while (cqe.flags & URCCL_CQE_MORE);
	CHECK_LE(cqe.user_data, ENTRIES - 1);
	if (cqe.res < 0 || is_write(cqe.user_data))
		return;
	CHECK_EQ(cqe.res, SIZE);
	at = local + cqe.user_data * SIZE;
	CHECK(!at[0] && !memcmp(at, at + 1, SIZE - 1));
}

static void peer_close(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_close(sqe, p.a.peer);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	side_take(&p.a, NULL, &cqe, NULL);
}

static void round_of(void)
{
	struct urccl_remote remote;
	struct child c;
	uint32_t i;
	pid_t pid;

	child_start(&p, &c, LEN, NULL);
	child_connect(&p, &c);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &c.advert, 1, &remote), 0);
	memset(local, 1, LEN);
	submit(remote, 0, 1);
	take_one();
	pid = killer_start(c.pid);
	submit(remote, 0, READS / 2);
	submit(remote, READS / 2, READS / 2 + WRITES);
	submit(remote, READS / 2 + WRITES, ENTRIES);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	child_kill(&c);
	for (i = 0; i < ENTRIES; i++)
		take_one();
	peer_close();
}

int main(int argc, char **argv)
{
	uint32_t i;

	child_main(argc, argv);
	pair_options(&p, argc, argv);
	srand((unsigned int)getpid());
	local = malloc(LEN);
	CHECK(local);
	side_open(&p, &p.a);
	side_register(&p.a, local, LEN, URCCL_RIGHT_READ);
	for (i = 0; i < ROUNDS; i++)
		round_of();
	side_close(&p.a);
	free(local);
	return 0;
}
