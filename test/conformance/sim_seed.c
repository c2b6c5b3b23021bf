/* SPDX-License-Identifier: Apache-2.0 */
/* The same seed gives the same faults to the same calls, another seed others. */
#include "rig.h"

#define CALLS 500u

struct history {
	int32_t res[CALLS];
	uint32_t messages;
};

static void live(const struct settings *base, uint64_t seed, struct history *h)
{
	struct settings settings = *base;
	uint64_t word = 1;
	struct pair pair;
	struct piece p;
	struct rig rig;
	uint32_t i;

	snprintf(settings.sim, sizeof(settings.sim),
		 "seed=%llu,delay=500ns..20us,early=50%%,duplicate=25%%,error=33%%",
		 (unsigned long long)seed);
	rig_open(&rig, &settings);
	pair_open(&rig, &pair);
	for (i = 0; i < CALLS; i++) {
		piece_fill_send(&p, &pair.end[0], &word, sizeof(word));
		h->res[i] = piece_run(&rig, &p);
	}
	/* Whatever comes twice has come by then. */
	for (i = 0; i < 3000; i++)
		rig_step(&rig);
	h->messages = pair.end[1].messages;
	pair_close(&rig, &pair);
	rig_close(&rig);
}

void case_sim_seed(struct rig *rig)
{
	static struct history first, again, other;
	uint64_t seed = rig_random(rig, UINT32_MAX);

	live(rig->settings, seed, &first);
	live(rig->settings, seed, &again);
	live(rig->settings, seed + 1, &other);
	CHECK(!memcmp(first.res, again.res, sizeof(first.res)));
	CHECK_EQ(first.messages, again.messages);
	CHECK(memcmp(first.res, other.res, sizeof(first.res)));
}
