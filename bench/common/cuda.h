/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver for measuring programs: the library that URCCL_CUDA_SO names, or libcuda.so.1,
 * loaded at the first use. GPUs are used by their primary contexts. Where CUDA fails the program
 * ends with a sentence. A process that forks calls none of this before.
 */
#ifndef BENCH_CUDA_H
#define BENCH_CUDA_H

#include <stddef.h>
#include <stdint.h>

struct cuda_handle {
	char bytes[64];
};

/* GPUs of this machine; ends the program if there is none. */
int cuda_gpus(void);

/* Makes the GPU's context current in this thread. */
void cuda_use(int gpu);

/* Memory of the GPU, or host memory that it reaches, filled with one byte. NULL: out of memory. */
void *cuda_alloc(int gpu, size_t len);
void *cuda_alloc_host(int gpu, size_t len);
void cuda_free(int gpu, void *p);
void cuda_free_host(int gpu, void *p);

/* A copy between any two kinds of memory of this process. The caller waits for it. */
void cuda_copy(int gpu, void *to, const void *from, size_t len);

/* ---- of the GPU in use ---- */

void *cuda_stream(void);
void cuda_copy_async(void *stream, void *to, const void *from, size_t len);

/* The stream stores the value in a word of cuda_alloc_host() memory after its earlier work. */
void cuda_mark(void *stream, uint64_t *word, uint64_t value);

/* Memory of cuda_alloc() for another process; that process's address of it. */
void cuda_export(void *p, struct cuda_handle *handle);
void *cuda_import(const struct cuda_handle *handle);
void cuda_unmap(void *p);

/* Lets the GPU in use reach memory of another one of this process. */
void cuda_reach(int gpu);

#endif
