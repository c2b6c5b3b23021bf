/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts entries into chunks, hands them to devices, and takes them back. Each peer has four lanes:
 * control messages, class latency, small entries, and bulk, which includes large entries of any
 * class. Every iteration gives each lane of each peer its share, one chunk per entry at a time.
 * Neither peers nor entries therefore wait for the large entries of others.
 */
#include "engine/post.h"
#include "engine/stats.h"

#define WINDOW_MIN (256u << 10)
#define WINDOW_MAX (64u << 20)
/* Likewise with GPUs, whose chunks are larger. */
#define WINDOW_GPUS (256u << 20)
/* A rail may have as much bulk under way as it moves in this time. */
#define WINDOW_NS (10 * NSEC_PER_MSEC)
/* Bulk and more urgent chunks together may have this many times as much. */
#define WINDOWS 2u

/* ---- chunks ---- */

/* The chunk has no entry yet: loops over all chunks skip it. */
static struct chunk *chunk_new(struct engine *e, const struct op *op)
{
	struct chunk *c;

	if (!chunk_may(e, op->peer))
		return NULL;
	c = e->chunk_free;
	e->chunk_free = c->next;
	e->chunks_used++;
	e->chunk_peers += !op->peer->chunks++;
	return c;
}

/* ---- posting ---- */

/* NULL also if the rail has no key: an entry waits for the keys of the best rail only. An entry
 * that waits for a bundle becomes the last of its lane. */
static inline __attribute__((always_inline)) struct chunk *
next_chunk(struct engine *e, struct op *op, struct rail *rail, uint64_t most)
{
	struct chunk *c = chunk_new(e, op);
	struct piece p;
	int n;

	if (!c)
		return NULL;
	op->inflight++; /* keeps it alive while the cursor may fail it */
	if (e->gpus)
		n = bundle_next(e, op, rail, most, c, &p);
	else
		n = cursor_next(op, most, rail->number, &p);
	if (n == 1 && !(op->bits & OP_DECIDED)) {
		c->ep = rail->ep;
		c->kind = op_reads(op) ? CHUNK_READ : CHUNK_WRITE;
		c->cls = op->lane >= LANE_BULK ? URCCL_CLASS_BULK : URCCL_CLASS_LATENCY;
		c->flags = (op->sqe.flags & URCCL_SQE_ACKED) && !(op->bits & OP_PROMISED)
				   ? CHUNK_ACKED
				   : 0;
		c->res = 0;
		c->path = 0;
		c->len = (uint32_t)p.len;
		c->local = p.local;
		c->memory = p.memory;
		c->key = &p.remote->rail_keys[rail->number][p.part].key;
		c->off = p.off;
		c->op = op;
		c->seg = p.seg;
		c->taken = 0;
		c->tries = op->tries;
		c->checksum = !!(op->sqe.flags & URCCL_SQE_CHECKSUM);
		return c;
	}
	/* A piece was cut, but a later one failed, or a lookup ended the entry: the chunk is
	 * dropped. */
	if (n == 1 && p.seg < op->first_bad)
		op->first_bad = p.seg;
	c->op = op;
	chunk_free(e, c);
	op->inflight--;
	if ((n == -EAGAIN || n == -EBUSY) && !(op->bits & OP_DECIDED)) {
		if (rail != op->peer->rail)
			return NULL;
		list_del(&op->link);
		if (n == -EBUSY) {
			list_add_tail(&op->link, &op->peer->lanes[op->lane].ops);
			return NULL;
		}
		remote_need_keys(op, (struct engine_remote *)op->cursor.cur.remote);
		return NULL;
	}
	if (n == 0) {
		list_del(&op->link);
		op->bits |= OP_DONE_CURSOR;
	}
	op_check(op);
	return NULL;
}

struct chunk *op_chunk(struct engine *e, struct op *op, struct rail *rail, uint64_t most)
{
	return next_chunk(e, op, rail, most);
}

/* 1: an entry of one range is used up. */
int op_exhausted(const struct op *op)
{
	return op->bits & OP_IS_RANGE && !op->cursor.cur.len &&
	       op->cursor.element.pos == op->cursor.element.len;
}

/* Bytes that may be under way after this iteration. Bulk leaves room for more urgent chunks. */
static uint64_t lane_limit(const struct lane *l, const struct rail *rail)
{
	uint64_t share;

	if (l->number != LANE_BULK)
		return WINDOWS * rail->window;
	share = rail->inflight_bytes + 2 * chunk_bytes(rail);
	return share < rail->window ? share : rail->window;
}

