/* SPDX-License-Identifier: Apache-2.0 */
/* While the kernel has bytes of a stream: an answer to a request that was not sent after all, and a
 * READ that is cancelled as the last of its bytes come. */
#include "stream_pair.h"

enum { RESP = 4, MORE = 1 };

static struct pair pair;
static uint8_t bytes[8192], next[8 + 1024];
static struct chunk *last;
static uint32_t out;

static void on_event(struct side *s, const struct event *e)
{
	(void)s;
	CHECK_EQ(e->type, EVENT_CHUNK);
	last = e->chunk;
	out++;
}

static void begin(struct side *s)
{
	pair_init(&pair, 1);
	s->on_event = on_event;
	out = 0;
}

static void end(struct side *s, uint32_t chunks)
{
	stream_fail(&s->stream, -ECONNRESET);
	while (!stream_cq_empty(&s->cq))
		pair_events(s);
	CHECK_EQ(out, chunks);
	pair_fini(&pair);
}

static void post_read(struct side *s, struct chunk *c, void *to, uint32_t len)
{
	static const struct rkey rkey;

	memset(c, 0, sizeof(*c));
	c->kind = CHUNK_READ;
	c->local = to;
	c->len = len;
	c->key = &rkey;
	CHECK_EQ(stream_post(&s->stream, c), 1);
	CHECK(stream_gather(&s->stream, &s->gather, PIPE_MAX) > 0);
}

/* An answer of the peer to READ 0, with payload of its own. */
static ssize_t answer(struct side *s, uint8_t flags, uint32_t len, uint32_t payload)
{
	static uint8_t frame[STREAM_HEADER + 1024];

	memset(frame, 0, STREAM_HEADER);
	memset(frame + STREAM_HEADER, 0x5a, 1024);
	frame[0] = RESP;
	frame[1] = flags;
	memcpy(frame + 4, &len, 4);
	return stream_rx(&s->stream, frame, STREAM_HEADER + payload);
}

/* Part of an answer that came too early is no part of the answer to another READ. */
static void early(void)
{
	struct side *s = &pair.side[0];
	struct chunk a, b;
	uint32_t i;

	begin(s);
	post_read(s, &a, bytes, 600);
	s->stream.tx_lent = &s->gather;
	CHECK_EQ(answer(s, MORE, 599, 599), STREAM_HEADER + 599);
	stream_sent(&s->stream, &s->gather, 0);
	stream_cancel(&a, CANCEL_NOW);
	memset(next, 0, sizeof(next));
	post_read(s, &b, next, 8);
	stream_sent(&s->stream, &s->gather, s->gather.bytes);
	CHECK_EQ(answer(s, MORE, 400, 400), -EPROTO);
	for (i = 0; i < sizeof(next); i++)
		CHECK_EQ(next[i], 0);
	end(s, 2);
}

/* The end of the answer, which is the peer's to send, is not waited for. */
static void cancelled(uint32_t came)
{
	struct side *s = &pair.side[0];
	struct iovec iov[2];
	uint32_t staging;
	struct chunk c;

	begin(s);
	post_read(s, &c, bytes, sizeof(bytes));
	stream_sent(&s->stream, &s->gather, s->gather.bytes);
	CHECK_EQ(answer(s, MORE, sizeof(bytes), 0), STREAM_HEADER);
	CHECK_EQ(stream_into(&s->stream, iov, 2, PIPE_MAX, &staging), 1);
	CHECK_EQ(iov[0].iov_len, sizeof(bytes));
	s->stream.rx_lent = 1;
	stream_cancel(&c, CANCEL_NOW);
	CHECK_EQ(stream_stuck(&s->stream), STREAM_STUCK_RX);
	pair_events(s);
	CHECK_EQ(out, 0);
	stream_placed(&s->stream, came);
	CHECK_EQ(stream_stuck(&s->stream), 0);
	pair_events(s);
	CHECK(out == 1 && last == &c && c.res == -ECANCELED);
	end(s, 1);
}

int case_stream_lent(void)
{
	early();
	cancelled(0);
	cancelled(100);
	cancelled(sizeof(bytes));
	return 0;
}
