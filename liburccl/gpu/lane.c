/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lanes: the copy thread issues their jobs to streams. It learns from the lanes' words that jobs
 * have ended, like the engine, and makes room for others.
 *
 * A lane without a new word for a while is asked for an error. After an error that no call survives
 * the GPU is broken: queued jobs fail at once. A reported error does not prove that the GPU has
 * stopped, so issued jobs fail later.
 */
#include "gpu/private.h"

#define RATE_LEAST  100u /* MB/s */
#define RATE_MOST   1000000u
#define MEASURE_NS  (200 * NSEC_PER_USEC)

#define WORDS_BYTES (64 * GPU_LANES + 2 * sizeof(struct gpu_table))

void dev_break(struct gpu_dev *dev, int code)
{
	if (!dev->code)
		store_release(&dev->code, code);
}

/* 1: no call on the GPU will succeed any more. */
static int is_fatal(struct gpu_dev *dev, int code)
{
	return dev->api->error(code) == -EIO;
}

/* ---- the rate of a lane, for what it may have issued ---- */

static uint64_t work_ns(const struct gpu_lane_state *l, uint64_t bytes, uint64_t ops)
{
	return ops * GPU_OP_NS + bytes * 1000 / l->rate;
}

/* Measures from one look to a later one. If the lane was busy throughout, the time is exact; if
 * not, the lane is at least so fast. */
static void lane_measure(struct gpu_lane_state *l, uint64_t now)
{
	uint64_t time = now - l->measured_ns, least = time / 8, rate;

	if (l->out_n && time < MEASURE_NS)
		return;
	time = time > l->measured_ops * GPU_OP_NS ? time - l->measured_ops * GPU_OP_NS : 0;
	time = time > least ? time : least;
	rate = l->measured_bytes * 1000 / (time ? time : 1);
	rate = rate < RATE_MOST ? rate : RATE_MOST;
	if (l->out_n)
		rate = (3 * l->rate + rate) / 4;
	else if (rate < l->rate)
		rate = l->rate;
	l->rate = rate > RATE_LEAST ? rate : RATE_LEAST;
	l->measured_ns = now;
	l->measured_bytes = l->measured_ops = 0;
}

static void lane_predict(struct gpu_lane_state *l, uint64_t now)
{
	const struct gpu_batch *first = &l->out[l->out_first];

	l->eta_ns = l->out_n ? now + work_ns(l, first->bytes, first->ops) : 0;
}

/* ---- issue and end ---- */

static struct gpu_slot *lane_slot(struct gpu_lane_state *l, uint64_t seq)
{
	return &l->slots[seq % GPU_SLOTS];
}

static int lane_slot_take(struct gpu_slot *slot, uint32_t from, uint32_t to)
{
	return __atomic_compare_exchange_n(&slot->state, &from, to, 0, __ATOMIC_ACQ_REL,
					   __ATOMIC_ACQUIRE);
}

static void slot_fail(struct gpu_slot *slot, int code)
{
	slot->code = code;
	store_release(&slot->state, GPU_FAILED);
}

/* What it is for the stream. */
static uint32_t slot_ops(const struct gpu_slot *slot)
{
	if (slot->kind == GPU_QUERY_EVENTS || slot->kind == GPU_FLUSH)
		return 0;
	return slot->kind == GPU_READ_WORDS ? slot->len : 1;
}

static uint64_t slot_bytes(const struct gpu_slot *slot)
{
	return slot->kind == GPU_COPY || slot->kind == GPU_GATHER ? slot->len : 0;
}

int lane_has_room(const struct gpu_lane_state *l, uint32_t ops, uint64_t bytes)
{
	if (!ops)
		return 1;
	if (l->ops + ops + 1 > GPU_OPS)
		return 0;
	if (l->out_n + (l->batch.ops != 0) < 2)
		return 1;
	return work_ns(l, l->bytes + bytes, l->ops + ops) <= GPU_WORK_NS;
}

