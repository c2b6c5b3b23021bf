/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels: machine code where the build had nvcc, or else PTX, which the driver compiles. */
#include "gpu/cuda_driver.h"

#define THREADS 1024u /* of a block: one fills a multiprocessor */

static int module_load(const struct cuda *cuda, void **module)
{
	int code = CUDA_NO_BINARY_FOR_GPU;

	if (cuda_gather_binary)
		code = cuda->ModuleLoadData(module, cuda_gather_binary);
	if (code && cuda_error(code) != -EIO)
		code = cuda->ModuleLoadData(module, cuda_gather_ptx);
	return code;
}

int cuda_kernels_load(void *ctx)
{
	struct cuda_ctx *c = ctx;
	int code = module_load(c->cuda, &c->module);

	if (code) {
		c->module = NULL;
		return code;
	}
	code = c->cuda->ModuleGetFunction(&c->gather, c->module, "urccl_gather");
	if (code)
		cuda_kernels_unload(c);
	return code;
}

void cuda_kernels_unload(void *ctx)
{
	struct cuda_ctx *c = ctx;

	if (c->module)
		(void)c->cuda->ModuleUnload(c->module);
	c->module = NULL;
}

int cuda_gather(void *ctx, void *stream, const struct gpu_feed_launch *how)
{
	struct gpu_feed_launch l = *how;
	void *params[] = {&l.feed, &l.word, &l.number};
	const struct cuda_ctx *c = ctx;

	return c->cuda->LaunchKernel(c->gather, l.sms, 1, 1, THREADS, 1, 1, 0, stream, params,
				     NULL);
}

int cuda_has_batch(void *ctx)
{
	return ((const struct cuda_ctx *)ctx)->cuda->MemcpyBatchAsync != NULL;
}

int cuda_batch(void *ctx, void *stream, const struct gpu_pieces *pieces)
{
	struct cuda_copy_attributes how = {.order = CUDA_SRC_ORDER_STREAM};
	struct cuda_batch *b = &((struct cuda_ctx *)ctx)->batch;
	size_t first = 0, failed;
	uint32_t i;

	for (i = 0; i < pieces->n; i++) {
		b->dst[i] = pieces->rows[i].dst;
		b->src[i] = pieces->rows[i].src;
		b->len[i] = pieces->rows[i].len;
	}
	return ((const struct cuda_ctx *)ctx)
		->cuda->MemcpyBatchAsync(b->dst, b->src, b->len, pieces->n, &how, &first, 1,
					 &failed, stream);
}
