/* SPDX-License-Identifier: Apache-2.0 */
/* ep_close with chunks under way, while the peer does nothing: all come out, then CLOSED, then
 * neither side's memory changes; the peer sees DOWN. Also where the closer has no CPU for a while
 * just then. */
#include <time.h>
#include "rig.h"

#define LEN	(4u << 20)
#define PIECES	16u
#define EACH	(LEN / PIECES)
#define ROUNDS	40u
#define ABSENT	150000000 /* ns; longer than a last word is waited for */
#define LATE_NS 10000000  /* less than a last word is waited for */
#define POLLS	100000u	  /* of its own, far above what any driver needs */

static void start(struct rig *rig, struct end *end, struct piece *pieces, struct area *local,
		  const struct grant *g)
{
	uint32_t i;

	for (i = 0; i < PIECES; i++) {
		piece_fill(&pieces[i], i % 4 == 3 ? CHUNK_READ : CHUNK_WRITE, end, local, i * EACH,
			   g, i * EACH, EACH);
		piece_post(rig, &pieces[i]);
	}
	for (i = (uint32_t)rig_random(rig, 60); i; i--)
		rig_step(rig);
}

/* Whether a double of verbs goes on by polls alone. */
static int goes_by_polls(void)
{
	const char *shim = getenv("SHIM");

	return shim && strstr(shim, "late=");
}

/* The rig checks that all chunks are out when CLOSED comes. 1: the peer must learn of the close. A
 * double that goes on by polls alone does not send the last word while the machine is away. */
static int close_alone(struct rig *rig, struct end *end, const struct timespec *absent)
{
	uint64_t begun = clock_ns(), until = begun + 2 * NSEC_PER_SEC;
	uint32_t polls;

	rig->backend->ep_close(end->ep);
	nanosleep(absent, NULL);
	for (polls = 0; !end->closed; polls++) {
		CHECK(polls < POLLS || !is_late(until));
		node_poll(end->node);
	}
	return !goes_by_polls() || clock_ns() - begun < LATE_NS;
}

static void check_quiet(struct rig *rig, struct area *local, struct area *remote, struct end *peer,
			int told)
{
	uint32_t i;

	area_fill(local, 0, LEN, 3, 0);
	if (told) {
		WAIT(rig, peer->down);
		CHECK(peer->down_res == -ECONNRESET);
	}
	area_fill(remote, 0, LEN, 4, 0);
	for (i = 0; i < 50; i++)
		rig_step(rig);
	CHECK(area_is(local, 0, LEN, 3, 0));
	CHECK(area_is(remote, 0, LEN, 4, 0));
}

static void one(struct rig *rig, struct area *local, struct area *remote, long absent_ns)
{
	struct timespec absent = {.tv_nsec = absent_ns};
	struct piece pieces[PIECES];
	struct grant g;
	struct pair pair;
	uint32_t i;
	int told;

	pair_open(rig, &pair);
	grant_open(&g, &pair.end[1], &pair.end[0], remote, 0, LEN,
		   URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	area_fill(local, 0, LEN, 1, 0);
	start(rig, &pair.end[0], pieces, local, &g);
	told = close_alone(rig, &pair.end[0], &absent);
	for (i = 0; i < PIECES; i++)
		CHECK(pieces[i].out);
	check_quiet(rig, local, remote, &pair.end[1], told);
	grant_close(rig, &g);
	pair_close(rig, &pair);
}

/* To a double of verbs whose time goes on by looks at it alone an absence is none. */
static long absence(void)
{
	return goes_by_polls() ? 0 : ABSENT;
}

void case_close(struct rig *rig)
{
	struct area local, remote;
	uint32_t round;

	area_open(&rig->node[0], &local, LEN);
	area_open(&rig->node[1], &remote, LEN);
	for (round = 0; round < rig_rounds(rig, ROUNDS); round++)
		one(rig, &local, &remote, round ? 0 : absence());
	area_close(&local);
	area_close(&remote);
}
