/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of <liburccl/ep.h>, computed on the CPU for all ranks of a group. Kernels give the
 * same bits. Memory is the caller's; arrays have the shapes of the header. Nothing here fails.
 */
#ifndef EP_REFERENCE_H
#define EP_REFERENCE_H

#include <liburccl/ep.h>

#include <stdint.h>

enum { REF_MAX_HIDDEN = 16384 };

struct ref_shape {
	uint32_t ranks, experts, topk;
	uint32_t row_bytes, scale_words; /* of dispatch */
	uint32_t alignment, worst_tokens;
	uint32_t hidden; /* of combine, ll_dispatch and ll_combine */
	uint32_t ll_max_tokens, ll_flags;
};

/* The state of one rank. */
struct ref_source {
	uint32_t tokens;
	uint16_t *x;	  /* [tokens] rows, of row_bytes or of hidden bf16 */
	uint32_t *scales; /* [tokens][scale_words] */
	int64_t *topk_idx;
	float *topk_weights;
	uint8_t *in_rank; /* NULL: as topk_idx says */
	int32_t *slot;	  /* [tokens][ranks]: row at each rank, or -1; ref_slots() sets it */
};

struct ref_received {
	uint32_t rows;
	void *x;
	uint32_t *scales;
	int64_t *topk_idx; /* [max(rows, worst_tokens)][topk] */
	float *topk_weights;
	int32_t *src_idx;
	int32_t *per_expert;
};

struct ref_ll_received {
	void *x;
	uint32_t *scales;
	int32_t *count, *src_idx;
	int64_t *layout_range;
};

/* per_rank, per_expert, in_rank: each may be NULL. */
void ref_layout(const struct ref_shape *shape, const struct ref_source *source, int32_t *per_rank,
		int32_t *per_expert, uint8_t *in_rank);

/* Fills the slot arrays of all sources, and rank_prefix [ranks][ranks]. */
void ref_slots(const struct ref_shape *shape, const struct ref_source *sources,
	       int32_t *rank_prefix);

/* The rows that rank "to" receives. Arrays that are NULL, here or at a source, are left out. */
void ref_dispatch(const struct ref_shape *shape, const struct ref_source *sources, uint32_t to,
		  struct ref_received *out);

/* The sums of the tokens of one source; x[r] is what rank r has, [rows][hidden] bf16. */
void ref_combine(const struct ref_shape *shape, const struct ref_source *source,
		 const uint16_t *const *x, const uint16_t *const bias[2], uint16_t *out);

/* The same of weights[r], [rows][topk]. */
void ref_combine_weights(const struct ref_shape *shape, const struct ref_source *source,
			 const float *const *weights, float *out);

/* The 4-byte words of scales that a low-latency row has. */
uint32_t ref_ll_scale_words(const struct ref_shape *shape);

/* One row as a low-latency dispatch sends it: payload, and scale words. */
void ref_ll_row(const struct ref_shape *shape, const uint16_t *x, void *payload, uint32_t *scales);

/* The rows that rank "to" receives; rows that nobody fills stay as they are. */
void ref_ll_dispatch(const struct ref_shape *shape, const struct ref_source *sources, uint32_t to,
		     struct ref_ll_received *out);

/* The sums of the tokens of rank "from"; x[r] is [experts / ranks][ranks * ll_max_tokens][hidden]
 * bf16 of rank r, in the rows of recv_x. */
void ref_ll_combine(const struct ref_shape *shape, const struct ref_source *sources, uint32_t from,
		    const uint16_t *const *x, uint16_t *out);

/* Numbers; conversions round to nearest even. */
float ref_from_bf16(uint16_t v);
uint16_t ref_to_bf16(float v);
float ref_from_e4m3(uint8_t v);
uint8_t ref_to_e4m3(float v); /* beyond 448: 448 */

#endif
