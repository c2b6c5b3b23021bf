/* SPDX-License-Identifier: Apache-2.0 */
/* Who sleeps on a device is woken for what is late: the end of the time that an importer has to let
 * go, and of an exposure's own. An exposure that stands for an hour wakes nobody. */
#include <poll.h>
#include "rig.h"

#define LEN	4096u
#define HOUR	(3600 * NSEC_PER_SEC)
#define QUIET	(500 * NSEC_PER_MSEC)
#define SETTLED 100 /* ms without a word */
#define LATE_MS 20000
#define WAKES	10u /* in QUIET: providers have some of their own */

/* 1: the device woke us within ms. */
static int sleep_once(struct node *node, int ms)
{
	struct pollfd pfd = {.fd = node->dev->fd, .events = POLLIN};

	node_poll(node);
	return node->dev->ops->arm(node->dev) || poll(&pfd, 1, ms) == 1;
}

static void idle(struct rig *rig, struct pair *pair, struct area *remote)
{
	uint64_t until = clock_ns() + RIG_PATIENCE_NS;
	uint32_t wakes = 0;
	struct grant g;

	grant_open_until(&g, &pair->end[1], &pair->end[0], remote, 0, LEN, URCCL_RIGHT_WRITE,
			 clock_ns() + HOUR);
	/* The helper may still be at its keys: nobody sleeps meanwhile. */
	while (sleep_once(&rig->node[1], SETTLED))
		CHECK(!is_late(until));
	until = clock_ns() + QUIET;
	while (clock_ns() < until)
		wakes += (uint32_t)sleep_once(&rig->node[1], (int)(QUIET / NSEC_PER_MSEC));
	printf("woken %u times\n", wakes);
	CHECK_LE(wakes, WAKES);
	grant_close(rig, &g);
}

/* The importer does nothing. */
static void late(struct rig *rig, struct pair *pair, struct area *remote)
{
	struct grant g;

	grant_open(&g, &pair->end[1], &pair->end[0], remote, 0, LEN, URCCL_RIGHT_WRITE);
	while (rig->backend->unexpose(&g.exposure) == -EINPROGRESS)
		CHECK(sleep_once(&rig->node[1], LATE_MS));
	grant_unpin(&g);
	rig->backend->forget(pair->end[0].ep, &g.rkey);
}

/* It is woken, does what there is to do, and sleeps again. */
static void passes(struct rig *rig, struct pair *pair, struct area *remote)
{
	uint64_t expires = clock_ns() + QUIET;
	struct grant g;

	grant_open_until(&g, &pair->end[1], &pair->end[0], remote, 0, LEN, URCCL_RIGHT_WRITE,
			 expires);
	while (clock_ns() < expires)
		CHECK(sleep_once(&rig->node[1], LATE_MS));
	grant_close(rig, &g);
}

void case_fabric_sleep(struct rig *rig)
{
	struct area remote;
	struct pair pair;

	if (strstr(rig->node[1].dev->about, "polled on a timer"))
		SKIP("the provider has nothing to sleep on");
	pair_open(rig, &pair);
	area_open(&rig->node[1], &remote, LEN);
	idle(rig, &pair, &remote);
	/* What is pinned the control thread takes back. */
	if (!(rig->node[1].dev->caps & CAP_PIN))
		passes(rig, &pair, &remote);
	late(rig, &pair, &remote);
	pair_close(rig, &pair);
	area_close(&remote);
}
