/* SPDX-License-Identifier: Apache-2.0 */
/* The codec on a GPU writes the bytes of the codec on CPUs and reads them back, for every dtype and
 * codec; wrong arguments and chunks end with an error. */
#include "codec_data.h"
#include "gpu_rig.h"

#define MOST 100000u

int case_gpu_codec(void);

static uint8_t data[MOST], chunk[MOST * 2], got[MOST * 2], back[MOST];
static uint64_t dsrc, dchunk, dback, dresult;
static struct urccl_codec_gpu *codec;
static struct gpu_rig r;

static void *device(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* On the default stream, which the copy waits for. */
static int64_t result(void)
{
	int64_t res;

	CHECK_EQ(r.cuMemcpyDtoH_v2(&res, dresult, 8), 0);
	return res;
}

static int64_t gpu_decode(int dtype, uint64_t src, size_t n, size_t room)
{
	CHECK_EQ(urccl_codec_decode_gpu(codec, dtype, device(src), n, device(dback), room, NULL,
					device(dresult)),
		 0);
	return result();
}

static void there_and_back_gpu(int kind, int dtype, size_t n)
{
	size_t bound = urccl_codec_bound(dtype, n);
	int64_t size = urccl_codec_encode(kind | URCCL_CODEC_NO_CRC, dtype, data, n, chunk, bound);

	if (n)
		CHECK_EQ(r.cuMemcpyHtoD_v2(dsrc, data, n), 0);
	CHECK_EQ(urccl_codec_encode_gpu(codec, kind | URCCL_CODEC_NO_CRC, dtype, device(dsrc), n,
					device(dchunk), bound, NULL, device(dresult)),
		 0);
	CHECK_EQ(result(), size);
	CHECK_EQ(r.cuMemcpyDtoH_v2(got, dchunk, (size_t)size), 0);
	CHECK(!memcmp(got, chunk, (size_t)size));
	CHECK_EQ(gpu_decode(dtype, dchunk, (size_t)size, n), (int64_t)n);
	if (n)
		CHECK_EQ(r.cuMemcpyDtoH_v2(back, dback, n), 0);
	CHECK(!memcmp(back, data, n));
}

static void compare_all(void)
{
	static const size_t sizes[] = {0, 1, 7, 16384, 40001, MOST};
	uint32_t i, kind;
	int dtype;

	for (dtype = 0; dtype < CODEC_DTYPES; dtype++)
		for (i = 0; i < ARRAY_SIZE(sizes); i++)
			for (kind = 0; kind < CODECS; kind++) {
				fill_normal(data, sizes[i], (uint8_t)dtype, i + 1);
				there_and_back_gpu(codec_all[kind], dtype, sizes[i]);
			}
	fill_random(data, MOST, 1);
	there_and_back_gpu(URCCL_CODEC_N23, URCCL_DTYPE_BF16, MOST);
	memset(data, 0x3f, MOST);
	there_and_back_gpu(URCCL_CODEC_N23, URCCL_DTYPE_BF16, MOST);
}

static void refuse_chunks(void)
{
	int64_t size;

	fill_normal(data, MOST, URCCL_DTYPE_BF16, 9);
	size = urccl_codec_encode(URCCL_CODEC_N23, URCCL_DTYPE_BF16, data, MOST, chunk,
				  sizeof(chunk));
	CHECK_EQ(r.cuMemcpyHtoD_v2(dchunk, chunk, (size_t)size), 0);
	CHECK_EQ(gpu_decode(URCCL_DTYPE_BF16, dchunk, (size_t)size, MOST), MOST);
	CHECK_EQ(gpu_decode(URCCL_DTYPE_FP16, dchunk, (size_t)size, MOST), -EBADMSG);
	CHECK_EQ(gpu_decode(URCCL_DTYPE_BF16, dchunk, (size_t)size - 1, MOST), -EBADMSG);
	CHECK_EQ(gpu_decode(URCCL_DTYPE_BF16, dchunk, (size_t)size, MOST - 1), -EBADMSG);
	chunk[20] ^= 1;
	CHECK_EQ(r.cuMemcpyHtoD_v2(dchunk, chunk, 64), 0);
	CHECK_EQ(gpu_decode(URCCL_DTYPE_BF16, dchunk, (size_t)size, MOST), -EBADMSG);
}

static int encode(int kind, int dtype, uint64_t dst, size_t room, uint64_t res)
{
	return urccl_codec_encode_gpu(codec, kind, dtype, device(dsrc), 1000, device(dst), room,
				      NULL, device(res));
}

static void refuse_arguments(void)
{
	const int n23 = URCCL_CODEC_N23 | URCCL_CODEC_NO_CRC;
	size_t room = urccl_codec_bound(URCCL_DTYPE_BF16, 1000);

	CHECK_EQ(encode(URCCL_CODEC_N23, URCCL_DTYPE_BF16, dchunk, room, dresult), -EOPNOTSUPP);
	CHECK_EQ(encode(n23, URCCL_DTYPE_BF16, dchunk, room - 1, dresult), -ENOSPC);
	CHECK_EQ(encode(n23, URCCL_DTYPE_BF16, dchunk + 8, room, dresult), -EINVAL);
	CHECK_EQ(encode(n23, URCCL_DTYPE_BF16, dchunk, room, dresult + 4), -EINVAL);
	CHECK_EQ(encode(n23, CODEC_DTYPES, dchunk, room, dresult), -EINVAL);
	CHECK_EQ(encode(URCCL_CODEC_CONST | URCCL_CODEC_NO_CRC, 1, dchunk, room, dresult), -EINVAL);
	CHECK_EQ(encode(-1, URCCL_DTYPE_BF16, dchunk, room, dresult), -EINVAL);
	CHECK_EQ(urccl_codec_decode_gpu(codec, 1, device(dchunk), 63, device(dback), 0, NULL,
					device(dresult)),
		 -EBADMSG);
	CHECK_EQ(urccl_codec_decode_gpu(codec, -1, device(dchunk), 64, device(dback), 0, NULL,
					device(dresult)),
		 -EINVAL);
	CHECK_EQ(urccl_codec_decode_gpu(codec, 1, device(dchunk + 4), 64, device(dback), 0, NULL,
					device(dresult)),
		 -EINVAL);
}

int case_gpu_codec(void)
{
	int err = urccl_codec_gpu_open(0, 0, &codec);

	if (err == -EOPNOTSUPP)
		SKIP("the build had no nvcc");
	CHECK_EQ(err, -ENODEV); /* CUDA is not loaded */
	CHECK_SAYS(urccl_errmsg(), "cudaFree(0)");
	rig_load(&r);
	CHECK_EQ(urccl_codec_gpu_open(0, 0, &codec), -ENODEV); /* and not started */
	rig_start(&r, 1);
	CHECK_EQ(urccl_codec_gpu_open(31, 0, &codec), -ENODEV);
	CHECK_EQ(urccl_codec_gpu_open(0, 16, &codec), 0);
	dsrc = rig_alloc(&r, 0, MOST);
	dchunk = rig_alloc(&r, 0, MOST * 2);
	dback = rig_alloc(&r, 0, MOST);
	dresult = rig_alloc(&r, 0, 16);
	compare_all();
	refuse_chunks();
	refuse_arguments();
	urccl_codec_gpu_close(codec);
	urccl_codec_gpu_close(NULL);
	return 0;
}
