/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves bytes of the streams through the rings. An ep has two channels: small and urgent frames
 * have a ring that bulk never fills.
 *
 * The peer's words are accepted only if they are a possible next value, so that whatever it
 * writes there, we stay inside the rings; the stream reads no byte twice.
 */
#include "backend/shm/shm.h"

static uint32_t ring_size(const struct shm_ring *r)
{
	return r->mask + 1;
}

/* A spinning peer sees the store at once; shm_rings_announce() wakes a sleeping one. */
static void publish(struct shm_ep *e, struct shm_ring *r, uint32_t doorbell)
{
	r->published = r->at;
	store_release(r->mine, r->at);
	e->unannounced |= doorbell;
}

/* The poster's half of the sleep handshake, once for all that was published. The peer does not spin
 * on `said`, else each side would wait for the cache line of the other. */
void shm_rings_announce(struct shm_ep *e)
{
	uint32_t *asleep = &e->pages.side[1]->asleep, doorbell = e->unannounced;

	if (!doorbell)
		return;
	e->unannounced = 0;
	__atomic_store_n(&e->pages.side[0]->said, ++e->said, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(asleep, __ATOMIC_SEQ_CST) & doorbell && sleep_take(asleep))
		shm_link_doorbell(e);
}

/* 0 or -EPROTO: a head that goes back, or is more than a ring ahead of what we took. */
static int head_look(struct shm_ring *r)
{
	uint32_t head = load_acquire(r->theirs);

	if (head - r->at < r->seen - r->at || head - r->at > ring_size(r))
		return -EPROTO;
	r->seen = head;
	return 0;
}

/* 0 or -EPROTO: a tail that goes back, or is ahead of what we put. */
static int tail_look(struct shm_ring *r)
{
	uint32_t tail = load_acquire(r->theirs);

	if (r->at - tail > r->at - r->seen)
		return -EPROTO;
	r->seen = tail;
	return 0;
}

/* Gives the stream up to n bytes, as far as they are contiguous. */
static uint32_t ring_take(struct shm_ep *e, enum shm_channel w, uint32_t n)
{
	struct shm_ring *r = &e->pages.in[w];
	uint32_t to_end = ring_size(r) - (r->at & r->mask);
	ssize_t used;

	used = stream_rx(&e->streams[w], r->bytes + (r->at & r->mask), n < to_end ? n : to_end);
	if (used < 0) {
		shm_ep_lost(e, (int)used);
		return 0;
	}
	r->at += (uint32_t)used;
	return (uint32_t)used;
}

uint32_t shm_ring_in(struct shm_ep *e, enum shm_channel w, uint32_t max)
{
	struct shm_ring *r = &e->pages.in[w];
	uint32_t n, used;

	if (r->seen == r->at) {
		if (head_look(r)) {
			shm_ep_lost(e, -EPROTO);
			return 0;
		}
		if (r->seen == r->at)
			return 0;
	}
	n = r->seen - r->at < max ? r->seen - r->at : max;
	used = ring_take(e, w, n);
	/* Go on at the start of the ring. */
	if (used && used < n)
		used += ring_take(e, w, n - used);
	/* The unpublished rest always leaves the writer room for any frame. */
	if (r->at - r->published >= ring_size(r) / 8)
		publish(e, r, SHM_FOR_ROOM);
	return used;
}

static void ring_put(struct shm_ring *r, const struct iovec *iov, uint32_t n)
{
	uint32_t i, at = r->at;

	for (i = 0; i < n; i++) {
		const uint8_t *from = iov[i].iov_base;
		uint32_t len = (uint32_t)iov[i].iov_len;
		uint32_t to_end = ring_size(r) - (at & r->mask);
		uint32_t first = len < to_end ? len : to_end;

		memcpy(r->bytes + (at & r->mask), from, first);
		if (len > first)
			memcpy(r->bytes, from + first, len - first);
		at += len;
	}
	r->at = at;
}

/* Free bytes in the out ring, at most max. */
static uint32_t ring_room(struct shm_ep *e, enum shm_channel w, uint32_t max)
{
	struct shm_ring *r = &e->pages.out[w];
	uint32_t room = ring_size(r) - (r->at - r->seen);

	if (room < max) {
		if (tail_look(r)) {
			shm_ep_lost(e, -EPROTO);
			return 0;
		}
		room = ring_size(r) - (r->at - r->seen);
	}
	e->blocked[w] = room < STREAM_HELD;
	return room < max ? room : max;
}

/* 1: received bytes are unread; they come first. */
static int is_behind(const struct shm_ep *e, enum shm_channel w)
{
	const struct shm_ring *in = &e->pages.in[w];

	return in->seen != in->at;
}

uint32_t shm_ring_out(struct shm_ep *e, enum shm_channel w, uint32_t max)
{
	struct stream_gather *g = &e->dev->gather;
	struct stream *s = &e->streams[w];
	enum stream_due due = stream_next_due(s);
	uint32_t n;

	if (due == STREAM_NOTHING)
		return 0;
	if (due == STREAM_ACK && is_behind(e, w))
		return 0;
	n = ring_room(e, w, max);
	if (n < STREAM_HELD)
		return 0;
	n = stream_gather(s, g, n);
	ring_put(&e->pages.out[w], g->iov, g->niov);
	stream_sent(s, g, n);
	if (n)
		publish(e, &e->pages.out[w], SHM_FOR_BYTES);
	return n;
}

/* 1: bytes can move. A changed word counts, even an invalid one. */
static int channel_busy(const struct shm_ep *e, enum shm_channel w)
{
	const struct shm_ring *in = &e->pages.in[w], *out = &e->pages.out[w];

	if (in->seen != in->at || load_acquire(in->theirs) != in->seen)
		return 1;
	if (stream_next_due(&e->streams[w]) == STREAM_NOTHING)
		return 0;
	return !e->blocked[w] || load_acquire(out->theirs) != out->seen;
}

int shm_rings_busy(const struct shm_ep *e)
{
	return channel_busy(e, SHM_QUICK) || channel_busy(e, SHM_BULK);
}

int shm_rings_sleep(struct shm_ep *e)
{
	uint32_t doorbell = SHM_FOR_BYTES;

	if (e->doorbell_due)
		shm_link_recv(e);
	if (e->state != SHM_UP)
		return 0;
	if (e->blocked[SHM_QUICK] || e->blocked[SHM_BULK])
		doorbell |= SHM_FOR_ROOM;
	e->announced = 1;
	sleep_announce(&e->pages.side[0]->asleep, doorbell);
	/* For the order, not the value: a peer that publishes later sees the announcement; if it
	 * published before, we see its words. */
	(void)__atomic_load_n(&e->pages.side[1]->said, __ATOMIC_SEQ_CST);
	if (!shm_rings_busy(e))
		return 1;
	shm_rings_awake(e);
	return 0;
}

void shm_rings_awake(struct shm_ep *e)
{
	if (!e->announced)
		return;
	e->announced = 0;
	if (!sleep_take(&e->pages.side[0]->asleep))
		e->doorbell_due = 1;
}
