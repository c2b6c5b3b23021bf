/* SPDX-License-Identifier: Apache-2.0 */
/* Data to a chunk. */
#include "base/base.h"
#include "codec/codec.h"

/* The work space of a tile, on the caller's stack. */
struct work {
	_Alignas(CODEC_GROUP) uint8_t exps[CODEC_TILE + CODEC_GROUP];
	uint8_t values[CODEC_TILE + CODEC_GROUP]; /* of a plane, before it is packed */
	uint8_t codes3[CODEC_TILE / 8 * 3 + CODEC_GROUP];
	/* Stand-ins for the source and the chunk, for a tile that is not whole. */
	uint8_t src[CODEC_TILE + CODEC_GROUP * 4], a[CODEC_TILE], b[CODEC_TILE], codes[CODEC_TILE];
};

struct encoder {
	const struct codec_ops *ops;
	struct codec_head head;
	struct codec_layout at;
	const uint8_t *src;
	uint8_t *dst;
	uint64_t room;
	uint32_t end; /* of var so far, in units of 4 bytes */
};

/* Places of one tile in the chunk. */
struct places {
	uint8_t *a, *b, *codes;
};

static void tile_split(const struct encoder *e, struct work *w, const uint8_t *src, uint32_t n,
		       const struct places *to)
{
	uint8_t dtype = e->head.dtype;

	switch (dtype) {
	case URCCL_DTYPE_FP16:
		e->ops->split[dtype](src, n, to->a, w->values, w->exps);
		e->ops->pack3(w->values, n, to->b);
		break;
	case URCCL_DTYPE_FP8_E4M3:
		e->ops->split[dtype](src, n, w->values, NULL, w->exps);
		e->ops->pack4(w->values, n, to->a);
		break;
	case URCCL_DTYPE_FP8_E5M2:
		e->ops->split[dtype](src, n, w->values, NULL, w->exps);
		e->ops->pack3(w->values, n, to->a);
		break;
	default:
		e->ops->split[dtype](src, n, to->a, to->b, w->exps);
	}
}

/* Splits a tile and codes its exponents. Those without a code are left in w->exps. Returns the
 * bytes of var: entry->first packed codes in w->codes3 if the mode has them, then w->exps. */
static uint32_t tile_encode(const struct encoder *e, struct work *w, const uint8_t *src, uint32_t n,
			    const struct places *to, struct codec_tile *entry)
{
	const struct codec_ops *ops = e->ops;
	const uint8_t *table = e->head.table;
	int fw4 = e->head.mode == CODEC_FW4;

	if (e->head.dtype == URCCL_DTYPE_BF16 && n == e->at.tile_elems && ops->encode2) {
		n = (fw4 ? ops->encode4 : ops->encode2)(src, n, table, to->a, to->codes, w->exps);
	} else {
		tile_split(e, w, src, n, to);
		/* Padding gets a code, so that it is never left. */
		memset(w->exps + n, table[0], CODEC_GROUP);
		n = (fw4 ? ops->rank4 : ops->rank2)(w->exps, n, table, to->codes, w->exps);
	}
	entry->first = (uint16_t)n;
	if (fw4)
		return n;
	memset(w->exps + n, table[CODEC_FIRST], CODEC_GROUP);
	entry->second = (uint16_t)ops->rank3(w->exps, n, table, w->codes3, w->exps);
	return codec_packed(n, 3) + entry->second;
}

static uint32_t words_of(uint32_t bytes)
{
	return (bytes + 3) / 4;
}

/* The tile's bytes as they are, over its places and var. */
static void tile_store(const struct places *p, const uint32_t share[3], const uint8_t *src,
		       uint32_t bytes, uint8_t *var)
{
	uint8_t *to[3] = {p->a, p->b, p->codes};
	uint32_t i, n;

	for (i = 0; i < 3; i++) {
		n = share[i] < bytes ? share[i] : bytes;
		memcpy(to[i], src, n);
		memset(to[i] + n, 0, share[i] - n);
		src += n;
		bytes -= n;
	}
	memcpy(var, src, bytes);
	memset(var + bytes, 0, words_of(bytes) * 4 - bytes);
}

static void put_var(const struct encoder *e, const struct work *w, const struct codec_tile *entry,
		    uint8_t *var)
{
	uint32_t packed = 0, rest = entry->first;

	if (e->head.mode == CODEC_N23) {
		packed = codec_packed(entry->first, 3);
		rest = entry->second;
		memcpy(var, w->codes3, packed);
	}
	memcpy(var + packed, w->exps, rest);
	memset(var + packed + rest, 0, words_of(packed + rest) * 4 - packed - rest);
}

/* 0, or -ENOSPC. */
static int encode_tile(struct encoder *e, struct work *w, uint64_t tile)
{
	const struct codec_type *t = &codec_types[e->head.dtype];
	const uint8_t *src = e->src + tile * CODEC_TILE;
	uint64_t left = e->at.elems - tile * e->at.tile_elems;
	uint32_t n = left < e->at.tile_elems ? (uint32_t)left : e->at.tile_elems;
	uint32_t share[3] = {codec_packed(n, t->a_bits), codec_packed(n, t->b_bits),
			     codec_packed(n, e->head.mode == CODEC_N23 ? 2 : 4)};
	uint32_t shares = share[0] + share[1] + share[2], bytes = n * t->bytes, size;
	uint32_t stored = bytes > shares ? bytes - shares : 0;
	struct places in = {e->dst + e->at.a + tile * e->at.a_share,
			    e->dst + e->at.b + tile * e->at.b_share,
			    e->dst + e->at.codes + tile * e->at.code_share};
	struct places to = in;
	struct codec_tile entry = {0};
	uint8_t *var = e->dst + e->at.var + 4ull * e->end;

	if (n < e->at.tile_elems) {
		memcpy(w->src, src, bytes);
		memset(w->src + bytes, 0, CODEC_GROUP * t->bytes);
		src = w->src;
		to = (struct places){w->a, w->b, w->codes};
	}
	size = tile_encode(e, w, src, n, &to, &entry);
	if (size > stored) {
		entry = (struct codec_tile){.first = CODEC_STORED};
		size = stored;
	}
	if (e->at.var + 4ull * (e->end + words_of(size)) > e->room)
		return -ENOSPC;
	if (entry.first == CODEC_STORED) {
		tile_store(&in, share, src, bytes, var);
	} else {
		put_var(e, w, &entry, var);
		if (n < e->at.tile_elems) {
			memcpy(in.a, w->a, share[0]);
			memcpy(in.b, w->b, share[1]);
			memcpy(in.codes, w->codes, share[2]);
		}
	}
	e->end += words_of(size);
	entry.end = e->end;
	entry.second |= CODEC_WRITTEN;
	memcpy(e->dst + e->at.index + tile * sizeof(entry), &entry, sizeof(entry));
	return 0;
}

