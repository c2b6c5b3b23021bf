/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chunk to data. The chunk may be any bytes: each offset and count is checked before use. Counts
 * of codes are compared with the index after a tile was decoded; until then they only select bytes
 * of the work space.
 */
#include "base/base.h"
#include "codec/codec.h"

struct work {
	_Alignas(CODEC_GROUP) uint8_t exps[CODEC_TILE + CODEC_GROUP];
	uint8_t values[CODEC_TILE + CODEC_GROUP];
	uint8_t rest[CODEC_TILE + CODEC_GROUP * 2];
	uint8_t codes3[CODEC_TILE / 8 * 3 + CODEC_GROUP];
	uint8_t dst[CODEC_TILE + CODEC_GROUP * 4], a[CODEC_TILE], b[CODEC_TILE], codes[CODEC_TILE];
};

struct decoder {
	const struct codec_ops *ops;
	struct codec_head head;
	struct codec_layout at;
	const uint8_t *src;
	uint8_t *dst;
};

struct places {
	const uint8_t *a, *b, *codes;
};

static void tile_join(const struct decoder *d, struct work *w, const struct places *in, uint32_t n,
		      uint8_t *dst)
{
	uint8_t dtype = d->head.dtype;

	switch (dtype) {
	case URCCL_DTYPE_FP16:
		d->ops->unpack3(in->b, n, w->values);
		d->ops->join[dtype](in->a, w->values, w->exps, n, dst);
		break;
	case URCCL_DTYPE_FP8_E4M3:
		d->ops->unpack4(in->a, n, w->values);
		d->ops->join[dtype](w->values, NULL, w->exps, n, dst);
		break;
	case URCCL_DTYPE_FP8_E5M2:
		d->ops->unpack3(in->a, n, w->values);
		d->ops->join[dtype](w->values, NULL, w->exps, n, dst);
		break;
	default:
		d->ops->join[dtype](in->a, in->b, w->exps, n, dst);
	}
}

/* The exponents without a 2-bit or 4-bit code, to w->rest. var has been checked to have the bytes
 * that entry names. 0, or -EBADMSG. */
static int get_rest(const struct decoder *d, struct work *w, const struct codec_tile *entry,
		    const uint8_t *var)
{
	uint32_t second = entry->second & ~CODEC_WRITTEN, packed = codec_packed(entry->first, 3);

	if (d->head.mode == CODEC_FW4) {
		memcpy(w->rest, var, entry->first);
		return 0;
	}
	/* Codes behind the last are padding; as 0 they take nothing from the rest. */
	memcpy(w->codes3, var, packed);
	memset(w->codes3 + packed, 0, CODEC_GROUP);
	if (entry->first % 8)
		w->codes3[packed - 1] &= (uint8_t)((1u << (3 * entry->first - 8 * packed + 8)) - 1);
	memcpy(w->exps, var + packed, second);
	if (d->ops->unrank3(w->codes3, entry->first, d->head.table, w->exps, w->rest) != second)
		return -EBADMSG;
	return 0;
}

/* A whole number of groups to dst. 0, or -EBADMSG. */
static int uncode(const struct decoder *d, struct work *w, const struct places *in, uint32_t n,
		  const struct codec_tile *entry, const uint8_t *var, uint8_t *dst)
{
	const struct codec_ops *ops = d->ops;
	const uint8_t *table = d->head.table;
	int fw4 = d->head.mode == CODEC_FW4;
	uint32_t used;

	if (get_rest(d, w, entry, var))
		return -EBADMSG;
	if (d->head.dtype == URCCL_DTYPE_BF16 && ops->decode2) {
		used = (fw4 ? ops->decode4 : ops->decode2)(in->a, in->codes, n, table, w->rest,
							   dst);
	} else {
		used = (fw4 ? ops->unrank4 : ops->unrank2)(in->codes, n, table, w->rest, w->exps);
		tile_join(d, w, in, n, dst);
	}
	return used == entry->first ? 0 : -EBADMSG;
}

/* The bytes of a tile's part of var, and more than any where the entry cannot be. */
static uint32_t var_bytes(const struct decoder *d, const struct codec_tile *entry, uint32_t n,
			  uint32_t stored)
{
	uint32_t second = entry->second & ~CODEC_WRITTEN;

	if (!(entry->second & CODEC_WRITTEN))
		return UINT32_MAX;
	if (entry->first == CODEC_STORED)
		return second ? UINT32_MAX : stored;
	if (entry->first > n || second > entry->first)
		return UINT32_MAX;
	if (d->head.mode == CODEC_FW4)
		return second ? UINT32_MAX : entry->first;
	return codec_packed(entry->first, 3) + second;
}

static void unstore(const struct places *p, const uint32_t share[3], const uint8_t *var,
		    uint32_t bytes, uint8_t *dst)
{
	const uint8_t *from[3] = {p->a, p->b, p->codes};
	uint32_t i, n;

	for (i = 0; i < 3; i++) {
		n = share[i] < bytes ? share[i] : bytes;
		memcpy(dst, from[i], n);
		dst += n;
		bytes -= n;
	}
	memcpy(dst, var, bytes);
}

/* Decodes a tile that is not whole in the work space, which has room for whole groups. */
static int decode_part(const struct decoder *d, struct work *w, const struct places *in,
		       const uint32_t share[3], uint32_t n, const struct codec_tile *entry,
		       const uint8_t *var, uint8_t *dst)
{
	struct places from = {w->a, w->b, w->codes};

	memcpy(w->a, in->a, share[0]);
	memset(w->a + share[0], 0, sizeof(w->a) - share[0]);
	memcpy(w->b, in->b, share[1]);
	memset(w->b + share[1], 0, sizeof(w->b) - share[1]);
	memcpy(w->codes, in->codes, share[2]);
	memset(w->codes + share[2], 0, sizeof(w->codes) - share[2]);
	if (uncode(d, w, &from, n, entry, var, w->dst))
		return -EBADMSG;
	memcpy(dst, w->dst, (size_t)n * codec_types[d->head.dtype].bytes);
	return 0;
}

