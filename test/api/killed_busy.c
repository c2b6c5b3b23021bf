/* SPDX-License-Identifier: Apache-2.0 */
/* A peer is killed in the middle of writes, reads and notifications while a forked child holds its
 * sockets: within 100 ms each entry has ended with success or -ECONNRESET, and LOST came last. Its
 * memory is mapped here, or bytes go through the ring. */
#include <signal.h>
#include <stdlib.h>
#include "killed.h"
#include "lateness.h"

#define N 48u

static struct pair p;
static uint8_t *local;

static void submit(struct urccl_remote remote)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	for (i = 0; i < N; i++) {
		sqe = side_sqe(&p.a);
		if (i % 3 == 0)
			urccl_prep_write(sqe, remote, local, KILLED_LEN, 0);
		else if (i % 3 == 1)
			urccl_prep_read(sqe, remote, local, KILLED_LEN, 0);
		else
			urccl_prep_notify(sqe, p.a.peer, i, NULL, 0);
		urccl_sqe_set_deadline_us(sqe, 20000000);
	}
	CHECK_EQ(urccl_submit(p.a.ring), N);
}

/* Until all have ended. */
static void take_ends(int by_fd, uint32_t left)
{
	for (; left; left--) {
		struct urccl_cqe cqe = killed_next(&p.a, by_fd);

		CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_OP);
		CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
		CHECK(cqe.res >= 0 || cqe.res == -ECONNRESET);
	}
}

static uint64_t one(struct killed *k, int by_fd)
{
	struct urccl_remote remote;
	uint64_t killed, lost;

	killed_start(&p, k);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &k->page->advert, 1, &remote), 0);
	submit(remote);
	take_ends(by_fd, 3); /* others are under way */
	killed = killed_signal(k, SIGKILL);
	take_ends(by_fd, N - 3);
	lost = killed_lost(&p.a, by_fd, "process has ended");
	CHECK_EQ(side_drop(&p.a, NULL, p.a.peer.id), 0);
	killed_end(k);
	return lost - killed;
}

int main(int argc, char **argv)
{
	uint64_t took, best;
	struct killed k;
	uint32_t i, plain;

	killed_possible();
	pair_options(&p, argc, argv);
	p.params.dead_after_ms = 600000;
	side_open(&p, &p.a);
	local = calloc(1, KILLED_LEN);
	CHECK(local);
	side_register(&p.a, local, KILLED_LEN, 0);
	killed_open(&p, &k);
	for (plain = 0; plain < 2; plain++) {
		k.plain = (int)plain;
		best = UINT64_MAX;
		for (i = 0; i < KILLED_TRIES; i++) {
			took = one(&k, i % 2);
			best = took < best ? took : best;
		}
		printf("%s, lost after %llu us\n", plain ? "through the ring" : "mapped",
		       (unsigned long long)best / 1000);
		CHECK_LE(best, KILLED_NS + emulated_ns());
	}
	side_close(&p.a);
	return 0;
}
