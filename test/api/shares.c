/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine has at a time of pieces of entries is shared by its peers: of many that have much
 * to get all get some, and many that take nothing leave enough for the others. */
#include "crowd.h"

#define LIVING	  8u
#define STALLED	  60u
#define PEERS	  (LIVING + STALLED)
#define SEGMENTS  128u
#define BYTES	  64u /* a segment's */
#define LEN	  (SEGMENTS * BYTES)
#define ENTRIES	  4u /* for each */
#define ROUNDS	  (PAIR_SLOW ? 8u : 40u)
#define DEADLINE  100000000u
#define FEW	  3u /* pieces at a time of all peers, but that each may have one (--few) */
#define FEW_TURNS 5u

static struct crowd c;
static struct urccl_remote remotes[PEERS];
static uint8_t there[PEERS][LEN], local[LEN];
static struct urccl_seg segs[PEERS][SEGMENTS];
static uint32_t ended[PEERS];

static void import(uint32_t i, struct urccl_region from)
{
	struct side *s = &c.sides[i];
	struct urccl_region region = side_register(s, there[i], LEN, URCCL_RIGHT_WRITE);
	struct urccl_peer peer = {.id = c.handles[i]};
	struct urccl_advert advert;
	uint32_t k;

	CHECK_EQ(urccl_advertise(s->ctx, region, 0, LEN, URCCL_RIGHT_WRITE, 0, &advert), 0);
	CHECK_EQ(urccl_import(c.p.b.ctx, peer, &advert, 1, &remotes[i]), 0);
	for (k = 0; k < SEGMENTS; k++)
		segs[i][k] = (struct urccl_seg){.addr = (uintptr_t)local + k * BYTES,
						.len = BYTES,
						.off = (uint64_t)(SEGMENTS - 1 - k) * BYTES,
						.region = from.id,
						.remote = remotes[i].id};
}

static void submit(uint32_t i, uint32_t n)
{
	struct urccl_sqe *sqe;

	while (n-- > 0) {
		sqe = side_sqe(&c.p.b);
		urccl_prep_writev(sqe, (struct urccl_peer){.id = c.handles[i]}, segs[i], SEGMENTS);
		urccl_sqe_set_deadline_us(sqe, DEADLINE);
		urccl_sqe_set_data64(sqe, i);
	}
	CHECK_GE(urccl_submit(c.p.b.ring), 0);
}

/* Until so many have ended; who takes part is turned. Returns whose was the last. */
static uint32_t take(uint32_t n, uint32_t first, uint32_t last)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	struct urccl_cqe cqe = {0};
	uint32_t i;

	while (n) {
		CHECK(!is_late(late));
		for (i = first; i < last; i++)
			side_turn(&c.sides[i]);
		if (!side_take_within(&c.p.b, NULL, 0, &cqe, NULL))
			continue;
		if (urccl_cqe_kind(&cqe) != URCCL_KIND_OP)
			continue;
		CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
		CHECK_EQ(cqe.res, LEN);
		ended[cqe.user_data]++;
		n--;
	}
	return (uint32_t)cqe.user_data;
}

/* Each has one that is more than its share. */
static void all_get_some(void)
{
	uint32_t i, last;

	for (i = 0; i < PEERS; i++) /* keys are asked for */
		submit(i, 1);
	take(PEERS, 0, PEERS);
	memset(ended, 0, sizeof(ended));
	for (i = 0; i < PEERS; i++)
		submit(i, 1);
	while (last = take(1, 0, PEERS), ended[last] < (c.most ? FEW_TURNS : ROUNDS))
		submit(last, 1);
	for (i = 0; i < PEERS; i++)
		CHECK_GE(ended[i], 1u);
	take(PEERS - 1, 0, PEERS);
}

/* Those that are not turned take nothing, but on sim, whose devices do without. */
static void living_go_on(void)
{
	uint32_t i;

	memset(ended, 0, sizeof(ended));
	for (i = LIVING; i < PEERS; i++)
		submit(i, ENTRIES);
	for (i = 0; i < LIVING; i++)
		submit(i, ENTRIES);
	take(LIVING * ENTRIES, 0, LIVING);
	for (i = 0; i < LIVING; i++)
		CHECK_EQ(ended[i], ENTRIES);
	for (i = LIVING; i < PEERS; i++)
		CHECK_EQ(ended[i], 0);
	take(STALLED * ENTRIES, 0, PEERS);
}

int main(int argc, char **argv)
{
	struct urccl_region from;
	uint32_t i;

	if (argc > 1 && !strcmp(argv[argc - 1], "--few")) {
		c.most = FEW;
		argc--;
	}
	c.faults = "depth=30,rate=100m";
	crowd_open(&c, argc, argv, PEERS, 4 * PEERS);
	pattern_fill(local, LEN, 0, 1);
	from = side_register(&c.p.b, local, LEN, 0);
	for (i = 0; i < PEERS; i++)
		import(i, from);
	all_get_some();
	if (c.p.transport != URCCL_TRANSPORT_SIM)
		living_go_on();
	crowd_close(&c);
	return 0;
}
