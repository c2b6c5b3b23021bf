/* SPDX-License-Identifier: Apache-2.0 */
/* HELLO: comes out as it went in, in every size; damaged it is refused, or read for what it says.
 */
#include "wire_rig.h"

static struct wire_hello sample(uint32_t nrails, uint32_t addr_len, uint32_t note_len)
{
	struct wire_hello h = {
		.version_min = WIRE_VERSION,
		.version_max = WIRE_VERSION,
		.incarnation = 0x0123456789abcdefull,
		.expected = 0xfedcba9876543210ull,
		.host = 0x89abcdefu,
		.key_window = 16,
		.port = 0xfedc,
		.note_len = note_len,
		.nrails = nrails,
	};
	uint32_t i;

	memset(h.note, 0x55, note_len);
	for (i = 0; i < nrails; i++) {
		h.rails[i].transport = URCCL_TRANSPORT_SIM + i % 3;
		h.rails[i].id = nrails - 1 - i;
		h.rails[i].addr_len = addr_len;
		memset(h.rails[i].addr, (int)i, addr_len);
	}
	return h;
}

static void round_trip(uint32_t nrails, uint32_t addr_len, uint32_t note_len)
{
	struct wire_hello in = sample(nrails, addr_len, note_len), out;
	uint8_t frame[WIRE_BUF];
	uint32_t len = wire_put_hello(frame, WIRE_HELLO, &in), i;

	memset(&out, 0xee, sizeof(out));
	CHECK_EQ(wire_get_hello(wire_body(frame, len, WIRE_HELLO), len - WIRE_HEADER, &out), 0);
	CHECK_EQ(out.version_min, in.version_min);
	CHECK_EQ(out.version_max, in.version_max);
	CHECK_EQ(out.incarnation, in.incarnation);
	CHECK_EQ(out.expected, in.expected);
	CHECK_EQ(out.host, in.host);
	CHECK_EQ(out.key_window, in.key_window);
	CHECK_EQ(out.port, in.port);
	CHECK_EQ(out.note_len, in.note_len);
	CHECK_EQ(memcmp(out.note, in.note, note_len), 0);
	CHECK_EQ(out.nrails, in.nrails);
	for (i = 0; i < nrails; i++) {
		CHECK_EQ(out.rails[i].transport, in.rails[i].transport);
		CHECK_EQ(out.rails[i].id, in.rails[i].id);
		CHECK_EQ(out.rails[i].addr_len, addr_len);
		CHECK_EQ(memcmp(out.rails[i].addr, in.rails[i].addr, addr_len), 0);
	}
}

static int parse(const uint8_t *body, uint32_t len)
{
	struct wire_hello h;
	int rc = wire_get_hello(body, len, &h);

	if (!rc)
		CHECK(h.nrails <= WIRE_RAILS && h.note_len <= HELLO_MAX && h.incarnation);
	return rc;
}

/* One of another version: refused by name, and a newer one that speaks ours too may say more. */
static void versions(void)
{
	struct wire_hello h = sample(1, 4, 3), out;
	uint8_t frame[WIRE_BUF + 8];
	uint32_t len;

	h.version_min = h.version_max = WIRE_VERSION + 1;
	len = wire_put_hello(frame, WIRE_HELLO, &h);
	CHECK_EQ(parse(frame + WIRE_HEADER, len - WIRE_HEADER), -EPROTONOSUPPORT);
	h.version_min = WIRE_VERSION;
	len = wire_put_hello(frame, WIRE_HELLO, &h);
	memset(frame + len, 0xaa, 8);
	CHECK_EQ(wire_get_hello(frame + WIRE_HEADER, len - WIRE_HEADER + 8, &out), 0);
	CHECK_EQ(out.version_max, WIRE_VERSION + 1);
	h.version_max = 0;
	len = wire_put_hello(frame, WIRE_HELLO, &h);
	CHECK_EQ(parse(frame + WIRE_HEADER, len - WIRE_HEADER), -EPROTO);
}

static void twice_the_same_rail(void)
{
	struct wire_hello h = sample(2, 4, 0);
	uint8_t frame[WIRE_BUF];
	uint32_t len;

	h.rails[1].id = h.rails[0].id;
	len = wire_put_hello(frame, WIRE_HELLO, &h);
	CHECK_EQ(parse(frame + WIRE_HEADER, len - WIRE_HEADER), -EPROTO);
}

int case_wire_hello(void)
{
	struct wire_hello h = sample(3, 20, 7);
	uint8_t frame[WIRE_BUF];
	uint32_t len = wire_put_hello(frame, WIRE_HELLO, &h), refused;

	round_trip(0, 0, 0);
	round_trip(1, 0, HELLO_MAX);
	round_trip(WIRE_RAILS, EP_ADDR_MAX, HELLO_MAX);
	wire_truncate(parse, frame + WIRE_HEADER, len - WIRE_HEADER);
	refused = wire_change(parse, frame + WIRE_HEADER, len - WIRE_HEADER);
	CHECK(refused > 100);
	versions();
	twice_the_same_rail();
	return 0;
}
