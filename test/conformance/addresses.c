/* SPDX-License-Identifier: Apache-2.0 */
/* An ep's address comes from the peer's mouth: whatever the bytes, ep_connect refuses, or the ep
 * never comes up and can be closed. Only the waiting side is given addresses of the right length:
 * the dialling one might dial them. */
#include <netinet/in.h>
#include "rig.h"

#define RANDOM 300u

static void try_address(struct rig *rig, const void *addr, uint32_t len, int active)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_storage via;
	/* Of this size, for the sanitizers to see who reads beyond. */
	void *copy = malloc(len ? len : 1);
	struct end end;
	uint32_t i;

	CHECK(copy);
	memcpy(copy, addr, len);
	memset(&via, 0, sizeof(via));
	memcpy(&via, &in, sizeof(in));
	end_open(&rig->node[0], &end);
	if (!end_connect(&end, copy, len, active, &via))
		for (i = 0; i < 3; i++)
			rig_step(rig);
	CHECK(!end.up);
	/* As engines do also where the address was refused. */
	rig->backend->ep_close(end.ep);
	WAIT(rig, end.closed);
	rig->backend->ep_free(end.ep);
	free(copy);
}

/* Each bit of each byte, or some. */
static void bits_flipped(struct rig *rig, const struct end *peer)
{
	uint8_t addr[EP_ADDR_MAX];
	uint32_t i, k;

	for (i = 0; i < peer->addr_len; i++) {
		for (k = 0; k < rig_rounds(rig, 8); k++) {
			memcpy(addr, peer->addr, sizeof(addr));
			addr[i] ^= (uint8_t)(1u << (i + k) % 8);
			try_address(rig, addr, peer->addr_len, 0);
		}
	}
}

static void wrong_lengths(struct rig *rig, const struct end *peer)
{
	uint8_t addr[EP_ADDR_MAX] = {0};
	uint32_t len;

	memcpy(addr, peer->addr, peer->addr_len);
	for (len = 0; len <= EP_ADDR_MAX; len += 8 / rig_rounds(rig, 8))
		if (len != peer->addr_len)
			try_address(rig, addr, len, (int)(len & 1));
}

static void random_addresses(struct rig *rig, const struct end *peer)
{
	uint8_t addr[EP_ADDR_MAX];
	uint32_t i, j, len;

	for (i = 0; i < rig_rounds(rig, RANDOM); i++) {
		len = i % 2 ? peer->addr_len : (uint32_t)rig_random(rig, EP_ADDR_MAX + 1);
		for (j = 0; j < len; j++)
			addr[j] = (uint8_t)rig_random(rig, 256);
		try_address(rig, addr, len, 0);
	}
}

void case_addresses(struct rig *rig)
{
	struct end peer;
	struct pair pair;

	end_open(&rig->node[1], &peer);
	bits_flipped(rig, &peer);
	wrong_lengths(rig, &peer);
	random_addresses(rig, &peer);
	rig->backend->ep_free(peer.ep);
	pair_open(rig, &pair);
	pair_close(rig, &pair);
}
