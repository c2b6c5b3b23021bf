/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that push to the lanes of a device ring. */
#ifndef BENCH_GPU_LANES_H
#define BENCH_GPU_LANES_H

#include "ends.h"
#include "launch.h"

enum kind {
	KIND_NOP,
	KIND_WRITE,
	KIND_READ,
	KIND_FETCH_ADD,
	KIND_NOTIFY,
	KIND_WRITE_NOTIFY, /* one entry */
	KIND_WRITE_SIGNAL, /* two: a FETCH_ADD with FENCE follows the WRITE */
	KIND_ANY,
};

enum push_by {
	BY_THREAD,
	BY_WARP,
	BY_EACH, /* a warp, 32 entries at a time; NOP and WRITE */
	BY_ANY,
};

struct job {
	struct urccl_device_ring ring;
	struct urccl_remote remote, counters; /* counters: a word a lane */
	struct urccl_peer peer;
	uint32_t kind;
	uint32_t by;	    /* enum push_by */
	uint32_t per_block; /* lanes of a block: a warp has one */
	uint32_t len;	    /* of a message */
	char *local;	    /* span bytes a lane, as in the remote */
	uint64_t span;	    /* a multiple of len */
	uint64_t n;	    /* messages of a lane */
	uint64_t limit_ns;
};

struct lane_result {
	uint64_t begun, pushed, ended; /* ns; pushed: all stores are performed */
	uint64_t failed;	       /* messages, or words that are wrong */
	int32_t res;
};

/* Pinned, zeroed memory of the host, and of the GPU. */
void *host_alloc(size_t len);
void *gpu_alloc(size_t len);

/* Each lane pushes its messages and waits until all have ended. The caller waits for the kernel. */
void lanes_push(const struct job *j, uint32_t lanes, struct lane_result *out);
/* One lane waits for each message. cycles: n of them, and *khz of the clock that counts them. */
void lane_latency(const struct job *j, uint64_t *cycles, double *khz, struct lane_result *out);
/* Each lane writes patterns, adds, reads them back and compares, n times; then fails on purpose. */
void lanes_check(const struct job *j, uint32_t lanes, char *back, struct lane_result *out);
/* The same stores of an entry, and nothing else, to slots that nobody reads: the floor. */
void raw_push(const struct job *j, uint32_t lanes, struct lane_result *out);

/* ---- taker.cu ---- */

/* A thread that takes entries of lanes and ends them, and does nothing else: the floor of an
 * engine. With copy, it copies as many bytes of each entry's addr. */
struct raw_taker;
struct raw_taker *raw_taker_start(uint32_t lanes, uint32_t entries, uint32_t copy,
				  struct urccl_device_ring *ring);
void raw_taker_stop(struct raw_taker *t);

#endif
