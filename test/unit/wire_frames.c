/* SPDX-License-Identifier: Apache-2.0 */
/* The other frames of the control protocol, and the header. */
#include "wire_rig.h"

static int parse_refuse(const uint8_t *body, uint32_t len)
{
	struct wire_refuse r;

	return wire_get_refuse(body, len, &r);
}

static int parse_word(const uint8_t *body, uint32_t len)
{
	uint64_t word;

	return wire_get_word(body, len, &word);
}

static int parse_key_req(const uint8_t *body, uint32_t len)
{
	struct wire_key_req r;

	return wire_get_key_req(body, len, &r);
}

/* What it accepts lies inside the body. */
static int parse_key_rep(const uint8_t *body, uint32_t len)
{
	struct wire_key_rep r;
	int rc = wire_get_key_rep(body, len, &r);

	if (!rc)
		CHECK(r.key >= body && r.key + r.len == body + len && r.status <= 0);
	return rc;
}

static int parse_revoke(const uint8_t *body, uint32_t len)
{
	struct wire_revoke r;

	return wire_get_revoke(body, len, &r);
}

static void revoked(void)
{
	struct wire_revoke in = {.number = 1ull << 40, .upto = 1ull << 50, .region = 0x1234567};
	struct wire_revoke out;
	uint8_t frame[WIRE_BUF];
	uint32_t len = wire_put_revoke(frame, &in);
	const uint8_t *body = wire_body(frame, len, WIRE_REVOKE);

	CHECK_EQ(wire_get_revoke(body, len - WIRE_HEADER, &out), 0);
	CHECK_EQ(out.number, in.number);
	CHECK_EQ(out.upto, in.upto);
	CHECK_EQ(out.region, in.region);
	wire_truncate(parse_revoke, body, len - WIRE_HEADER);
	wire_change(parse_revoke, body, len - WIRE_HEADER);
}

static void refuse(void)
{
	struct wire_refuse in = {1, 1, WIRE_FULL, 77, 1ull << 40, ENFILE, 0}, out;
	uint8_t frame[WIRE_BUF];
	uint32_t len = wire_put_refuse(frame, &in);
	const uint8_t *body = wire_body(frame, len, WIRE_REFUSE);

	CHECK_EQ(wire_get_refuse(body, len - WIRE_HEADER, &out), 0);
	CHECK_EQ(out.code, WIRE_FULL);
	CHECK_EQ(out.incarnation, 77);
	CHECK_EQ(out.transports, 1ull << 40);
	CHECK_EQ(out.error, ENFILE);
	CHECK_EQ(out.version_max, 1);
	wire_truncate(parse_refuse, body, len - WIRE_HEADER);
	wire_change(parse_refuse, body, len - WIRE_HEADER);
}

static void refuse_by_policy(void)
{
	struct wire_refuse in = {1, 1, WIRE_NO_PATH, 77, 8, EACCES, URCCL_TRANSPORT_SHM}, out;
	uint8_t frame[WIRE_BUF], *body = frame + WIRE_HEADER;
	uint32_t len = wire_put_refuse(frame, &in) - WIRE_HEADER;

	CHECK_EQ(len, 28);
	CHECK_EQ(body[24] | (body[25] & 0xf) << 8, EACCES);
	CHECK_EQ(wire_get_refuse(body, len, &out), 0);
	CHECK_EQ(out.error, EACCES);
	CHECK_EQ(out.required, URCCL_TRANSPORT_SHM);
	body[27] = 1; /* no transport: that it is refused is what counts */
	CHECK_EQ(wire_get_refuse(body, len, &out), 0);
	CHECK_EQ(out.code, WIRE_NO_PATH);
	CHECK_EQ(out.required, 0);
}

static void word(void)
{
	uint8_t frame[WIRE_BUF];
	uint32_t len = wire_put_word(frame, WIRE_PING, 0x8877665544332211ull);
	const uint8_t *body = wire_body(frame, len, WIRE_PING);
	uint64_t out;

	CHECK_EQ(wire_get_word(body, len - WIRE_HEADER, &out), 0);
	CHECK_EQ(out, 0x8877665544332211ull);
	wire_truncate(parse_word, body, len - WIRE_HEADER);
}

