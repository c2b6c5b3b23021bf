/* SPDX-License-Identifier: Apache-2.0 */
/* A thousand peers that have much to get and take nothing leave something of what an engine has of
 * pieces of entries: each has got some, and one more peer has all of its own moved. */
#include "engine_rig.h"

enum {
	PEERS = 1001,
	LIVES = PEERS - 1, /* the others are stalled */
	GREEDY = 10,	   /* those in front take all that they may */
	MUCH = 12,	   /* entries of theirs: a third of all pieces */
	SEGMENTS = 128,
	BYTES = 64,
	ENTRIES = 2048,
	TURNS = 10000
};

static struct engine_rig rig;
static struct backend device;
static struct urccl_seg *segs;
static struct other {
	struct engine_peer *peer;
	struct engine_remote *remote;
	struct ep ep;
	struct rail rail;
} others[PEERS];

/* What goes to the one that lives comes out, the rest stays. */
static uint32_t post(struct ep *ep, struct chunk **chunks, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		CHECK(rig.ntaken < RIG_CHUNKS);
		rig.taken[rig.ntaken++] = chunks[i];
		if (ep == &others[LIVES].ep)
			rig_out(&rig, rig.ntaken - 1, 0, CHUNK_QUIET);
	}
	return n;
}

static void ep_close(struct ep *ep)
{
	rig_event(&rig, (struct event){.type = EVENT_CLOSED, .ep = ep});
}

static void add(uint32_t i)
{
	struct other *o = &others[i];
	uint64_t len = RIG_BYTES, key = 0;
	struct engine_cmd cmd = {.rail = &o->rail, .data = &key, .len = sizeof(key)};
	uint32_t k;

	o->ep = (struct ep){.dev = &rig.dev};
	o->rail = (struct rail){.ep = &o->ep, .active = 1};
	cmd.peer = o->peer = engine_peer_new(rig.e, RIG_PEER + i, 1 + i, "peer");
	CHECK(o->peer);
	cmd.remote = o->remote = engine_remote_new(RIG_REMOTE + i, o->peer, &len, 1);
	CHECK(o->remote);
	rig_command(&rig, &cmd, ENGINE_PEER_ADD);
	rig_command(&rig, &cmd, ENGINE_RAIL_CONNECT);
	rig_command(&rig, &cmd, ENGINE_PEER_UP);
	rig_command(&rig, &cmd, ENGINE_REMOTE_ADD);
	cmd.len = sizeof(key); /* ADD said something in it */
	rig_command(&rig, &cmd, ENGINE_REMOTE_KEYS);
	for (k = 0; k < SEGMENTS; k++) /* in no order in which they could be joined */
		segs[i * SEGMENTS + k] =
			(struct urccl_seg){.addr = (uintptr_t)rig.bytes + k * BYTES,
					   .len = BYTES,
					   .off = (SEGMENTS - 1 - k) * BYTES,
					   .region = RIG_REGION,
					   .remote = RIG_REMOTE + i};
}

static void submit(uint32_t i, uint32_t n)
{
	struct urccl_sqe *sqe;

	for (; n; n--) {
		sqe = rig_sqe(&rig, i);
		urccl_prep_writev(sqe, (struct urccl_peer){RIG_PEER + i}, &segs[i * SEGMENTS],
				  SEGMENTS);
		sqe->user_data = i;
	}
	rig_enter(&rig);
	rig_turns(&rig);
}

static void del(uint32_t i)
{
	struct engine_cmd cmd = {.peer = others[i].peer,
				 .cause = -ECONNRESET,
				 .reason = REASON_PEER_RESET};

	rig_command(&rig, &cmd, ENGINE_PEER_LOST);
	cmd.remote = others[i].remote;
	rig_command(&rig, &cmd, ENGINE_REMOTE_DEL);
	rig_command(&rig, &cmd, ENGINE_PEER_DEL);
	engine_remote_free(others[i].remote);
	engine_peer_free(others[i].peer);
}

int case_engine_shares(void)
{
	struct urccl_cqe cqe;
	uint32_t i, turns;

	rig_engine_open(&rig, ENTRIES, 4);
	device = rig_backend;
	device.post = post;
	device.ep_close = ep_close;
	rig.dev.ops = &device;
	segs = calloc((size_t)PEERS * SEGMENTS, sizeof(*segs));
	CHECK(segs);
	for (i = 0; i < PEERS; i++)
		add(i);
	for (i = 0; i < LIVES; i++)
		submit(i, i < GREEDY ? MUCH : 1);
	for (i = 0; i < LIVES; i++)
		CHECK_GE(others[i].peer->chunks, 1u);
	CHECK(!rig_cqe(&rig, &cqe));
	submit(LIVES, 1);
	for (turns = 0; !rig_cqe(&rig, &cqe); turns++) {
		CHECK(turns < TURNS);
		rig_turns(&rig);
	}
	CHECK_EQ(cqe.user_data, LIVES);
	CHECK_EQ(cqe.res, SEGMENTS * BYTES);
	for (i = 0; i < PEERS; i++)
		del(i);
	rig_engine_close(&rig);
	free(segs);
	return 0;
}
