/* SPDX-License-Identifier: Apache-2.0 */
/*
 * liburccl-ep: expert parallelism within a node. Each rank is one GPU and holds an equal share of
 * the experts. Dispatch sends each token to the ranks of its experts; combine sends the experts'
 * results back and adds them up. Link with -lurccl-ep.
 *
 * Rules for every call, unless its comment says otherwise:
 * - It returns 0 or a negative errno; urccl_ep_errmsg() then has a sentence. -EINVAL: an argument.
 * - It checks its arguments, launches kernels on the stream (a CUstream or cudaStream_t; NULL is
 *   the default stream) and returns. It does not wait for the GPU, and can be captured in a graph.
 * - The calling thread has the CUDA context of the group current. One thread at a time may use a
 *   group. Each kernel of a group starts after the one before it has ended: use one stream, or
 *   order the streams with events.
 * - All ranks make the same collective calls (dispatch, combine, ll_dispatch, ll_combine) in the
 *   same order with the same row size, top-k and flags; the number of tokens may differ.
 * - Pointers in argument structs are device addresses and stay the caller's. Memory must live until
 *   the stream has passed the call. Rows of x and out begin at multiples of 16 bytes.
 * - Members named reserved, and flags without a name, are 0. Set "size" to sizeof the struct.
 * - Kernels wait for other ranks at most timeout_ms. When that expires, the kernel ends, the
 *   results are undefined and urccl_ep_query_status() names the rank. Kernels never trap.
 * - The blocks of a kernel wait for those of other ranks, so all of them must be resident together:
 *   one block on each of "sms" multiprocessors. Ranks that share a GPU share its multiprocessors.
 */
#ifndef LIBURCCL_EP_H
#define LIBURCCL_EP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

enum urccl_ep_limits {
	URCCL_EP_MAX_RANKS = 8,
	URCCL_EP_MAX_TOPK = 32,		/* for dispatch and combine */
	URCCL_EP_LL_MAX_TOPK = 14,	/* for ll_dispatch and ll_combine */
	URCCL_EP_MAX_EXPERTS = 4096,
	URCCL_EP_LL_MAX_TOKENS = 1024,	/* per rank in a low-latency call */
	URCCL_EP_SCALE_COLUMNS = 128,	/* columns of a row that share one FP8 scale */
};

struct urccl_ep;	 /* one rank's end of a group */
struct urccl_ep_windows; /* the windows of all ranks, mapped in this process */

struct urccl_ep_windows_attr {
	uint32_t size;
	uint32_t rank, ranks;	/* rank < ranks <= URCCL_EP_MAX_RANKS */
	uint32_t timeout_ms;	/* for each wait for another rank; 0: 100 s */
	void *window;		/* this rank's: memory of one allocation of its GPU, which
				 * outlives the set-up */
	uint64_t bytes;
	/* Carry metadata between the ranks, for instance by a key-value store. put: offers this
	 * rank's to all others. get: waits for that of a rank. 0, or a negative errno, which ends
	 * the set-up. */
	int (*put)(void *arg, const void *data, uint32_t bytes);
	int (*get)(void *arg, uint32_t rank, void *data, uint32_t bytes);
	void *arg;
	const char *cuda_so;	/* the CUDA driver; NULL: "libcuda.so.1" */
};

struct urccl_ep_attr {
	uint32_t size;
	uint32_t rank, ranks;	   /* rank < ranks <= URCCL_EP_MAX_RANKS */
	uint32_t experts;	   /* in all ranks; a multiple of ranks. Rank r holds
				    * [r * experts / ranks, (r + 1) * experts / ranks) */
	uint32_t topk;		   /* largest number of experts of a token */
	uint32_t max_tokens;	   /* per rank in a dispatch; 0: no dispatch or combine */
	uint32_t max_recv_tokens;  /* rows that a rank can receive; 0: ranks * max_tokens */
	uint32_t max_row_bytes;	   /* for x in dispatch and in combine, a multiple of 16 */
	uint32_t max_scale_words;  /* 4-byte scales of a row in dispatch */
	uint32_t ll_max_tokens;	   /* per rank in a low-latency call; 0: no such calls */
	uint32_t ll_hidden;	   /* largest number of columns in a low-latency call, a multiple
				    * of 16 */
	uint32_t sms;		   /* multiprocessors that a call may use; 0: all */
	uint32_t timeout_ms;	   /* for a wait for another rank; 0: 100 s */
	uint32_t reserved;
	void *const *windows;	   /* [ranks]: the address here of each rank's window, with peer
				    * access; windows[rank] is this rank's own memory, aligned to
				    * 256 bytes. The array is copied */
	const char *cuda_so;	   /* the CUDA driver; NULL: "libcuda.so.1" */
};

