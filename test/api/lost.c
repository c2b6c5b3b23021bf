/* SPDX-License-Identifier: Apache-2.0 */
/* A peer process that is killed in the middle of writes, reads and notifications: every entry ends
 * soon with success or -ECONNRESET, LOST comes once and last, new entries on the old handle fail at
 * once, and after CLOSE it is stale. The survivor then serves a new peer as if nothing had been. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "pair.h"

#define LEN  (16u << 20)
#define N    60u
#define MARK 5000u

static struct pair p;
static uint8_t *local;
static int to_child[2], from_child[2];

/* What the child tells of itself. */
struct tell {
	uint8_t blob[URCCL_METADATA_MAX];
	int len;
	struct urccl_advert advert;
};

/* Serves until it is killed. */
static void child(void)
{
	struct tell tell;
	void *memory;
	struct urccl_region region;
	struct urccl_sqe *sqe;
	struct urccl_cqe *cqe;

	side_open(&p, &p.b);
	sqe = side_sqe(&p.b);
	urccl_prep_accept(sqe);
	sqe = side_sqe(&p.b);
	urccl_prep_watch(sqe, (struct urccl_peer){0});
	urccl_submit(p.b.ring);
	CHECK_EQ(urccl_alloc(p.b.ctx, LEN, &memory), 0);
	region = side_register(&p.b, memory, LEN, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	CHECK_EQ(urccl_advertise(p.b.ctx, region, 0, LEN, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE, 0,
				 &tell.advert),
		 0);
	tell.len = urccl_metadata(p.b.ctx, tell.blob, sizeof(tell.blob));
	CHECK_EQ(write(from_child[1], &tell, sizeof(tell)), sizeof(tell));
	for (;;) {
		if (urccl_wait(p.b.ring, &cqe, NULL) > 0)
			urccl_cqe_seen(p.b.ring, cqe);
	}
}

static struct urccl_remote meet(pid_t *pid)
{
	struct urccl_remote remote;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	struct tell tell;

	*pid = fork();
	if (!*pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		child();
	}
	CHECK_EQ(read(from_child[0], &tell, sizeof(tell)), sizeof(tell));
	if (!p.a.ctx)
		side_open(&p, &p.a);
	sqe = side_sqe(&p.a);
	urccl_prep_connect(sqe, tell.blob, (uint32_t)tell.len);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, 0);
	p.a.peer.id = (uint32_t)cqe.handle;
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &tell.advert, 1, &remote), 0);
	sqe = side_sqe(&p.a);
	urccl_prep_watch(sqe, p.a.peer);
	urccl_sqe_set_data64(sqe, MARK);
	urccl_submit(p.a.ring);
	return remote;
}

static void submit_some(struct urccl_remote remote)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < N; i++) {
		sqe = side_sqe(&p.a);
		if (i % 3 == 0)
			urccl_prep_write(sqe, remote, local, LEN, 0);
		else if (i % 3 == 1)
			urccl_prep_read(sqe, remote, local, LEN, 0);
		else
			urccl_prep_notify(sqe, p.a.peer, i, NULL, 0);
		urccl_sqe_set_data64(sqe, i);
		urccl_sqe_set_deadline_us(sqe, 20000000);
	}
	CHECK_EQ(urccl_submit(p.a.ring), N);
}

static void take_ends(uint64_t killed_ns)
{
	uint32_t left = N, lost = 0;
	struct urccl_cqe cqe;

	while (left || !lost) {
		side_take(&p.a, NULL, &cqe, NULL);
		if (pair_is_outcome(&p, &cqe))
			continue;
		CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
		if (urccl_cqe_kind(&cqe) == URCCL_KIND_LOST) {
			CHECK_EQ(cqe.user_data, MARK);
			CHECK_EQ(cqe.res, -ECONNRESET);
			check_sentence(&p.a, &cqe, "connection");
			lost++;
			continue;
		}
		left--;
		CHECK(cqe.res >= 0 || cqe.res == -ECONNRESET);
	}
	CHECK_EQ(lost, 1);
	CHECK(!is_late(killed_ns + 2000000000));
}

static void old_handles(struct urccl_remote remote)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_write(sqe, remote, local, 1, 0);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, -ECONNRESET);
	check_sentence(&p.a, &cqe, "lost");
	sqe = side_sqe(&p.a);
	urccl_prep_close(sqe, p.a.peer);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 0);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, remote, local, 1, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -ESTALE);
}

int main(int argc, char **argv)
{
	struct urccl_remote remote;
	uint64_t killed;
	pid_t pid;
	int i;

	pair_options(&p, argc, argv);
	if (p.transport == URCCL_TRANSPORT_SIM)
		SKIP("a simulated network ends at the process");
	CHECK(!pipe(to_child) && !pipe(from_child));
	local = malloc(LEN);
	CHECK(local);
	for (i = 0; i < 5; i++) {
		remote = meet(&pid);
		if (!i)
			side_register(&p.a, local, LEN, 0);
		submit_some(remote);
		killed = now_ns();
		kill(pid, SIGKILL);
		CHECK_EQ(waitpid(pid, NULL, 0), pid);
		take_ends(killed);
		old_handles(remote);
	}
	side_close(&p.a);
	return 0;
}
