/* SPDX-License-Identifier: Apache-2.0 */
/* Structures that the library passes to its kernels. C11 and CUDA C++; fields are device
 * addresses unless a comment says otherwise. */
#ifndef EP_ARGS_H
#define EP_ARGS_H

#include <stdint.h>

enum {
	EP_RANKS = 8,		/* URCCL_EP_MAX_RANKS */
	EP_CHUNK = 256,		/* tokens of one block of the notify kernel */
	EP_COUNT_SLOTS = 8,	/* dispatches of which the host remembers counts */
	EP_LL_BUFFERS = 3,	/* low-latency receive buffers */
	EP_LL_HEADER = 128,	/* bytes before a low-latency row */
	EP_LL_TOPK = 14,	/* URCCL_EP_LL_MAX_TOPK */
	EP_LL_KINDS = 2,	/* EP_LL_DISPATCH, EP_LL_COMBINE */
	EP_SMEM = 224 * 1024,	/* bytes of a block's row buffers */
	EP_STAGES = 4,		/* row buffers of a dispatching warp */
	EP_WARPS = 8,		/* warps of a dispatching block */
	EP_PIECE = EP_SMEM / (EP_STAGES * EP_WARPS), /* largest copy of a dispatching warp */
	EP_COMBINE_STAGES = 2,	/* row buffers of a combining warp, for each rank */
	EP_COMBINE_WARPS = 16,
	EP_SHARES = 4096,	/* more than a kernel has blocks */
	EP_LL_THREADS = 512,
	EP_LL_SEND = 1,
	EP_LL_RECV = 2,
};

enum ep_ll_kind { EP_LL_DISPATCH, EP_LL_COMBINE };

/* Each rank's window: where it is mapped in this process. */
struct ep_window {
	unsigned char *base[EP_RANKS];
};

/* Offsets in a window, the same on every rank. */
struct ep_offsets {
	uint64_t experts;	 /* u64 [EP_RANKS][experts / ranks]: epoch << 32 | count */
	uint64_t x, scales, topk_idx, topk_weights, src_idx;
	uint64_t combine_x, combine_weights;
	uint64_t ll_counts;	 /* u64 [buffers][EP_RANKS][1 + experts / ranks] */
	uint64_t ll_rows;	 /* [buffers][EP_RANKS][ll_max_tokens][ll_row] */
	uint64_t ll_row;	 /* bytes of one */
	uint64_t ll_weights;	 /* u64 [buffers][EP_RANKS][ll_max_tokens * EP_LL_TOPK] */
	uint64_t ll_sums;	 /* [buffers][EP_RANKS][ll_max_tokens][ll_sum] */
	uint64_t ll_sum;
	uint64_t bytes;
};

/* The start of each window. Rank r writes element r of the arrays of every window. Epochs only
 * grow: 32-bit ones modulo 2^32; 64-bit ones, which choose among three buffers, never wrap. */
struct ep_flags {
	uint32_t arrived[EP_RANKS];	/* epoch whose data may be written or read now */
	uint32_t done[EP_RANKS];	/* EP_SHARES for each kernel in which r has written or read
					 * everything */
	uint64_t consumed[EP_LL_KINDS][EP_RANKS]; /* low-latency epoch that r has read */
	uint64_t counts[EP_RANKS][EP_RANKS]; /* [source][destination]: epoch << 32 | rows */
};

/* Words of one group in its rank's own device memory. Kernels alone write them, but for dead. */
struct ep_control {
	uint32_t epoch;			/* of the last kernel with a barrier */
	uint32_t status;		/* 0, or 1 + rank << 8 | enum ep_code */
	uint32_t dead;			/* bit r: low-latency calls leave r out */
	uint32_t ticket;		/* blocks of the running kernel that have counted */
	uint32_t claimed;		/* tokens that the running dispatch has handed out */
	uint32_t ends;			/* kernels with a barrier at their end */
	uint64_t ll_sent[EP_LL_KINDS];	/* low-latency sends that have ended */
	uint64_t ll_received[EP_LL_KINDS];
};

enum ep_code { EP_OK, EP_TIMEOUT, EP_NO_ROOM };

/* Pinned host memory that kernels write and the program's calls read. */
struct ep_host {
	uint32_t status;		/* as in ep_control */
	uint32_t dead[EP_RANKS];	/* 1: a low-latency call waited for the rank in vain */
	uint32_t call[EP_COUNT_SLOTS];	/* number of the dispatch, written after its counts */
	uint32_t recv_tokens[EP_COUNT_SLOTS];
	int32_t per_expert[];		/* [EP_COUNT_SLOTS][experts / ranks] */
};

