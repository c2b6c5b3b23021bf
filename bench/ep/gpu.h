/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver for the tests and benchmarks of expert parallelism, and groups whose ranks are
 * streams of one process: rank r runs on GPU r modulo the number of GPUs. A failed call prints its
 * name and ends the process with 1.
 */
#ifndef EP_GPU_H
#define EP_GPU_H

#include <liburccl/ep.h>

#include <stddef.h>
#include <stdint.h>

struct gpu_rank {
	void *ctx, *stream;
	struct urccl_ep *ep;
	struct urccl_ep_parts parts;
};

struct gpu_group {
	struct urccl_ep_attr attr;
	void *windows[URCCL_EP_MAX_RANKS];
	struct gpu_rank rank[URCCL_EP_MAX_RANKS];
};

/* Starts CUDA. most: 0, or use so many GPUs at most. Returns the number of GPUs; 0 with the reason
 * in *why if there is none that the kernels run on. */
int gpu_start(int most, const char **why);

/* Makes streams, windows and groups for attr->ranks ranks; attr->rank and attr->windows are
 * ignored. */
void gpu_group_open(struct gpu_group *g, const struct urccl_ep_attr *attr);
void gpu_group_close(struct gpu_group *g);

/* Makes rank r's context current. */
struct gpu_rank *gpu_use(struct gpu_group *g, uint32_t r);

/* For a process that is one rank: makes the context of a rank current; a stream of it. */
void gpu_current(uint32_t rank);
void *gpu_stream_new(void);
void gpu_stream_wait(void *stream);

/* Waits for all streams. */
void gpu_group_wait(struct gpu_group *g);

/* Memory of the current context, filled with 0xcd; and with a copy of "from". At least 16 bytes. */
void *gpu_alloc(size_t bytes);
void *gpu_copy_of(const void *from, size_t bytes);
void gpu_free(void *p);
void gpu_fill(void *p, int byte, size_t bytes);
void gpu_upload(void *to, const void *from, size_t bytes);
void gpu_download(void *to, const void *from, size_t bytes);
void gpu_copy_async(void *to, const void *from, size_t bytes, void *stream);
void gpu_fill_async(void *to, int byte, size_t bytes, void *stream);

/* Work put on the stream between the two calls becomes a graph. */
void gpu_capture_begin(void *stream);
void *gpu_capture_end(void *stream);
void gpu_graph_launch(void *graph, void *stream);
void gpu_graph_free(void *graph);

void *gpu_event_new(void);
void gpu_event_record(void *event, void *stream);
double gpu_event_us(void *from, void *to); /* between two that have passed */
void gpu_event_free(void *event);

/* A kernel of PTX, which ends in a zero byte, in the current context. */
void *gpu_module_new(const char *ptx);
void gpu_module_free(void *module);
void *gpu_kernel(void *module, const char *name);
void gpu_launch(void *kernel, uint32_t blocks, uint32_t threads, void **params, void *stream);

/* Ends the process with 1 and urccl_ep_errmsg() if res is negative. */
void gpu_ok(int res, const char *call);

#endif
