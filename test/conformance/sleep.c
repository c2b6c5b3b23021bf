/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads, each asleep on its device's fd whenever arm allows it, pass a message to and fro: no
 * wake-up is lost. */
#include <poll.h>
#include <pthread.h>
#include "rig.h"

#define ROUNDS	    10000u
#define PATIENCE_MS 20000

struct sleeper {
	struct rig *rig;
	struct end *end;
	uint32_t round; /* last one heard */
	uint32_t sleeps;
	uint32_t done; /* the answering thread writes */
};

static void on_message(struct end *end, const uint8_t *data, uint32_t len)
{
	struct sleeper *s = end->arg;
	uint32_t round;

	CHECK_EQ(len, sizeof(round));
	memcpy(&round, data, sizeof(round));
	if (round == s->round + 1) /* else it came before */
		s->round = round;
}

/* One poll, and sleep before the next if there is nothing to do. */
static void turn(struct sleeper *s, uint32_t spin)
{
	struct node *node = s->end->node;
	struct pollfd pfd = {.fd = node->dev->fd, .events = POLLIN};

	if (node_poll(node) || spin)
		return;
	if (node->dev->ops->arm(node->dev))
		return;
	CHECK_EQ(poll(&pfd, 1, PATIENCE_MS), 1);
	s->sleeps++;
}

static void send_round(struct sleeper *s, uint32_t round)
{
	struct piece p;

	piece_fill_send(&p, s->end, &round, sizeof(round));
	while (!piece_try(&p))
		turn(s, 0);
	while (!p.out)
		turn(s, 0);
	CHECK_EQ(p.chunk.res, 0);
}

static void hear_round(struct sleeper *s, uint32_t round, uint32_t spin)
{
	while (s->round < round) {
		turn(s, spin);
		spin -= spin > 0;
	}
}

static void *answer(void *arg)
{
	struct sleeper *s = arg;
	uint32_t round;

	for (round = 1; round <= rig_rounds(s->rig, ROUNDS); round++) {
		hear_round(s, round, round % 7);
		send_round(s, round);
	}
	store_release(&s->done, 1);
	return NULL;
}

void case_sleep(struct rig *rig)
{
	struct sleeper s[2];
	struct pair pair;
	pthread_t thread;
	uint32_t round;
	int i;

	pair_open(rig, &pair);
	for (i = 0; i < 2; i++) {
		CHECK(rig->node[i].dev->fd >= 0);
		s[i] = (struct sleeper){.rig = rig, .end = &pair.end[i]};
		pair.end[i].on_message = on_message;
		pair.end[i].arg = &s[i];
	}
	CHECK_EQ(pthread_create(&thread, NULL, answer, &s[1]), 0);
	for (round = 1; round <= rig_rounds(rig, ROUNDS); round++) {
		send_round(&s[0], round);
		hear_round(&s[0], round, round % 5);
	}
	/* The last answer is out once this device has said so. */
	while (!load_acquire(&s[1].done))
		node_poll(&rig->node[0]);
	pthread_join(thread, NULL);
	printf("slept %u and %u times\n", s[0].sleeps, s[1].sleeps);
	CHECK(s[0].sleeps && s[1].sleeps);
	pair_close(rig, &pair);
}