/* The start of a handle's memory; after it i32 slot[tokens][ranks]: the row of a token at a rank,
 * or -1. */
struct ep_routes {
	int32_t recv_tokens;
	int32_t fits;			/* 0: a rank would receive more rows than it can hold */
	int32_t base[EP_RANKS];		/* first row of this rank's tokens at each rank */
	int32_t reserved[6];
	int32_t slot[];
};

/* The start of a low-latency handle's memory. After it: i32 index[tokens][EP_RANKS], the row of a
 * token among those sent to a rank, or -1; then at rows u32 [EP_RANKS][ll_max_tokens][32], the
 * headers of the rows received. */
struct ep_ll_routes {
	uint32_t rows[EP_RANKS];	/* received from each rank */
	uint32_t reserved[8];
	int32_t index[];
};

/* Words of a low-latency row's header. */
enum {
	EP_ROW_TOKEN = 0,
	EP_ROW_SELECTIONS = 1,
	EP_ROW_EXPERT = 2,	/* [14]: local expert << 16 | row within (source, expert); at the
				 * receiver: row of recv_x */
	EP_ROW_CHOICE = 16,	/* [14]: position in the token's topk_idx */
};

/* Common to every kernel. */
struct ep_common {
	struct ep_window window;
	struct ep_offsets at;
	struct ep_control *control;
	struct ep_host *host;		/* its address on the device */
	uint64_t timeout_ns;
	uint32_t rank, ranks, experts, local; /* local = experts / ranks */
	uint32_t max_recv_tokens, ll_max_tokens;
};

struct ep_notify_args {
	struct ep_common ep;
	struct ep_routes *routes;	/* NULL: count only, exchange nothing */
	int32_t *chunk_counts;		/* [chunks][EP_RANKS], then first rows of chunks */
	int32_t *expert_counts;		/* [experts], zero before and after the kernel */
	const void *topk_idx;
	const uint8_t *in_rank;
	const int32_t *given_per_expert;
	int32_t *per_rank, *per_expert;	/* results of a layout */
	uint8_t *is_in_rank;
	int32_t *recv_count, *recv_per_expert, *rank_prefix;
	uint32_t tokens, topk, idx32, alignment, call;
};

struct ep_dispatch_args {
	struct ep_common ep;
	struct ep_routes *routes;
	const int32_t *chunk_counts;
	const unsigned char *x;
	uint64_t x_stride;
	const uint32_t *scales;
	uint64_t scale_row_stride, scale_word_stride;
	const void *topk_idx;
	const float *topk_weights;
	uint32_t tokens, topk, idx32, row_bytes, scale_words, worst_tokens, cached;
	uint32_t pieces, piece_bytes;	/* a row is copied in pieces of piece_bytes */
};

struct ep_combine_args {
	struct ep_common ep;
	const struct ep_routes *routes;
	const unsigned char *bias[2];
	unsigned char *out;
	float *out_weights;		/* NULL: no weights */
	uint32_t tokens, topk, row_bytes;
	uint32_t pieces, piece_bytes;
};

enum { EP_MOVES = 5 };

struct ep_move {
	void *to;			/* NULL: none */
	const void *from;
	uint64_t row_bytes;		/* a multiple of 4 */
	uint32_t least_rows;		/* to be copied even if there are fewer */
	uint32_t reserved;
};

struct ep_copy_args {
	struct ep_control *control;
	const int32_t *rows;		/* how many rows there are */
	uint32_t max_rows;
	uint32_t reserved;
	struct ep_move move[EP_MOVES];
};

struct ep_ll_args {
	struct ep_common ep;
	struct ep_ll_routes *routes;
	uint32_t *row_headers;		/* [EP_RANKS][ll_max_tokens][32], in the handle */
	const unsigned char *x;
	const void *topk_idx;
	const float *topk_weights;
	unsigned char *recv_x;
	uint32_t *recv_scales;
	int32_t *recv_count, *src_idx;
	int64_t *layout_range;
	unsigned char *out;
	uint32_t phases;		/* EP_LL_SEND, EP_LL_RECV */
	uint32_t tokens, topk, hidden, idx32;
	uint32_t fp8, round_scale, ue8m0;
	uint32_t row_bytes;		/* of a sent row */
	uint32_t scale_words;		/* of a sent row */
};

#endif
