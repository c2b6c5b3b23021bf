/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is taken back while the kernel has it: as soon as the kernel gives it back, with
 * however little done, it is not offered to it again. The rest of a WRITE goes nowhere, the rest of
 * an answer is filler, and the peer hears of both. */
#include "stream_pair.h"

#define LEN   8192u
#define PART  1000u
#define THEIR 0x5a
#define NEW   0xdd

enum { WRITE = 1, READ = 3, RESP = 4, NAK = 5, ACK = 7, ACCESS = 1 };

static struct pair pair;
static struct exposure exposure;
static uint64_t memory_space[(sizeof(struct memory) + sizeof(struct span)) / 8];
static uint8_t memory[LEN];

/* One end of which memory is exposed, with a frame of the peer's that names it. */
static struct side *begin(uint8_t kind)
{
	struct memory *m = (struct memory *)(void *)memory_space;
	struct side *s = &pair.side[0];
	uint8_t key[STREAM_KEY_BYTES], frame[STREAM_HEADER] = {kind};
	uint32_t len = LEN;

	pair_init(&pair, 1);
	memset(memory, 0, LEN);
	m->len = LEN;
	m->nspans = 1;
	m->spans[0] = (struct span){.len = LEN, .addr = (uintptr_t)memory, .fd = -1};
	exposure = (struct exposure){.ep = &s->ep,
				     .memory = m,
				     .len = LEN,
				     .rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE,
				     .expires_ns = NEVER_NS};
	CHECK_EQ(stream_expose(&s->grants, &exposure, key, sizeof(key)), sizeof(key));
	memcpy(frame + 4, &len, 4);
	memcpy(frame + 12, &exposure.id, 4);
	CHECK_EQ(stream_rx(&s->stream, frame, STREAM_HEADER), STREAM_HEADER);
	return s;
}

static void take_back(struct side *s)
{
	stream_unexpose(&s->grants, &exposure);
	CHECK_EQ(stream_revoke(&s->stream, &exposure), -EINPROGRESS);
	CHECK_EQ(stream_revoke(&s->stream, &exposure), -EINPROGRESS);
}

static void taken(struct side *s)
{
	CHECK_EQ(stream_stuck(&s->stream), 0);
	memset(memory, NEW, LEN);
}

/* Bytes that the stream sends next, all of them; the last header is *last, but for an ACK. */
static uint32_t sends(struct side *s, uint8_t *to, uint8_t last[STREAM_HEADER])
{
	uint32_t n = 0, i;

	while (stream_next_due(&s->stream) == STREAM_SEND) {
		stream_gather(&s->stream, &s->gather, PIPE_MAX);
		for (i = 0; i < s->gather.niov; n += (uint32_t)s->gather.iov[i++].iov_len)
			memcpy(to + n, s->gather.iov[i].iov_base, s->gather.iov[i].iov_len);
		stream_sent(&s->stream, &s->gather, s->gather.bytes);
	}
	CHECK_GE(n, STREAM_HEADER);
	if (to[n - STREAM_HEADER] == ACK && n > STREAM_HEADER)
		n -= STREAM_HEADER;
	memcpy(last, to + n - STREAM_HEADER, STREAM_HEADER);
	return n;
}

static void receiving(uint32_t came)
{
	static uint8_t rest[LEN], out[LEN];
	struct side *s = begin(WRITE);
	uint8_t last[STREAM_HEADER];
	struct iovec iov[2];
	uint32_t staging, i;

	CHECK_EQ(stream_into(&s->stream, iov, 2, PIPE_MAX, &staging), 1);
	s->stream.rx_lent = 1;
	take_back(s);
	stream_placed(&s->stream, came);
	taken(s);
	CHECK_EQ(stream_into(&s->stream, iov, 2, PIPE_MAX, &staging), 0);
	CHECK_EQ(stream_revoke(&s->stream, &exposure), 0);
	memset(rest, THEIR, LEN);
	CHECK_EQ(stream_rx(&s->stream, rest, LEN - came), LEN - came);
	for (i = 0; i < LEN; i++)
		CHECK_EQ(memory[i], NEW);
	CHECK_EQ(sends(s, out, last), STREAM_HEADER);
	CHECK_EQ(last[0], NAK);
	CHECK_EQ(last[2], ACCESS);
	pair_fini(&pair);
}

/* The kernel is offered so many bytes, and sends some of them. */
static void sending(uint32_t offered, uint32_t went)
{
	static uint8_t out[2 * LEN];
	struct side *s = begin(READ);
	uint8_t last[STREAM_HEADER];
	uint32_t n;

	n = stream_gather(&s->stream, &s->gather, offered);
	s->stream.tx_lent = &s->gather;
	take_back(s);
	stream_sent(&s->stream, &s->gather, went < n ? went : n);
	taken(s);
	n = sends(s, out, last);
	CHECK_EQ(stream_revoke(&s->stream, &exposure), 0);
	CHECK(!memchr(out, NEW, n));
	CHECK_EQ(last[0], RESP);
	CHECK_EQ(last[2], ACCESS);
	pair_fini(&pair);
}

int case_stream_taken(void)
{
	receiving(0);
	receiving(PART);
	receiving(LEN - 1);
	sending(PIPE_MAX, 0);
	sending(PIPE_MAX, STREAM_HEADER - 1);
	sending(PIPE_MAX, PART);
	sending(PART, PART);
	sending(PART, PART / 2);
	return 0;
}