/* The bytes between the sections. */
static void put_zeros(const struct encoder *e)
{
	const struct codec_type *t = &codec_types[e->head.dtype];
	uint64_t code_bits = e->head.mode == CODEC_N23 ? 2 : 4;
	uint64_t ends[4][2] = {
		{e->at.a + (e->at.elems * t->a_bits + 7) / 8, e->at.b},
		{e->at.b + (e->at.elems * t->b_bits + 7) / 8, e->at.codes},
		{e->at.codes + (e->at.elems * code_bits + 7) / 8, e->at.index},
		{e->at.index + e->at.tiles * sizeof(struct codec_tile), e->at.var},
	};
	uint32_t i;

	for (i = 0; i < 4; i++)
		memset(e->dst + ends[i][0], 0, ends[i][1] - ends[i][0]);
}

/* All tiles and the tail: the chunk's bytes, or -ENOSPC. */
static int64_t encode_tiles(struct encoder *e)
{
	uint64_t i, bytes, raw = e->at.elems * codec_types[e->head.dtype].bytes, size;
	struct work w;
	int err;

	if (e->at.var > e->room)
		return -ENOSPC;
	put_zeros(e);
	for (i = 0; i < e->at.tiles; i++) {
		err = encode_tile(e, &w, i);
		if (err)
			return err;
		bytes = raw - i * CODEC_TILE;
		if (e->head.flags & CODEC_HEAD_CRC)
			e->head.crc_raw = crc32c(e->head.crc_raw, e->src + i * CODEC_TILE,
						 bytes < CODEC_TILE ? bytes : CODEC_TILE);
	}
	size = e->at.var + 4ull * e->end + e->at.tail;
	if (size > e->room)
		return -ENOSPC;
	memcpy(e->dst + size - e->at.tail, e->src + raw, e->at.tail);
	if (e->head.flags & CODEC_HEAD_CRC)
		e->head.crc_raw = crc32c(e->head.crc_raw, e->src + raw, e->at.tail);
	return (int64_t)size;
}

/* Modes RAW and CONST: the first n bytes of the data, then its tail. */
static int64_t encode_copy(struct encoder *e, uint64_t n, uint32_t tail)
{
	if (n + tail > e->room - sizeof(e->head))
		return -ENOSPC;
	if (n)
		memcpy(e->dst + sizeof(e->head), e->src, n);
	if (tail)
		memcpy(e->dst + sizeof(e->head) + n, e->src + e->head.raw_bytes - tail, tail);
	if (e->head.flags & CODEC_HEAD_CRC)
		e->head.crc_raw = crc32c(0, e->src, e->head.raw_bytes);
	return (int64_t)(sizeof(e->head) + n + tail);
}

static int is_constant(const uint8_t *src, uint64_t elems, uint32_t bytes)
{
	return elems > 1 && !memcmp(src, src + bytes, (elems - 1) * bytes);
}

int64_t codec_encode(const struct codec_ops *ops, uint32_t codec, uint8_t dtype, const uint8_t *src,
		     uint64_t n, uint8_t *dst, uint64_t room)
{
	uint32_t kind = codec & ~(uint32_t)URCCL_CODEC_NO_CRC, bytes = codec_types[dtype].bytes;
	struct encoder e = {
		.ops = ops,
		.head = {.magic = CODEC_MAGIC,
			 .version = CODEC_VERSION,
			 .dtype = dtype,
			 .flags = codec & URCCL_CODEC_NO_CRC ? 0 : CODEC_HEAD_CRC,
			 .raw_bytes = n},
		.src = src,
		.dst = dst,
		.room = room,
	};
	enum codec_mode wanted = kind == URCCL_CODEC_OFF   ? CODEC_RAW
				 : kind == URCCL_CODEC_FW4 ? CODEC_FW4
							   : CODEC_N23;
	int64_t size;

	if (room < sizeof(e.head))
		return -ENOSPC;
	e.head.mode = (uint8_t)codec_table(wanted, dtype, src, n / bytes, e.head.table);
	if (wanted != CODEC_RAW && is_constant(src, n / bytes, bytes)) {
		memset(e.head.table, 0, sizeof(e.head.table));
		e.head.mode = CODEC_CONST;
		size = encode_copy(&e, bytes, (uint32_t)(n % bytes));
	} else if (e.head.mode == CODEC_RAW) {
		size = encode_copy(&e, n, 0);
	} else {
		codec_lay_out(&e.at, dtype, e.head.mode, n);
		size = encode_tiles(&e);
	}
	if (size < 0)
		return size;
	e.head.coded_bytes = (uint64_t)size;
	codec_head_write(&e.head, dst);
	return size;
}
