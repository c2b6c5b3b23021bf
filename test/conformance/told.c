/* SPDX-License-Identifier: Apache-2.0 */
/* Who is told by a message of what was placed sees it, on another thread too: the sanitizers look
 * for the race. */
#include <pthread.h>
#include <sched.h>
#include "rig.h"

#define ROUNDS 300u
#define LEN    20000u

struct told {
	struct node *node;
	struct area remote;
	uint32_t round; /* the receiver's: last one told */
	uint32_t seen;	/* the receiver writes, the sender reads: the same, checked */
	uint32_t stop;	/* the sender writes */
};

/* The other thread may need this core. */
static void turn(struct node *node)
{
	if (!node_poll(node))
		sched_yield();
}

static void on_message(struct end *end, const uint8_t *data, uint32_t len)
{
	struct told *t = end->arg;
	uint32_t round;

	CHECK_EQ(len, sizeof(round));
	memcpy(&round, data, sizeof(round));
	if (round != t->round + 1) /* came before */
		return;
	t->round = round;
	CHECK(area_is(&t->remote, 0, LEN, round, 0));
	/* The receiver's program may write there now. */
	area_fill(&t->remote, 0, LEN, 0, 0);
	store_release(&t->seen, round);
}

static void *receive(void *arg)
{
	struct told *t = arg;

	while (!load_acquire(&t->stop))
		turn(t->node);
	return NULL;
}

/* The receiving node is polled by its own thread alone. */
static void run_alone(struct node *node, struct piece *p)
{
	uint64_t until = clock_ns() + RIG_PATIENCE_NS;

	while (!piece_try(p)) {
		turn(node);
		CHECK(!is_late(until));
	}
	while (!p->out) {
		turn(node);
		CHECK(!is_late(until));
	}
	CHECK_EQ(p->chunk.res, 0);
}

static void hear(struct node *node, struct told *t, uint32_t round)
{
	uint64_t until = clock_ns() + RIG_PATIENCE_NS;
	uint32_t seen;

	while ((seen = load_acquire(&t->seen)) != round) {
		turn(node);
		if (clock_ns() < until)
			continue;
		fprintf(stderr, "round %u was not told; the last one was %u\n", round, seen);
		CHECK(!"told in time");
	}
}

static void round_trip(struct node *node, struct end *end, struct area *local,
		       const struct grant *g, struct told *t, uint32_t round)
{
	struct piece p;

	area_fill(local, 0, LEN, round, 0);
	piece_fill(&p, CHUNK_WRITE, end, local, 0, g, 0, LEN);
	run_alone(node, &p);
	if (!(p.chunk.flags & CHUNK_QUIET)) {
		piece_fill(&p, CHUNK_FLUSH, end, NULL, 0, g, 0, 0);
		run_alone(node, &p);
	}
	piece_fill_send(&p, end, &round, sizeof(round));
	run_alone(node, &p);
	hear(node, t, round);
}

void case_told(struct rig *rig)
{
	struct told t = {.node = &rig->node[1]};
	struct area local;
	struct grant g;
	struct pair pair;
	pthread_t thread;
	uint32_t round;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &t.remote, LEN);
	grant_open(&g, &pair.end[1], &pair.end[0], &t.remote, 0, LEN, URCCL_RIGHT_WRITE);
	pair.end[1].on_message = on_message;
	pair.end[1].arg = &t;
	CHECK_EQ(pthread_create(&thread, NULL, receive, &t), 0);
	for (round = 1; round <= ROUNDS; round++)
		round_trip(&rig->node[0], &pair.end[0], &local, &g, &t, round);
	store_release(&t.stop, 1);
	pthread_join(thread, NULL);
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&t.remote);
}
