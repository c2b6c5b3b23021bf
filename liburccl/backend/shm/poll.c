/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks in, events out. */
#include "backend/shm/shm.h"

#define SLICE	      (64u << 10)  /* bulk moved at a time: fewer, larger pieces are faster */
#define SLICE_BESIDE  (4u << 10)   /* likewise while urgent chunks are recent */
#define BESIDE_ROUNDS 4096u	   /* rounds for which an urgent chunk counts as recent */
#define COPY_BYTES    (256u << 10) /* copied by one poll, to bound its time */
#define COPY_BESIDE   (4u << 10)   /* likewise while urgent chunks are recent */
#define COPY_RUN      (32u << 10)  /* likewise of slots of the relay, whose messages are urgent */
#define POLL_BYTES    (256u << 10) /* bulk of all rings after which a poll ends */
#define POLL_ROUNDS   4u	   /* most that one poll does: the program's entries wait for it */
#define QUICK_LEN     STREAM_COPY  /* chunks up to this never wait behind bulk */
#define URGENT_LEN    (8u << 10)   /* nor do those up to this whose class is above bulk */
#define BESIDE_LEN    (1u << 10)   /* which those above this may share with them, */
#define BULK_LITTLE   (512u << 10) /* while no more than this is under way in the ring of bulk */
#define HOT_FEW	      16u	   /* eps that are polled although they are idle */
#define IDLE_LOOKS    16u	   /* looks at the links after which an ep counts as idle */

/* A chunk's state while it is in a queue of copies; the others are the stream's. */
#define STATE_COPY 0x40u

void shm_chunk_out(struct shm_dev *d, struct chunk *c, int res)
{
	c->state = 0;
	c->res = res;
	c->flags |= CHUNK_QUIET;
	chunk_queue_add(&d->cq.done, c);
}

void shm_chunks_fail(struct shm_ep *e, int res)
{
	struct chunk *c, *next;
	uint32_t w;

	for (w = 0; w < SHM_CHANNELS; w++) {
		for (c = chunk_queue_take(&e->copies[w].q); c; c = next) {
			next = c->next;
			shm_chunk_out(e->dev, c, res);
		}
		e->copies[w].n = e->copies[w].cancelled = 0;
		stream_fail(&e->streams[w], res);
	}
	if (e->njobs)
		shm_gpu_fail(e, res);
}

static enum shm_channel channel_of(const struct chunk *c)
{
	return c->len <= (c->cls == URCCL_CLASS_BULK ? QUICK_LEN : URGENT_LEN) ? SHM_QUICK
									       : SHM_BULK;
}

/* The ring of bulk has room for many chunks, and the other one for a few. So chunks of some KiB go
 * there too, unless bulk of either side would delay them. */
static enum shm_channel ring_of(const struct shm_ep *e, const struct chunk *c)
{
	const struct stream *bulk = &e->streams[SHM_BULK];

	if (c->len <= QUICK_LEN)
		return SHM_QUICK;
	if (c->len > BESIDE_LEN && bulk->tx.bytes <= BULK_LITTLE && !bulk->rx.bulk)
		return SHM_BULK;
	return channel_of(c);
}

static int post_copy(struct shm_ep *e, struct chunk *c, const struct shm_remote *r)
{
	struct shm_queue *q = &e->copies[channel_of(c)];
	int err;

	if (q->n == SHM_COPIES)
		return 0;
	c->flags = 0;
	c->path = 0;
	c->scratch[0] = 0;
	err = shm_remote_holds(r, c);
	if (err) {
		shm_chunk_out(e->dev, c, err);
		return 1;
	}
	c->state = STATE_COPY;
	chunk_queue_add(&q->q, c);
	q->n++;
	return 1;
}

/* The mapped memory that a chunk accesses; NULL: it goes through a ring. */
static const struct shm_remote *mapped_by(const struct chunk *c)
{
	return c->kind == CHUNK_READ || c->kind == CHUNK_WRITE ? shm_remote(c->key) : NULL;
}

static int post_ring(struct shm_ep *e, struct chunk *c)
{
	if (e->dev->no_bounce && (c->kind == CHUNK_READ || c->kind == CHUNK_WRITE)) {
		c->flags = CHUNK_BOUNCES;
		c->path = 0;
		shm_chunk_out(e->dev, c, -EACCES);
		return 1;
	}
	if (!stream_post(&e->streams[ring_of(e, c)], c))
		return 0;
	c->path = URCCL_PATH_BOUNCE_LOCAL | URCCL_PATH_BOUNCE_REMOTE;
	return 1;
}

static int post_one(struct shm_ep *e, struct chunk *c)
{
	const struct shm_remote *r = mapped_by(c);

	if (!r)
		return post_ring(e, c);
	return c->key->gpu ? shm_gpu_post(e, c) : post_copy(e, c, r);
}

uint32_t shm_post(struct ep *ep, struct chunk **chunks, uint32_t n)
{
	struct shm_ep *e = container_of(ep, struct shm_ep, ep);
	uint32_t i;

	if (e->state != SHM_UP) {
		for (i = 0; e->state == SHM_DOWN && i < n; i++) {
			chunks[i]->flags = 0;
			shm_chunk_out(e->dev, chunks[i], e->why);
		}
		return i;
	}
	shm_ep_active(e);
	for (i = 0; i < n && post_one(e, chunks[i]); i++)
		;
	return i;
}

