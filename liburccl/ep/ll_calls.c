/* SPDX-License-Identifier: Apache-2.0 */
/* Low-latency mode. */
#include "group.h"

#include <errno.h>

enum { PHASES = URCCL_EP_LL_SEND | URCCL_EP_LL_RECV };

static uint32_t phases(uint32_t flags)
{
	if (!(flags & PHASES))
		flags = PHASES;
	return (flags & URCCL_EP_LL_SEND ? EP_LL_SEND : 0) |
	       (flags & URCCL_EP_LL_RECV ? EP_LL_RECV : 0);
}

static int ll_check(const struct urccl_ep *ep, uint32_t tokens, uint32_t topk, uint32_t hidden,
		    const struct urccl_ep_ll_handle *handle)
{
	if (tokens > ep->attr.ll_max_tokens || topk > ep->attr.topk ||
	    topk > URCCL_EP_LL_MAX_TOPK || !ep->attr.ll_max_tokens)
		return ep_error(-EINVAL, "%u tokens, top-%u; the group allows %u, top-%u", tokens,
				topk, ep->attr.ll_max_tokens, ep->attr.topk);
	if (!hidden || hidden % 16 || hidden > ep->attr.ll_hidden)
		return ep_error(-EINVAL, "hidden is %u; the group allows %u, multiples of 16",
				hidden, ep->attr.ll_hidden);
	if (handle->size != sizeof(*handle) || handle->reserved || !handle->memory)
		return ep_error(-EINVAL, "handle.size is %u (here %zu), or no memory", handle->size,
				sizeof(*handle));
	return 0;
}

static struct ep_ll_args common_args(const struct urccl_ep *ep,
				     const struct urccl_ep_ll_handle *handle, uint32_t tokens,
				     uint32_t topk, uint32_t hidden)
{
	struct ep_ll_routes *routes = handle->memory;

	return (struct ep_ll_args){
		.ep = ep->common,
		.routes = routes,
		.row_headers = (uint32_t *)(routes->index + ep->attr.ll_max_tokens * EP_RANKS),
		.tokens = tokens,
		.topk = topk,
		.hidden = hidden,
	};
}

static int check_dispatch(const struct urccl_ep_ll_dispatch *a)
{
	const bool send = phases(a->flags) & EP_LL_SEND && a->tokens;
	const bool recv = phases(a->flags) & EP_LL_RECV;
	int err = ep_check_pointer(a->x, send, "x");

	if (!err)
		err = ep_check_pointer(a->recv_x, recv, "recv_x");
	if (err)
		return err;
	if ((send && a->topk && !a->topk_idx) ||
	    (recv && (!a->recv_count || !a->src_idx || !a->layout_range)) ||
	    (recv && a->flags & URCCL_EP_LL_FP8 && !a->recv_scales))
		return ep_error(-EINVAL, "topk_idx, recv_count, src_idx, layout_range or "
					 "recv_scales is NULL");
	return 0;
}

static int check_combine(const struct urccl_ep_ll_combine *a)
{
	const bool send = phases(a->flags) & EP_LL_SEND;
	int err = ep_check_pointer(a->x, send, "x");

	if (!err)
		err = ep_check_pointer(a->out, phases(a->flags) & EP_LL_RECV && a->tokens, "out");
	if (!err && send && a->tokens && a->topk && !a->topk_weights)
		err = ep_error(-EINVAL, "topk_weights is NULL");
	return err;
}

/* A block for each token to send, or for each row that may come. */
static uint32_t blocks(const struct urccl_ep *ep, uint32_t tokens, uint32_t sms)
{
	const uint32_t rows = ep->common.ranks * ep->attr.ll_max_tokens;

	return ep_blocks(ep, rows > tokens ? rows : tokens, sms);
}

