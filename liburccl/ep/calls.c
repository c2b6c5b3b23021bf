/* SPDX-License-Identifier: Apache-2.0 */
/* Normal mode: layout, dispatch, combine. */
#include "group.h"

#include <errno.h>

static struct ep_routes *routes_of(const struct urccl_ep_handle *handle)
{
	return handle->memory;
}

static uint32_t chunks_of(uint32_t tokens)
{
	return tokens ? (tokens + EP_CHUNK - 1) / EP_CHUNK : 1;
}

/* Cuts a row into equal pieces of at most "most" bytes, a multiple of 16. */
static void split_row(uint32_t row_bytes, uint32_t most, uint32_t *pieces, uint32_t *piece_bytes)
{
	uint32_t n = (row_bytes + most - 1) / most;

	*piece_bytes = ((row_bytes + n - 1) / n + 15) / 16 * 16;
	*pieces = (row_bytes + *piece_bytes - 1) / *piece_bytes;
}

static int check_tokens(const struct urccl_ep *ep, uint32_t tokens, uint32_t topk)
{
	if (tokens > ep->attr.max_tokens || topk > ep->attr.topk)
		return ep_error(-EINVAL, "%u tokens, top-%u; the group allows %u, top-%u", tokens,
				topk, ep->attr.max_tokens, ep->attr.topk);
	return 0;
}

static int notify(struct urccl_ep *ep, struct ep_notify_args *args, void *stream)
{
	args->ep = ep->common;
	args->chunk_counts = ep_pointer(ep->chunk_counts);
	args->expert_counts = ep_pointer(ep->expert_counts);
	if (!args->alignment)
		args->alignment = 1;
	return ep_launch(ep, EP_KERNEL_NOTIFY, chunks_of(args->tokens), EP_CHUNK,
			 ep->common.experts * 4, args, stream);
}

int urccl_ep_layout(struct urccl_ep *ep, const void *topk_idx, uint32_t tokens, uint32_t topk,
		    uint32_t flags, int32_t *per_rank, int32_t *per_expert, uint8_t *in_rank,
		    void *stream)
{
	struct ep_notify_args args = {
		.topk_idx = topk_idx,
		.per_rank = per_rank,
		.per_expert = per_expert,
		.is_in_rank = in_rank,
		.tokens = tokens,
		.topk = topk,
		.idx32 = flags & URCCL_EP_IDX32,
	};
	int err = check_tokens(ep, tokens, topk);

	if (err)
		return err;
	if (flags & ~URCCL_EP_IDX32 || (tokens && topk && !topk_idx))
		return ep_error(-EINVAL, "flags %#x, or no topk_idx", flags);
	return notify(ep, &args, stream);
}

/* ---- dispatch -------------------------------------------------------------------------------- */

/* Checks the members that urccl_ep_copy_results() reads. */
static int check_results(const struct urccl_ep *ep, const struct urccl_ep_dispatch *a,
			 const struct urccl_ep_handle *handle)
{
	int err;

	if (a->size != sizeof(*a) || handle->size != sizeof(*handle))
		return ep_error(-EINVAL, "size is %u, of the handle %u; here they are %zu and %zu",
				a->size, handle->size, sizeof(*a), sizeof(*handle));
	err = ep_check_pointer(a->recv_x, false, "recv_x");
	if (!err)
		err = ep_check_pointer(handle->memory, true, "handle.memory");
	if (err)
		return err;
	if (!a->row_bytes || a->row_bytes % 16 || a->row_bytes > ep->attr.max_row_bytes)
		return ep_error(-EINVAL, "rows of %u bytes; the group allows %u bytes",
				a->row_bytes, ep->attr.max_row_bytes);
	if (a->scale_words > ep->attr.max_scale_words || a->topk > ep->attr.topk)
		return ep_error(-EINVAL, "%u scales, top-%u; the group allows %u, top-%u",
				a->scale_words, a->topk, ep->attr.max_scale_words, ep->attr.topk);
	if (a->worst_tokens > ep->attr.max_recv_tokens)
		return ep_error(-EINVAL, "worst_tokens is %u, max_recv_tokens %u", a->worst_tokens,
				ep->attr.max_recv_tokens);
	return 0;
}

