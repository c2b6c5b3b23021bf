/* SPDX-License-Identifier: Apache-2.0 */
/* The metadata blob: comes out as it went in; with any bit changed, cut or longer it is refused. */
#include "wire_rig.h"

static struct metadata sample(uint32_t nhosts)
{
	struct metadata m = {.incarnation = 0x1122334455667788ull, .port = 7777, .nhosts = nhosts};
	uint32_t i;

	for (i = 0; i < nhosts; i++) {
		m.hosts[i].family = i % 2 ? 4 : 6;
		memset(m.hosts[i].addr, (int)i + 1, i % 2 ? 4 : 16);
	}
	return m;
}

static int parse(const uint8_t *blob, uint32_t len)
{
	struct metadata m;

	return metadata_get(blob, len, &m);
}

static void round_trip(uint32_t nhosts)
{
	struct metadata in = sample(nhosts), out;
	uint8_t blob[METADATA_MAX];
	uint32_t len = metadata_put(blob, &in), i;

	CHECK_EQ(blob[0], 0);
	CHECK_EQ(metadata_get(blob, len, &out), 0);
	CHECK_EQ(out.incarnation, in.incarnation);
	CHECK_EQ(out.port, in.port);
	CHECK_EQ(out.nhosts, nhosts);
	for (i = 0; i < nhosts; i++) {
		CHECK_EQ(out.hosts[i].family, in.hosts[i].family);
		CHECK_EQ(memcmp(out.hosts[i].addr, in.hosts[i].addr, 16), 0);
	}
}

int case_wire_metadata(void)
{
	struct metadata m = sample(3);
	uint8_t blob[METADATA_MAX];
	uint32_t len = metadata_put(blob, &m);

	round_trip(1);
	round_trip(3);
	round_trip(METADATA_HOSTS);
	wire_truncate(parse, blob, len);
	CHECK_EQ(wire_change(parse, blob, len), 8 * len);
	/* Well made, and of nobody. */
	m.nhosts = 0;
	CHECK(parse(blob, metadata_put(blob, &m)) < 0);
	m = sample(1);
	m.incarnation = 0;
	CHECK(parse(blob, metadata_put(blob, &m)) < 0);
	m = sample(1);
	m.port = 0;
	CHECK(parse(blob, metadata_put(blob, &m)) < 0);
	return 0;
}