/* Words are copied whole, and without a call. */
static inline void copy_small(void *to, const void *from, uint32_t len)
{
	if (len == sizeof(uint64_t))
		memcpy(to, from, sizeof(uint64_t));
	else
		memcpy(to, from, len);
}

int shm_copy(struct ep *ep, enum chunk_kind kind, const struct rkey *key, uint64_t off, void *local,
	     uint32_t len)
{
	struct shm_ep *e = container_of(ep, struct shm_ep, ep);
	const struct shm_remote *r = shm_remote(key);
	uint8_t *there = r ? shm_remote_host(r, kind, off, len) : NULL;

	if (!there || e->state != SHM_UP || e->copies[SHM_QUICK].n)
		return 0;
	e->dev->beside = BESIDE_ROUNDS;
	copy_small(kind == CHUNK_WRITE ? there : local, kind == CHUNK_WRITE ? local : there, len);
	return 1;
}

void shm_cancel(struct chunk *c, enum cancel_how how)
{
	struct shm_ep *e = container_of(c->ep, struct shm_ep, ep);

	if (c->state == STATE_COPY) {
		c->flags |= CHUNK_CANCELLED;
		e->copies[channel_of(c)].cancelled = 1;
	} else if (c->state == SHM_STATE_GPU) {
		shm_gpu_cancel(e, c);
	} else {
		stream_cancel(c, how);
	}
}

/* ---- poll ---- */

/* Copies the first n chunks of a queue, at most *max bytes. Returns how many have ended, with their
 * res. */
static uint32_t copy_some(struct shm_queue *q, uint32_t *max, uint32_t n)
{
	struct chunk *c = q->q.head;
	uint32_t done;

	for (done = 0; c && done < n && *max; done++, c = c->next) {
		const struct shm_remote *r = shm_remote(c->key);

		c->res = shm_remote_allows(r, c);
		if (c->res)
			continue;
		c->res = shm_remote_copy(r, c, max);
		if (c->res == -EINPROGRESS)
			break;
	}
	return done;
}

/* Makes events of the first n chunks of a queue. */
static void copies_out(struct shm_queue *q, struct event *events, uint32_t n)
{
	struct chunk *c = q->q.head;
	uint32_t i;

	for (i = 0; i < n; i++, c = c->next) {
		c->state = 0;
		c->flags |= CHUNK_QUIET;
		events[i].type = EVENT_CHUNK;
		events[i].chunk = c;
	}
	q->q.head = c;
	q->n -= n;
	if (!c)
		q->q.tail = &q->q.head;
}

/* Cancelled chunks do not wait for the copies before them. One walk ends them all. */
static void drop_cancelled(struct shm_ep *e, struct shm_queue *q)
{
	struct chunk **at = &q->q.head, *c;

	q->cancelled = 0;
	while ((c = *at)) {
		if (!(c->flags & CHUNK_CANCELLED)) {
			at = &c->next;
			continue;
		}
		chunk_queue_del(&q->q, at);
		q->n--;
		shm_chunk_out(e->dev, c, -ECANCELED);
	}
}

/* Copies the chunks of one queue, at most max bytes, into at most n events. */
static uint32_t copies(struct shm_ep *e, enum shm_channel w, uint32_t max, struct event *events,
		       uint32_t n)
{
	struct shm_queue *q = &e->copies[w];
	uint32_t done;

	if (q->cancelled)
		drop_cancelled(e, q);
	done = copy_some(q, &max, n);
	copies_out(q, events, done);
	return done;
}

/* The most bytes that one poll copies for an ep. share: of an ep without slots of the relay. */
static uint32_t copies_most(const struct shm_dev *d, const struct shm_ep *e, uint32_t share)
{
	uint32_t run = COPY_BYTES / d->nhot;

	if (!d->beside || !e->copies[SHM_BULK].q.head->key->run)
		return share;
	return run > COPY_RUN ? COPY_RUN : run < COPY_BESIDE ? COPY_BESIDE : run;
}

/* Small copies of all eps, then slices of the large ones: short slices if small ones are recent. */
static uint32_t copies_all(struct shm_dev *d, struct event *events, uint32_t n)
{
	uint32_t got = 0, max;
	struct shm_ep *e;

	if (!d->nhot)
		return 0;
	list_for_each_entry(e, &d->hot, hot) {
		if (e->copies[SHM_QUICK].n)
			got += copies(e, SHM_QUICK, UINT32_MAX, events + got, n - got);
	}
	if (got)
		d->beside = BESIDE_ROUNDS;
	max = d->beside || d->nhot > COPY_BYTES / COPY_BESIDE ? COPY_BESIDE : COPY_BYTES / d->nhot;
	list_for_each_entry(e, &d->hot, hot) {
		if (e->copies[SHM_BULK].n)
			got += copies(e, SHM_BULK, copies_most(d, e, max), events + got, n - got);
	}
	return got;
}

