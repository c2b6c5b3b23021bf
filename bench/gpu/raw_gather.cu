/* SPDX-License-Identifier: Apache-2.0 */
/* Scattered blocks without the library: a kernel with one warp per 4 KiB, whose table is in memory
 * of the host, and cudaMemcpyBatchAsync(). */
#include "gather.h"

#include <vector>

#define SMS   8
#define UNIT  4096u
#define BLOCKS_MAX 16384u

struct raw_row {
	const char *src;
	char *dst;
};

static raw_row *table;
static cudaStream_t stream;

/* per: units of a block. */
static __global__ void __launch_bounds__(1024, 1)
	raw_copy(const raw_row *rows, unsigned int units, unsigned int per)
{
	unsigned int lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32), unit, i;
	uint4 part[UNIT / 512];

	for (unit = threadIdx.x / 32 * gridDim.x + blockIdx.x; unit < units; unit += warps) {
		raw_row r = rows[unit / per];
		const uint4 *from = (const uint4 *)(r.src + unit % per * UNIT);
		uint4 *to = (uint4 *)(r.dst + unit % per * UNIT);

#pragma unroll
		for (i = 0; i < UNIT / 512; i++)
			part[i] = from[i * 32 + lane];
#pragma unroll
		for (i = 0; i < UNIT / 512; i++)
			to[i * 32 + lane] = part[i];
	}
}

void raw_open(void)
{
	int least, greatest;

	CUDA(cudaHostAlloc((void **)&table, BLOCKS_MAX * sizeof(*table), cudaHostAllocDefault));
	CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
	CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
}

double raw_kernel(const struct blocks *b, char *dst, const char *src, double *call_us)
{
	unsigned int per = b->len / UNIT;
	double begun = now_s();
	uint32_t i;

	for (i = 0; i < b->n; i++) {
		table[i].src = src + (size_t)b->here[i] * b->len;
		table[i].dst = dst + (size_t)b->there[i] * b->len;
	}
	begun = now_s(); /* without the table */
	raw_copy<<<SMS, 1024, 0, stream>>>(table, b->n * per, per);
	CUDA(cudaGetLastError());
	*call_us = (now_s() - begun) * 1e6;
	CUDA(cudaStreamSynchronize(stream));
	return now_s() - begun;
}

double raw_batch(const struct blocks *b, char *dst, const char *src, double *call_us)
{
	static std::vector<void *> dsts;
	static std::vector<const void *> srcs;
	static std::vector<size_t> sizes;
	struct cudaMemcpyAttributes how = {};
	size_t first = 0;
	double begun;
	uint32_t i;

	dsts.resize(b->n);
	srcs.resize(b->n);
	sizes.assign(b->n, b->len);
	for (i = 0; i < b->n; i++) {
		srcs[i] = src + (size_t)b->here[i] * b->len;
		dsts[i] = dst + (size_t)b->there[i] * b->len;
	}
	how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
	begun = now_s();
	CUDA(cudaMemcpyBatchAsync(dsts.data(), srcs.data(), sizes.data(), b->n, &how, &first, 1,
				  stream));
	*call_us = (now_s() - begun) * 1e6;
	CUDA(cudaStreamSynchronize(stream));
	return now_s() - begun;
}
