/* SPDX-License-Identifier: Apache-2.0 */
/* A key of a version that is not spoken is refused as such, whoever sealed it. */
#include "rig.h"

#define LEN	  4096u
#define COOKIE_AT 4u  /* in an address */
#define MAC_AT	  40u /* in a key */
#define MAC_LEN	  16u

/* As the key's owner would, which here has no bond with its peer. */
static void seal(const struct end *owner, uint8_t *key, uint32_t len)
{
	uint8_t cookie[MAC_LEN], mac[MAC_LEN];

	CHECK(!owner->ep->bonded);
	memcpy(cookie, owner->addr + COOKIE_AT, sizeof(cookie));
	memset(key + MAC_AT, 0, MAC_LEN);
	siphash128(cookie, key, len, mac);
	memcpy(key + MAC_AT, mac, MAC_LEN);
}

void case_fabric_version(struct rig *rig)
{
	struct rkey rkey;
	struct area remote;
	struct pair pair;
	struct grant g;
	uint32_t version;

	pair_open(rig, &pair);
	area_open(&rig->node[1], &remote, LEN);
	grant_open(&g, &pair.end[1], &pair.end[0], &remote, 0, LEN, URCCL_RIGHT_WRITE);
	for (version = 0; version < 256; version++) {
		int err, good = version == pair.end[1].addr[0];

		g.key[0] = (uint8_t)version;
		seal(&pair.end[1], g.key, g.key_len);
		err = rig->backend->import(pair.end[0].ep, g.key, g.key_len, LEN, &rkey);
		CHECK_EQ(err, good ? 0 : -EPROTONOSUPPORT);
		if (good)
			rig->backend->forget(pair.end[0].ep, &rkey);
	}
	grant_close(rig, &g);
	pair_close(rig, &pair);
	area_close(&remote);
}
