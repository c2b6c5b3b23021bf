/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the control protocol share: a parser is given every beginning of a good body,
 * and the body with every byte changed, always in an allocation of exactly that size. */
#ifndef WIRE_RIG_H
#define WIRE_RIG_H

#include <stdlib.h>
#include <string.h>

#include "conn/wire.h"
#include "test.h"

typedef int (*wire_parse)(const uint8_t *body, uint32_t len);

static inline int wire_parse_exact(wire_parse parse, const uint8_t *body, uint32_t len)
{
	uint8_t *exact = calloc(1, len ? len : 1);
	int rc;

	CHECK(exact);
	if (len)
		memcpy(exact, body, len);
	rc = parse(exact, len);
	free(exact);
	return rc;
}

/* Every beginning and every longer body is refused. */
static inline void wire_truncate(wire_parse parse, const uint8_t *body, uint32_t len)
{
	uint8_t longer[WIRE_BUF + 1];
	uint32_t i;

	CHECK_EQ(wire_parse_exact(parse, body, len), 0);
	for (i = 0; i < len; i++)
		CHECK(wire_parse_exact(parse, body, i) < 0);
	memcpy(longer, body, len);
	longer[len] = 0;
	CHECK(wire_parse_exact(parse, longer, len + 1) < 0);
}

/* A changed byte gives an answer of the documented ones, and nothing is read or written outside.
 * Returns how many changes were refused. */
static inline uint32_t wire_change(wire_parse parse, const uint8_t *body, uint32_t len)
{
	uint8_t changed[WIRE_BUF];
	uint32_t i, bit, refused = 0;

	for (i = 0; i < len; i++) {
		for (bit = 0; bit < 8; bit++) {
			int rc;

			memcpy(changed, body, len);
			changed[i] ^= (uint8_t)(1u << bit);
			rc = wire_parse_exact(parse, changed, len);
			CHECK(!rc || rc == -EPROTO || rc == -EPROTONOSUPPORT || rc == -EINVAL);
			refused += rc < 0;
		}
	}
	return refused;
}

/* The frame's header is right; its body. */
static inline const uint8_t *wire_body(const uint8_t *frame, uint32_t len, uint32_t type)
{
	struct wire_header h;

	CHECK(len >= WIRE_HEADER && len <= WIRE_BUF);
	CHECK_EQ(wire_get_header(frame, &h), 0);
	CHECK_EQ(h.type, type);
	CHECK_EQ(h.len, len - WIRE_HEADER);
	return frame + WIRE_HEADER;
}

#endif