static void key_req(void)
{
	struct wire_key_req in = {.id = 5}, out;
	uint8_t frame[WIRE_BUF];
	const uint8_t *body;
	uint32_t len;

	memset(&in.advert, 0x3c, sizeof(in.advert));
	len = wire_put_key_req(frame, &in);
	body = wire_body(frame, len, WIRE_KEY_REQ);
	CHECK_EQ(wire_get_key_req(body, len - WIRE_HEADER, &out), 0);
	CHECK_EQ(out.id, 5);
	CHECK_EQ(memcmp(&out.advert, &in.advert, sizeof(in.advert)), 0);
	wire_truncate(parse_key_req, body, len - WIRE_HEADER);
}

static void key_rep(uint32_t key_len, int status)
{
	uint8_t key[KEY_MAX];
	struct wire_key_rep in = {.id = 9,
				  .status = status,
				  .grant = status ? 0 : 0x1234567,
				  .len = key_len,
				  .key = key},
			    out;
	uint8_t frame[WIRE_BUF];
	const uint8_t *body;
	uint32_t len;

	memset(key, 0x42, sizeof(key));
	len = wire_put_key_rep(frame, &in);
	body = wire_body(frame, len, WIRE_KEY_REP);
	CHECK_EQ(wire_get_key_rep(body, len - WIRE_HEADER, &out), 0);
	CHECK_EQ(out.id, 9);
	CHECK_EQ(out.status, status);
	CHECK_EQ(out.grant, in.grant);
	CHECK_EQ(out.len, key_len);
	CHECK_EQ(memcmp(out.key, key, key_len), 0);
	if (key_len < 64) {
		wire_truncate(parse_key_rep, body, len - WIRE_HEADER);
		wire_change(parse_key_rep, body, len - WIRE_HEADER);
	}
}

static void header(void)
{
	static const uint8_t bad[][WIRE_HEADER] = {
		{0, 0, 0, 0, 0, 0, 0, 0},	   /* no type */
		{0, 0, 0, 0, WIRE_TYPES, 0, 0, 0}, /* of a later version */
		{0, 0, 0, 0, 1, 1, 0, 0},
		{0, 0, 0, 0, 1, 0, 1, 0},    /* reserved */
		{1, 0x40, 0, 0, 1, 0, 0, 0}, /* longer than any */
		{0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0},
	};
	struct wire_header h;
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(wire_get_header(bad[i], &h), -EPROTO);
}

static int parse_rail(const uint8_t *body, uint32_t len)
{
	struct wire_rail r;

	return wire_get_rail(body, len, &r);
}

static void rail(void)
{
	struct wire_rail in = {.transport = URCCL_TRANSPORT_SIM, .id = 7, .addr_len = 20}, out;
	uint8_t frame[WIRE_BUF];
	const uint8_t *body;
	uint32_t len;

	memset(in.addr, 0x5a, in.addr_len);
	len = wire_put_rail(frame, WIRE_RAIL, &in);
	body = wire_body(frame, len, WIRE_RAIL);
	CHECK_EQ(wire_get_rail(body, len - WIRE_HEADER, &out), 0);
	CHECK_EQ(out.transport, in.transport);
	CHECK_EQ(out.id, in.id);
	CHECK_EQ(out.addr_len, in.addr_len);
	CHECK(!memcmp(out.addr, in.addr, in.addr_len));
	wire_truncate(parse_rail, body, len - WIRE_HEADER);
	wire_change(parse_rail, body, len - WIRE_HEADER);
}

static void key_req_of_rail(void)
{
	struct wire_key_req in = {.id = 5, .rail = 3}, out;
	uint8_t frame[WIRE_BUF], *body = frame + WIRE_HEADER;
	uint32_t len = wire_put_key_req(frame, &in) - WIRE_HEADER;

	CHECK_EQ(wire_get_key_req(body, len, &out), 0);
	CHECK_EQ(out.rail, 3);
	body[len - 4] = RAIL_NUMBERS;
	CHECK_EQ(wire_get_key_req(body, len, &out), -EPROTO);
}

int case_wire_frames(void)
{
	header();
	rail();
	key_req_of_rail();
	refuse();
	refuse_by_policy();
	revoked();
	word();
	key_req();
	key_rep(0, 0);
	key_rep(24, 0);
	key_rep(KEY_MAX, 0);
	key_rep(0, -EACCES);
	return 0;
}
