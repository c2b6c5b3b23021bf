/* SPDX-License-Identifier: Apache-2.0 */
/* A peer process is killed, or stopped for a while, at any moment of its data path's being let go
 * or coming back: entries end as with any peer, by their deadline or with its loss, and one that
 * goes on is used on. */
#include <signal.h>
#include <sys/wait.h>
#include "child.h"
#include "meet.h"

#define LEN    4096u
#define ROUNDS (PAIR_SLOW ? 5u : 25u)

static struct pair p;
static struct child child, other;
static struct urccl_peer its_peer, other_peer;
static struct urccl_remote remote, other_remote;
static uint8_t *local;

static void post_write(struct urccl_remote to, uint32_t us, uint64_t id)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, to, local, LEN, 0);
	urccl_sqe_set_deadline_us(sqe, us);
	urccl_sqe_set_data64(sqe, id);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static int64_t run_write(struct urccl_remote to, uint32_t us)
{
	post_write(to, us, 1);
	return side_end(&p.a, NULL, 1).res;
}

static void meet(struct child *c, struct urccl_peer *peer, struct urccl_remote *r)
{
	child_start(&p, c, LEN, NULL);
	child_connect(&p, c);
	*peer = p.a.peer;
	CHECK_EQ(urccl_import(p.a.ctx, *peer, &c->advert, 1, r), 0);
	CHECK_EQ(run_write(*r, 20000000), LEN);
}

/* Some time within what it takes to let go. */
static void moment(uint32_t round)
{
	uint64_t until = now_ns() + round * 97 % ROUNDS * 100000;

	while (now_ns() < until)
		;
}

/* The path of the child is the one to go, or comes back in every other round. */
static void begin(uint32_t round)
{
	struct urccl_peer_info info = {.size = sizeof(info)};
	uint64_t until = now_ns() + 100000000;

	CHECK_EQ(run_write(other_remote, 20000000), LEN);
	if (round % 2) {
		do
			CHECK_EQ(urccl_get_peer_info(p.a.ctx, its_peer, &info), 0);
		while (info.warm && now_ns() < until);
		post_write(remote, 200000, 2);
	}
	moment(round);
}

/* Of the one that begin() left on its way; its time may be over before the peer's end is known. */
static void take_begun(uint32_t round, int64_t res)
{
	struct urccl_cqe cqe;

	if (!(round % 2))
		return;
	cqe = side_end(&p.a, NULL, 2);
	CHECK(cqe.res == LEN || cqe.res == -ETIMEDOUT || cqe.res == res);
}

static void killed(void)
{
	uint32_t i;
	int64_t res;

	for (i = 0; i < ROUNDS; i++) {
		meet(&child, &its_peer, &remote);
		begin(i);
		child_kill(&child);
		take_begun(i, -ECONNRESET);
		res = run_write(remote, 20000000);
		CHECK_EQ(res, -ECONNRESET);
		CHECK_EQ(side_drop(&p.a, NULL, its_peer.id), 0);
	}
}

static void stopped(void)
{
	uint32_t i;
	int64_t res;
	int status;

	meet(&child, &its_peer, &remote);
	for (i = 0; i < ROUNDS; i++) {
		begin(i);
		CHECK_EQ(kill(child.pid, SIGSTOP), 0);
		CHECK_EQ(waitpid(child.pid, &status, WUNTRACED), child.pid);
		take_begun(i, -ETIMEDOUT);
		res = run_write(remote, 20000);
		/* An RDMA device that has a path goes on without its process. */
		CHECK(res == -ETIMEDOUT || (pair_is_nic(&p) && res == LEN));
		CHECK_EQ(kill(child.pid, SIGCONT), 0);
		CHECK_EQ(run_write(remote, 20000000), LEN);
	}
	child_kill(&child);
}

int main(int argc, char **argv)
{
	child_main(argc, argv);
	pair_options(&p, argc, argv);
	if (p.transport == URCCL_TRANSPORT_SIM)
		SKIP("a simulated network ends at the process");
	p.params.max_warm = 1;
	side_open(&p, &p.a);
	p.params.max_warm = 0;
	local = calloc(1, LEN);
	CHECK(local);
	side_register(&p.a, local, LEN, 0);
	meet(&other, &other_peer, &other_remote);
	stopped();
	killed();
	child_kill(&other);
	side_close(&p.a);
	free(local);
	return 0;
}
