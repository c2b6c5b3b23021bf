/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer says about keys that end with a way is looked at before it is used: parts and
 * exposures that there are not, keys that were not asked for, of other lengths than the memory. */
#include <endian.h>
#include "backend/fabric/key.h"
#include "rig.h"

#define LEN    (64u * 1024)
#define SPANS  41u /* several answers' worth */
#define RANDOM 20000u

static int say(struct end *end, enum fabric_message type, uint32_t id, const void *data,
	       uint32_t len)
{
	/* Of this size, for the sanitizers to see who reads beyond. */
	uint8_t *copy = malloc(len ? len : 1);
	struct fabric_ep *e = fabric_ep(end->ep);
	int res;

	CHECK(copy);
	memcpy(copy, data, len);
	fabric_domain_lock(fabric_ep_device(e)); /* as poll has it, beside a helper that fills */
	res = fabric_bound_received(e, type, id, copy, len);
	fabric_domain_unlock(fabric_ep_device(e));
	free(copy);
	CHECK(!res || res == -EPROTO);
	return res;
}

static void ask_for(struct rig *rig, struct end *owner, uint32_t id, uint32_t first, int res)
{
	first = htole32(first);
	CHECK_EQ(say(owner, MESSAGE_ASK, id, &first, sizeof(first)), res);
	rig_step(rig);
}

/* An answer without parts is right: it says that nothing is to be reached any more. */
static void with_parts(uint8_t *bytes, uint32_t len)
{
	if (len >= 8 && !bytes[6] && !bytes[7])
		bytes[6] = 1;
}

static void any_keys(struct rig *rig, struct end *importer, uint32_t id)
{
	uint8_t bytes[MESSAGE_MAX];
	uint32_t i, k, len;

	for (i = 0; i < RANDOM; i++) {
		len = (uint32_t)rig_random(rig, sizeof(bytes));
		for (k = 0; k < len; k++)
			bytes[k] = (uint8_t)rig_random(rig, i % 2 ? 256 : 3);
		with_parts(bytes, len);
		say(importer, MESSAGE_KEYS, id, bytes, len);
	}
}

void case_fabric_asked(struct rig *rig)
{
	struct area local, remote;
	struct grant some, none;
	struct pair pair;
	struct end *owner = &pair.end[1], *importer = &pair.end[0];

	if (!fabric_device(rig->node[0].dev)->bound)
		SKIP("the provider's keys do not end with a way");
	pair_open(rig, &pair);
	area_open(&rig->node[0], &local, LEN);
	area_open_spans(&rig->node[1], &remote, LEN, SPANS);
	grant_open(&some, owner, importer, &remote, 0, LEN, URCCL_RIGHT_WRITE);
	grant_open(&none, owner, importer, &remote, 0, LEN, 0);
	ask_for(rig, owner, 1, 0, 0);
	ask_for(rig, owner, 1, SPANS - 1, 0);
	ask_for(rig, owner, 1, UINT32_MAX, -EPROTO);
	ask_for(rig, owner, 1, SPANS * 1000, -EPROTO);
	ask_for(rig, owner, 2, 0, 0); /* nothing of it can be reached */
	ask_for(rig, owner, 77, 5, 0);
	CHECK_EQ(say(owner, MESSAGE_ASK, 1, "abc", 3), -EPROTO);
	any_keys(rig, importer, 1);
	CHECK_EQ(piece_move(rig, CHUNK_WRITE, importer, &local, 0, &some, 0, 1000), 0);
	grant_close(rig, &some);
	grant_close(rig, &none);
	pair_close(rig, &pair);
	area_close(&local);
	area_close(&remote);
}
