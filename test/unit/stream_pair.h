/* SPDX-License-Identifier: Apache-2.0 */
/* Two streams that talk over pipes in memory, every length of send and receive left to a seed. */
#ifndef STREAM_PAIR_H
#define STREAM_PAIR_H

#include "backend/stream/stream.h"
#include "../test.h"

#define PIPE_MAX (256u * 1024)

struct pipe_end {
	uint32_t first, n;
	uint8_t bytes[PIPE_MAX];
};

struct side {
	struct stream stream;
	struct stream_cq cq;
	struct stream_gather gather;
	struct handles grants;
	struct device dev;
	struct ep ep;
	struct pipe_end in;
	struct side *peer;
	int async;			/* sends and receives take effect later, as in a kernel */
	uint32_t lent_n, rx_n;
	struct iovec rx_iov[4];
	void (*on_event)(struct side *side, const struct event *e);
};

struct pair {
	struct side side[2];
	uint64_t seed;
};

static inline uint32_t pair_random(struct pair *p, uint32_t below)
{
	p->seed ^= p->seed << 13;
	p->seed ^= p->seed >> 7;
	p->seed ^= p->seed << 17;
	return below ? (uint32_t)((p->seed >> 33) % below) : 0;
}

/* Lengths at both ends of what may be: often one byte, often all. */
static inline uint32_t pair_part(struct pair *p, uint32_t max)
{
	switch (pair_random(p, 4)) {
	case 0:
		return max;
	case 1:
		return max ? 1 + pair_random(p, max < 40 ? max : 40) : 0;
	default:
		return pair_random(p, max + 1);
	}
}

static inline void pair_init(struct pair *p, uint64_t seed)
{
	int i;

	p->seed = seed * 0x9e3779b97f4a7c15ull + 1;
	for (i = 0; i < 2; i++) {
		struct side *s = &p->side[i];

		CHECK_EQ(handles_init(&s->grants, 1024, HANDLE_INTERNAL), 0);
		stream_cq_init(&s->cq);
		s->ep.dev = &s->dev;
		stream_init(&s->stream, &s->ep, &s->grants, &s->cq);
		s->peer = &p->side[!i];
		s->in.first = s->in.n = 0;
		s->async = 0;
		s->lent_n = s->rx_n = 0;
		s->on_event = NULL;
	}
}

static inline void pair_fini(struct pair *p)
{
	handles_fini(&p->side[0].grants);
	handles_fini(&p->side[1].grants);
}

static inline void pipe_put(struct pipe_end *e, const uint8_t *from, uint32_t n)
{
	CHECK_LE(e->n + n, PIPE_MAX);
	if (e->first + e->n + n > PIPE_MAX) {
		memmove(e->bytes, e->bytes + e->first, e->n);
		e->first = 0;
	}
	memcpy(e->bytes + e->first + e->n, from, n);
	e->n += n;
}

static inline void pipe_take(struct pipe_end *e, uint8_t *to, uint32_t n)
{
	CHECK_LE(n, e->n);
	if (to)
		memcpy(to, e->bytes + e->first, n);
	e->first += n;
	e->n -= n;
}

static inline void pair_copy_out(struct side *s, uint32_t n)
{
	uint32_t i;

	for (i = 0; n; i++) {
		const struct iovec *v = &s->gather.iov[i];
		uint32_t k = v->iov_len < n ? (uint32_t)v->iov_len : n;

		CHECK(i < s->gather.niov);
		pipe_put(&s->peer->in, v->iov_base, k);
		n -= k;
	}
}

static inline void pair_send(struct pair *p, struct side *s)
{
	uint32_t n, room = PIPE_MAX - s->peer->in.n;

	if (s->stream.tx_lent) {
		/* The bytes went out when they were lent; now the kernel says so. */
		stream_sent(&s->stream, &s->gather, s->lent_n);
		return;
	}
	if (stream_next_due(&s->stream) == STREAM_NOTHING)
		return;
	n = stream_gather(&s->stream, &s->gather, STREAM_HELD + pair_random(p, 100000));
	CHECK(n > 0);
	n = pair_part(p, n < room ? n : room);
	pair_copy_out(s, n);
	if (s->async) {
		s->stream.tx_lent = &s->gather;
		s->lent_n = n;
	} else {
		stream_sent(&s->stream, &s->gather, n);
	}
}

/* 0, or what stream_rx() said. */
static inline int pair_staging(struct pair *p, struct side *s, uint32_t max)
{
	static uint8_t buf[65536];
	uint32_t room = stream_cq_room(&s->cq), n = s->in.n;
	ssize_t took;

	if (n > max)
		n = max;
	if (n > room)
		n = room;
	n = pair_part(p, n);
	memcpy(buf, s->in.bytes + s->in.first, n);
	took = stream_rx(&s->stream, buf, n);
	if (took < 0)
		return (int)took;
	CHECK_EQ(took, n);
	pipe_take(&s->in, NULL, n);
	return 0;
}

static inline int pair_receive(struct pair *p, struct side *s)
{
	uint32_t staging, n, i, niov;
	uint32_t total = 0, left;

	if (s->stream.rx_lent) {
		for (i = 0, left = s->rx_n; left; i++) {
			n = s->rx_iov[i].iov_len < left ? (uint32_t)s->rx_iov[i].iov_len : left;
			pipe_take(&s->in, s->rx_iov[i].iov_base, n);
			left -= n;
		}
		stream_placed(&s->stream, s->rx_n);
		return 0;
	}
	niov = stream_into(&s->stream, s->rx_iov, 4, 1 + pair_random(p, 100000), &staging);
	for (i = 0; i < niov; i++)
		total += (uint32_t)s->rx_iov[i].iov_len;
	if (!niov)
		return pair_staging(p, s, staging);
	s->rx_n = pair_part(p, total < s->in.n ? total : s->in.n);
	s->stream.rx_lent = s->async;
	if (s->async)
		return 0;
	for (i = 0, left = s->rx_n; left; i++) {
		n = s->rx_iov[i].iov_len < left ? (uint32_t)s->rx_iov[i].iov_len : left;
		pipe_take(&s->in, s->rx_iov[i].iov_base, n);
		left -= n;
	}
	stream_placed(&s->stream, s->rx_n);
	if (s->rx_n == total && staging)
		return pair_staging(p, s, staging);
	return 0;
}

static inline void pair_events(struct side *s)
{
	struct event events[8];
	uint32_t i, n;

	stream_cq_recycle(&s->cq);
	n = stream_events(&s->cq, events, 8);
	for (i = 0; i < n; i++)
		s->on_event(s, &events[i]);
}

/* One turn of a side chosen by the seed. 0, or the peer's fault. */
static inline int pair_turn(struct pair *p)
{
	struct side *s = &p->side[pair_random(p, 2)];
	int rc = 0;

	switch (pair_random(p, 3)) {
	case 0:
		pair_send(p, s);
		break;
	case 1:
		rc = pair_receive(p, s);
		break;
	default:
		pair_events(s);
		break;
	}
	return rc;
}

#endif
