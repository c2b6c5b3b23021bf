/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lossless float codec on its own: no context is needed. Weights and KV caches in bf16 become
 * about a third smaller. All calls are thread-safe, allocate nothing, and take buffers of any
 * alignment.
 */
#ifndef LIBURCCL_CODEC_H
#define LIBURCCL_CODEC_H

#include <liburccl/abi.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

enum urccl_codec {
	URCCL_CODEC_POLICY = 0,		/* the library chooses: N23 */
	URCCL_CODEC_OFF,		/* stored as it is */
	URCCL_CODEC_FW4,		/* 4 bits per exponent: fastest */
	URCCL_CODEC_N23,		/* 2 bits per exponent, 5 for rarer ones: smallest */
	URCCL_CODEC_CONST,		/* only in urccl_codec_info: all elements are equal */
	URCCL_CODEC_NO_CRC	= 1 << 8, /* flag for encode: no CRC32C of the data */
};

#define URCCL_CODEC_MAX (1ull << 34)	/* bytes of data that a chunk can hold */

struct urccl_codec_info {
	uint32_t size;			/* sizeof(struct urccl_codec_info), set by the caller */
	uint8_t	 version;		/* format version */
	uint8_t	 dtype;			/* enum urccl_dtype */
	uint8_t	 codec;			/* enum urccl_codec: the one in use, never POLICY */
	uint8_t	 checksum;		/* 1: the chunk has the CRC32C of the data */
	uint64_t raw_bytes;		/* bytes of data */
	uint64_t coded_bytes;		/* bytes of the chunk: a file's next chunk begins there */
};

/* Bytes that always hold the chunk of n bytes of data: n + 0.1 % + 160. 0: n or dtype is not
 * supported. */
size_t urccl_codec_bound(int dtype, size_t n);

/* Writes the n bytes at src, elements of dtype, as one chunk to dst. codec: enum urccl_codec. The
 * same data gives the same bytes on every processor. src and dst do not overlap. Returns the
 * chunk's bytes; -ENOSPC: it needs more than room bytes. -EINVAL: dtype, codec or n is not
 * supported. */
int64_t urccl_codec_encode(int codec, int dtype, const void *src, size_t n, void *dst, size_t room);

/* Writes the data of the chunk at src to dst and returns its bytes. src may be any bytes: -EBADMSG
 * if they are no chunk, not all of one, or changed since (then dst's content is undefined). n may
 * be more than the chunk. -ENOSPC: the data has more than room bytes. */
int64_t urccl_codec_decode(const void *src, size_t n, void *dst, size_t room);

/* Fills *info from the first 64 bytes of a chunk. 0; -EBADMSG: they are no head of a chunk.
 * -EINVAL: info->size is wrong. */
int urccl_codec_info(const void *src, size_t n, struct urccl_codec_info *info);

/* ---- on a GPU ---- */

struct urccl_codec_gpu;

/* Loads the kernels for a GPU: device is CUDA's number of it. The program has made the GPU's
 * primary context, as any call of the CUDA runtime does, and keeps it until the close. The kernels
 * use at most sms multiprocessors; 0: all. The call may wait for kernels that run. A failure leaves
 * a sentence for urccl_errmsg(). -ENODEV: CUDA is not loaded, or has no such GPU or context.
 * -EOPNOTSUPP: the library was built without nvcc, or the GPU is older than compute capability
 * 8.0. */
int urccl_codec_gpu_open(uint32_t device, uint32_t sms, struct urccl_codec_gpu **out);
/* After the last encode and decode has ended. gpu may be NULL. */
void urccl_codec_gpu_close(struct urccl_codec_gpu *gpu);

/* The two calls below put work on a CUDA stream of the GPU and return: they allocate nothing and
 * wait for nothing, and a graph may record them. src, dst and result are in memory that the GPU
 * reaches. The chunk begins at a multiple of 16 bytes, result at one of 8, the data anywhere. When
 * the stream is through, *result is the number of bytes written, or a negative errno: -EIO says
 * that the stream has none of the first sms multiprocessors. The calls return 0, or a negative
 * errno if not all the work was put on the stream. */

/* As urccl_codec_encode(). codec has URCCL_CODEC_NO_CRC, -EOPNOTSUPP without it; the bytes are
 * those of a processor. room: at least urccl_codec_bound(dtype, n), else -ENOSPC. */
int urccl_codec_encode_gpu(struct urccl_codec_gpu *gpu, int codec, int dtype, const void *src,
			   size_t n, void *dst, size_t room, void *stream, uint64_t *result);

/* As urccl_codec_decode(), of a chunk of dtype: *result is -EBADMSG for another one, and where the
 * data has more than room bytes. A CRC32C of the data in the chunk is not checked. */
int urccl_codec_decode_gpu(struct urccl_codec_gpu *gpu, int dtype, const void *src, size_t n,
			   void *dst, size_t room, void *stream, uint64_t *result);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
