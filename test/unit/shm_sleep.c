/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads that sleep between any two messages, and while the ring has no room: no wake-up is
 * lost, and few are for nothing. */
#include <poll.h>
#include <pthread.h>
#include "shm_rig.h"

#define ROUNDS 20000u
#define LEN    (2u << 20)

static struct shm_rig rig;
static uint8_t local[2][LEN], far[LEN];
static uint32_t sleeps[2], empty[2];

/* Sleeps unless there is something to do; a wake-up that never comes fails the test. */
static void sleep_poll(uint32_t side)
{
	struct pollfd p = {.fd = rig.dev[side]->fd, .events = POLLIN};
	uint32_t slept = 0;

	if (!backend_shm.arm(rig.dev[side])) {
		sleeps[side]++;
		CHECK_EQ(poll(&p, 1, 20000), 1);
		slept = 1;
	}
	if (!rig_poll(&rig, side) && slept)
		empty[side]++;
}

/* Sends, waits for the answer (side 0) or the question (side 1). */
static void ping_pong(uint32_t side)
{
	struct chunk c;
	uint32_t i;

	for (i = 0; i < ROUNDS; i++) {
		if (side)
			while (rig.messages[side] == i)
				sleep_poll(side);
		c = rig_chunk(CHUNK_SEND, &i, sizeof(i), NULL, 0);
		rig_post(&rig, side, &c);
		while (!c.op)
			sleep_poll(side);
		if (!side)
			while (rig.messages[side] == i)
				sleep_poll(side);
	}
}

static void *answer(void *arg)
{
	(void)arg;
	ping_pong(1);
	/* Takes what side 0 writes, until it says that it is done. */
	while (rig.messages[1] == ROUNDS)
		sleep_poll(1);
	return NULL;
}

/* More than the ring holds, so that the writer sleeps for room. */
static void flood(const struct rkey *rkey)
{
	struct chunk c[8], end = rig_chunk(CHUNK_SEND, local[0], 1, NULL, 0);
	uint32_t i, j;

	for (j = 0; j < 50; j++) {
		for (i = 0; i < 8; i++) {
			c[i] = rig_chunk(CHUNK_WRITE, local[0], LEN, rkey, 0);
			rig_post(&rig, 0, &c[i]);
		}
		for (i = 0; i < 8; i++)
			while (!c[i].op)
				sleep_poll(0);
	}
	rig_post(&rig, 0, &end);
	while (!end.op)
		sleep_poll(0);
}

int case_shm_sleep(void)
{
	struct exposure x;
	struct rkey rkey;
	struct memory *m;
	pthread_t thread;

	rig_open(&rig, NULL);
	rig_connect(&rig);
	m = rig_memory(&rig, 1, far, LEN, -1);
	rig_expose(&rig, 1, m, m->rights, &x, &rkey);
	memset(local[0], 0x77, LEN);
	CHECK_EQ(pthread_create(&thread, NULL, answer, NULL), 0);
	ping_pong(0);
	printf("%u sleeps, %u of them ended by nothing\n", sleeps[0], empty[0]);
	CHECK_LE(empty[0], sleeps[0] / 20);
	flood(&rkey);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK(!memcmp(far, local[0], LEN));
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	rig_memory_free(&rig, 1, m);
	rig_close(&rig);
	return 0;
}
