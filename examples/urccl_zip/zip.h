/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of urccl_zip. */
#ifndef URCCL_ZIP_H
#define URCCL_ZIP_H

#include <liburccl/codec.h>

#define NAME_MAX_LEN 64

struct score {
	uint64_t raw, coded;
	double encode, decode; /* seconds */
};

/* A run of bytes of one type in a file. */
struct part {
	char name[NAME_MAX_LEN];
	int dtype;
	uint64_t at, len;
};

/* Adds the parts of a safetensors file in order: its header, the tensors and what lies between
 * them. The caller frees *parts. Returns their number, 0: it is no such file, or -ENOMEM. */
int safetensors_parts(const uint8_t *file, uint64_t len, struct part **parts);

/* "bf16" and so on to enum urccl_dtype, or -1; and back. */
int dtype_of(const char *name);
const char *dtype_name(int dtype);
uint32_t dtype_bytes(int dtype);

/* The ratio that an ideal code of the exponents alone would reach; 1 for bytes. */
double entropy_limit(int dtype, const uint8_t *data, uint64_t len);

/* Another compressor, of a library that may be on this machine. */
struct peer {
	const char *name;
	size_t (*bound)(size_t n);
	/* Bytes written, or 0. */
	size_t (*encode)(const void *src, size_t n, void *dst, size_t room);
	size_t (*decode)(const void *src, size_t n, void *dst, size_t room);
};

/* The i-th that was found, or NULL. */
const struct peer *peer_find(uint32_t i);

#endif
