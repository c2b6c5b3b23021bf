/* SPDX-License-Identifier: Apache-2.0 */
/* The codec on a GPU: the public calls launch kernels/codec.cu. */
#include <stdlib.h>

#include "base/base.h"
#include "codec/codec.h"
#include "codec/kernel_args.h"
#include "gpu/gpu.h"

enum {
	BEGIN,
	COMPARE,
	CHECK,
	ENCODE,
	DECODE = ENCODE + CODEC_DTYPES,
	KERNELS = DECODE + CODEC_DTYPES
};

static const char *const names[KERNELS] = {
	[BEGIN] = "urccl_codec_begin",
	[COMPARE] = "urccl_codec_compare",
	[CHECK] = "urccl_codec_check",
	[ENCODE + URCCL_DTYPE_BYTES] = "urccl_codec_encode_bytes",
	[ENCODE + URCCL_DTYPE_BF16] = "urccl_codec_encode_bf16",
	[ENCODE + URCCL_DTYPE_FP16] = "urccl_codec_encode_fp16",
	[ENCODE + URCCL_DTYPE_FP32] = "urccl_codec_encode_fp32",
	[ENCODE + URCCL_DTYPE_FP8_E4M3] = "urccl_codec_encode_e4m3",
	[ENCODE + URCCL_DTYPE_FP8_E5M2] = "urccl_codec_encode_e5m2",
	[DECODE + URCCL_DTYPE_BYTES] = "urccl_codec_decode_bytes",
	[DECODE + URCCL_DTYPE_BF16] = "urccl_codec_decode_bf16",
	[DECODE + URCCL_DTYPE_FP16] = "urccl_codec_decode_fp16",
	[DECODE + URCCL_DTYPE_FP32] = "urccl_codec_decode_fp32",
	[DECODE + URCCL_DTYPE_FP8_E4M3] = "urccl_codec_decode_e4m3",
	[DECODE + URCCL_DTYPE_FP8_E5M2] = "urccl_codec_decode_e5m2",
};

struct urccl_codec_gpu {
	struct gpu_module *module;
	uint32_t sms, all; /* multiprocessors to use, and of the GPU */
};

int urccl_codec_gpu_open(uint32_t device, uint32_t sms, struct urccl_codec_gpu **out)
{
	struct urccl_codec_gpu *gpu;
	int err;

	if (!codec_kernels)
		return fail(-EOPNOTSUPP,
			    "this liburccl was built without nvcc and has no codec for GPUs");
	gpu = calloc(1, sizeof(*gpu));
	if (!gpu)
		return fail_errno(-ENOMEM, "a codec for a GPU");
	err = gpu_module_open(device, codec_kernels, names, KERNELS, &gpu->module);
	if (err) {
		free(gpu);
		return err;
	}
	gpu->all = gpu_module_sms(gpu->module);
	gpu->sms = sms && sms < gpu->all ? sms : gpu->all;
	*out = gpu;
	return 0;
}

void urccl_codec_gpu_close(struct urccl_codec_gpu *gpu)
{
	if (!gpu)
		return;
	gpu_module_close(gpu->module);
	free(gpu);
}

/* A block for each tile, as many as the GPU holds. Blocks on multiprocessors beyond the budget end
 * at once, so with a budget all get their share of the grid. */
static uint32_t blocks_of(const struct urccl_codec_gpu *gpu, uint64_t bytes)
{
	uint64_t tiles = bytes / CODEC_TILE + 1, most = (uint64_t)gpu->all * CODEC_BLOCKS;

	return (uint32_t)(gpu->sms < gpu->all || tiles > most ? most : tiles);
}

static int is_aligned(const void *p, uint32_t bytes)
{
	return (uintptr_t)p % bytes == 0;
}

int urccl_codec_encode_gpu(struct urccl_codec_gpu *gpu, int codec, int dtype, const void *src,
			   size_t n, void *dst, size_t room, void *stream, uint64_t *result)
{
	static const uint8_t modes[] = {[URCCL_CODEC_POLICY] = CODEC_N23,
					[URCCL_CODEC_OFF] = CODEC_RAW,
					[URCCL_CODEC_FW4] = CODEC_FW4,
					[URCCL_CODEC_N23] = CODEC_N23};
	uint32_t kind = (uint32_t)codec & ~(uint32_t)URCCL_CODEC_NO_CRC;
	size_t bound = urccl_codec_bound(dtype, n);
	struct codec_args args = {src, dst, n, room, result, (uint8_t)dtype, 0, 0};
	const struct gpu_launch launches[] = {
		{BEGIN, 1, CODEC_THREADS, 0, &args},
		{COMPARE, CODEC_COMPARERS, CODEC_THREADS, 0, &args},
		{ENCODE + args.dtype, blocks_of(gpu, n), CODEC_THREADS, CODEC_SHARED, &args},
	};

	if (codec < 0 || kind >= ARRAY_SIZE(modes) || !bound || !is_aligned(dst, CODEC_ALIGN) ||
	    !is_aligned(result, 8))
		return -EINVAL;
	if (!((uint32_t)codec & URCCL_CODEC_NO_CRC))
		return -EOPNOTSUPP;
	if (room < bound)
		return -ENOSPC;
	args.mode = modes[kind];
	args.sms = (uint16_t)gpu->sms;
	return gpu_module_launch(gpu->module, launches, ARRAY_SIZE(launches), stream);
}

int urccl_codec_decode_gpu(struct urccl_codec_gpu *gpu, int dtype, const void *src, size_t n,
			   void *dst, size_t room, void *stream, uint64_t *result)
{
	struct codec_args args = {src, dst, n, room, result, (uint8_t)dtype, 0, (uint16_t)gpu->sms};
	const struct gpu_launch launches[] = {
		{CHECK, 1, 1, 0, &args},
		{DECODE + args.dtype, blocks_of(gpu, room), CODEC_THREADS, CODEC_SHARED, &args},
	};

	if (dtype < 0 || dtype >= CODEC_DTYPES || !is_aligned(src, CODEC_ALIGN) ||
	    !is_aligned(result, 8))
		return -EINVAL;
	if (n < sizeof(struct codec_head))
		return -EBADMSG;
	return gpu_module_launch(gpu->module, launches, ARRAY_SIZE(launches), stream);
}
