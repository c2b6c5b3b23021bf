/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled with URCCL_CHECK, a program's misuse of a ring is told to its log, once a ring, and what
 * is right is not: two producers, CQEs seen twice, entries that are never submitted. */
#define URCCL_CHECK
#include <pthread.h>
#include "pair.h"

static struct pair p;
static struct side s;
static char said[8][400];
static int nsaid;

/* Errors and warnings, all of which come from the thread that does it. */
static void hear(void *arg, int level, const char *text)
{
	(void)arg;
	if (level > URCCL_LOG_WARN)
		return;
	CHECK(nsaid < 8);
	snprintf(said[nsaid++], sizeof(said[0]), "%s", text);
}

/* Only the last line is new. */
static void told(int n, const char *part)
{
	if (nsaid != n || !strstr(said[n - 1], part))
		fprintf(stderr, "of %d: \"%s\" has no \"%s\"\n", nsaid,
			nsaid ? said[nsaid - 1] : "", part);
	CHECK_EQ(nsaid, n);
	CHECK(strstr(said[n - 1], part));
}

static void nops(uint32_t n)
{
	while (n--)
		urccl_prep_nop(urccl_get_sqe(s.ring));
}

static void run_nops(uint32_t n)
{
	struct urccl_wait_args args = {.size = sizeof(args),
				       .min_n = n,
				       .timeout_ns = PAIR_LATE_NS};

	nops(n);
	CHECK_EQ(urccl_submit(s.ring), (int)n);
	CHECK_GE(urccl_wait(s.ring, NULL, &args), (int)n);
}

static void open_ring(void)
{
	nsaid = 0;
	CHECK_EQ(urccl_ring_open(s.ctx, NULL, &s.ring), 0);
}

/* Entries by one thread and then by another, CQEs by ones and by many. */
static void right(void)
{
	struct urccl_cqe *cqe;
	uint32_t i, head;

	run_nops(3);
	for (i = 0; i < 3; i++)
		urccl_cqe_seen(s.ring, urccl_peek_cqe(s.ring));
	run_nops(3);
	urccl_for_each_cqe(s.ring, head, cqe)
		urccl_cqe_seen(s.ring, cqe);
	run_nops(3);
	urccl_cq_advance(s.ring, 3);
	CHECK_EQ(nsaid, 0);
}

static void seen_twice(void)
{
	struct urccl_cqe *first;

	run_nops(2);
	first = urccl_peek_cqe(s.ring);
	urccl_cqe_seen(s.ring, first);
	CHECK_EQ(nsaid, 0);
	urccl_cqe_seen(s.ring, first);
	told(1, "it was seen before, or out of turn");
	CHECK_EQ(urccl_cq_ready(s.ring), 1);
	urccl_cqe_seen(s.ring, first);
	urccl_cq_advance(s.ring, 1);
	CHECK_EQ(nsaid, 1);
	urccl_ring_close(s.ring);
	open_ring();
	run_nops(2);
	urccl_cq_advance(s.ring, 3);
	told(1, "3 CQEs were to be taken, and 2 are there");
	CHECK_EQ(urccl_cq_ready(s.ring), 0);
}

static void *take(void *arg)
{
	(void)arg;
	nops(1);
	return NULL;
}

static void two_producers(void)
{
	pthread_t other;

	open_ring();
	CHECK_EQ(pthread_create(&other, NULL, take, NULL), 0);
	CHECK_EQ(pthread_join(other, NULL), 0);
	CHECK_EQ(nsaid, 0);
	CHECK_EQ(urccl_submit(s.ring), 1);
	told(1, "has two producers: a thread calls urccl_submit()");
	run_nops(1);
	CHECK_EQ(nsaid, 1);
	urccl_ring_close(s.ring);
	open_ring();
	nops(2);
	CHECK_EQ(pthread_create(&other, NULL, take, NULL), 0);
	CHECK_EQ(pthread_join(other, NULL), 0);
	told(1, "calls urccl_get_sqe() while another has taken 2 entries");
	CHECK_EQ(urccl_submit(s.ring), 3);
	urccl_ring_close(s.ring);
}

static void never_submitted(void)
{
	struct urccl_wait_args args = {.size = sizeof(args), .timeout_ns = 1};

	open_ring();
	nops(2);
	CHECK_EQ(urccl_wait(s.ring, NULL, &args), -ETIME);
	told(1, "has taken 2 entries and not submitted them");
	CHECK_EQ(urccl_wait(s.ring, NULL, &args), -ETIME);
	CHECK_EQ(nsaid, 1);
	urccl_ring_close(s.ring);
	told(2, "2 of its entries were taken and never submitted");
}

int main(int argc, char **argv)
{
	pair_options(&p, argc, argv);
	pair_sim(&p);
	p.params.log = hear;
	side_open(&p, &s);
	right();
	seen_twice();
	urccl_ring_close(s.ring);
	two_producers();
	never_submitted();
	open_ring();
	nops(1);
	CHECK_EQ(nsaid, 0);
	side_close(&s);
	told(1, "1 of its entries were taken and never submitted");
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
