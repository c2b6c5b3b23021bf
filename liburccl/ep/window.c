/* SPDX-License-Identifier: Apache-2.0 */
#include "group.h"

#include <errno.h>

static int check_attr(const struct urccl_ep_attr *a)
{
	if (a->size != sizeof(*a))
		return ep_error(-EINVAL, "attr.size is %u, this library's is %zu", a->size,
				sizeof(*a));
	if (!a->ranks || a->ranks > URCCL_EP_MAX_RANKS)
		return ep_error(-EINVAL, "ranks is %u; allowed are 1 to %d", a->ranks,
				URCCL_EP_MAX_RANKS);
	if (!a->experts || a->experts > URCCL_EP_MAX_EXPERTS || a->experts % a->ranks)
		return ep_error(-EINVAL, "experts is %u; allowed are multiples of %u up to %d",
				a->experts, a->ranks, URCCL_EP_MAX_EXPERTS);
	if (a->topk > URCCL_EP_MAX_TOPK)
		return ep_error(-EINVAL, "topk is %u; allowed are 0 to %d", a->topk,
				URCCL_EP_MAX_TOPK);
	if (a->max_row_bytes % 16 || (a->max_tokens && !a->max_row_bytes))
		return ep_error(-EINVAL, "max_row_bytes is %u, no multiple of 16",
				a->max_row_bytes);
	if (a->ll_max_tokens > URCCL_EP_LL_MAX_TOKENS)
		return ep_error(-EINVAL, "ll_max_tokens is %u; allowed are 0 to %d",
				a->ll_max_tokens, URCCL_EP_LL_MAX_TOKENS);
	if (a->ll_hidden % 16 || (a->ll_max_tokens && !a->ll_hidden))
		return ep_error(-EINVAL, "ll_hidden is %u, no multiple of 16", a->ll_hidden);
	if ((uint64_t)a->max_tokens * a->ranks > INT32_MAX || a->max_recv_tokens > INT32_MAX)
		return ep_error(-EINVAL, "more than 2^31 - 1 rows");
	if (a->reserved)
		return ep_error(-EINVAL, "attr.reserved is not 0");
	return 0;
}

/* Adds a part of the window, aligned to 256 bytes. Returns its offset. */
static uint64_t add_part(uint64_t *end, uint64_t bytes)
{
	uint64_t at = *end;

	*end = (at + bytes + 255) / 256 * 256;
	return at;
}

int ep_window_layout(const struct urccl_ep_attr *attr, struct urccl_ep_attr *out,
		     struct ep_offsets *at)
{
	const uint64_t ll = EP_LL_BUFFERS * EP_RANKS;
	uint64_t local, rows, end = 0;
	int err = check_attr(attr);

	if (err)
		return err;
	*out = *attr;
	if (!out->max_recv_tokens)
		out->max_recv_tokens = out->ranks * out->max_tokens;
	if (!out->timeout_ms)
		out->timeout_ms = 100000;
	local = out->experts / out->ranks;
	rows = out->max_recv_tokens;
	add_part(&end, sizeof(struct ep_flags));
	at->experts = add_part(&end, 8 * EP_RANKS * local);
	at->ll_counts = add_part(&end, 8 * ll * (1 + local));
	at->ll_weights = add_part(&end, 8 * ll * out->ll_max_tokens * EP_LL_TOPK);
	/* So far zero, from here on poison. */
	at->ll_sum = (uint64_t)out->ll_hidden * 2;
	at->ll_row = EP_LL_HEADER + at->ll_sum;
	at->ll_rows = add_part(&end, ll * out->ll_max_tokens * at->ll_row);
	at->ll_sums = add_part(&end, ll * out->ll_max_tokens * at->ll_sum);
	at->src_idx = add_part(&end, rows * 4);
	at->scales = add_part(&end, rows * 4 * out->max_scale_words);
	at->topk_idx = add_part(&end, rows * 8 * out->topk);
	at->topk_weights = add_part(&end, rows * 4 * out->topk);
	at->combine_weights = add_part(&end, rows * 4 * out->topk);
	at->x = add_part(&end, rows * out->max_row_bytes);
	at->combine_x = add_part(&end, rows * out->max_row_bytes);
	at->bytes = end;
	return 0;
}

int ep_window_clear(const struct urccl_ep *ep)
{
	const struct ep_offsets *at = &ep->common.at;
	uint64_t window = (uintptr_t)ep->common.window.base[ep->common.rank];
	int error;

	if ((error = ep->driver.cuMemsetD8(window, 0, at->ll_rows)) ||
	    (ep->attr.ll_max_tokens &&
	     (error = ep->driver.cuMemsetD8(window + at->ll_rows, 0xff,
					    at->src_idx - at->ll_rows))) ||
	    (error = ep->driver.cuCtxSynchronize()))
		return ep_error(-EIO, "cannot clear the window: %s",
				ep_driver_error(&ep->driver, error));
	return 0;
}

int urccl_ep_window_bytes(const struct urccl_ep_attr *attr, uint64_t *bytes)
{
	struct urccl_ep_attr filled;
	struct ep_offsets at;
	int err = ep_window_layout(attr, &filled, &at);

	if (!err)
		*bytes = at.bytes;
	return err;
}

int urccl_ep_window_parts(const struct urccl_ep *ep, struct urccl_ep_parts *parts)
{
	const struct ep_offsets *at = &ep->common.at;
	unsigned char *base = ep->common.window.base[ep->common.rank];

	if (parts->size != sizeof(*parts))
		return ep_error(-EINVAL, "parts.size is %u, this library's is %zu", parts->size,
				sizeof(*parts));
	*parts = (struct urccl_ep_parts){
		.size = sizeof(*parts),
		.rows = ep->attr.max_recv_tokens,
		.x = base + at->x,
		.scales = (uint32_t *)(base + at->scales),
		.topk_idx = (int64_t *)(base + at->topk_idx),
		.topk_weights = (float *)(base + at->topk_weights),
		.src_idx = (int32_t *)(base + at->src_idx),
		.combine_x = base + at->combine_x,
		.combine_weights = (float *)(base + at->combine_weights),
	};
	return 0;
}

uint64_t urccl_ep_handle_bytes(const struct urccl_ep *ep)
{
	return sizeof(struct ep_routes) + (uint64_t)ep->attr.max_tokens * ep->attr.ranks * 4;
}

uint64_t urccl_ep_ll_handle_bytes(const struct urccl_ep *ep)
{
	return sizeof(struct ep_ll_routes) +
	       (uint64_t)ep->attr.ll_max_tokens * EP_RANKS * (4 + EP_LL_HEADER);
}
