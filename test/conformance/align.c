/* SPDX-License-Identifier: Apache-2.0 */
/* No alignment of either side is asked for. */
#include "rig.h"

#define ALIGN 64u
#define LEN   100u

static uint32_t place(uint32_t i)
{
	return i * (LEN + ALIGN);
}

void case_align(struct rig *rig)
{
	const uint64_t size = (ALIGN + 2) * (LEN + ALIGN);
	struct piece pieces[ALIGN];
	struct area local, remote, back;
	uint32_t shift, i;
	struct grant g;
	struct pair pair;

	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, size);
	area_open(&rig->node[0], &back, size);
	area_open(&rig->node[1], &remote, size);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, size,
		   URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	for (shift = 0; shift < ALIGN; shift++) {
		area_fill(&local, 0, size, 10 + shift, 0);
		for (i = 0; i < ALIGN; i++) {
			piece_fill(&pieces[i], CHUNK_WRITE, &pair.end[0], &local, place(i) + i, &g,
				   place(i) + shift, LEN - i);
			piece_post(rig, &pieces[i]);
		}
		WAIT(rig, pair.end[0].out == pair.end[0].taken);
		piece_flush(rig, &pair.end[0], &g);
		for (i = 0; i < ALIGN; i++)
			CHECK(area_is(&remote, place(i) + shift, LEN - i, 10 + shift,
				      place(i) + i));
		for (i = 0; i < ALIGN; i++) {
			piece_fill(&pieces[i], CHUNK_READ, &pair.end[0], &back, place(i) + i, &g,
				   place(i) + shift, LEN - i);
			piece_post(rig, &pieces[i]);
		}
		WAIT(rig, pair.end[0].out == pair.end[0].taken);
		for (i = 0; i < ALIGN; i++)
			CHECK(area_is(&back, place(i) + i, LEN - i, 10 + shift, place(i) + i));
	}
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&back);
	area_close(&remote);
}
