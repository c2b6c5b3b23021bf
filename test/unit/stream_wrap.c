/* SPDX-License-Identifier: Apache-2.0 */
/* A message with a checksum is acknowledged with one, also where the numbers wrap. */
#include "stream_pair.h"

#define LEN 8u

static struct pair pair;
static struct chunk chunk;
static uint8_t from[LEN];
static uint32_t out, heard;

static void on_event(struct side *s, const struct event *e)
{
	heard += s == &pair.side[1] && e->type == EVENT_MESSAGE;
	if (e->type != EVENT_CHUNK)
		return;
	CHECK(e->chunk == &chunk);
	CHECK_EQ(e->chunk->res, 0);
	out++;
}

static void pass(struct side *s)
{
	uint32_t n = stream_gather(&s->stream, &s->gather, PIPE_MAX), held;

	pair_copy_out(s, n);
	stream_sent(&s->stream, &s->gather, n);
	held = s->peer->in.n;
	CHECK_EQ(stream_rx(&s->peer->stream, s->peer->in.bytes + s->peer->in.first, held), held);
	pipe_take(&s->peer->in, NULL, held);
	while (!stream_cq_empty(&s->peer->cq))
		pair_events(s->peer);
}

/* As many have gone from 0 to 1 before. */
static void after(uint32_t before)
{
	struct stream *a, *b;

	pair_init(&pair, 1);
	a = &pair.side[0].stream;
	b = &pair.side[1].stream;
	pair.side[0].on_event = pair.side[1].on_event = on_event;
	a->tx.sent = a->tx.acked = a->tx.ack = a->tx.lent_from = before;
	b->rx.placed = b->tx.acks = before;
	out = heard = 0;
	chunk = (struct chunk){.kind = CHUNK_SEND,
			       .cls = URCCL_CLASS_CONTROL,
			       .checksum = 1,
			       .len = LEN,
			       .local = from};
	CHECK_EQ(stream_post(a, &chunk), 1);
	pass(&pair.side[0]);
	CHECK_EQ(heard, 1);
	pass(&pair.side[1]);
	CHECK_EQ(out, 1);
	pair_fini(&pair);
}

int case_stream_wrap(void)
{
	after(0);
	after((1u << 31) + 1);
	after(UINT32_MAX);
	return 0;
}
