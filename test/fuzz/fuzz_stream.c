/* SPDX-License-Identifier: Apache-2.0 */
/* A stream whose peer says whatever the input says. First byte: how the bytes arrive, whether sends
 * and receives take effect later, as in a kernel, and whether the rest is the stream itself, or
 * tells of frames that are nearly right. Whatever comes, memory outside the exposure is left alone,
 * every chunk comes out once, and its memory is then left alone, too. */
#include "backend/stream/stream.h"
#include "fuzz.h"

#define CHUNKS 24u
#define POSTS  96u
#define LOCAL  4096u
#define REGION 8192u
#define GUARD  64u

static uint8_t region[GUARD + REGION + GUARD], local[CHUNKS][LOCAL];
static struct chunk chunks[CHUNKS];
static struct stream_cq cq;
static struct stream_gather gather;
static struct stream stream;
static const uint8_t zeros[LOCAL];
static uint32_t out, posted, sent;
static int async;
static struct rkey rkey;

/* Bytes of a buffer of ours from there are zero as they were. */
static void untouched(const uint8_t *bytes, uint32_t from)
{
	must(!memcmp(bytes + from, zeros, LOCAL - from));
}

static void post(struct chunk *c)
{
	static const uint32_t lens[] = {0, 8, 300, 4096};
	uint32_t i = (uint32_t)(c - chunks), n = posted++;

	memset(c, 0, sizeof(*c));
	c->kind = (uint8_t[]){CHUNK_READ, CHUNK_WRITE, CHUNK_SEND}[i % 3];
	c->cls = (uint8_t)(n % 2);
	c->len = lens[(i / 3 + n / CHUNKS) % 4];
	if (c->kind == CHUNK_SEND && c->len > MESSAGE_MAX)
		c->len = MESSAGE_MAX;
	c->local = local[i];
	c->checksum = (uint8_t)(n / 2 % 2);
	c->key = &rkey;
	must(stream_post(&stream, c));
}

/* A READ's bytes are its own; then all are ours again. */
static void came_out(struct chunk *c)
{
	untouched(c->local, c->kind == CHUNK_READ ? c->len : 0);
	memset(c->local, 0, c->len);
	c->op = &out;
	out++;
}

static void take_events(void)
{
	struct event events[16];
	uint32_t i, n;

	stream_cq_recycle(&cq);
	n = stream_events(&cq, events, 16);
	for (i = 0; i < n; i++) {
		if (events[i].type != EVENT_CHUNK) {
			must(events[i].len <= MESSAGE_MAX);
			continue;
		}
		must(!events[i].chunk->op);
		came_out(events[i].chunk);
	}
}

static void post_again(void)
{
	uint32_t i;

	for (i = 0; i < CHUNKS && posted < POSTS; i++) {
		if (chunks[i].op)
			post(&chunks[i]);
	}
}

static void send_some(uint32_t n)
{
	uint32_t bytes;

	if (stream.tx_lent) {
		if (n % 3)
			stream_sent(&stream, &gather, sent);
		return;
	}
	if (stream_next_due(&stream) == STREAM_NOTHING)
		return;
	bytes = stream_gather(&stream, &gather, 2048 + n);
	sent = n % 4 ? n % (bytes + 1) : bytes;
	if (async)
		stream.tx_lent = &gather;
	else
		stream_sent(&stream, &gather, sent);
}

