/* SPDX-License-Identifier: Apache-2.0 */
/* The codec's kernels: the last one of an encode or decode does all of it, by the codec of CPUs. */
#include <errno.h>
#include <liburccl/codec.h>
#include "codec/codec.h"
#include "codec/kernel_args.h"
#include "double.h"

/* Host addresses of what a launch names; NULL: an illegal access. */
struct places {
	const uint8_t *src;
	uint8_t *dst;
	uint64_t *result;
};

static void *place(const struct launch *l, const void *p, uint64_t len)
{
	static uint8_t nothing;
	uint64_t n = 0;
	uint8_t *at;

	if (!len)
		return &nothing;
	at = launch_reach(l, (uintptr_t)p, len, &n);
	return n < len ? NULL : at;
}

/* dst has room bytes. */
static int find(const struct launch *l, const struct codec_args *g, uint64_t room, struct places *p)
{
	if (l->block[0] != CODEC_THREADS || !l->grid[0])
		die("a codec kernel with %u blocks of %u threads", l->grid[0], l->block[0]);
	lock();
	p->src = place(l, g->src, g->n);
	p->dst = place(l, g->dst, room);
	p->result = place(l, g->result, sizeof(*p->result));
	unlock();
	return p->src && p->dst && p->result ? 0 : CUDA_ERROR_ILLEGAL_ADDRESS;
}

int codec_encode_tiles(const struct launch *l)
{
	static const int codecs[CODEC_MODES] = {[CODEC_RAW] = URCCL_CODEC_OFF,
						[CODEC_FW4] = URCCL_CODEC_FW4,
						[CODEC_N23] = URCCL_CODEC_N23};
	const struct codec_args *g = (const void *)l->args;
	uint64_t bound = urccl_codec_bound(g->dtype, g->n);
	struct places p;
	int res = find(l, g, bound, &p);

	if (!res)
		*p.result = (uint64_t)urccl_codec_encode(codecs[g->mode] | URCCL_CODEC_NO_CRC,
							 g->dtype, p.src, g->n, p.dst, bound);
	return res;
}

int codec_decode_tiles(const struct launch *l)
{
	const struct codec_args *g = (const void *)l->args;
	struct urccl_codec_info info = {.size = sizeof(info)};
	struct places p;
	int64_t n = -EBADMSG;
	int res = find(l, g, g->room, &p);

	if (res)
		return res;
	if (!urccl_codec_info(p.src, g->n, &info) && info.dtype == g->dtype)
		n = urccl_codec_decode(p.src, g->n, p.dst, g->room);
	*p.result = (uint64_t)(n < 0 ? -EBADMSG : n);
	return 0;
}
