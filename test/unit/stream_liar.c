/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that breaks a rule is told so at that frame, and what was under way comes out once. */
#include "stream_pair.h"

struct lie {
	const char *what;
	uint8_t kind, flags, status, reserved0;
	uint32_t len, acked, id;
	uint64_t off, sums;
};

enum { WRITE = 1, SEND, READ, RESP, NAK, DROP, ACK };

#define CHECK_FLAG 8u

/* Said to a stream that sent two WRITEs and a SEND, all unacknowledged, and a READ of 600 bytes;
 * both kinds are numbered from 0. */
static const struct lie lies[] = {
	{.what = "no kind", .kind = 0},
	{.what = "an unknown kind", .kind = 8},
	{.what = "a flag on a WRITE", .kind = WRITE, .flags = 1},
	{.what = "an unknown flag", .kind = RESP, .flags = 2},
	{.what = "a reserved byte", .kind = ACK, .reserved0 = 1},
	{.what = "a checksum without CHECK", .kind = ACK, .sums = 1},
	{.what = "an unknown status", .kind = NAK, .status = 5},
	{.what = "a status on a SEND", .kind = SEND, .status = 1},
	{.what = "a SEND too long", .kind = SEND, .len = MESSAGE_MAX + 1},
	{.what = "a SEND with an offset", .kind = SEND, .off = 1},
	{.what = "more acknowledged than sent", .kind = ACK, .acked = 4},
	{.what = "less acknowledged than before", .kind = ACK, .acked = UINT32_MAX},
	{.what = "a payload on an ACK", .kind = ACK, .len = 1},
	{.what = "an answer to another READ", .kind = RESP, .id = 1, .len = 600},
	{.what = "too long an answer", .kind = RESP, .len = 601},
	{.what = "too short an answer", .kind = RESP, .len = 599},
	{.what = "a refusal with a payload", .kind = RESP, .status = 1, .len = 600},
	{.what = "a refusal that goes on", .kind = RESP, .status = 1, .flags = 1},
	{.what = "a NAK without a reason", .kind = NAK},
	{.what = "a NAK for what was not sent", .kind = NAK, .status = 1, .id = 3},
	{.what = "a NAK for a SEND", .kind = NAK, .status = 1, .id = 2},
	{.what = "a DROP of what was not asked", .kind = DROP, .id = 0},
};

static struct pair pair;
static struct chunk chunks[4];
static uint8_t bytes[4][600];
static uint32_t out;

static void on_event(struct side *s, const struct event *e)
{
	(void)s;
	CHECK_EQ(e->type, EVENT_CHUNK);
	CHECK_EQ(e->chunk->res, -ECONNRESET);
	out++;
}

static void post_all(struct side *s, const struct rkey *rkey)
{
	static const uint8_t kinds[] = {CHUNK_WRITE, CHUNK_WRITE, CHUNK_SEND, CHUNK_READ};
	uint32_t i, n;

	for (i = 0; i < 4; i++) {
		memset(&chunks[i], 0, sizeof(chunks[i]));
		chunks[i].kind = kinds[i];
		chunks[i].len = kinds[i] == CHUNK_READ ? 600 : 8;
		chunks[i].local = bytes[i];
		chunks[i].key = rkey;
		/* One class, so that the SEND keeps its place behind the WRITEs. */
		chunks[i].cls = URCCL_CLASS_LATENCY;
		CHECK_EQ(stream_post(&s->stream, &chunks[i]), 1);
	}
	n = stream_gather(&s->stream, &s->gather, PIPE_MAX);
	stream_sent(&s->stream, &s->gather, n);
	CHECK_EQ(stream_next_due(&s->stream), STREAM_NOTHING);
}

static void put(uint8_t *h, const struct lie *l)
{
	int summed = l->kind == NAK || l->kind == DROP;
	uint8_t head[] = {l->kind, (uint8_t)(l->flags | (summed ? CHECK_FLAG : 0)), l->status,
			  l->reserved0};
	uint32_t sum;

	memcpy(h, head, 4);
	memcpy(h + 4, &l->len, 4);
	memcpy(h + 8, &l->acked, 4);
	memcpy(h + 12, &l->id, 4);
	memcpy(h + 16, &l->off, 8);
	memcpy(h + 24, &l->sums, 8);
	if (!summed)
		return;
	sum = crc32c(0, h, 28);
	memcpy(h + 28, &sum, 4);
}

static void tell(const struct lie *lie, uint32_t cut)
{
	struct rkey rkey = {0};
	struct side *s = &pair.side[0];
	uint8_t header[STREAM_HEADER];
	ssize_t n;

	pair_init(&pair, 1);
	s->on_event = on_event;
	out = 0;
	post_all(s, &rkey);
	put(header, lie);
	n = cut ? stream_rx(&s->stream, header, cut) : 0;
	CHECK_EQ(n, cut);
	n = stream_rx(&s->stream, header + cut, sizeof(header) - cut);
	if (n != -EPROTO)
		fprintf(stderr, "not noticed: %s\n", lie->what);
	CHECK_EQ(n, -EPROTO);
	CHECK_EQ(stream_rx(&s->stream, header, sizeof(header)), -EPROTO);
	stream_fail(&s->stream, -ECONNRESET);
	while (!stream_cq_empty(&s->cq))
		pair_events(s);
	CHECK_EQ(out, 4);
	pair_fini(&pair);
}

int case_stream_liar(void)
{
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(lies); i++) {
		tell(&lies[i], 0);
		tell(&lies[i], 1 + i % (STREAM_HEADER - 1));
	}
	return 0;
}
