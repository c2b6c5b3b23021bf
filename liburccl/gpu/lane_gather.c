/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GATHER jobs, the copy thread's side: kernels or a batch call for the small pieces, a copy for
 * each large one, and for each of all where there is neither.
 *
 * Kernels find their bundles in the feed. A kernel that runs goes on with those posted meanwhile,
 * so their words may come before anything that the stream has behind that kernel. That is why a
 * bundle is posted only when nothing but bundles is out in the lane.
 */
#include "gpu/private.h"

#define BUNDLE_TAG 18u /* bits of its number */

int feed_launch(struct gpu_dev *dev, struct gpu_lane_state *l)
{
	struct gpu_feed_launch how = {
		.feed = dev->feed,
		.word = (uint64_t *)(uintptr_t)l->word,
		.number = dev->launched + 1,
		.sms = dev->sms,
	};
	int code = dev->api->gather(dev->ctx, l->stream, &how);

	dev->launched += !code;
	return code;
}

static uint64_t bundle_of(const struct gpu_dev *dev, const struct gpu_pieces *t, uint64_t number)
{
	uint64_t table = (uint64_t)(t - dev->gather.all), tag = number << (64 - BUNDLE_TAG);

	return tag | table << 38 | (uint64_t)t->each << 29 | (uint64_t)t->n << 16 | t->units;
}

/* The lane's word when the job's small pieces are there. */
static uint64_t word_of(const struct gpu_lane_state *l, const struct gpu_pieces *t)
{
	return t->nlarge ? l->head * GPU_PARTS + t->n : (l->head + 1) * GPU_PARTS;
}

/* A kernel that has not started finds the bundle. Any other may have looked before. */
static int feed_post(struct gpu_dev *dev, struct gpu_lane_state *l, const struct gpu_pieces *t)
{
	uint64_t number = ++dev->fed;
	struct gpu_feed_slot *slot = &dev->feed->slots[number % GPU_GATHERS];

	slot->word = word_of(l, t);
	__atomic_store_n(&slot->bundle, bundle_of(dev, t, number), __ATOMIC_SEQ_CST);
	if (__atomic_load_n(dev->feed->started, __ATOMIC_SEQ_CST) != dev->launched)
		return 0;
	return feed_launch(dev, l);
}

/* It is posted, and no kernel was launched. One that was before may still take it, but none does
 * once the stream is idle. 0: it is not. */
static int feed_settled(struct gpu_dev *dev, struct gpu_lane_state *l, struct gpu_slot *slot)
{
	int code = dev->api->query(dev->ctx, l->stream);

	if (code && dev->api->error(code) != -EIO)
		return 0;
	l->is_unsure = 0;
	(void)lane_count(dev, l, 0, 0, code);
	slot->code = code;
	if (load_acquire(l->word) >= word_of(l, slot->pieces))
		l->at = slot->pieces->n;
	return 1;
}

/* By kernels. 0: not now. */
static int small_feed(struct gpu_dev *dev, struct gpu_lane_state *l, struct gpu_slot *slot,
		      uint64_t now)
{
	const struct gpu_pieces *t = slot->pieces;
	int code, err;

	if (l->ops != l->fed_ops)
		return 0;
	code = feed_post(dev, l, t);
	err = dev->api->error(code);
	if (code && err != -EIO) {
		store_release(&dev->methods, dev->methods & ~(1u << GPU_METHOD_KERNEL));
		slot->method = GPU_METHOD_COPIES;
		l->is_unsure = 1;
		return 0;
	}
	slot->code = code;
	l->at = t->n;
	if (lane_count(dev, l, 1, t->small, code))
		lane_out(l, word_of(l, t), 1, now);
	return 1;
}

/* By one call. Where it cannot be, the pieces are copied one by one. */
static void small_batch(struct gpu_dev *dev, struct gpu_lane_state *l, struct gpu_slot *slot)
{
	const struct gpu_pieces *t = slot->pieces;
	int code = dev->api->batch(dev->ctx, l->stream, t), err = dev->api->error(code);

	if (code && err != -EIO) {
		/* A piece that is wrong fails by itself; any other error stays. */
		if (err != -EINVAL)
			store_release(&dev->methods, dev->methods & ~(1u << GPU_METHOD_BATCH));
		slot->method = GPU_METHOD_COPIES;
		return;
	}
	slot->code = code;
	if (lane_count(dev, l, 1, t->small, code))
		l->at = t->n;
}

/* 0: the lane has no room now. */
static int small_issue(struct gpu_dev *dev, struct gpu_lane_state *l, struct gpu_slot *slot,
		       uint64_t now)
{
	if (l->is_unsure)
		return feed_settled(dev, l, slot);
	if (slot->method == GPU_METHOD_KERNEL)
		return small_feed(dev, l, slot, now);
	if (slot->method == GPU_METHOD_BATCH)
		small_batch(dev, l, slot);
	return 1;
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
	if (!slot->code && !l->at && t->n && !small_issue(dev, l, slot, now))
		return 0;
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
