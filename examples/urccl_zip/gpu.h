/* SPDX-License-Identifier: Apache-2.0 */
/* GPU 0, by the CUDA driver: the library that URCCL_CUDA_SO names, or libcuda.so.1. */
#ifndef URCCL_ZIP_GPU_H
#define URCCL_ZIP_GPU_H

#include "zip.h"

#define PIECE_GPU (64ull << 20) /* bytes of a chunk: a few microseconds to start are then little */

/* Ends the program with a sentence where there is no GPU or no codec for it. room: bytes of the
 * largest piece's chunk. */
void gpu_open(size_t room);
void gpu_close(void);

/* Encodes a piece to chunk and decodes it to back. Adds the time of the kernels alone to *s.
 * Returns the chunk's bytes. */
size_t gpu_piece(int codec, int dtype, const uint8_t *src, size_t n, uint8_t *chunk, uint8_t *back,
		 struct score *s);

/* nvCOMP's ANS on the piece that gpu_piece() had last. 0: libnvcomp.so is not on this machine, or
 * has no such type. */
int nvcomp_piece(int dtype, size_t n, uint8_t *back, struct score *s);

/* ---- for nvcomp.c ---- */

/* Memory of the GPU, for the whole run. */
void *gpu_alloc(size_t n);
void gpu_put(void *dst, const void *src, size_t n);
void gpu_get(void *dst, const void *src, size_t n);
/* Of the last piece: its data on the GPU, and room for what is decoded. */
void *gpu_source(void);
void *gpu_back(void);
/* Seconds that the stream took since gpu_begin(). */
void gpu_begin(void);
double gpu_end(void);
extern void *gpu_stream;

#endif
