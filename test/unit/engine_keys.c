/* SPDX-License-Identifier: Apache-2.0 */
/* Rails of two transports have the same number: the end of the one that is not used takes no key of
 * the other's, and a key is forgotten once, by the device that made it. */
#include <stdlib.h>
#include "test.h"
#include "engine/post.h"

enum { HANDLE = 1u << HANDLE_SLOT_BITS, PARTS = 2 };

static struct ep eps[2];
static uint32_t forgotten;

/* Keys are nothing that the other could have read. */
static void not_its_own(struct ep *ep, struct rkey *key)
{
	(void)ep;
	(void)key;
	CHECK(!"a key was forgotten by a device that never made it");
}

static void its_own(struct ep *ep, struct rkey *key)
{
	CHECK(ep == &eps[0]);
	CHECK_EQ(key->v[0], 7);
	forgotten++;
}

int case_engine_keys(void)
{
	static const struct backend used_ops = {.forget = its_own},
				    unused_ops = {.forget = not_its_own};
	static struct device devices[2] = {{.ops = &used_ops}, {.ops = &unused_ops}};
	static struct engine_peer peer = {.handle = HANDLE, .state = PEER_UP};
	static struct rail used = {.ep = &eps[0], .peer = &peer},
			   unused = {.ep = &eps[1], .peer = &peer};
	uint64_t lens[PARTS] = {4096, 4096};
	struct engine_remote *r = engine_remote_new(HANDLE, &peer, lens, PARTS);
	uint32_t i;

	CHECK(r);
	eps[0].dev = &devices[0];
	eps[1].dev = &devices[1];
	r->rail_keys[0] = calloc(PARTS, sizeof(r->rail_keys[0][0]));
	CHECK(r->rail_keys[0]);
	for (i = 0; i < PARTS; i++) {
		r->rail_keys[0][i] =
			(struct rail_key){.key.v = {7}, .remote = r, .rail = &used, .resolved = 1};
		r->parts[i].rails = 1;
	}
	r->keys = r->nkeys[0] = PARTS;
	remote_forget_keys(r, &unused);
	CHECK_EQ(r->keys, PARTS);
	CHECK_EQ(r->parts[1].rails, 1);
	remote_forget_keys(r, &used);
	remote_forget_keys(r, &used);
	CHECK_EQ(forgotten, PARTS);
	CHECK_EQ(r->keys, 0);
	CHECK_EQ(r->parts[0].rails, 0);
	engine_remote_free(r);
	return 0;
}
