/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pusher-full TRANSPORT METADATA: pushers until decode has no place for one that asks for the
 * least, nor for those that it refused to stay. The next ones are told so and then closed; and when
 * one leaves, another finds its place.
 */
#include <string.h>
#include "pusher_peer.h"

#define PEERS 64u /* more than find a place */
#define LATE  12u /* those that come when it is full */
#define TRIES 1000u

static struct peer peers[PEERS], late[LATE];
static const char *transport, *metadata;

/* True: it is full. */
static bool comes(struct peer *p, uint32_t slots)
{
	peer_open(p, transport, 16);
	p->hello.slots = slots;
	peer_connect(p, metadata, sizeof(p->hello));
	while (!p->refusal[0] && !p->welcome.pages)
		CHECK(peer_hears(p, PEER_LATE_NS));
	return strstr(p->refusal, "decode is full");
}

/* Ever less is asked for. Returns how many came that may stay. */
static uint32_t fill(void)
{
	uint32_t slots = PROTO_SLOTS_MAX, n;

	for (n = 0; !comes(&peers[n], slots); n++) {
		CHECK_LE(n + 2, PEERS);
		if (peers[n].refusal[0] && slots > 1)
			slots /= 2;
	}
	peer_await_lost(&peers[n]);
	peer_close(&peers[n]);
	return n;
}

static void too_late(void)
{
	uint32_t i;

	for (i = 0; i < LATE; i++)
		CHECK(comes(&late[i], 1));
	for (i = 0; i < LATE; i++)
		peer_await_lost(&late[i]);
	for (i = 0; i < LATE; i++)
		peer_close(&late[i]);
}

/* Decode gives the place back in its time. */
static void another(void)
{
	uint32_t tries = 0;
	struct peer p;

	while (comes(&p, 1)) {
		CHECK_LE(++tries, TRIES);
		peer_await_lost(&p);
		peer_close(&p);
	}
	CHECK(p.welcome.pages);
	peer_close(&p);
}

int main(int argc, char **argv)
{
	uint32_t n, i;

	CHECK_EQ(argc, 3);
	transport = argv[1];
	metadata = argv[2];
	n = fill();
	CHECK_GE(n, 2u);
	too_late();
	peer_close(&peers[0]);
	another();
	for (i = 1; i < n; i++)
		peer_close(&peers[i]);
	return 0;
}