static uint32_t lane_fill(struct engine *e, struct lane *l, struct rail *rail, struct chunk **batch,
			  uint32_t n)
{
	uint64_t bytes = rail->inflight_bytes, limit = lane_limit(l, rail);
	uint64_t most = chunk_limit(rail);
	struct chunk *c;
	struct op *op;

	while (n < POST_BATCH && bytes < limit && !list_empty(&l->ops) && chunk_may(e, l->peer)) {
		op = list_first(&l->ops, struct op, link);
		c = next_chunk(e, op, rail, most);
		if (!c && l->ops.prev == &op->link)
			break;
		if (!c)
			continue;
		bytes += c->len;
		list_del(&op->link);
		if (op_exhausted(op))
			op->bits |= OP_DONE_CURSOR;
		else
			list_add_tail(&op->link, &l->ops);
		if (!e->gpus) {
			batch[n++] = c;
			continue;
		}
		if (!stage_chunk(e, c))
			continue;
		batch[n++] = c;
		if (c->npieces)
			break; /* the GPU moves it while the next one is filled */
	}
	return n;
}

/* Chunks that the device refused are posted first, few at a time. While a device is full this
 * happens in every iteration, and each refused chunk costs a cache miss. */
static uint32_t lane_post(struct engine *e, struct lane *l)
{
	struct rail *rail = l->peer->rail;
	struct chunk *batch[POST_BATCH];
	uint32_t n, took, work = 0;

	if (!rail || !rail->up)
		return 0;
	if (l->number == LANE_BULK && l->peer->nup > 1)
		return lane_stripe(e, l);
	while (l->held.head) {
		for (n = 0; n < HELD_BATCH && l->held.head;) {
			batch[n] = chunk_queue_pop(&l->held);
			n += batch[n]->ep == rail->ep || chunk_bind(batch[n], rail);
		}
		took = batch_post(e, l, rail, batch, n);
		work += took;
		if (took < n || e->given >= LOOK_BYTES)
			return work;
	}
	n = lane_fill(e, l, rail, batch, 0);
	return n ? work + batch_post(e, l, rail, batch, n) : work;
}

/* One round over the lanes of one kind. A lane with more work continues in the next iteration, so
 * that devices are polled in between. */
static uint32_t lanes_post(struct engine *e, struct list *lanes)
{
	struct list round;
	uint32_t work = 0;

	list_init(&round);
	while (!list_empty(lanes)) {
		struct list *first = lanes->next;

		list_del(first);
		list_add_tail(first, &round);
	}
	while (!list_empty(&round)) {
		struct lane *l = list_first(&round, struct lane, link);

		list_del(&l->link);
		work += lane_post(e, l);
		if (l->held.head || !list_empty(&l->ops))
			lane_wake(l);
	}
	return work;
}

uint32_t schedule(struct engine *e)
{
	uint32_t set, number, seen = 0, work = 0;

	while ((set = e->lanes_set & ~seen)) {
		number = (uint32_t)__builtin_ctz(set);
		seen |= (2u << number) - 1;
		e->lanes_set &= ~(1u << number);
		work += lanes_post(e, &e->lanes[number]);
	}
	return work;
}

/* ---- bytes under way ---- */

/* The rate of a rail is the bytes that came out since it was idle, divided by that time. The window
 * follows the rate. */
static void rail_measure(struct engine *e, struct rail *rail, const struct chunk *c)
{
	uint64_t ns, came, rate_window, most;

	if (rail->inflight_bytes + c->len > rail->measured_most)
		rail->measured_most = rail->inflight_bytes + c->len;
	rail->came += c->len;
	stat_add(&rail->bytes[c->kind], c->len);
	if (rail->peer->nup > 1)
		rail_carried(e, rail, c->len);
	if (!rail->measured_ns) {
		rail->measured_ns = e->now;
		rail->measured_from = rail->came;
		return;
	}
	ns = e->now - rail->measured_ns;
	came = rail->came - rail->measured_from;
	/* A full window that came out in less than WINDOW_NS shows that more would have fitted,
	 * even if the rail is never busy for that long. A window that was never half full shows no
	 * lower rate. */
	if (ns < WINDOW_NS && came < rail->window)
		return;
	rate_window =
		ns < WINDOW_NS ? rail->window : (uint64_t)((double)came * WINDOW_NS / (double)ns);
	if (rate_window * 2 >= rail->window)
		rate_window *= 2;
	else if (rail->measured_most >= rail->window / 2)
		rate_window = (rail->window + rate_window * 2) / 2;
	else
		rate_window = rail->window;
	rail->measured_most = 0;
	most = e->gpus ? WINDOW_GPUS : WINDOW_MAX;
	rail->window = rate_window < WINDOW_MIN ? WINDOW_MIN
		       : rate_window > most	? most
						: rate_window;
	rail->measured_ns = e->now;
	rail->measured_from += came;
}

/* The chunk failed: its bytes do not count. */
static void unmeasure(const struct rail *rail, const struct chunk *c)
{
	stat_add(&rail->bytes[c->kind], -(uint64_t)c->len);
}

/* ---- chunks come back ---- */