/* The parts of this rank's own window that a program reads and writes. Dispatch leaves its results
 * here. Combine reads its input from here without a copy. */
struct urccl_ep_parts {
	uint32_t size;
	uint32_t rows;		/* rows that each part can hold */
	void *x;		/* [rows][row_bytes] */
	uint32_t *scales;	/* [rows][scale_words] */
	int64_t *topk_idx;	/* [rows][topk] */
	float *topk_weights;	/* [rows][topk] */
	int32_t *src_idx;	/* [rows]: index of the token at its source */
	void *combine_x;	/* [rows][row_bytes] bf16 */
	float *combine_weights; /* [rows][topk] */
};

/* State that dispatch keeps for combine and for a repeated dispatch. The struct and the memory are
 * the caller's and stay unchanged while a call may use them. */
struct urccl_ep_handle {
	uint32_t size;
	uint32_t tokens;   /* set by dispatch */
	uint32_t call;	   /* set by dispatch */
	uint32_t reserved;
	void *memory;	   /* device memory of urccl_ep_handle_bytes() */
};

struct urccl_ep_dispatch {
	uint32_t size;
	uint32_t flags;		     /* enum urccl_ep_dispatch_flags */
	uint32_t tokens, topk;	     /* topk 0: without topk_idx and topk_weights */
	uint32_t row_bytes;	     /* row of x: a multiple of 16 */
	uint32_t scale_words;	     /* 4-byte scales of a row; 0: none */
	const void *x;		     /* [tokens][row_bytes] */
	uint64_t x_stride;	     /* bytes from row to row; 0: row_bytes */
	const uint32_t *scales;	     /* copied as they are (f32, or four UE8M0 in a word) */
	uint64_t scale_row_stride;   /* words from row to row; 0 with the next: [tokens][words] */
	uint64_t scale_word_stride;  /* words from scale to scale */
	const void *topk_idx;	     /* [tokens][topk]: expert; -1: none */
	const float *topk_weights;   /* [tokens][topk], or NULL */
	const uint8_t *in_rank;	     /* [tokens][ranks]: not 0: send the token there. NULL: as
				      * topk_idx says */
	const int32_t *per_expert;   /* [experts]: this rank's tokens of each expert. NULL: counted
				      * from topk_idx */
	uint32_t expert_alignment;   /* counts of experts are rounded up to it; 0: 1 */
	uint32_t worst_tokens;	     /* the topk_idx of rows from the received count to this one
				      * become -1; 0: they stay undefined */
	uint32_t sms;		     /* 0: as in the attributes */
	uint32_t reserved;
	/* Results, each optional. The first five are copies of the window's parts; NULL: use these
	 * parts. */
	void *recv_x;
	uint32_t *recv_scales;
	int64_t *recv_topk_idx;	     /* index among this rank's experts; -1: an expert of another
				      * rank */
	float *recv_topk_weights;    /* 0 where recv_topk_idx is -1 */
	int32_t *recv_src_idx;
	int32_t *recv_count;	     /* [1] */
	int32_t *recv_per_expert;    /* [experts / ranks], aligned */
	int32_t *rank_prefix;	     /* [ranks][ranks]: element [s][d] is the number of rows that
				      * rank d received from ranks 0 to s */
};

enum urccl_ep_dispatch_flags {
	URCCL_EP_IDX32 = 1 << 0,   /* topk_idx has 4-byte elements, not 8-byte ones */
	URCCL_EP_CACHED = 1 << 1,  /* route as the handle says: topk_idx, topk_weights, in_rank and
				    * per_expert are not read, their results are not written */
};

