/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that the room needs of a vendor's library: one const table per vendor. Calls return
 * the vendor's number of an error (0: success), which error() turns into an errno. lib is the
 * loaded library, ctx a GPU's context, stream one of its streams: each the vendor's own.
 *
 * Calls with a ctx are made by a thread between enter() and leave(). All may block, but error() and
 * name().
 */
#ifndef GPU_API_H
#define GPU_API_H

#include "gpu/gpu.h"

#define GPU_GATHERS  64u	/* GATHER jobs of a GPU */
#define GPU_SMS_MOST 256u	/* multiprocessors of a gather kernel */

/* The small pieces of one GATHER job. Stored last, with the low bits of its number. */
struct gpu_feed_slot {
	uint64_t bundle;	/* tag:18 table:8 each:9 n:13 units:16 */
	uint64_t word;		/* for the lane's word, when all is there */
};

/* In pinned memory: bundles for gather kernels. They are numbered from 1 on. */
struct gpu_feed {
	uint64_t started[8];	/* the first: number of the last kernel that has started */
	uint64_t taken[GPU_SMS_MOST]; /* kernels' own: bundles that earlier ones took */
	struct gpu_feed_slot slots[GPU_GATHERS]; /* by the bundle's number */
	struct gpu_piece rows[GPU_GATHERS][GPU_PIECES];
};

/* A launch of the gather kernel, on sms multiprocessors, which never change. */
struct gpu_feed_launch {
	struct gpu_feed *feed;
	uint64_t *word;		/* of the lane */
	uint64_t number;	/* of the launch */
	uint32_t sms;
};

struct gpu_api {
	/* Finds the library if the program has loaded it; so NULL: by its usual name. 0, -ENOENT
	 * (it has not), -EOPNOTSUPP (too old). */
	int (*load)(const char *so, void **lib);
	void (*unload)(void *lib);
	/* 0; -EAGAIN: not done yet; -EIO: no call will succeed any more; other numbers: the call
	 * failed and did nothing. */
	int (*error)(int code);
	const char *(*name)(void *lib, int code);

	int (*pointer)(void *lib, uint64_t addr, uint64_t len, struct gpu_pointer *out);

	/* Retains the primary context and fills about; *ctx NULL: it does not exist. */
	int (*open)(void *lib, uint32_t index, struct gpu_about *about, void **ctx);
	void (*close)(void *ctx);
	int (*enter)(void *ctx);
	void (*leave)(void *ctx);

	/* urgent: of the highest priority. It never waits for another stream. */
	int (*stream_new)(void *ctx, int urgent, void **stream);
	void (*stream_free)(void *ctx, void *stream);
	int (*copy)(void *ctx, void *stream, uint64_t dst, uint64_t src, uint64_t len);
	/* Stores value in *word, of pinned memory or of the GPU, after all that the stream has
	 * before it. */
	int (*mark)(void *ctx, void *stream, uint64_t *word, uint64_t value);
	int (*query)(void *ctx, void *stream);
	/* 0: all is done that was recorded, also if that is nothing. Any event of the process. */
	int (*event_query)(void *ctx, void *event);

	/* Loads the kernels. It and the first launch may take 100 ms, and as long as kernels of the
	 * program that run. stream_free() of the last stream is after kernels_unload(). */
	int (*kernels_load)(void *ctx);
	void (*kernels_unload)(void *ctx);
	/* Launches a kernel that moves bundles of the feed: all that are posted when it starts, and
	 * others while it finds some, for 5 ms. It stores the lane's word for each. */
	int (*gather)(void *ctx, void *stream, const struct gpu_feed_launch *how);
	/* 1: batch() is to be had. Any thread. */
	int (*has_batch)(void *ctx);
	/* Copies the small pieces by the copy engines, as one call. One thread at a time. */
	int (*batch)(void *ctx, void *stream, const struct gpu_pieces *pieces);

	/* Kernels for streams of the program: an image in the primary context of a GPU, which is
	 * retained. sms: of the GPU. Functions and launches are between enter and leave. */
	int (*module_open)(void *lib, uint32_t index, const void *image, void **module,
			   uint32_t *sms);
	void (*module_close)(void *module);
	int (*module_enter)(void *module);
	void (*module_leave)(void *module);
	int (*module_function)(void *module, const char *name, void **function);
	int (*module_launch)(void *module, void *function, const struct gpu_launch *launch,
			     void *stream);

	int (*pinned_new)(void *ctx, size_t len, void **memory);
	void (*pinned_free)(void *ctx, void *memory);
	int (*host_register)(void *ctx, uint64_t addr, uint64_t len);
	int (*host_unregister)(void *ctx, uint64_t addr);

	int (*export_memory)(void *ctx, uint64_t addr, struct gpu_share *out);
	/* Leaves share.fd open. */
	int (*import_memory)(void *ctx, const struct gpu_share *share, uint64_t *addr);
	int (*unimport_memory)(void *ctx, const struct gpu_share *share, uint64_t addr);
	int (*dmabuf)(void *ctx, uint64_t addr, uint64_t len, int *fd);
	int (*flush)(void *ctx);
};

extern const struct gpu_api gpu_cuda;

#endif