static int check_dispatch(const struct urccl_ep *ep, const struct urccl_ep_dispatch *a,
			  const struct urccl_ep_handle *handle)
{
	const uint64_t stride = a->x_stride ? a->x_stride : a->row_bytes;
	int err = check_results(ep, a, handle);

	if (err)
		return err;
	if (a->flags & ~(URCCL_EP_IDX32 | URCCL_EP_CACHED) || a->reserved)
		return ep_error(-EINVAL, "flags %#x, reserved %u", a->flags, a->reserved);
	err = check_tokens(ep, a->tokens, a->topk);
	if (!err)
		err = ep_check_pointer(a->x, a->tokens, "x");
	if (err)
		return err;
	if (stride % 16 || stride < a->row_bytes)
		return ep_error(-EINVAL, "rows of %u bytes are %llu bytes apart", a->row_bytes,
				(unsigned long long)stride);
	if (a->scale_words && a->tokens && !a->scales)
		return ep_error(-EINVAL, "scales is NULL");
	if (a->flags & URCCL_EP_CACHED)
		return a->tokens == handle->tokens
			       ? 0
			       : ep_error(-EINVAL, "%u tokens; the handle is of %u", a->tokens,
					  handle->tokens);
	if (a->tokens && !a->in_rank && !(a->topk && a->topk_idx))
		return ep_error(-EINVAL, "neither topk_idx nor in_rank");
	return 0;
}

int urccl_ep_copy_results(struct urccl_ep *ep, const struct urccl_ep_dispatch *a,
			  const struct urccl_ep_handle *handle, void *stream)
{
	const struct ep_routes *routes = routes_of(handle);
	const struct ep_offsets *at = &ep->common.at;
	const unsigned char *base = ep->common.window.base[ep->common.rank];
	const bool fresh = !(a->flags & URCCL_EP_CACHED);
	struct ep_copy_args args = {
		.control = ep->common.control,
		.rows = &routes->recv_tokens,
		.max_rows = ep->attr.max_recv_tokens,
		.move = {{a->recv_x, base + at->x, a->row_bytes, 0, 0},
			 {a->recv_scales, base + at->scales, 4 * a->scale_words, 0, 0},
			 {a->recv_topk_idx, base + at->topk_idx, 8 * a->topk, a->worst_tokens, 0},
			 {a->recv_topk_weights, base + at->topk_weights, 4 * a->topk, 0, 0},
			 {a->recv_src_idx, base + at->src_idx, 4, 0, 0}},
	};
	bool any = false;
	int err = check_results(ep, a, handle);

	if (err)
		return err;
	for (int i = 0; i < EP_MOVES; i++) {
		if (args.move[i].to == args.move[i].from || (i >= 2 && !fresh))
			args.move[i].to = NULL;
		any |= !!args.move[i].to;
	}
	if (!any)
		return 0;
	return ep_launch(ep, EP_KERNEL_COPY, ep_blocks(ep, UINT32_MAX, a->sms), 512, 0, &args,
			 stream);
}

static int exchange(struct urccl_ep *ep, const struct urccl_ep_dispatch *a,
		    struct urccl_ep_handle *handle, void *stream)
{
	struct ep_notify_args args = {
		.routes = routes_of(handle),
		.topk_idx = a->topk_idx,
		.in_rank = a->in_rank,
		.given_per_expert = a->per_expert,
		.recv_count = a->recv_count,
		.recv_per_expert = a->recv_per_expert,
		.rank_prefix = a->rank_prefix,
		.tokens = a->tokens,
		.topk = a->topk_idx ? a->topk : 0,
		.idx32 = a->flags & URCCL_EP_IDX32,
		.alignment = a->expert_alignment,
		.call = ep->calls + 1,
	};
	int err = notify(ep, &args, stream);

	if (err)
		return err;
	handle->call = ++ep->calls;
	handle->tokens = a->tokens;
	return 0;
}

int urccl_ep_dispatch(struct urccl_ep *ep, const struct urccl_ep_dispatch *a,
		      struct urccl_ep_handle *handle, void *stream)
{
	const bool cached = a->flags & URCCL_EP_CACHED;
	const bool strides = a->scale_row_stride || a->scale_word_stride;
	int err = check_dispatch(ep, a, handle);
	struct ep_dispatch_args args;

