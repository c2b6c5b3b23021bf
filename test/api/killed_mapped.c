/* SPDX-License-Identifier: Apache-2.0 */
/* Each side has memory of the other mapped when the peer is killed, in the middle of its writing,
 * while a forked child holds its sockets: UNREGISTER succeeds within 100 ms, before LOST was taken
 * or behind it, the memory is freed, and nothing lands in it meanwhile. */
#include <signal.h>
#include "killed.h"
#include "lateness.h"

#define LEN KILLED_LEN
#define RW  (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;

static struct urccl_remote writes_to(struct side *s, const struct urccl_advert *advert)
{
	static uint8_t local[LEN];
	struct urccl_remote remote;
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	side_register(s, local, LEN, 0);
	memset(local, 0x33, LEN);
	CHECK_EQ(urccl_import(s->ctx, s->peer, advert, 1, &remote), 0);
	sqe = side_sqe(s);
	urccl_prep_write(sqe, remote, local, LEN, 0);
	CHECK_EQ(urccl_submit(s->ring), 1);
	side_take(s, NULL, &cqe, NULL);
	CHECK_EQ(cqe.res, LEN);
	CHECK_EQ(cqe.path & (URCCL_PATH_BOUNCE_LOCAL | URCCL_PATH_BOUNCE_REMOTE), 0);
	return remote;
}

/* ---- the peer ---- */

static void use(struct side *s, struct killed_page *page)
{
	page->word = writes_to(s, &page->of_us).id;
}

static void serve(struct side *s, struct killed_page *page)
{
	static uint8_t local[LEN];
	struct urccl_cqe cqe;

	side_register(s, local, LEN, 0);
	for (;;) {
		struct urccl_sqe *sqe = side_sqe(s);

		urccl_prep_write(sqe, (struct urccl_remote){(uint32_t)page->word}, local, LEN, 0);
		CHECK_EQ(urccl_submit(s->ring), 1);
		side_take(s, NULL, &cqe, NULL);
	}
}

/* ---- ours ---- */

static uint64_t one(struct killed *k, int lost_first)
{
	struct urccl_region region;
	uint64_t killed, took, i;
	uint8_t *bytes;
	void *m;

	CHECK_EQ(urccl_alloc(p.a.ctx, LEN, &m), 0);
	bytes = m;
	region = side_register(&p.a, m, LEN, RW);
	CHECK_EQ(urccl_advertise(p.a.ctx, region, 0, LEN, RW, 0, &k->page->of_us), 0);
	killed_start(&p, k);
	writes_to(&p.a, &k->page->advert);
	killed = killed_signal(k, SIGKILL);
	if (lost_first)
		killed_lost(&p.a, 0, "process has ended");
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	took = now_ns() - killed;
	memset(bytes, 0x77, LEN);
	if (!lost_first)
		killed_lost(&p.a, 1, "process has ended");
	for (i = 0; i < LEN; i++)
		CHECK_EQ(bytes[i], 0x77);
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
	p.params.dead_after_ms = 600000;
	side_open(&p, &p.a);
	killed_open(&p, &k);
	k.use = use;
	k.serve = serve;
	for (i = 0; i < 2 * KILLED_TRIES; i++) {
		took = one(&k, i % 2);
		best = took < best ? took : best;
	}
	printf("memory was free after %llu us\n", (unsigned long long)best / 1000);
	CHECK_LE(best, KILLED_NS + emulated_ns());
	side_close(&p.a);
	return 0;
}