struct urccl_ep_combine {
	uint32_t size;
	uint32_t flags;		   /* 0 */
	uint32_t hidden;	   /* columns; a multiple of 8 */
	uint32_t topk;		   /* columns of topk_weights */
	const void *x;		   /* [received rows][hidden] bf16. NULL, or combine_x of the parts:
				    * already in the window; else copied there first */
	const float *topk_weights; /* [received rows][topk]: to be summed as well. NULL: none */
	const void *bias[2];	   /* [tokens][hidden] bf16, each optional */
	void *out;		   /* [tokens][hidden] bf16: bias[0] + bias[1], then the rows of the
				    * ranks in ascending order, all added in fp32 */
	float *out_topk_weights;   /* [tokens][topk]; with topk_weights */
	uint32_t sms;		   /* 0: as in the attributes */
	uint32_t reserved;
};

/* Both phases by default. A call with SEND and a later one with RECV and the same arguments leave
 * the multiprocessors free while bytes are in flight. Up to two sends may be without their
 * receive; receives come in the order of the sends. */
enum urccl_ep_ll_flags {
	URCCL_EP_LL_IDX32 = 1 << 0,	   /* topk_idx has 4-byte elements */
	URCCL_EP_LL_SEND = 1 << 1,
	URCCL_EP_LL_RECV = 1 << 2,
	URCCL_EP_LL_FP8 = 1 << 3,	   /* recv_x is e4m3, with scales; else bf16 */
	URCCL_EP_LL_ROUND_SCALE = 1 << 4,  /* scales are powers of two */
	URCCL_EP_LL_UE8M0 = 1 << 5,	   /* scales are UE8M0, four in a word; with ROUND_SCALE */
};

/* As struct urccl_ep_handle, of urccl_ep_ll_handle_bytes(). */
struct urccl_ep_ll_handle {
	uint32_t size;
	uint32_t reserved;
	void *memory;
};

/* With L = experts / ranks, N = ranks * ll_max_tokens, S = ceil(hidden / 128). Rows of an expert
 * are ordered by source rank, then by token. */
struct urccl_ep_ll_dispatch {
	uint32_t size;
	uint32_t flags; /* enum urccl_ep_ll_flags */
	uint32_t tokens, topk, hidden;
	uint32_t sms;		   /* 0: as in the attributes */
	const void *x;		   /* [tokens][hidden] bf16 */
	const void *topk_idx;	   /* [tokens][topk]: expert; -1, or one that the token has
				    * already: none */
	void *recv_x;		   /* [L][N][hidden] */
	uint32_t *recv_scales;	   /* [L][S][N] f32, or [L][ceil(S / 4)][N] UE8M0; with FP8 */
	int32_t *recv_count;	   /* [L] */
	int32_t *src_idx;	   /* [L][N]: index of the token at its source */
	int64_t *layout_range;	   /* [L][ranks]: first row << 32 | number of rows */
};

struct urccl_ep_ll_combine {
	uint32_t size;
	uint32_t flags; /* IDX32, SEND, RECV */
	uint32_t tokens, topk, hidden;
	uint32_t sms;		   /* 0: as in the attributes */
	const void *x;		   /* [L][N][hidden] bf16, in the rows of recv_x */
	const float *topk_weights; /* [tokens][topk] */
	void *out;		   /* [tokens][hidden] bf16. Each rank rounds its weighted sum of a
				    * token to bf16; these are added in ascending order of ranks.
				    * All sums are in fp32 */
};

struct urccl_ep_counts {
	uint32_t size;
	uint32_t recv_tokens;
	uint32_t experts;	/* elements that per_expert can hold */
	uint32_t reserved;
	int32_t *per_expert;	/* host memory: aligned counts of this rank's experts; or NULL */
};

struct urccl_ep_status {
	uint32_t size;
	int32_t res;	 /* 0; -ETIMEDOUT: the rank did not come; -ENOSPC: the rank would receive
			  * more than max_recv_tokens. All later dispatches and combines do nothing
			  * until a new group is created */
	uint32_t rank;	 /* the rank that caused res */
	uint32_t dead;	 /* bit r: low-latency calls leave rank r out */
};

/* The size of each rank's window, in bytes. Needs no GPU; windows and rank are not read. */
int urccl_ep_window_bytes(const struct urccl_ep_attr *attr, uint64_t *bytes);

/* Maps the windows of all ranks, which are processes of one host and user and call it at the same
 * time. Opens a context of liburccl and waits for the others. After a failure urccl_ep_errmsg()
 * names the rank. -ETIMEDOUT, or the errno of get: it did not come. -ECONNREFUSED, -ECONNRESET: it
 * has ended. -EOPNOTSUPP: this GPU does not reach its window, see urccl_remote_map(). */