/* Records what is not proved about the chunk, so that the entry's outcome does not claim it. */
static void data_owes(struct rail *rail, struct op *op, const struct chunk *c)
{
	if (c->flags & CHUNK_UNFLUSHED)
		op->bits |= OP_UNFLUSHED;
	if (c->flags & CHUNK_QUIET)
		return;
	op->bits |= c->res || op_reads(op) ? OP_UNQUIET : OP_UNQUIET | OP_UNPROVED;
	op->flush_key = relay_entry_key(op->peer, c);
	op->flush_rails |= (uint8_t)(1u << rail->number);
	rail->unproved += !op_reads(op);
	if (!rail->up)
		chunk_unproved(rail, op);
}

static inline __attribute__((always_inline)) void chunk_finish(struct engine *e, struct chunk *c,
							       uint32_t gpus)
{
	struct op *op = c->op;

	if (gpus)
		stage_free(e, c);
	chunk_release(e, c);
	op_count_chunk(op, c);
	op_check(op);
}

static inline __attribute__((always_inline)) void data_out(struct engine *e, struct rail *rail,
							   struct chunk *c, uint32_t gpus)
{
	struct op *op = c->op;

	if (c->flags & (CHUNK_FAILOVER | CHUNK_REFUSED) && chunk_fail_over(e, rail, c)) {
		unmeasure(rail, c);
		return;
	}
	op->path |= c->path | rail->path;
	if ((c->flags & (CHUNK_QUIET | CHUNK_UNFLUSHED)) != CHUNK_QUIET)
		data_owes(rail, op, c);
	if (c->res)
		unmeasure(rail, c);
	else if (gpus && stage_in(e, c))
		return;
	chunk_finish(e, c, gpus);
}

/* A function of its own, so that chunks of contexts without GPUs cost one test. */
static __attribute__((noinline)) void data_out_gpus(struct engine *e, struct rail *rail,
						    struct chunk *c)
{
	if (c->seg != RELAY_SEG_READ) {
		data_out(e, rail, c, 1);
		return;
	}
	if (c->flags & (CHUNK_FAILOVER | CHUNK_REFUSED))
		rail_broke(e, rail, c->res);
	relay_read_out(e, c);
}

static void other_out(struct engine *e, struct rail *rail, struct chunk *c)
{
	if (c->flags & CHUNK_FAILOVER)
		rail_broke(e, rail, c->res);
	if (c->kind == CHUNK_FLUSH)
		flush_out(e, c);
	else if (c->seg >= RELAY_SEG)
		relay_chunk_out(e, c->op, c);
	else if (c->seg >= BATCH_SEG)
		atomic_chunk_out(c->op, c);
	else
		note_chunk_out(e, c);
}

void chunk_out(struct engine *e, struct chunk *c)
{
	struct rail *rail = c->ep->owner;

	rail->inflight--;
	rail->inflight_bytes -= c->len;
	if (c->kind == CHUNK_WRITE || c->kind == CHUNK_READ) {
		e->served = c->op;
		rail_measure(e, rail, c);
		if (e->gpus)
			data_out_gpus(e, rail, c);
		else
			data_out(e, rail, c, 0);
	} else {
		other_out(e, rail, c);
	}
}

/* Bytes that a peer moves make no event at its target, but count as work there: more of them may
 * follow soon. */
static uint32_t poll_device(struct engine *e, struct device *dev)
{
	uint32_t i, n = dev->ops->poll(dev, e->events, EVENTS_BATCH);

	for (i = 0; i < n; i++) {
		if (e->events[i].type == EVENT_CHUNK)
			chunk_out(e, e->events[i].chunk);
		else
			rail_event(e, &e->events[i]);
	}
	if (dev->served) {
		dev->served = 0;
		n++;
	}
	return n;
}

/* Devices without rails may only have unauthenticated connections to handle: polling them rarely
 * suffices. */
uint32_t poll_devices(struct engine *e, uint32_t all)
{
	uint32_t i, work = 0;

	for (i = 0; i < e->config.ndevices; i++) {
		struct device *dev = e->config.devices[i];

		if (dev->rails || all)
			work += poll_device(e, dev);
	}
	return work;
}

/* Cancels chunks of stopped entries at all devices. Stops are rare and entries many, so one loop
 * over the pool serves all of them. */
void sweep_chunks(struct engine *e)
{
	uint32_t i;

	e->sweep = 0;
	for (i = 0; i < CHUNKS_MAX && e->chunks_used; i++) {
		struct chunk *c = &e->chunks[i];
		struct op *op = c->op;

		if (!op || !(op->bits & (OP_DECIDED | OP_ABORTED)))
			continue;
		if (!c->taken) {
			op_drop_chunks(op);
			op_check(op);
			continue;
		}
		if (op->bits & OP_ABORTED)
			c->ep->dev->ops->cancel(c, CANCEL_NOW);
		else if (!(c->flags & CHUNK_CANCELLED))
			c->ep->dev->ops->cancel(c, CANCEL_ASK);
	}
}