int lane_count(struct gpu_dev *dev, struct gpu_lane_state *l, uint32_t ops, uint64_t bytes,
	       int code)
{
	if (code && is_fatal(dev, code))
		dev_break(dev, code);
	if (code)
		return 0;
	l->ops += ops;
	l->bytes += bytes;
	l->batch.ops += ops;
	l->batch.bytes += bytes;
	return 1;
}

/* Where the GPU stores no words, the end of all that was issued is seen by the stream. */
static void lane_mark_idle(struct gpu_dev *dev, struct gpu_lane_state *l, uint64_t value)
{
	if (dev->api->query(dev->ctx, l->stream))
		return; /* the next turn tries again */
	l->is_due = 0;
	l->ops -= l->batch.ops;
	l->bytes -= l->batch.bytes;
	memset(&l->batch, 0, sizeof(l->batch));
	store_release((uint64_t *)(uintptr_t)l->word, value);
}

void lane_out(struct gpu_lane_state *l, uint64_t word, uint32_t is_fed, uint64_t now)
{
	l->batch.word = word;
	l->batch.is_fed = is_fed;
	l->fed_ops += is_fed ? l->batch.ops : 0;
	l->out[(l->out_first + l->out_n) % GPU_OPS] = l->batch;
	if (!l->out_n++) {
		l->measured_ns = l->asked_ns = now;
		l->measured_bytes = l->measured_ops = 0;
		lane_predict(l, now);
	}
	memset(&l->batch, 0, sizeof(l->batch));
}

void lane_mark(struct gpu_dev *dev, struct gpu_lane_state *l, uint64_t now)
{
	uint64_t value = l->head * GPU_PARTS + l->at;
	int code;

	if ((!l->batch.ops && !l->is_due) || dev->code)
		return;
	code = dev->api->mark(dev->ctx, l->stream, (uint64_t *)(uintptr_t)l->word, value);
	if (code && is_fatal(dev, code))
		dev_break(dev, code);
	else if (code)
		lane_mark_idle(dev, l, value);
	if (code)
		return;
	l->is_due = 0;
	l->ops++;
	l->batch.ops++;
	lane_out(l, value, 0, now);
}

static int row_fail(const struct gpu_dev *dev, struct gpu_table *t, uint32_t i, int code)
{
	t->res[i] = dev->api->error(code);
	t->code[i] = code;
	return code;
}

/* An error that breaks the GPU fails the job, but for words that are on their way. */
static int words_issue(struct gpu_dev *dev, const struct gpu_lane_state *l, uint32_t n)
{
	struct gpu_table *t = gpu_table(dev, GPU_READ_WORDS);
	uint32_t i;
	int code;

	for (i = 0; i < n; i++) {
		code = dev->api->copy(dev->ctx, l->stream, (uintptr_t)&t->value[i], t->at[i], 8);
		if (!is_fatal(dev, row_fail(dev, t, i, code)))
			continue;
		dev_break(dev, code);
		return i ? 0 : code;
	}
	return 0;
}

/* The event may be of another context: its error is no error of this GPU. */
static void events_query(struct gpu_dev *dev, uint32_t n)
{
	struct gpu_table *t = gpu_table(dev, GPU_QUERY_EVENTS);
	uint32_t i;

	for (i = 0; i < n; i++) {
		row_fail(dev, t, i, dev->api->event_query(dev->ctx, (void *)(uintptr_t)t->at[i]));
		t->value[i] = t->res[i] == 0;
		t->res[i] = t->res[i] == -EAGAIN ? 0 : t->res[i];
	}
}

