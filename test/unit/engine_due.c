/* SPDX-License-Identifier: Apache-2.0 */
/* 32,768 entries whose deadlines pass at one moment: each ends, and not all in one turn, which
 * others' entries would have to wait for. */
#include "engine_rig.h"

#define ENTRIES 32768u
#define AFTER	(400 * NSEC_PER_MSEC)
#define MOST	2048u /* that end in one turn */

static struct engine_rig rig;

static void submit(void)
{
	uint32_t i;

	for (i = 0; i < ENTRIES; i++)
		urccl_prep_timeout(rig_sqe(&rig, i), AFTER, 0, 0);
	rig_enter(&rig);
	rig_turns(&rig);
}

static uint32_t ended(void)
{
	struct urccl_cqe cqe;
	uint32_t n;

	for (n = 0; rig_cqe(&rig, &cqe); n++)
		CHECK_EQ(cqe.res, -ETIME);
	return n;
}

int case_engine_due(void)
{
	uint32_t seen, most = 0, turns = 0;
	uint64_t until, began, longest = 0;

	rig_engine_open(&rig, ENTRIES, 4);
	submit();
	until = clock_ns() + AFTER;
	seen = ended(); /* on a slow machine */
	CHECK_LE(seen, ENTRIES / 2);
	while (clock_ns() < until)
		; /* nobody turns */
	while (seen < ENTRIES) {
		uint32_t n;

		began = clock_ns();
		engine_drive(rig.e);
		began = clock_ns() - began;
		longest = began > longest ? began : longest;
		n = ended();
		seen += n;
		most = n > most ? n : most;
		turns++;
		CHECK_LE(turns, ENTRIES);
	}
	fprintf(stderr, "%u turns, of at most %u entries and %llu us\n", turns, most,
		(unsigned long long)longest / 1000);
	CHECK_LE(most, MOST);
	CHECK_LE(turns, ENTRIES / MOST * 4); /* none of them for nothing */
	rig_engine_close(&rig);
	return 0;
}
