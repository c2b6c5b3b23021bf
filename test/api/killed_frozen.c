/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that was stopped while it had memory of ours mapped, and lost for its silence, is killed
 * while a forked child holds its sockets: UNREGISTER, which ended with -ETIMEDOUT before, succeeds
 * within 100 ms of it. */
#include <signal.h>
#include <sys/wait.h>
#include "killed.h"
#include "lateness.h"

#define LEN	KILLED_LEN
#define RW	(URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)
#define TRIES	3u	/* of which the best counts */
#define WAIT_US 300000u /* more than a peer has to let go */

static struct pair p;
static uint8_t local[LEN];

static void use(struct side *s, struct killed_page *page)
{
	struct urccl_remote remote;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	side_register(s, local, LEN, 0);
	CHECK_EQ(urccl_import(s->ctx, s->peer, &page->of_us, 1, &remote), 0);
	sqe = side_sqe(s);
	urccl_prep_write(sqe, remote, local, LEN, 0);
	CHECK_EQ(urccl_submit(s->ring), 1);
	side_take(s, NULL, &cqe, NULL);
	CHECK_EQ(cqe.res, LEN);
}

/* It is awaited, so that its silence counts. */
static void lost_while_stopped(const struct killed *k)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;
	int status;

	killed_signal(k, SIGSTOP);
	CHECK_EQ(waitpid(k->pid, &status, WUNTRACED), k->pid);
	CHECK(WIFSTOPPED(status));
	urccl_prep_notify(sqe, p.a.peer, 1, NULL, 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	do
		side_take(&p.a, NULL, &cqe, NULL);
	while (urccl_cqe_kind(&cqe) != URCCL_KIND_LOST);
	check_sentence(&p.a, &cqe, "nothing was heard");
}

static int64_t unregister(struct urccl_region region, uint64_t us)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_unregister(sqe, region);
	urccl_sqe_set_deadline_us(sqe, us);
	urccl_sqe_set_data64(sqe, 9);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	return side_end(&p.a, NULL, 9).res;
}

static uint64_t one(struct killed *k)
{
	struct urccl_region region;
	uint64_t killed, took;
	void *m;

	CHECK_EQ(urccl_alloc(p.a.ctx, LEN, &m), 0);
	region = side_register(&p.a, m, LEN, RW);
	CHECK_EQ(urccl_advertise(p.a.ctx, region, 0, LEN, RW, 0, &k->page->of_us), 0);
	killed_start(&p, k);
	lost_while_stopped(k);
	CHECK_EQ(unregister(region, WAIT_US), -ETIMEDOUT);
	killed = killed_signal(k, SIGKILL);
	CHECK_EQ(unregister(region, 20000000), 0);
	took = now_ns() - killed;
	CHECK_EQ(urccl_free(p.a.ctx, m), 0);
	CHECK_EQ(side_drop(&p.a, NULL, p.a.peer.id), 0);
	killed_end(k);
	return took;
}

int main(int argc, char **argv)
{
	uint64_t best = UINT64_MAX, took;
	struct killed k;
	uint32_t i;

	killed_possible();
	pair_options(&p, argc, argv);
	p.params.dead_after_ms = 200;
	side_open(&p, &p.a);
	killed_open(&p, &k);
	k.use = use;
	for (i = 0; i < TRIES; i++) {
		took = one(&k);
		best = took < best ? took : best;
	}
	printf("memory was free after %llu us\n", (unsigned long long)best / 1000);
	CHECK_LE(best, KILLED_NS + emulated_ns());
	side_close(&p.a);
	return 0;
}
