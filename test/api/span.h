/* SPDX-License-Identifier: Apache-2.0 */
/* Address space of many bytes over little memory: the same pages again and again, but for the
 * ends, which have pages of their own, so that what comes to the wrong place shows there. */
#ifndef API_SPAN_H
#define API_SPAN_H

#include "pair.h"

#define SPAN_END (64ull << 10)

struct span {
	uint8_t *bytes;
	uint64_t len;
};

void span_open(struct span *s, uint64_t len);
void span_close(struct span *s);
/* SPAN_END bytes at either end: of the first len bytes. */
void span_fill_ends(const struct span *s, uint64_t len, uint64_t version);
int span_ends_hold(const struct span *s, uint64_t len, uint64_t version);

#endif
