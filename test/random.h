/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for tests that try many cases: the same ones in every run. */
#ifndef TEST_RANDOM_H
#define TEST_RANDOM_H

#include <stdint.h>

/* Marsaglia's xorshift; *from is not 0. */
static inline uint64_t random_next(uint64_t *from)
{
	*from ^= *from << 13;
	*from ^= *from >> 7;
	*from ^= *from << 17;
	return *from;
}

static inline uint64_t random_below(uint64_t *from, uint64_t limit)
{
	return random_next(from) % limit;
}

#endif