/* The tile's part of var begins at *end, which moves behind it. */
static int decode_tile(const struct decoder *d, struct work *w, uint64_t tile, uint32_t *end)
{
	const struct codec_type *t = &codec_types[d->head.dtype];
	uint64_t left = d->at.elems - tile * d->at.tile_elems, var_end;
	uint32_t n = left < d->at.tile_elems ? (uint32_t)left : d->at.tile_elems;
	uint32_t share[3] = {codec_packed(n, t->a_bits), codec_packed(n, t->b_bits),
			     codec_packed(n, d->head.mode == CODEC_N23 ? 2 : 4)};
	uint32_t shares = share[0] + share[1] + share[2], bytes = n * t->bytes, size;
	struct places in = {d->src + d->at.a + tile * d->at.a_share,
			    d->src + d->at.b + tile * d->at.b_share,
			    d->src + d->at.codes + tile * d->at.code_share};
	const uint8_t *var = d->src + d->at.var + 4ull * *end;
	uint8_t *dst = d->dst + tile * CODEC_TILE;
	struct codec_tile entry;

	memcpy(&entry, d->src + d->at.index + tile * sizeof(entry), sizeof(entry));
	size = var_bytes(d, &entry, n, bytes > shares ? bytes - shares : 0);
	var_end = d->at.var + 4ull * entry.end + d->at.tail;
	if (size == UINT32_MAX || var_end > d->head.coded_bytes ||
	    entry.end != (uint64_t)*end + (size + 3) / 4)
		return -EBADMSG;
	*end = entry.end;
	if (entry.first == CODEC_STORED) {
		unstore(&in, share, var, bytes, dst);
		return 0;
	}
	if (n < d->at.tile_elems)
		return decode_part(d, w, &in, share, n, &entry, var, dst);
	return uncode(d, w, &in, n, &entry, var, dst);
}

static int decode_tiles(struct decoder *d)
{
	uint64_t i, raw = d->head.raw_bytes - d->at.tail;
	struct work w;
	uint32_t end = 0, crc = 0;

	if (d->at.var + d->at.tail > d->head.coded_bytes)
		return -EBADMSG;
	for (i = 0; i < d->at.tiles; i++) {
		if (decode_tile(d, &w, i, &end))
			return -EBADMSG;
		if (d->head.flags & CODEC_HEAD_CRC)
			crc = crc32c(crc, d->dst + i * CODEC_TILE,
				     raw - i * CODEC_TILE < CODEC_TILE ? raw - i * CODEC_TILE
								       : CODEC_TILE);
	}
	if (d->at.var + 4ull * end + d->at.tail != d->head.coded_bytes)
		return -EBADMSG;
	memcpy(d->dst + raw, d->src + d->head.coded_bytes - d->at.tail, d->at.tail);
	if (!(d->head.flags & CODEC_HEAD_CRC))
		return 0;
	return crc32c(crc, d->dst + raw, d->at.tail) == d->head.crc_raw ? 0 : -EBADMSG;
}

static int check_copied(const struct decoder *d)
{
	if (!(d->head.flags & CODEC_HEAD_CRC))
		return 0;
	return crc32c(0, d->dst, d->head.raw_bytes) == d->head.crc_raw ? 0 : -EBADMSG;
}

static int decode_raw(const struct decoder *d)
{
	if (d->head.coded_bytes != sizeof(d->head) + d->head.raw_bytes)
		return -EBADMSG;
	if (d->head.raw_bytes)
		memcpy(d->dst, d->src + sizeof(d->head), d->head.raw_bytes);
	return check_copied(d);
}

/* Each copy doubles what is there. */
static int decode_constant(const struct decoder *d)
{
	uint32_t bytes = codec_types[d->head.dtype].bytes;
	uint64_t all = d->head.raw_bytes / bytes * bytes, done;
	uint32_t tail = (uint32_t)(d->head.raw_bytes - all);

	if (!all || d->head.coded_bytes != sizeof(d->head) + bytes + tail)
		return -EBADMSG;
	memcpy(d->dst, d->src + sizeof(d->head), bytes);
	for (done = bytes; done < all; done += done < all - done ? done : all - done)
		memcpy(d->dst + done, d->dst, done < all - done ? done : all - done);
	memcpy(d->dst + all, d->src + sizeof(d->head) + bytes, tail);
	return check_copied(d);
}

int64_t codec_decode(const struct codec_ops *ops, const uint8_t *src, uint64_t n, uint8_t *dst,
		     uint64_t room)
{
	struct decoder d = {.ops = ops, .src = src, .dst = dst};
	int err = codec_head_read(&d.head, src, n);

	if (err)
		return err;
	if (d.head.coded_bytes > n)
		return -EBADMSG;
	if (d.head.raw_bytes > room)
		return -ENOSPC;
	if (d.head.mode == CODEC_RAW) {
		err = decode_raw(&d);
	} else if (d.head.mode == CODEC_CONST) {
		err = decode_constant(&d);
	} else {
		codec_lay_out(&d.at, d.head.dtype, d.head.mode, d.head.raw_bytes);
		err = decode_tiles(&d);
	}
	return err ? err : (int64_t)d.head.raw_bytes;
}