static int slot_call(struct gpu_dev *dev, const struct gpu_lane_state *l,
		     const struct gpu_slot *slot)
{
	if (dev->code)
		return dev->code;
	switch (slot->kind) {
	case GPU_WRITE_WORD:
		return dev->api->mark(dev->ctx, l->stream, (uint64_t *)(uintptr_t)slot->dst,
				      slot->src);
	case GPU_READ_WORDS:
		return words_issue(dev, l, slot->len);
	case GPU_QUERY_EVENTS:
		events_query(dev, slot->len);
		return 0;
	case GPU_FLUSH:
		return dev->api->flush(dev->ctx);
	default:
		return dev->api->copy(dev->ctx, l->stream, slot->dst, slot->src, slot->len);
	}
}

static void call_issue(struct gpu_dev *dev, struct gpu_lane_state *l, struct gpu_slot *slot)
{
	int code = slot_call(dev, l, slot);

	if (!lane_count(dev, l, slot_ops(slot), slot_bytes(slot), code))
		slot_fail(slot, code);
	else if (!slot_ops(slot))
		store_release(&slot->state, GPU_ENDED);
}

/* The next job. 1: it is issued, has failed or was cancelled; 0: there is no room for all of it. */
static int slot_issue(struct gpu_dev *dev, struct gpu_lane_state *l, uint64_t now)
{
	struct gpu_slot *slot = lane_slot(l, l->head + 1);
	uint32_t begun = slot->kind == GPU_GATHER ? GPU_BEGUN : GPU_ISSUED;

	if (!l->is_begun && !lane_slot_take(slot, GPU_QUEUED, begun)) {
		store_release(&slot->state, GPU_FREE);
		return 1;
	}
	l->is_begun = 1;
	if (begun == GPU_ISSUED)
		call_issue(dev, l, slot);
	else if (!gather_issue(dev, l, slot, now))
		return 0;
	else
		lane_slot_take(slot, GPU_BEGUN, GPU_ISSUED); /* unless it has failed */
	return 1;
}

/* 1: it took a job. */
static int lane_issue(struct gpu_dev *dev, struct gpu_lane_state *l, uint64_t now)
{
	const struct gpu_slot *slot;
	int some = 0;

	l->tail_seen = load_acquire(&l->tail);
	while (l->head != l->tail_seen && !dev->closing_ns) {
		slot = lane_slot(l, l->head + 1);
		if (!dev->code && !lane_has_room(l, slot_ops(slot), slot_bytes(slot)))
			break;
		some = 1;
		if (!slot_issue(dev, l, now))
			break;
		l->head++;
		l->at = l->is_begun = 0;
		if (l->batch.bytes >= GPU_MARK_LEN || l->batch.ops >= GPU_MARK_OPS)
			lane_mark(dev, l, now);
	}
	lane_mark(dev, l, now);
	return some;
}

static void lane_retire(struct gpu_lane_state *l, uint64_t now)
{
	uint64_t seen = load_acquire(l->word);
	const struct gpu_batch *b;

	if (seen == l->word_seen)
		return;
	l->word_seen = seen;
	l->asked_ns = now;
	for (; l->out_n && l->out[l->out_first].word <= seen; l->out_n--) {
		b = &l->out[l->out_first];
		l->ops -= b->ops;
		l->fed_ops -= b->is_fed ? b->ops : 0;
		l->bytes -= b->bytes;
		l->measured_ops += b->ops;
		l->measured_bytes += b->bytes;
		l->out_first = (l->out_first + 1) % GPU_OPS;
	}
	lane_measure(l, now);
	lane_predict(l, now);
}

/* ---- errors ---- */

/* All that is issued and has no word fails. */
static void lane_fail(struct gpu_lane_state *l)
{
	struct gpu_slot *slot;
	uint32_t i;

	for (i = 0; i < GPU_SLOTS; i++) {
		slot = &l->slots[i];
		if (load_acquire(&slot->state) != GPU_ISSUED ||
		    load_relaxed(&slot->seq) * GPU_PARTS <= l->word_seen)
			continue;
		lane_slot_take(slot, GPU_ISSUED, GPU_FAILED); /* its code is the GPU's */
	}
	l->ops = l->fed_ops = l->out_n = 0;
	l->cut = NULL;
	l->is_due = 0;
	l->bytes = 0;
	memset(&l->batch, 0, sizeof(l->batch));
	lane_predict(l, 0);
}

