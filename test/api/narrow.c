/* SPDX-License-Identifier: Apache-2.0 */
/* Many entries, as many at a time as the ring takes, over a device whose queue takes 16 (sim,
 * where it is seen to be full) or what it takes: each ends once, with bytes that are its own in its
 * place, and nobody else's are there. */
#include "crowd.h"

#define RING   4096u
#define LEN    64u
#define DEPTH  16u
#define GROWTH (16ull << 20)
#define POOLS \
	(48ull << 20) /* that a provider of libfabric fills at first, however many there are */

static struct pair p;
static struct target t;
static uint8_t local[RING * LEN];
static uint8_t out[RING];    /* of each slot: an entry is under way */
static uint64_t entry[RING]; /* the last one's number, and 1 */

/* --entries=N: fewer, or more */
static uint64_t options(int argc, char **argv)
{
	uint64_t n = PAIR_SLOW ? 20000 : 150000;
	char *kept[16];
	int i, k = 0;

	CHECK(argc < 16);
	for (i = 0; i < argc; i++)
		if (!strncmp(argv[i], "--entries=", 10))
			n = strtoull(argv[i] + 10, NULL, 0);
		else
			kept[k++] = argv[i];
	pair_options(&p, k, kept);
	return n;
}

static void begin(void)
{
	if (p.transport == URCCL_TRANSPORT_SIM)
		CHECK_EQ(urccl_sim_open("seed=1,delay=500ns..5us,depth=16", &p.sim), 0);
	p.params.sim_network = p.sim;
	p.ring_params.entries = RING;
	pair_open(&p);
	side_register(&p.a, local, sizeof(local), 0);
	target_open(&p, &t, sizeof(local), 0);
}

/* Neighbours here are none there, and no place is that of its slot. */
static uint64_t place(uint32_t slot)
{
	return (slot * 1237ull + 1) % RING * LEN;
}

static int holds(uint32_t slot)
{
	return pattern_holds(t.bytes + place(slot), LEN, place(slot), entry[slot]);
}

static void submit(uint32_t slot, uint64_t number)
{
	struct urccl_sqe *sqe = urccl_get_sqe(p.a.ring);

	CHECK(sqe && !out[slot]);
	entry[slot] = number + 1;
	pattern_fill(local + slot * LEN, LEN, place(slot), entry[slot]);
	urccl_prep_write(sqe, t.remote, local + slot * LEN, LEN, place(slot));
	urccl_sqe_set_data64(sqe, slot);
	urccl_sqe_set_deadline_us(sqe, 100000000);
	out[slot] = 1;
}

static int is_zero(const uint8_t *at)
{
	static const uint8_t zero[LEN];

	return !memcmp(at, zero, LEN);
}

/* What comes in is more than the queue takes, and the rest waits. */
static void submit_to_full(uint64_t sent)
{
	uint64_t before = side_stats(&p.a).chunks, until = now_ns() + PAIR_LATE_NS;
	struct urccl_cqe cqe;

	if (p.sim)
		urccl_sim_freeze(p.sim, 1);
	urccl_submit(p.a.ring);
	if (!p.sim)
		return;
	CHECK_LE(DEPTH, sent);
	do {
		CHECK(!is_late(until));
		CHECK(!side_take_within(&p.a, &p.b, 20000000, &cqe, NULL));
	} while (side_stats(&p.a).chunks - before < DEPTH);
	CHECK_EQ(side_stats(&p.a).chunks - before, DEPTH);
	urccl_sim_freeze(p.sim, 0);
}

int main(int argc, char **argv)
{
	uint64_t n = options(argc, argv), sent = 0, ended = 0, late = 0, before;
	uint32_t room = RING - 8, i; /* pair_open() has a WATCH there */
	struct urccl_cqe cqe;

	begin();
	for (i = 0; i < room && sent < n; i++, sent++)
		submit(i, sent);
	before = resident();
	submit_to_full(sent);
	while (ended < n) {
		if (!side_take_within(&p.a, &p.b, PAIR_LATE_NS, &cqe, NULL))
			CHECK(!"something came");
		CHECK(cqe.user_data < room && out[cqe.user_data]);
		CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
		CHECK_EQ(cqe.res, LEN);
		CHECK(holds((uint32_t)cqe.user_data));
		out[cqe.user_data] = 0;
		ended++;
		if (sent < n) {
			submit((uint32_t)cqe.user_data, sent);
			if (++sent - late >= 64 || sent == n) {
				urccl_submit(p.a.ring);
				late = sent;
			}
		}
	}
	before += p.transport == URCCL_TRANSPORT_FABRIC ? POOLS : 0;
	CHECK_LE(resident(), before + GROWTH);
	for (i = 0; i < RING; i++)
		CHECK(entry[i] ? holds(i) : is_zero(t.bytes + place(i)));
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
