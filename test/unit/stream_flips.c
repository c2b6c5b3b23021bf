/* SPDX-License-Identifier: Apache-2.0 */
/* Each bit of what a peer says of entries with checksums is flipped in turn: none that was refused,
 * or never got there, comes out as success. */
#include "stream_pair.h"

#define WRITES 4u
#define LEN    8u

static struct pair pair;
static struct chunk chunks[WRITES];
static uint8_t from[LEN], to[WRITES * LEN];
static uint32_t out, succeeded; /* chunks, and bits of those that came out with 0 */

static void on_event(struct side *s, const struct event *e)
{
	(void)s;
	CHECK_EQ(e->type, EVENT_CHUNK);
	out++;
	if (!e->chunk->res)
		succeeded |= 1u << (e->chunk - chunks);
}

/* What is to be sent now, whole. */
static uint32_t said(struct side *s, uint8_t *bytes)
{
	uint32_t i, n = stream_gather(&s->stream, &s->gather, PIPE_MAX), at = 0;

	for (i = 0; i < s->gather.niov; i++) {
		memcpy(bytes + at, s->gather.iov[i].iov_base, s->gather.iov[i].iov_len);
		at += (uint32_t)s->gather.iov[i].iov_len;
	}
	CHECK_EQ(at, n);
	stream_sent(&s->stream, &s->gather, n);
	return n;
}

static void post_all(const struct rkey *rkey)
{
	uint32_t i;

	for (i = 0; i < WRITES; i++) {
		chunks[i] = (struct chunk){.kind = CHUNK_WRITE,
					   .cls = URCCL_CLASS_LATENCY,
					   .checksum = 1,
					   .len = LEN,
					   .local = from,
					   .key = rkey,
					   .off = i * LEN};
		CHECK_EQ(stream_post(&pair.side[0].stream, &chunks[i]), 1);
	}
}

/* The peer hears of the first `heard` WRITEs, of which it takes those of `taken` bytes; bit `flip`
 * of its answer is another. How many bits its answer has, or 0 where that breaks the connection. */
static uint32_t answered(uint32_t heard, uint64_t taken, uint32_t flip)
{
	static _Alignas(16) uint8_t space[sizeof(struct memory) + sizeof(struct span)];
	struct memory *m = (struct memory *)(void *)space;
	struct exposure e = {.ep = &pair.side[1].ep,
			     .memory = m,
			     .len = taken,
			     .rights = URCCL_RIGHT_WRITE,
			     .expires_ns = NEVER_NS};
	uint8_t key[STREAM_KEY_BYTES], bytes[WRITES * 2 * STREAM_HEADER];
	struct rkey rkey;
	uint32_t n;
	ssize_t took;

	m->len = sizeof(to);
	m->nspans = 1;
	m->spans[0] = (struct span){.len = sizeof(to), .addr = (uintptr_t)to, .fd = -1};
	pair_init(&pair, 1);
	pair.side[0].on_event = on_event;
	out = succeeded = 0;
	stream_expose(&pair.side[1].grants, &e, key, sizeof(key));
	CHECK_EQ(stream_import(key, sizeof(key), taken, &rkey), 0);
	post_all(&rkey);
	CHECK_EQ(said(&pair.side[0], bytes), sizeof(bytes) / 2 + WRITES * LEN);
	n = heard * (STREAM_HEADER + LEN);
	CHECK_EQ(stream_rx(&pair.side[1].stream, bytes, n), n);
	n = said(&pair.side[1], bytes);
	CHECK_EQ(n % STREAM_HEADER, 0);
	if (flip < 8 * n)
		bytes[flip / 8] ^= (uint8_t)(1u << flip % 8);
	took = stream_rx(&pair.side[0].stream, bytes, n);
	stream_unexpose(&pair.side[1].grants, &e);
	stream_fail(&pair.side[0].stream, -ECONNRESET);
	while (!stream_cq_empty(&pair.side[0].cq))
		pair_events(&pair.side[0]);
	CHECK_EQ(out, WRITES);
	pair_fini(&pair);
	return took < 0 ? 0 : 8 * n;
}

static void flips(uint32_t heard, uint64_t taken)
{
	uint32_t good = (1u << taken / LEN) - 1, bits = answered(heard, taken, UINT32_MAX);
	uint32_t i, broken = 0;

	CHECK(bits);
	CHECK_EQ(succeeded, good);
	for (i = 0; i < bits; i++) {
		broken += !answered(heard, taken, i);
		CHECK_EQ(succeeded & ~good, 0);
	}
	CHECK_EQ(broken, bits);
}

int case_stream_flips(void)
{
	flips(2, sizeof(to) / 2);
	flips(WRITES, 0);
	flips(WRITES, sizeof(to) / 2);
	return 0;
}