int urccl_ep_windows_open(const struct urccl_ep_windows_attr *attr,
			  struct urccl_ep_windows **windows);

/* [ranks], for urccl_ep_attr.windows; valid until urccl_ep_windows_close(). */
void **urccl_ep_windows_addresses(struct urccl_ep_windows *windows);

/* Unmaps the windows of the others after urccl_ep_destroy(), then waits at most 2 s for the others
 * to do so. -ETIMEDOUT: one has not; free this rank's window when it has ended. NULL is fine. */
int urccl_ep_windows_close(struct urccl_ep_windows *windows);

/* Loads the kernels, clears this rank's window and waits for the GPU. Every rank has returned from
 * it before any rank makes a collective call. -ENODEV: no CUDA driver, no current context, or
 * a GPU older than compute capability 9.0. */
int urccl_ep_create(const struct urccl_ep_attr *attr, struct urccl_ep **ep);

/* Waits for the GPU, then frees everything but the window. NULL is fine. Peers must have ended
 * their calls. */
void urccl_ep_destroy(struct urccl_ep *ep);

/* The parts stay valid until urccl_ep_destroy(). A later dispatch overwrites its results. */
int urccl_ep_window_parts(const struct urccl_ep *ep, struct urccl_ep_parts *parts);

uint64_t urccl_ep_handle_bytes(const struct urccl_ep *ep);
uint64_t urccl_ep_ll_handle_bytes(const struct urccl_ep *ep);

/* Counts without sending: per_rank [ranks], per_expert [experts], in_rank [tokens][ranks] of 0 or
 * 1; each optional. flags: URCCL_EP_IDX32. Not collective. */
int urccl_ep_layout(struct urccl_ep *ep, const void *topk_idx, uint32_t tokens, uint32_t topk,
		    uint32_t flags, int32_t *per_rank, int32_t *per_expert, uint8_t *in_rank,
		    void *stream);

/* Sends each token once to every rank that it goes to. Rows arrive ordered by source rank, then by
 * token. When the stream passes the call, all rows of all ranks are here. */
int urccl_ep_dispatch(struct urccl_ep *ep, const struct urccl_ep_dispatch *args,
		      struct urccl_ep_handle *handle, void *stream);

/* Copies results of the handle's dispatch out of the window: for a program that gave NULL for them
 * and allocates them after urccl_ep_query_counts(). Reads of args: the first five results, flags,
 * topk, row_bytes, scale_words, worst_tokens and sms. Not collective. */
int urccl_ep_copy_results(struct urccl_ep *ep, const struct urccl_ep_dispatch *args,
			  const struct urccl_ep_handle *handle, void *stream);

/* Brings the rows back to their tokens and adds them up. When the stream passes the call, no other
 * rank reads this rank's x any more. */
int urccl_ep_combine(struct urccl_ep *ep, const struct urccl_ep_combine *args,
		     const struct urccl_ep_handle *handle, void *stream);

int urccl_ep_ll_dispatch(struct urccl_ep *ep, const struct urccl_ep_ll_dispatch *args,
			 const struct urccl_ep_ll_handle *handle, void *stream);
int urccl_ep_ll_combine(struct urccl_ep *ep, const struct urccl_ep_ll_combine *args,
			const struct urccl_ep_ll_handle *handle, void *stream);

/* The counts of the dispatch that filled the handle, as soon as its ranks have exchanged them.
 * Polls host memory for at most timeout_ms. -EAGAIN: not there yet. -EINVAL: the handle is of none
 * of the last seven dispatches. A dispatch in a graph that is replayed leaves the counts of any
 * replay. */
int urccl_ep_query_counts(const struct urccl_ep *ep, const struct urccl_ep_handle *handle,
			  struct urccl_ep_counts *counts, uint32_t timeout_ms);

/* The status that the kernels have reported so far. Any thread; reads host memory only. */
int urccl_ep_query_status(const struct urccl_ep *ep, struct urccl_ep_status *status);

/* Sets the ranks that low-latency calls leave out: bit r of dead is rank r. A rank that a
 * low-latency call waited for in vain is left out by itself. */
int urccl_ep_set_dead(struct urccl_ep *ep, uint32_t dead, void *stream);

/* The reason why this thread's last call failed; "" after none. The library's, until the thread's
 * next call. */
const char *urccl_ep_errmsg(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