/* Bytes taken, or -EPROTO. */
static ssize_t receive(const uint8_t *data, size_t size, uint32_t how)
{
	uint32_t staging, i, direct = 0, niov = 0, room = stream_cq_room(&cq);
	struct iovec iov[3];
	size_t n;

	if (how & 1)
		niov = stream_into(&stream, iov, 3, 5000, &staging);
	if (niov && async) {
		stream.rx_lent = 1;
		stream_cancel(&chunks[how % CHUNKS], how & 4 ? CANCEL_NOW : CANCEL_ASK);
		take_events();
	}
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

/* A frame as a peer may say it at this moment, of eight bytes of input. How many bytes it has. */
static size_t frame(uint8_t *to, const uint8_t *in, uint32_t grant)
{
	uint32_t len = (in[3] | (in[4] & 0x0fu) << 8) << (in[4] >> 5 & 1), kind = in[0] % 8;
	uint32_t acked = stream.tx.acked + (in[5] >> 4), off = in[6] << 5;
	uint32_t id = kind == 1 || kind == 3 ? grant : stream.tx.answered;
	uint8_t h[STREAM_HEADER] = {(uint8_t)kind, in[1] & 0x0f, in[2] % 6};
	uint32_t sum;

	/* The rest of the answer that is due. */
	if (in[4] & 0x10 && stream.tx.asked != stream.tx.answered)
		len = stream.reads[id % STREAM_READS].len - stream.rx.got;
	if (len > REGION)
		len = REGION;
	id += in[5] & 15;
	memcpy(h + 4, &len, 4);
	memcpy(h + 8, &acked, 4);
	memcpy(h + 12, &id, 4);
	memcpy(h + 16, &off, 4);
	memcpy(to, h, sizeof(h));
	memset(to + sizeof(h), in[7], len);
	if (in[1] & 0x08) {
		sum = kind == 3 || kind > 4 || in[1] & 0x40 ? 0 : crc32c(0, to + sizeof(h), len);
		memcpy(to + 24, &sum, 4);
		sum = crc32c(0, to, 28) ^ (in[1] >> 7);
		memcpy(to + 28, &sum, 4);
	}
	return sizeof(h) + (kind == 1 || kind == 2 || kind == 4 ? len : 0);
}

/* 0, or -EPROTO. */
static int talk(const uint8_t *data, size_t size, uint32_t how, uint32_t *turn)
{
	ssize_t n;

	while (size) {
		send_some(how * 37 + *turn);
		n = receive(data, size, how + (*turn)++);
		if (n < 0)
			return -EPROTO;
		data += n;
		size -= (size_t)n;
		if (*turn % 7 == how % 7)
			stream_cancel(&chunks[*turn % CHUNKS], *turn & 8 ? CANCEL_NOW : CANCEL_ASK);
		take_events();
		if (*turn % 5 == 0)
			post_again();
	}
	return 0;
}

static void talk_frames(const uint8_t *in, size_t size, uint32_t how, uint32_t grant)
{
	static uint8_t told[STREAM_HEADER + REGION];
	uint32_t turn = 0;
	size_t n;

	/* The header by itself, so that a large payload goes straight to its place. */
	for (; size >= 8; in += 8, size -= 8) {
		n = frame(told, in, grant);
		if (talk(told, STREAM_HEADER, how, &turn) ||
		    talk(told + STREAM_HEADER, n - STREAM_HEADER, how, &turn))
			break;
	}
}

static struct memory *make_memory(void)
{
	static _Alignas(16) uint8_t space[sizeof(struct memory) + 2 * sizeof(struct span)];
	struct memory *m = (struct memory *)(void *)space;
	uint64_t at = (uintptr_t)region + GUARD;

	m->len = REGION;
	m->nspans = 2;
	m->spans[0] = (struct span){.len = 5000, .addr = at, .fd = -1};
	m->spans[1] =
		(struct span){.start = 5000, .len = REGION - 5000, .addr = at + 5000, .fd = -1};
	return m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct handles grants;
	struct device dev = {0};
	struct ep ep = {.dev = &dev};
	struct exposure e = {
		.ep = &ep,
		.memory = make_memory(),
		.off = 0,
		.len = REGION,
		.rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE,
		.expires_ns = NEVER_NS,
	};
	uint8_t key[STREAM_KEY_BYTES];
	uint32_t i, turn = 0;

	if (!size || handles_init(&grants, 4, HANDLE_INTERNAL))
		return 0;
	memset(region, 0xa5, sizeof(region));
	out = posted = 0;
	async = data[0] >> 6 & 1;
	stream_cq_init(&cq);
	stream_init(&stream, &ep, &grants, &cq);
	stream_expose(&grants, &e, key, sizeof(key));
	must(!stream_import(key, sizeof(key), REGION, &rkey));
	for (i = 0; i < CHUNKS; i++)
		post(&chunks[i]);
	send_some(data[0] & 0x3f);
	if (data[0] & 0x80)
		talk_frames(data + 1, size - 1, data[0], e.id);
	else
		talk(data + 1, size - 1, data[0], &turn);
	stream_unexpose(&grants, &e);
	stream_revoke(&stream, &e);
	if (stream.tx_lent)
		stream_sent(&stream, &gather, sent);
	must(!stream_revoke(&stream, &e));
	stream_fail(&stream, -ECONNRESET);
	while (!stream_cq_empty(&cq))
		take_events();
	must(out == posted);
	for (i = 0; i < CHUNKS; i++)
		untouched(local[i], 0);
	for (i = 0; i < GUARD; i++)
		must(region[i] == 0xa5 && region[GUARD + REGION + i] == 0xa5);
	handles_fini(&grants);
	return 0;
}
