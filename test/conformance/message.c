/* SPDX-License-Identifier: Apache-2.0 */
/* Every SEND that comes out well is given out at the peer, byte for byte, at least once. */
#include "rig.h"

#define SENDS 4000u
#define SLOTS 64u

struct talk {
	uint8_t seen[SENDS];
	uint32_t distinct;
};

static uint32_t length_of(uint32_t id)
{
	return 4 + id % (MESSAGE_MAX - 3);
}

static void fill(uint8_t *data, uint32_t id)
{
	uint32_t i;

	memcpy(data, &id, sizeof(id));
	for (i = sizeof(id); i < length_of(id); i++)
		data[i] = (uint8_t)(id * 7 + i);
}

static void on_message(struct end *end, const uint8_t *data, uint32_t len)
{
	struct talk *talk = end->arg;
	uint8_t expected[MESSAGE_MAX];
	uint32_t id;

	CHECK_GE(len, sizeof(id));
	memcpy(&id, data, sizeof(id));
	CHECK(id < SENDS);
	CHECK_EQ(len, length_of(id));
	fill(expected, id);
	CHECK(!memcmp(data, expected, len));
	talk->distinct += !talk->seen[id];
	talk->seen[id] = 1;
}

static void say(struct rig *rig, struct end *end)
{
	static uint8_t data[SLOTS][MESSAGE_MAX];
	struct piece pieces[SLOTS];
	uint32_t id, slot;

	memset(pieces, 0, sizeof(pieces));
	for (id = 0; id < rig_rounds(rig, SENDS); id++) {
		slot = id % SLOTS;
		if (pieces[slot].taken) {
			WAIT(rig, pieces[slot].out);
			CHECK_EQ(pieces[slot].chunk.res, 0);
		}
		fill(data[slot], id);
		piece_fill_send(&pieces[slot], end, data[slot], length_of(id));
		piece_post(rig, &pieces[slot]);
	}
	WAIT(rig, end->out == end->taken);
}

void case_message(struct rig *rig)
{
	static struct talk talks[2];
	struct pair pair;
	int i;

	memset(talks, 0, sizeof(talks));
	pair_open(rig, &pair);
	for (i = 0; i < 2; i++) {
		pair.end[i].on_message = on_message;
		pair.end[i].arg = &talks[i];
	}
	for (i = 0; i < 2; i++) {
		say(rig, &pair.end[i]);
		WAIT(rig, talks[!i].distinct == rig_rounds(rig, SENDS));
	}
	pair_close(rig, &pair);
}
