/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the bench of scattered blocks. An error of CUDA ends the program. */
#ifndef BENCH_GPU_GATHER_H
#define BENCH_GPU_GATHER_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CUDA(call)                                                                          \
	do {                                                                                \
		cudaError_t cuda_error = (call);                                            \
		if (cuda_error != cudaSuccess) {                                            \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(cuda_error)); \
			exit(1);                                                            \
		}                                                                           \
	} while (0)

struct blocks {
	uint32_t n, len;
	const uint32_t *here, *there; /* places, in blocks */
};

/* ---- raw_gather.cu: the floors, from memory of the current GPU ---- */

void raw_open(void);
/* By a kernel on 8 multiprocessors, and by one call that gives all copies to the copy engines. Both
 * wait until the bytes are there; *call_us: time of the call itself. Seconds. */
double raw_kernel(const struct blocks *b, char *dst, const char *src, double *call_us);
double raw_batch(const struct blocks *b, char *dst, const char *src, double *call_us);

/* ---- load.cu: matrix products on the current GPU, by a thread ---- */

const char *load_start(void); /* what it runs */
double load_stop(void);	      /* products a second */

double now_s(void); /* ends.cu */

#endif
