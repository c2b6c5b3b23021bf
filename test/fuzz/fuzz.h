/* SPDX-License-Identifier: Apache-2.0 */
/* What targets share: the input, of which each step takes some bytes, and what must hold. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *at;
	size_t left;
};

static inline void must(int yes)
{
	if (!yes)
		abort();
}

/* The next so many bytes as one number, the first highest; fewer where the input ends. */
static inline uint64_t take_number(struct input *in, uint32_t bytes)
{
	uint64_t v = 0;

	while (bytes-- && in->left) {
		v = v << 8 | *in->at++;
		in->left--;
	}
	return v;
}

/* 0 where the input has ended. */
static inline uint8_t take(struct input *in)
{
	return (uint8_t)take_number(in, 1);
}

/* How many there were. */
static inline uint32_t take_bytes(struct input *in, void *to, size_t n)
{
	n = n < in->left ? n : in->left;
	memcpy(to, in->at, n);
	in->at += n;
	in->left -= n;
	return (uint32_t)n;
}

#endif
