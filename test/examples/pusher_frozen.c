/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pusher-frozen TRANSPORT METADATA ROLE: "writes" has all pages of the pool and writes to them
 * until it cannot, wherever it is stopped meanwhile; "heir" gets them after it, fills them, and
 * looks whether they still are as it left them when it is told to, by a line on stdin.
 */
#include <string.h>
#include "pusher_peer.h"

static struct peer p;

static void ask_for(uint32_t slot, uint32_t npages)
{
	struct msg_ask ask = peer_ask(&p, slot + 1, npages);

	peer_asks(&p, slot, slot + 1, &ask, NULL);
}

/* Of the tables of the last two questions one is not taken, so that decode awaits something of us
 * and notices that we are stopped. */
static void writes(void)
{
	uint64_t off = 0;
	uint32_t n = 0;

	ask_for(0, p.welcome.pages - 2);
	while (!peer_has_table(&p, 0))
		;
	ask_for(1, 1);
	ask_for(2, 1);
	memset(peer_bytes(&p), 0x33, PEER_BYTES);
	while (peer_writes(&p, off, PEER_BYTES) >= 0) {
		if (n++ == 16)
			fprintf(stderr, "writes\n");
		off = off + 2ull * PEER_BYTES <= side_bytes(&p.pool) ? off + PEER_BYTES : 0;
	}
}

/* The last one reaches to the end. */
static uint64_t piece(uint32_t i)
{
	uint64_t off = (uint64_t)i * PEER_BYTES, last = side_bytes(&p.pool) - PEER_BYTES;

	return off < last ? off : last;
}

static void heir(void)
{
	uint32_t n = (uint32_t)(side_bytes(&p.pool) / PEER_BYTES) + 1, i, k;

	ask_for(0, p.welcome.pages);
	while (!peer_has_table(&p, 0))
		;
	memset(peer_bytes(&p), 0x77, PEER_BYTES);
	for (i = 0; i < n; i++)
		CHECK_EQ(peer_writes(&p, piece(i), PEER_BYTES), PEER_BYTES);
	fprintf(stderr, "filled\n");
	CHECK(getchar() == '\n');
	for (i = 0; i < n; i++) {
		CHECK_EQ(peer_reads(&p, piece(i), PEER_BYTES), PEER_BYTES);
		for (k = 0; k < PEER_BYTES; k++)
			CHECK_EQ(peer_bytes(&p)[k], 0x77);
	}
}

int main(int argc, char **argv)
{
	CHECK_EQ(argc, 4);
	peer_open(&p, argv[1], 1);
	peer_connect(&p, argv[2], sizeof(p.hello));
	peer_welcomed(&p);
	if (strcmp(argv[3], "heir"))
		writes();
	else
		heir();
	peer_close(&p);
	return 0;
}
