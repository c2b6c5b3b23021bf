/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pusher-wrong OPTIONS...: kvcache_pusher as it is, but for one byte: the last of one page, in one
 * layer, of the first block with the hash 7 that it makes up.
 */
#include "pusher.h"

#define HASH  7u
#define LAYER 2u
#define PAGE  1u

void __real_page_fill(const struct side *s, uint32_t page, uint32_t layer, uint64_t hash,
		      uint32_t k);
void __wrap_page_fill(const struct side *s, uint32_t page, uint32_t layer, uint64_t hash,
		      uint32_t k);

void __wrap_page_fill(const struct side *s, uint32_t page, uint32_t layer, uint64_t hash,
		      uint32_t k)
{
	static bool done;

	__real_page_fill(s, page, layer, hash, k);
	if (done || hash != HASH || layer != LAYER || k != PAGE)
		return;
	done = true;
	s->base[side_tensor(s, s->ranks - 1, layer) + (s->shape->planes - 1) * side_plane_bytes(s) +
		(page + 1) * side_page_bytes(s) - 1] ^= 1;
}
