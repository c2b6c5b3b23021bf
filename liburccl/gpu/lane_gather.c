/* SPDX-License-Identifier: Apache-2.0 */
/* GATHER jobs, the copy thread's side: a kernel or a batch call for the small pieces, a copy
 * for each large one, and for each of all where there is neither. */
#include "gpu/private.h"

/* Small pieces by one call. 0: they are to be copied one by one. */
static int small_issue(struct gpu_dev *dev, struct gpu_lane_state *l, struct gpu_slot *slot)
{
	const struct gpu_pieces *t = slot->pieces;
	int code;

	if (slot->method == GPU_METHOD_KERNEL)
		code = dev->api->gather(dev->ctx, l->stream, t, dev->sms);
	else
		code = dev->api->batch(dev->ctx, l->stream, t);
	if (!code || dev->api->error(code) == -EIO) {
		(void)lane_count(dev, l, 1, t->small, code);
		slot->code = code;
		return 1;
	}
	/* A piece that is wrong fails by itself; any other error stays. */
	if (dev->api->error(code) != -EINVAL)
		store_release(&dev->methods, dev->methods & ~(1u << slot->method));
	slot->method = GPU_METHOD_COPIES;
	return 0;
}

static const struct gpu_piece *row_at(const struct gpu_pieces *t, uint32_t i)
{
	return &t->rows[i < t->n ? i : GPU_PIECES - 1 - (i - t->n)];
}

/* A piece failed, or the GPU is broken. What of the job is issued goes on, and its memory is not
 * quiet before. */
static int gather_stop(const struct gpu_dev *dev, struct gpu_lane_state *l, struct gpu_slot *slot)
{
	if (!l->at)
		store_release(&slot->state, GPU_FAILED);
	else if (dev->code)
		l->cut = slot;
	else
		l->is_due = 1;
	return 1;
}

int gather_issue(struct gpu_dev *dev, struct gpu_lane_state *l, struct gpu_slot *slot, uint64_t now)
{
	const struct gpu_pieces *t = slot->pieces;
	const struct gpu_piece *row;
	uint32_t n = t->n + t->nlarge;

	slot->code = slot->code ? slot->code : dev->code;
	if (!slot->code && !l->at && t->n && slot->method != GPU_METHOD_COPIES &&
	    small_issue(dev, l, slot) && !slot->code)
		l->at = t->n;
	while (!slot->code && l->at < n) {
		row = row_at(t, l->at);
		if (!lane_has_room(l, 1, row->len))
			return 0;
		slot->code = dev->api->copy(dev->ctx, l->stream, row->dst, row->src, row->len);
		if (!lane_count(dev, l, 1, row->len, slot->code))
			break;
		/* The word behind the last one is the job's end. */
		if (++l->at < n && (l->batch.bytes >= GPU_MARK_LEN || l->batch.ops >= GPU_MARK_OPS))
			lane_mark(dev, l, now);
	}
	return slot->code ? gather_stop(dev, l, slot) : 1;
}