	if (!err && !cached)
		err = exchange(ep, a, handle, stream);
	if (err)
		return err;
	args = (struct ep_dispatch_args){
		.ep = ep->common,
		.routes = routes_of(handle),
		.chunk_counts = ep_pointer(ep->chunk_counts),
		.x = a->x,
		.x_stride = a->x_stride ? a->x_stride : a->row_bytes,
		.scales = a->scales,
		.scale_row_stride = strides ? a->scale_row_stride : a->scale_words,
		.scale_word_stride = strides ? a->scale_word_stride : 1,
		.topk_idx = a->topk_idx,
		.topk_weights = a->topk_weights,
		.tokens = a->tokens,
		.topk = a->topk_idx ? a->topk : 0,
		.idx32 = a->flags & URCCL_EP_IDX32,
		.row_bytes = a->row_bytes,
		.scale_words = a->scale_words,
		.worst_tokens = a->worst_tokens,
		.cached = cached,
	};
	split_row(a->row_bytes, EP_PIECE, &args.pieces, &args.piece_bytes);
	err = ep_launch_early(ep, EP_KERNEL_DISPATCH,
			      ep_blocks(ep, (a->tokens + EP_WARPS - 1) / EP_WARPS, a->sms),
			      EP_WARPS * 32, EP_WARPS * EP_STAGES * args.piece_bytes, &args, stream,
			      !cached);
	return err ? err : urccl_ep_copy_results(ep, a, handle, stream);
}

/* ---- combine --------------------------------------------------------------------------------- */

static int check_combine(const struct urccl_ep *ep, const struct urccl_ep_combine *a,
			 const struct urccl_ep_handle *handle)
{
	int err;

	if (a->size != sizeof(*a) || handle->size != sizeof(*handle) || a->flags || a->reserved)
		return ep_error(-EINVAL, "size is %u (here %zu), flags %#x, reserved %u", a->size,
				sizeof(*a), a->flags, a->reserved);
	if (!a->hidden || a->hidden % 8 || (uint64_t)a->hidden * 2 > ep->attr.max_row_bytes)
		return ep_error(-EINVAL, "hidden is %u; the group allows rows of %u bytes",
				a->hidden, ep->attr.max_row_bytes);
	if (a->topk_weights && (!a->topk || a->topk > ep->attr.topk || !a->out_topk_weights))
		return ep_error(-EINVAL, "topk_weights with top-%u, or without out_topk_weights",
				a->topk);
	err = ep_check_pointer(a->x, false, "x");
	if (!err)
		err = ep_check_pointer(a->out, handle->tokens, "out");
	for (int b = 0; b < 2 && !err; b++)
		err = ep_check_pointer(a->bias[b], false, "bias");
	return err ? err : ep_check_pointer(handle->memory, true, "handle.memory");
}

/* Copies the input of combine into the window. */
static int copy_input(const struct urccl_ep *ep, const struct urccl_ep_combine *a,
		      const struct ep_routes *routes, void *stream)
{
	const struct ep_offsets *at = &ep->common.at;
	unsigned char *base = ep->common.window.base[ep->common.rank];
	struct ep_copy_args args = {
		.control = ep->common.control,
		.rows = &routes->recv_tokens,
		.max_rows = ep->attr.max_recv_tokens,
	};
	int n = 0;

	if (a->x && a->x != base + at->combine_x)
		args.move[n++] = (struct ep_move){base + at->combine_x, a->x, 2 * a->hidden, 0, 0};
	if (a->topk_weights && (const void *)a->topk_weights != base + at->combine_weights)
		args.move[n++] = (struct ep_move){base + at->combine_weights,
						  (const void *)a->topk_weights, 4 * a->topk, 0, 0};
	if (!n)
		return 0;
	return ep_launch(ep, EP_KERNEL_COPY, ep_blocks(ep, UINT32_MAX, a->sms), 512, 0, &args,
			 stream);
}

int urccl_ep_combine(struct urccl_ep *ep, const struct urccl_ep_combine *a,
		     const struct urccl_ep_handle *handle, void *stream)
{
	const uint32_t stages = EP_COMBINE_STAGES * ep->common.ranks;
	struct ep_combine_args args;
	uint64_t pieces;
	int err = check_combine(ep, a, handle);

	if (!err)
		err = copy_input(ep, a, routes_of(handle), stream);
	if (err)
		return err;
	args = (struct ep_combine_args){
		.ep = ep->common,
		.routes = routes_of(handle),
		.bias = {a->bias[0], a->bias[1]},
		.out = a->out,
		.out_weights = a->topk_weights ? a->out_topk_weights : NULL,
		.tokens = handle->tokens,
		.topk = a->topk,
		.row_bytes = 2 * a->hidden,
	};
	split_row(args.row_bytes, EP_SMEM / (EP_COMBINE_WARPS * stages) / 16 * 16, &args.pieces,
		  &args.piece_bytes);
	pieces = (uint64_t)args.tokens * args.pieces;
	return ep_launch(ep, EP_KERNEL_COMBINE,
			 ep_blocks(ep, (pieces + EP_COMBINE_WARPS - 1) / EP_COMBINE_WARPS, a->sms),
			 EP_COMBINE_WARPS * 32, EP_COMBINE_WARPS * stages * args.piece_bytes, &args,
			 stream);
}
