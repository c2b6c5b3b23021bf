/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pusher-unquiet TRANSPORT METADATA: a pusher gives all pages of the pool back. Where it says that
 * its writes have ended, another has them at once; where it cannot say so, when it is gone.
 */
#include "pusher_peer.h"

static struct peer writer, next;

static void hears(struct peer *p, enum message what)
{
	const struct urccl_cqe *cqe = peer_hears(p, PEER_LATE_NS);

	CHECK(cqe);
	CHECK_EQ(urccl_cqe_kind(cqe), URCCL_KIND_NOTE);
	CHECK_EQ(tag_what(cqe->tag), what);
}

static void asks(struct peer *p, uint32_t slot, uint32_t id, uint32_t npages)
{
	struct msg_ask ask = peer_ask(p, id, npages);

	peer_asks(p, slot, id, &ask, NULL);
}

static void gives_up(struct peer *p, uint32_t id, uint32_t quiet)
{
	struct msg_abort word = {quiet};

	CHECK_EQ(peer_says(p, tag_make(MSG_ABORT, 0, id), &word, sizeof(word)), 0);
	hears(p, MSG_ANSWER);
}

int main(int argc, char **argv)
{
	CHECK_EQ(argc, 3);
	peer_open(&writer, argv[1], 16);
	peer_connect(&writer, argv[2], sizeof(writer.hello));
	peer_welcomed(&writer);
	peer_open(&next, argv[1], 16);
	peer_connect(&next, argv[2], sizeof(next.hello));
	peer_welcomed(&next);

	asks(&writer, 0, 1, writer.welcome.pages);
	hears(&writer, MSG_TABLE);
	gives_up(&writer, 1, 1);
	asks(&next, 0, 1, 1);
	hears(&next, MSG_TABLE);
	gives_up(&next, 1, 1);

	asks(&writer, 0, 2, writer.welcome.pages);
	hears(&writer, MSG_TABLE);
	gives_up(&writer, 2, 0);
	asks(&next, 1, 2, 1);
	/* The answer to what was said behind the question comes, and no page table before it. */
	CHECK_EQ(peer_says(&next, tag_make(MSG_BYE, 0, 0), NULL, 0), 0);
	hears(&next, MSG_STATS);
	CHECK_EQ(peer_writes(&writer, 0, 64), 64);
	CHECK(!peer_has_table(&next, 1));
	peer_close(&writer);
	hears(&next, MSG_TABLE);
	peer_close(&next);
	return 0;
}
