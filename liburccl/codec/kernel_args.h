/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of the kernels, for gpu.c and kernels/. */
#ifndef CODEC_KERNEL_ARGS_H
#define CODEC_KERNEL_ARGS_H

#include <stdint.h>

#define CODEC_THREADS	256   /* of a block, but for the kernels of one thread */
#define CODEC_BLOCKS	6     /* that a multiprocessor holds at most */
#define CODEC_SHARED	37376 /* bytes of shared memory of encode_<dtype> and decode_<dtype> */
#define CODEC_COMPARERS 64    /* blocks of urccl_codec_compare */

struct codec_args {
	const uint8_t *src;
	uint8_t *dst;
	uint64_t n;	     /* bytes at src; encode: of data */
	uint64_t room;	     /* decode: at dst */
	uint64_t *result;    /* when the stream is through: bytes written, or a negative errno */
	uint8_t dtype, mode; /* enum urccl_dtype, enum codec_mode */
	uint16_t sms;	     /* multiprocessors to use */
};

#endif
