/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of the control protocol: the first byte says which parser, the rest is the body. What one
 * accepts it must be able to write and read again. */
#include <stdlib.h>

#include "conn/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(int yes)
{
	if (!yes)
		abort();
}

static void fuzz_hello(const uint8_t *body, uint32_t len)
{
	struct wire_hello h, again;
	uint8_t frame[WIRE_BUF];
	uint32_t n;

	if (wire_get_hello(body, len, &h))
		return;
	n = wire_put_hello(frame, WIRE_HELLO, &h);
	same(!wire_get_hello(frame + WIRE_HEADER, n - WIRE_HEADER, &again));
	same(again.nrails == h.nrails && again.note_len == h.note_len);
}

static void fuzz_key_rep(const uint8_t *body, uint32_t len)
{
	struct wire_key_rep r, again;
	uint8_t frame[WIRE_BUF];
	uint32_t n;

	if (wire_get_key_rep(body, len, &r))
		return;
	n = wire_put_key_rep(frame, &r);
	same(!wire_get_key_rep(frame + WIRE_HEADER, n - WIRE_HEADER, &again));
	same(n - WIRE_HEADER == len && again.len == r.len && again.status == r.status);
	same(again.grant == r.grant && !r.grant == !!r.status);
}

static void fuzz_revoke(const uint8_t *body, uint32_t len)
{
	struct wire_revoke r, again;
	uint8_t frame[WIRE_BUF];
	uint32_t n;

	if (wire_get_revoke(body, len, &r))
		return;
	n = wire_put_revoke(frame, &r);
	same(!wire_get_revoke(frame + WIRE_HEADER, n - WIRE_HEADER, &again));
	same(n - WIRE_HEADER == len && again.number == r.number && again.upto == r.upto &&
	     again.region == r.region);
}

static void fuzz_rail(const uint8_t *body, uint32_t len)
{
	struct wire_rail r, again;
	uint8_t frame[WIRE_BUF];
	uint32_t n;

	if (wire_get_rail(body, len, &r))
		return;
	n = wire_put_rail(frame, WIRE_RAIL, &r);
	same(!wire_get_rail(frame + WIRE_HEADER, n - WIRE_HEADER, &again));
	same(n - WIRE_HEADER == len && again.id == r.id && again.addr_len == r.addr_len);
}

static void fuzz_key_req(const uint8_t *body, uint32_t len)
{
	struct wire_key_req r;
	uint8_t frame[WIRE_BUF];

	if (!wire_get_key_req(body, len, &r))
		same(wire_put_key_req(frame, &r) - WIRE_HEADER == len && r.rail < RAIL_NUMBERS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_header header;
	struct wire_refuse refuse;
	uint64_t word;
	uint32_t len;

	if (size >= WIRE_HEADER && !wire_get_header(data, &header))
		same(header.len <= WIRE_FRAME_MAX && header.type && header.type < WIRE_TYPES);
	if (!size || size - 1 > WIRE_FRAME_MAX)
		return 0;
	len = (uint32_t)(size - 1);
	switch (data[0] % 7) {
	case 0:
		fuzz_hello(data + 1, len);
		break;
	case 1:
		fuzz_key_rep(data + 1, len);
		break;
	case 2:
		fuzz_key_req(data + 1, len);
		break;
	case 3:
		(void)wire_get_refuse(data + 1, len, &refuse);
		break;
	case 4:
		fuzz_revoke(data + 1, len);
		break;
	case 5:
		fuzz_rail(data + 1, len);
		break;
	default:
		(void)wire_get_word(data + 1, len, &word);
		break;
	}
	return 0;
}
