/* SPDX-License-Identifier: Apache-2.0 */
/* A changed, cut or random chunk is -EBADMSG or, where no checksum covers the change, other data;
 * never an access outside the buffers, which end where a sanitizer sees it. */
#include <errno.h>
#include <stddef.h>
#include "base/base.h"
#include "codec_data.h"

#define BYTES 40001u

static uint8_t data[BYTES], chunk[BYTES * 2];

/* With CRC32C every change is found. */
static void changed(int codec, uint8_t dtype)
{
	uint8_t *back = malloc(BYTES), *exact;
	int64_t size, i;
	uint32_t bit;

	fill_normal(data, BYTES, dtype, 11);
	size = urccl_codec_encode(codec, dtype, data, BYTES, chunk, sizeof(chunk));
	CHECK_GE(size, 64);
	exact = malloc((size_t)size);
	CHECK(back && exact);
	memcpy(exact, chunk, (size_t)size);
	for (i = 0; i < size; i += i < 128 ? 1 : 37) {
		for (bit = 0; bit < 8; bit += 3) {
			exact[i] ^= (uint8_t)(1u << bit);
			if (urccl_codec_decode(exact, (size_t)size, back, BYTES) != -EBADMSG)
				CHECK(!memcmp(back, data, BYTES)); /* a byte between sections */
			exact[i] ^= (uint8_t)(1u << bit);
		}
	}
	for (i = 0; i < size; i += 1 + i / 8)
		CHECK_EQ(urccl_codec_decode(chunk, (size_t)i, back, BYTES), -EBADMSG);
	CHECK_EQ(urccl_codec_decode(chunk, (size_t)size, back, BYTES - 1), -ENOSPC);
	CHECK_EQ(urccl_codec_decode(chunk, (size_t)size + 9, back, BYTES), BYTES);
	free(exact);
	free(back);
}

/* The head is right and all behind it is random: only the counts stop the decoder. */
static void random_body(enum codec_mode mode, uint8_t dtype, uint64_t seed)
{
	struct codec_head h = {.magic = CODEC_MAGIC,
			       .version = CODEC_VERSION,
			       .dtype = dtype,
			       .mode = (uint8_t)mode,
			       .raw_bytes = 1 + seed * 97 % BYTES};
	struct codec_layout l;
	uint8_t *exact, *back = malloc(h.raw_bytes);

	codec_lay_out(&l, dtype, mode, h.raw_bytes);
	h.coded_bytes = l.var + seed * 31 % 20000;
	exact = malloc(h.coded_bytes);
	CHECK(exact && back);
	fill_random(exact, h.coded_bytes, seed);
	if (seed & 1)
		memset(exact + l.index, (int)(seed & 0xff), l.var - l.index);
	codec_head_write(&h, exact);
	CHECK_EQ(urccl_codec_decode(exact, h.coded_bytes, back, h.raw_bytes), -EBADMSG);
	free(exact);
	free(back);
}

static void too_little_room(void)
{
	int64_t size, room;
	uint8_t *exact;

	fill_normal(data, BYTES, URCCL_DTYPE_BF16, 4);
	size = urccl_codec_encode(0, URCCL_DTYPE_BF16, data, BYTES, chunk, sizeof(chunk));
	for (room = 0; room <= size; room += 1 + (size - room) / 9) {
		exact = malloc((size_t)room + 1);
		CHECK(exact);
		CHECK_EQ(urccl_codec_encode(0, URCCL_DTYPE_BF16, data, BYTES, exact, (size_t)room),
			 room < size ? -ENOSPC : size);
		free(exact);
	}
}

static void arguments(void)
{
	struct urccl_codec_info info = {.size = sizeof(info)};

	CHECK_EQ(urccl_codec_encode(URCCL_CODEC_CONST, 1, data, 9, chunk, 999), -EINVAL);
	CHECK_EQ(urccl_codec_encode(-1, 1, data, 9, chunk, 999), -EINVAL);
	CHECK_EQ(urccl_codec_encode(0, CODEC_DTYPES, data, 9, chunk, 999), -EINVAL);
	CHECK_EQ(urccl_codec_bound(-1, 9), 0);
	CHECK_EQ(urccl_codec_bound(0, URCCL_CODEC_MAX + 1), 0);
	CHECK_EQ(urccl_codec_info(chunk, 63, &info), -EBADMSG);
	CHECK_EQ(urccl_codec_encode(0, 1, NULL, 0, chunk, 64), 64);
	CHECK_EQ(urccl_codec_info(chunk, 64, &info), 0);
	CHECK_EQ(info.coded_bytes, 64);
	CHECK_EQ(info.checksum, 1);
	info.size = 4;
	CHECK_EQ(urccl_codec_info(chunk, 64, &info), -EINVAL);
}

int case_codec_hostile(void)
{
	uint8_t dtype;
	uint64_t seed;

	for (dtype = URCCL_DTYPE_BYTES; dtype < CODEC_DTYPES; dtype++) {
		changed(URCCL_CODEC_N23, dtype);
		changed(URCCL_CODEC_FW4, dtype);
		for (seed = 1; dtype != URCCL_DTYPE_BYTES && seed < 2000; seed++) {
			random_body(CODEC_N23, dtype, seed);
			random_body(CODEC_FW4, dtype, seed);
		}
	}
	too_little_room();
	arguments();
	return 0;
}
