/* SPDX-License-Identifier: Apache-2.0 */
/* The head of a chunk and the places of its sections; the public calls. */
#include "base/base.h"
#include "codec/codec.h"

const struct codec_type codec_types[CODEC_DTYPES] = {
	[URCCL_DTYPE_BYTES] = {1, 8, 0, 0},    [URCCL_DTYPE_BF16] = {2, 8, 8, 0},
	[URCCL_DTYPE_FP16] = {2, 5, 8, 3},     [URCCL_DTYPE_FP32] = {4, 8, 16, 8},
	[URCCL_DTYPE_FP8_E4M3] = {1, 4, 4, 0}, [URCCL_DTYPE_FP8_E5M2] = {1, 5, 3, 0},
};

_Static_assert(sizeof(struct codec_head) == 64, "the head of a chunk");
_Static_assert(sizeof(struct codec_tile) == 8, "an entry of the index");

static uint64_t aligned(uint64_t at)
{
	return (at + CODEC_ALIGN - 1) / CODEC_ALIGN * CODEC_ALIGN;
}

static uint64_t packed(uint64_t n, uint32_t bits)
{
	return (n * bits + 7) / 8;
}

void codec_lay_out(struct codec_layout *l, uint8_t dtype, enum codec_mode mode, uint64_t raw_bytes)
{
	const struct codec_type *t = &codec_types[dtype];
	uint32_t bits = mode == CODEC_N23 ? 2 : 4;

	l->elems = raw_bytes / t->bytes;
	l->tail = (uint32_t)(raw_bytes % t->bytes);
	l->tile_elems = CODEC_TILE / t->bytes;
	l->tiles = (l->elems + l->tile_elems - 1) / l->tile_elems;
	l->a_share = codec_packed(l->tile_elems, t->a_bits);
	l->b_share = codec_packed(l->tile_elems, t->b_bits);
	l->code_share = codec_packed(l->tile_elems, bits);
	l->a = sizeof(struct codec_head);
	l->b = aligned(l->a + packed(l->elems, t->a_bits));
	l->codes = aligned(l->b + packed(l->elems, t->b_bits));
	l->index = aligned(l->codes + packed(l->elems, bits));
	l->var = aligned(l->index + l->tiles * sizeof(struct codec_tile));
}

static uint32_t head_crc(const uint8_t *head)
{
	return crc32c(0, head, offsetof(struct codec_head, crc_head));
}

void codec_head_write(const struct codec_head *h, uint8_t *dst)
{
	struct codec_head head = *h;

	head.crc_head = head_crc((const uint8_t *)&head);
	memcpy(dst, &head, sizeof(head));
}

static int is_zero(const uint8_t *p, size_t n)
{
	while (n--)
		if (*p++)
			return 0;
	return 1;
}

static int table_is_valid(const struct codec_head *h)
{
	uint32_t used = 0;

	if (h->mode == CODEC_N23)
		used = CODEC_FIRST + CODEC_SECOND;
	else if (h->mode == CODEC_FW4)
		used = 1;
	return is_zero(h->table + used, sizeof(h->table) - used);
}

int codec_head_read(struct codec_head *h, const uint8_t *src, uint64_t n)
{
	if (n < sizeof(*h))
		return -EBADMSG;
	memcpy(h, src, sizeof(*h));
	if (h->magic != CODEC_MAGIC || h->version != CODEC_VERSION || h->crc_head != head_crc(src))
		return -EBADMSG;
	if (h->dtype >= CODEC_DTYPES || h->mode < CODEC_RAW || h->mode >= CODEC_MODES ||
	    h->flags & ~CODEC_HEAD_CRC || h->raw_bytes > CODEC_BYTES_MAX ||
	    h->coded_bytes < sizeof(*h) || !is_zero(h->reserved, sizeof(h->reserved)) ||
	    !table_is_valid(h))
		return -EBADMSG;
	if (h->mode >= CODEC_FW4 && h->dtype == URCCL_DTYPE_BYTES)
		return -EBADMSG;
	return 0;
}

size_t urccl_codec_bound(int dtype, size_t n)
{
	uint64_t tiles = (n + CODEC_TILE - 1) / CODEC_TILE;

	if (dtype < 0 || dtype >= CODEC_DTYPES || n > CODEC_BYTES_MAX)
		return 0;
	/* A tile costs its entry of the index; the last may have a place more for each section, and
	 * each of the 5 sections begins at a multiple of 16. */
	return sizeof(struct codec_head) + n + tiles * sizeof(struct codec_tile) + 5 * CODEC_ALIGN +
	       8;
}

int64_t urccl_codec_encode(int codec, int dtype, const void *src, size_t n, void *dst, size_t room)
{
	uint32_t kind = (uint32_t)codec & ~(uint32_t)URCCL_CODEC_NO_CRC;

	if (codec < 0 || kind > URCCL_CODEC_N23 || dtype < 0 || dtype >= CODEC_DTYPES ||
	    n > CODEC_BYTES_MAX)
		return -EINVAL;
	return codec_encode(codec_variant(0), (uint32_t)codec, (uint8_t)dtype, src, n, dst, room);
}

int64_t urccl_codec_decode(const void *src, size_t n, void *dst, size_t room)
{
	return codec_decode(codec_variant(0), src, n, dst, room);
}

int urccl_codec_info(const void *src, size_t n, struct urccl_codec_info *info)
{
	static const uint8_t codecs[CODEC_MODES] = {
		[CODEC_RAW] = URCCL_CODEC_OFF,
		[CODEC_CONST] = URCCL_CODEC_CONST,
		[CODEC_FW4] = URCCL_CODEC_FW4,
		[CODEC_N23] = URCCL_CODEC_N23,
	};
	struct urccl_codec_info found;
	struct codec_head h;
	int err = codec_head_read(&h, src, n);

	if (err)
		return err;
	found = (struct urccl_codec_info){
		.version = h.version,
		.dtype = h.dtype,
		.codec = codecs[h.mode],
		.checksum = h.flags & CODEC_HEAD_CRC,
		.raw_bytes = h.raw_bytes,
		.coded_bytes = h.coded_bytes,
	};
	return fill_sized(info, &found, sizeof(found), "struct urccl_codec_info");
}