static void lane_look(struct gpu_dev *dev, struct gpu_lane_state *l, uint64_t now)
{
	int code;

	if (!l->ops)
		return;
	if (l->failed_ns) {
		if (now - l->failed_ns >= GPU_QUIET_NS)
			lane_fail(l);
		return;
	}
	if (now - l->asked_ns < GPU_LATE_NS)
		return;
	l->asked_ns = now;
	code = dev->api->query(dev->ctx, l->stream);
	if (!is_fatal(dev, code))
		return;
	dev_break(dev, code);
	l->failed_ns = now;
}

int lane_turn(struct gpu_dev *dev, struct gpu_lane_state *l, uint64_t now)
{
	int some;

	lane_retire(l, now);
	some = lane_issue(dev, l, now);
	if (l->cut && !l->ops) {
		store_release(&l->cut->state, GPU_FAILED);
		l->cut = NULL;
	}
	lane_look(dev, l, now);
	return some;
}

/* ---- open and close ---- */

int lanes_open(struct gpu_dev *dev)
{
	struct gpu_lane_state *l;
	void *pinned;
	uint32_t i;
	int code = dev->api->pinned_new(dev->ctx, sizeof(*dev->feed) + WORDS_BYTES, &pinned);

	if (code)
		return code;
	dev->feed = pinned;
	dev->words = (void *)(dev->feed + 1);
	dev->tables = (void *)((uint8_t *)dev->words + (size_t)64 * GPU_LANES);
	memset(dev->feed, 0, offsetof(struct gpu_feed, rows));
	memset(dev->words, 0, WORDS_BYTES);
	gather_open(dev);
	for (i = 0; i < GPU_LANES; i++) {
		l = &dev->lanes[i];
		l->word = dev->words + (size_t)8 * i;
		l->rate = GPU_RATE;
		code = dev->api->stream_new(dev->ctx, i == GPU_KERNEL, &l->stream);
		if (code) {
			l->stream = NULL;
			lanes_close(dev);
			return code;
		}
	}
	return 0;
}

void kernels_open(struct gpu_dev *dev)
{
	uint32_t methods = dev->api->has_batch(dev->ctx) ? 1u << GPU_METHOD_BATCH : 0;
	struct gpu_lane_state *l = &dev->lanes[GPU_KERNEL];
	int code;

	store_release(&dev->methods, methods);
	if (!dev->sms)
		return;
	code = dev->api->kernels_load(dev->ctx);
	if (!code)
		code = feed_launch(dev, l); /* later ones wait for nothing */
	if (!code)
		store_release(&dev->methods, methods | 1u << GPU_METHOD_KERNEL);
	else if (is_fatal(dev, code))
		dev_break(dev, code);
}

/* A word is seen a moment before its operation has ended. */
static int stream_is_idle(struct gpu_dev *dev, void *stream)
{
	uint64_t until = clock_ns() + GPU_QUIET_NS;
	int err;

	do {
		err = dev->api->error(dev->api->query(dev->ctx, stream));
	} while (err == -EAGAIN && clock_ns() < until);
	return err != -EAGAIN;
}

void lanes_close(struct gpu_dev *dev)
{
	int are_idle = 1;
	uint32_t i;

	for (i = 0; i < GPU_LANES && dev->lanes[i].stream; i++) {
		are_idle &= stream_is_idle(dev, dev->lanes[i].stream);
		dev->api->stream_free(dev->ctx, dev->lanes[i].stream);
	}
	dev->api->kernels_unload(dev->ctx);
	if (are_idle)
		dev->api->pinned_free(dev->ctx, dev->feed);
}
