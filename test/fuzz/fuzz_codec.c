/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks that a peer or a file holds: the decoder of every variant ends with the same data or with
 * the same error, and data of any kind comes back from its chunk. */
#include <errno.h>
#include "codec/codec.h"
#include "fuzz.h"

#define RAW_MAX (1u << 18)

static uint8_t back[RAW_MAX], other[RAW_MAX], chunk[2 * RAW_MAX];

static void decode(const uint8_t *src, size_t n)
{
	const struct codec_ops *ops;
	int64_t res = codec_decode(&codec_scalar, src, n, back, sizeof(back));
	struct urccl_codec_info info = {.size = sizeof(info)};
	uint32_t i;

	must(res >= 0 || res == -EBADMSG || res == -ENOSPC);
	for (i = 0; (ops = codec_variant(i)); i++) {
		must(codec_decode(ops, src, n, other, sizeof(other)) == res);
		must(res < 0 || !memcmp(back, other, (size_t)res));
	}
	must(res < 0 || (!urccl_codec_info(src, n, &info) && info.raw_bytes == (uint64_t)res));
}

/* The input as what follows a valid head, so that its CRC stops nothing. */
static void with_head(struct input *in)
{
	struct codec_head h = {.magic = CODEC_MAGIC, .version = CODEC_VERSION};
	uint64_t missing;
	uint8_t *exact;
	size_t size;

	h.mode = (uint8_t)(CODEC_RAW + take(in) % CODEC_N23);
	h.dtype = take(in) % CODEC_DTYPES;
	h.raw_bytes = take_number(in, 3) % (RAW_MAX + 8);
	missing = take(in);
	take_bytes(in, h.table, h.mode == CODEC_N23 ? 10 : h.mode == CODEC_FW4);
	size = sizeof(h) + in->left;
	h.coded_bytes = size + (missing == 1);
	exact = malloc(size);
	must(exact != NULL);
	memcpy(exact + sizeof(h), in->at, in->left);
	codec_head_write(&h, exact);
	decode(exact, size);
	free(exact);
}

static void there_and_back(struct input *in)
{
	int dtype = take(in) % CODEC_DTYPES, codec = take(in) % (URCCL_CODEC_N23 + 1);
	int64_t size = urccl_codec_encode(codec, dtype, in->at, in->left, chunk, sizeof(chunk));

	must(size >= 64 && (uint64_t)size <= urccl_codec_bound(dtype, in->left));
	must(urccl_codec_decode(chunk, (size_t)size, back, in->left) == (int64_t)in->left);
	must(!memcmp(back, in->at, in->left));
	decode(chunk, (size_t)size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	switch (take(&in) % 3) {
	case 0:
		decode(in.at, in.left);
		break;
	case 1:
		with_head(&in);
		break;
	default:
		there_and_back(&in);
	}
	return 0;
}
