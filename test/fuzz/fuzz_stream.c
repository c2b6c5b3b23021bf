/* SPDX-License-Identifier: Apache-2.0 */
/* A stream whose peer says whatever the input says. First byte: how the bytes arrive, and whether
 * the rest is the stream itself, or tells of frames that are nearly right. Whatever comes, memory
 * outside the exposure is left alone and every chunk comes out once. */
#include "backend/stream.h"

#define CHUNKS 24u
#define REGION 8192u
#define GUARD  64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t told[1u << 18];
static uint8_t region[GUARD + REGION + GUARD], local[CHUNKS][4096];
static struct chunk chunks[CHUNKS];
static struct stream_sink sink;
static struct stream_gather gather;
static struct stream stream;
static uint32_t out;

static void must(int cond)
{
	if (!cond)
		__builtin_trap();
}

static void take_events(void)
{
	struct event events[16];
	uint32_t i, n;

	stream_sink_recycle(&sink);
	n = stream_events(&sink, events, 16);
	for (i = 0; i < n; i++) {
		if (events[i].type != EVENT_CHUNK) {
			must(events[i].len <= MESSAGE_MAX);
			continue;
		}
		must(!events[i].chunk->op);
		events[i].chunk->op = &out;
		out++;
	}
}

static void post_some(struct rkey *rkey)
{
	static const uint32_t lens[] = {0, 8, 300, 4096};
	uint32_t i;

	for (i = 0; i < CHUNKS; i++) {
		struct chunk *c = &chunks[i];

		memset(c, 0, sizeof(*c));
		c->kind = (uint8_t[]){CHUNK_READ, CHUNK_WRITE, CHUNK_SEND}[i % 3];
		c->cls = (uint8_t)(i % 2);
		c->len = lens[i / 3 % 4];
		if (c->kind == CHUNK_SEND && c->len > MESSAGE_MAX)
			c->len = MESSAGE_MAX;
		c->local = local[i];
		c->key = rkey;
		stream_post(&stream, c);
	}
}

static void send_some(uint32_t n)
{
	uint32_t bytes;

	if (stream_wants(&stream) == STREAM_NOTHING)
		return;
	bytes = stream_gather(&stream, &gather, 2048 + n);
	stream_sent(&stream, &gather, n % 4 ? n % (bytes + 1) : bytes);
}

/* Bytes taken, or -EPROTO. */
static ssize_t receive(const uint8_t *data, size_t size, uint32_t how)
{
	uint32_t staging, i, direct = 0, niov = 0, room = stream_sink_room(&sink);
	struct iovec iov[3];
	size_t n;

	if (how & 1)
		niov = stream_into(&stream, iov, 3, 5000, &staging);
	for (i = 0; i < niov && direct < size; i++) {
		n = iov[i].iov_len < size - direct ? iov[i].iov_len : size - direct;
		memcpy(iov[i].iov_base, data + direct, n);
		direct += (uint32_t)n;
	}
	if (niov) {
		stream_placed(&stream, direct);
		return direct;
	}
	n = how & 2 ? 1 + how % 61 : size;
	if (n > size)
		n = size;
	return stream_rx(&stream, data, n < room ? n : room);
}

/* Frames with what a peer may know: eight bytes of input each. */
static size_t frames(uint8_t *to, size_t max, const uint8_t *in, size_t size, uint32_t grant)
{
	size_t at = 0;

	for (; size >= 8 && max - at >= STREAM_HEADER + 4096; in += 8, size -= 8) {
		uint32_t len = in[3] | (in[4] & 0x0fu) << 8;
		uint32_t acked = stream.tx.acked + (in[5] >> 4), off = in[6] << 5;
		uint32_t id = in[0] % 8 == 1 || in[0] % 8 == 3 ? grant : stream.tx.answered;
		uint8_t h[STREAM_HEADER] = {in[0] % 8, in[1] & 7, in[2] % 5};

		id += in[5] & 15;
		memcpy(h + 4, &len, 4);
		memcpy(h + 8, &acked, 4);
		memcpy(h + 12, &id, 4);
		memcpy(h + 16, &off, 4);
		memcpy(to + at, h, sizeof(h));
		at += sizeof(h);
		memset(to + at, in[7], len);
		if (in[0] % 8 == 1 || in[0] % 8 == 2 || in[0] % 8 == 4)
			at += len;
	}
	return at;
}

static void talk(const uint8_t *data, size_t size, uint32_t how)
{
	uint32_t turn = 0;
	ssize_t n;

	while (size) {
		send_some(how * 37 + turn);
		n = receive(data, size, how + turn++);
		if (n < 0)
			return;
		data += n;
		size -= (size_t)n;
		if (turn % 7 == how % 7)
			stream_cancel(&chunks[turn % CHUNKS], turn & 8 ? CANCEL_NOW : CANCEL_ASK);
		take_events();
	}
}

static struct memory *make_memory(void)
{
	static _Alignas(16) uint8_t space[sizeof(struct memory) + 2 * sizeof(struct span)];
	struct memory *m = (struct memory *)(void *)space;
	uint64_t at = (uintptr_t)region + GUARD;

	m->len = REGION;
	m->nspans = 2;
	m->spans[0] = (struct span){0, 5000, at, 0, -1};
	m->spans[1] = (struct span){5000, REGION - 5000, at + 5000, 0, -1};
	return m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct handles grants;
	struct ep ep = {0};
	struct exposure e = {
		.ep = &ep,
		.memory = make_memory(),
		.off = 0,
		.len = REGION,
		.rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE,
		.expires_ns = NEVER_NS,
	};
	uint8_t key[STREAM_KEY_BYTES];
	struct rkey rkey;
	uint32_t i;

	if (!size || handles_init(&grants, 4))
		return 0;
	memset(region, 0xa5, sizeof(region));
	out = 0;
	stream_sink_init(&sink);
	stream_init(&stream, &ep, &grants, &sink);
	stream_expose(&grants, &e, key, sizeof(key));
	must(!stream_import(key, sizeof(key), REGION, &rkey));
	post_some(&rkey);
	send_some(0);
	if (data[0] & 0x80)
		talk(told, frames(told, sizeof(told), data + 1, size - 1, e.id), data[0]);
	else
		talk(data + 1, size - 1, data[0]);
	stream_unexpose(&grants, &e);
	must(!stream_revoke(&stream, &e));
	stream_fail(&stream, -ECONNRESET);
	while (!stream_sink_empty(&sink))
		take_events();
	must(out == CHUNKS);
	for (i = 0; i < GUARD; i++)
		must(region[i] == 0xa5 && region[GUARD + REGION + i] == 0xa5);
	handles_fini(&grants);
	return 0;
}
