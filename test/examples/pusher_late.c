/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pusher-late TRANSPORT METADATA: a pusher that was dropped but does not go, since a word of
 * decode's is still on its way to it, writes on to its pages. From when the next has them nothing
 * of it lands.
 */
#include "pusher_peer.h"

static struct peer late, next;

/* All pages of the pool, by three questions. Its ring has room for one word: of the tables of the
 * last two one is not taken, and so waits at decode. */
static void take_all(void)
{
	uint32_t left = late.welcome.pages - 2, slot;
	struct msg_ask ask = peer_ask(&late, 1, left);

	peer_asks(&late, 0, 1, &ask, NULL);
	while (!peer_has_table(&late, 0))
		;
	for (slot = 1; slot < 3; slot++) {
		ask = peer_ask(&late, slot + 1, 1);
		peer_asks(&late, slot, slot + 1, &ask, NULL);
	}
}

int main(int argc, char **argv)
{
	struct msg_ask ask;
	uint32_t writes = 0;
	uint64_t off;

	CHECK_EQ(argc, 3);
	peer_open(&late, argv[1], 1);
	peer_connect(&late, argv[2], sizeof(late.hello));
	peer_welcomed(&late);
	peer_open(&next, argv[1], 16);
	peer_connect(&next, argv[2], sizeof(next.hello));
	peer_welcomed(&next);
	take_all();
	off = peer_table(&late, 0)[0] * side_page_bytes(&late.pool);
	ask = peer_ask(&next, 1, next.welcome.pages);
	peer_asks(&next, 0, 1, &ask, NULL);
	CHECK_EQ(peer_writes(&late, off, 64), 64);
	CHECK(!peer_has_table(&next, 0));
	CHECK_EQ(peer_says(&late, tag_make(MSG_STATS, 0, 1), NULL, 0), 0);
	/* It may for some time, but the pages are nobody else's then. */
	while (!peer_has_table(&next, 0))
		writes += peer_writes(&late, off, 64) == 64;
	CHECK_LE(peer_writes(&late, off, 64), -1);
	printf("%u writes of the dropped one before its pages were another's\n", writes);
	peer_await_lost(&late);
	peer_close(&late);
	peer_close(&next);
	return 0;
}