/* One ep's part of a round. Returns how much bulk moved. */
static uint32_t rings_move(struct shm_ep *e, uint32_t slice)
{
	uint32_t bulk = 0, quick = shm_ring_in(e, SHM_QUICK, slice);

	if (e->state == SHM_UP)
		bulk += shm_ring_in(e, SHM_BULK, slice);
	if (e->state == SHM_UP)
		quick += shm_ring_out(e, SHM_QUICK, slice);
	if (e->state == SHM_UP)
		bulk += shm_ring_out(e, SHM_BULK, slice);
	if (quick)
		e->dev->beside = BESIDE_ROUNDS;
	if (quick | bulk) {
		e->idle = 0;
		e->dev->dev.served = 1;
	}
	return bulk;
}

static uint32_t rings_round(struct shm_dev *d)
{
	uint32_t slice = d->beside ? SLICE_BESIDE : SLICE, bulk = 0;
	struct list *pos, *next;

	d->beside -= d->beside != 0;
	list_for_each_safe(pos, next, &d->hot)
		bulk += rings_move(list_entry(pos, struct shm_ep, hot), slice);
	return bulk;
}

/* Moves bytes until there is an event, no bulk moved, or enough of it did; rounds at most. */
static void rings_all(struct shm_dev *d, uint32_t rounds)
{
	uint32_t moved, sum = 0;
	struct list *pos;

	do {
		moved = rings_round(d);
		sum += moved;
	} while (moved && --rounds && sum < POLL_BYTES && stream_cq_empty(&d->cq));
	list_for_each(pos, &d->hot)
		shm_rings_announce(list_entry(pos, struct shm_ep, hot));
}

/* Events of eps come after those of their chunks. */
static uint32_t notices(struct shm_dev *d, struct event *events, uint32_t n)
{
	static const enum event_type order[] = {EVENT_UP, EVENT_DOWN, EVENT_CLOSED};
	uint32_t got = 0, i;

	while (got < n && !list_empty(&d->notices) && stream_cq_empty(&d->cq)) {
		struct shm_ep *e = list_first(&d->notices, struct shm_ep, notice);

		for (i = 0; i < ARRAY_SIZE(order) && !(e->events_due & 1u << order[i]); i++)
			;
		if (i == ARRAY_SIZE(order)) {
			list_del(&e->notice);
			continue;
		}
		e->events_due &= (uint8_t) ~(1u << order[i]);
		events[got++] = (struct event){
			.type = order[i],
			.res = order[i] == EVENT_DOWN ? e->why : 0,
			.ep = &e->ep,
		};
		if (!e->events_due)
			list_del(&e->notice);
	}
	return got;
}

static int has_more(struct shm_ep *e)
{
	return e->copies[SHM_QUICK].n || e->copies[SHM_BULK].n ||
	       (e->revoked_reported != e->revoked && !shm_gpu_holds(e));
}

/* Drops idle eps from the list of a spinning engine if it has many. */
static void look_at_idle(struct shm_dev *d)
{
	struct shm_ep *e;

	list_for_each_entry_safe(e, &d->hot, hot) {
		shm_mapping_report(e);
		if (d->nhot <= HOT_FEW || e->idle++ < IDLE_LOOKS || has_more(e))
			continue;
		if (shm_rings_sleep(e))
			shm_ep_inactive(e);
	}
}

static void look_at_links(struct shm_dev *d)
{
	d->until_look = SHM_LOOK;
	shm_link_look(d);
	look_at_idle(d);
	if (!list_empty(&d->reaping))
		shm_mapping_reap(d);
}

uint32_t shm_poll(struct device *dev, struct event *events, uint32_t n)
{
	struct shm_dev *d = container_of(dev, struct shm_dev, dev);
	uint32_t got = 0;

	stream_cq_recycle(&d->cq);
	if (!list_empty(&d->jobs))
		shm_gpu_look(d);
	if (!stream_cq_empty(&d->cq))
		got = stream_events(&d->cq, events, n);
	if (!d->until_look--)
		look_at_links(d);
	if (got < n) {
		got += copies_all(d, events + got, n - got);
		rings_all(d, got ? 1 : POLL_ROUNDS);
	}
	if (got < n)
		got += stream_events(&d->cq, events + got, n - got);
	if (got < n && !list_empty(&d->notices))
		got += notices(d, events + got, n - got);
	return got;
}

int shm_arm(struct device *dev)
{
	struct shm_dev *d = container_of(dev, struct shm_dev, dev);
	struct shm_ep *e;

	d->until_look = 0;
	if (!stream_cq_empty(&d->cq) || !list_empty(&d->notices) || !list_empty(&d->reaping))
		return 1;
	list_for_each_entry(e, &d->hot, hot) {
		if (has_more(e) || shm_rings_busy(e))
			return 1;
	}
	/* An ep that has announced its sleep gets a doorbell when needed: stop polling it. */
	list_for_each_entry_safe(e, &d->hot, hot) {
		if (!shm_rings_sleep(e))
			return 1;
		if (e->revoked_reported == e->revoked) /* else it must report after the sleep */
			shm_ep_inactive(e);
	}
	return 0;
}