int urccl_ep_ll_dispatch(struct urccl_ep *ep, const struct urccl_ep_ll_dispatch *a,
			 const struct urccl_ep_ll_handle *handle, void *stream)
{
	const uint32_t known = URCCL_EP_LL_IDX32 | PHASES | URCCL_EP_LL_FP8 |
			       URCCL_EP_LL_ROUND_SCALE | URCCL_EP_LL_UE8M0;
	const uint32_t groups = (a->hidden + URCCL_EP_SCALE_COLUMNS - 1) / URCCL_EP_SCALE_COLUMNS;
	struct ep_ll_args args;
	int err;

	if (a->size != sizeof(*a) || a->flags & ~known)
		return ep_error(-EINVAL, "size is %u (here %zu), flags %#x", a->size, sizeof(*a),
				a->flags);
	if (a->flags & URCCL_EP_LL_UE8M0 && !(a->flags & URCCL_EP_LL_ROUND_SCALE))
		return ep_error(-EINVAL, "UE8M0 without ROUND_SCALE");
	err = ll_check(ep, a->tokens, a->topk, a->hidden, handle);
	if (!err)
		err = check_dispatch(a);
	if (err)
		return err;
	args = common_args(ep, handle, a->tokens, a->topk, a->hidden);
	args.x = a->x;
	args.topk_idx = a->topk_idx;
	args.idx32 = a->flags & URCCL_EP_LL_IDX32;
	args.recv_x = a->recv_x;
	args.recv_scales = a->recv_scales;
	args.recv_count = a->recv_count;
	args.src_idx = a->src_idx;
	args.layout_range = a->layout_range;
	args.fp8 = a->flags & URCCL_EP_LL_FP8;
	args.round_scale = a->flags & URCCL_EP_LL_ROUND_SCALE;
	args.ue8m0 = a->flags & URCCL_EP_LL_UE8M0;
	args.row_bytes = args.fp8 ? a->hidden : 2 * a->hidden;
	args.scale_words = !args.fp8 ? 0 : args.ue8m0 ? (groups + 3) / 4 : groups;
	args.phases = phases(a->flags);
	/* One block beside those of the tokens sends the counts. */
	return ep_launch(ep, EP_KERNEL_LL_DISPATCH, blocks(ep, a->tokens + 1, a->sms),
			 EP_LL_THREADS, a->tokens * (4 * a->topk + 1) + 4 * ep->common.experts,
			 &args, stream);
}

int urccl_ep_ll_combine(struct urccl_ep *ep, const struct urccl_ep_ll_combine *a,
			const struct urccl_ep_ll_handle *handle, void *stream)
{
	struct ep_ll_args args;
	int err;

	if (a->size != sizeof(*a) || a->flags & ~(URCCL_EP_LL_IDX32 | PHASES))
		return ep_error(-EINVAL, "size is %u (here %zu), flags %#x", a->size, sizeof(*a),
				a->flags);
	err = ll_check(ep, a->tokens, a->topk, a->hidden, handle);
	if (!err)
		err = check_combine(a);
	if (err)
		return err;
	args = common_args(ep, handle, a->tokens, a->topk, a->hidden);
	args.x = a->x;
	args.topk_weights = a->topk_weights;
	args.out = a->out;
	args.row_bytes = 2 * a->hidden;
	args.phases = phases(a->flags);
	return ep_launch(ep, EP_KERNEL_LL_COMBINE, blocks(ep, a->tokens, a->sms), EP_LL_THREADS, 0,
			 &args, stream);
}

int urccl_ep_set_dead(struct urccl_ep *ep, uint32_t dead, void *stream)
{
	const uint64_t word = (uintptr_t)&ep->common.control->dead;
	int error;

	if (dead >> ep->common.ranks || dead >> ep->common.rank & 1)
		return ep_error(-EINVAL, "dead is %#x for rank %u of %u", dead, ep->common.rank,
				ep->common.ranks);
	error = ep->driver.cuMemsetD32Async(word, dead, 1, stream);
	if (error)
		return ep_error(-EIO, "cannot set the dead ranks: %s",
				ep_driver_error(&ep->driver, error));
	for (uint32_t r = 0; r < ep->common.ranks; r++)
		__atomic_store_n(&ep->host->dead[r], dead >> r & 1, __ATOMIC_RELAXED);
	return 0;
}
