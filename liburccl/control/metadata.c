/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The metadata blob: {u8 0, u8 version, u16 port, u8 hosts, u8[3] 0, u64 incarnation}, then {u8
 * family, u8[4 or 16] address} for each host, then 8 bytes of check over all that. A blob damaged
 * in transit is therefore refused and not dialled.
 */
#include "conn/shared.h"

#define METADATA_HEAD  16u
#define METADATA_CHECK 8u

_Static_assert(METADATA_HEAD + METADATA_HOSTS * 17 + METADATA_CHECK <= METADATA_MAX, "fits");
_Static_assert(METADATA_MAX <= URCCL_METADATA_MAX, "fits what programs provide");

static void metadata_check(const uint8_t *blob, uint64_t len, uint8_t check[16])
{
	static const uint8_t key[16];

	siphash128(key, blob, len, check);
}

static uint32_t host_len(uint32_t family)
{
	return family == 4 ? 4 : 16;
}

uint32_t metadata_put(uint8_t *buf, const struct metadata *m)
{
	uint8_t check[16];
	uint8_t *at = buf + METADATA_HEAD;
	uint32_t i;

	assert(m->nhosts <= METADATA_HOSTS && m->port <= 0xffff);
	memset(buf, 0, METADATA_HEAD);
	buf[1] = METADATA_VERSION;
	buf[2] = (uint8_t)m->port;
	buf[3] = (uint8_t)(m->port >> 8);
	buf[4] = (uint8_t)m->nhosts;
	for (i = 0; i < 8; i++)
		buf[8 + i] = (uint8_t)(m->incarnation >> (8 * i));
	for (i = 0; i < m->nhosts; i++) {
		*at++ = (uint8_t)m->hosts[i].family;
		memcpy(at, m->hosts[i].addr, host_len(m->hosts[i].family));
		at += host_len(m->hosts[i].family);
	}
	metadata_check(buf, (uint64_t)(at - buf), check);
	memcpy(at, check, METADATA_CHECK);
	return (uint32_t)(at - buf) + METADATA_CHECK;
}

static int metadata_get_hosts(const uint8_t *at, const uint8_t *end, struct metadata *m)
{
	uint32_t i;

	for (i = 0; i < m->nhosts; i++) {
		if (at == end || (*at != 4 && *at != 6))
			return -EINVAL;
		m->hosts[i].family = *at++;
		if ((uint64_t)(end - at) < host_len(m->hosts[i].family))
			return -EINVAL;
		memset(m->hosts[i].addr, 0, sizeof(m->hosts[i].addr));
		memcpy(m->hosts[i].addr, at, host_len(m->hosts[i].family));
		at += host_len(m->hosts[i].family);
	}
	return at == end ? 0 : -EINVAL;
}

int metadata_get(const uint8_t *blob, uint64_t len, struct metadata *m)
{
	uint8_t check[16];
	const uint8_t *end;
	uint32_t i;

	if (len < METADATA_HEAD + METADATA_CHECK || len > URCCL_METADATA_MAX || blob[0])
		return -EINVAL;
	end = blob + len - METADATA_CHECK;
	metadata_check(blob, (uint64_t)(end - blob), check);
	if (memcmp(check, end, METADATA_CHECK))
		return -EINVAL;
	if (blob[1] != METADATA_VERSION)
		return -EPROTONOSUPPORT;
	m->port = (uint32_t)(blob[2] | blob[3] << 8);
	m->nhosts = blob[4];
	m->incarnation = 0;
	for (i = 0; i < 8; i++)
		m->incarnation |= (uint64_t)blob[8 + i] << (8 * i);
	if (blob[5] || blob[6] || blob[7] || !m->port || !m->incarnation || !m->nhosts ||
	    m->nhosts > METADATA_HOSTS)
		return -EINVAL;
	return metadata_get_hosts(blob + METADATA_HEAD, end, m);
}
