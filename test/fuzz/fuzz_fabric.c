/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a peer over libfabric can send: its ep's address, keys, messages of any kind at any time,
 * while chunks are under way, memory is exposed and ways are made anew. Each chunk comes out once,
 * and what was opened is closed. The provider (fabric_stub.h) has every operation until the input
 * says that it is done, and the helper does its jobs when the input says so. First byte: what the
 * provider is like; then deeds.
 */
#include <stdlib.h>

#include <backend/fabric/key.h>
#include "fabric_stub.h"

#define LEN    4096u
#define CHUNKS 8u
#define KEYS   3u
#define EVENTS 64u

static struct fabric_device d;
static struct extent extent;
static struct fi_info info;
static struct fi_ep_attr ep_attr = {.max_msg_size = LEN / 4};
static struct fi_domain_attr domain_attr = {.av_type = FI_AV_TABLE};
static struct fabric_ep *e;
static uint8_t bytes[LEN], local[LEN];
static struct memory *memory;
static struct exposure exposure;
static struct pin pin;
static struct rkey keys[KEYS];
static struct chunk chunks[CHUNKS];
static uint32_t is_out[CHUNKS]; /* they are the provider's side */
static uint32_t closed, sum;

/* ---- both sides of the ep ---- */

static void help(void)
{
	struct msg *m = mailbox_take(&d.to_helper), *next;

	for (; m; m = next) {
		int res;

		next = m->next;
		do
			res = fabric_helper_work(&d, m);
		while (res > 0);
		msg_reply(m, res);
	}
}

static void on_chunk(const struct chunk *c)
{
	uint32_t i = (uint32_t)(c - chunks);

	must(i < CHUNKS && is_out[i]);
	is_out[i] = 0;
}

static void poll_once(void)
{
	struct event events[EVENTS];
	uint32_t n = backend_fabric.poll(&d.dev, events, EVENTS), i;

	must(n <= EVENTS);
	for (i = 0; i < n; i++) {
		if (events[i].type == EVENT_CHUNK)
			on_chunk(events[i].chunk);
		if (events[i].type == EVENT_MESSAGE) {
			must(events[i].len <= MESSAGE_MAX);
			sum = crc32c(sum, events[i].data, events[i].len); /* it is all there */
		}
		closed |= events[i].type == EVENT_CLOSED;
	}
}

/* It comes to talk, if that has a receive for it. */
static void comes(const void *message, uint32_t len)
{
	struct endpoint *msg = container_of(d.msg.ep, struct endpoint, fid);
	struct operation *r;

	if (!msg->nreceives)
		return;
	r = &msg->receives[--msg->nreceives];
	memset(r->buf, 0xcc, FABRIC_BUF);
	memcpy(r->buf, message, len);
	cq_add(msg->cq, r->context, len, 0);
	poll_once();
}

/* The header as the input has it, but for whom it is for, and mostly its length. */
static void message(struct input *in)
{
	_Alignas(8) uint8_t buf[FABRIC_BUF];
	struct fabric_head *h = (void *)buf;
	uint32_t how = (uint32_t)take_number(in, 1), len;

	memset(buf, 0, sizeof(buf));
	h->type = (uint8_t)(how % 15);
	h->seq = e->taken + (uint32_t)take_number(in, 1);
	h->taken = e->acked + (how & 0x10 ? (uint32_t)take_number(in, 1) : 0);
	len = take_bytes(in, buf + sizeof(*h), take_number(in, 1));
	h->len = (uint16_t)(how & 0x20 ? take_number(in, 2) : len);
	if (how & 0x40) {
		h->checked = 1;
		h->crc = crc32c(0, buf + sizeof(*h), len);
	}
	memcpy(h->cookie, e->ours, sizeof(h->cookie));
	comes(buf, (uint32_t)sizeof(*h) + len);
}

/* Of a number that means something. */
static void word(struct input *in)
{
	struct {
		struct fabric_head h;
		struct fabric_control w;
		uint8_t more[MESSAGE_MAX - sizeof(struct fabric_control)];
	} m = {.h = {.type = (uint8_t)(MESSAGE_HELLO + take_number(in, 1) % MESSAGE_LEAVES)}};
	uint32_t len = 0;

	m.w.number = (uint32_t)take_number(in, 1) % 8;
	if (m.h.type == MESSAGE_ENDPOINT) {
		len = NAME + (d.acks ? fabric_part_bytes(&d) : 0);
		memset(m.more, 1, len);
	} else if (m.h.type == MESSAGE_KEYS) {
		m.more[0] = (uint8_t)e->number;
		m.more[4] = (uint8_t)take_number(in, 1);
		m.more[6] = (uint8_t)take_number(in, 1) % 4;
		len = 8 + m.more[6] * FABRIC_NUMBERED;
		take_bytes(in, m.more + 8, len - 8);
	} else if (m.h.type == MESSAGE_ASK) {
		len = 4;
		m.more[0] = (uint8_t)take_number(in, 1);
	} else if (m.h.type == MESSAGE_SOURCE) {
		len = NAME;
		memset(m.more, (int)m.w.number, len);
	}
	m.w.len = len;
	m.h.len = (uint16_t)(sizeof(m.w) + len);
	memcpy(m.h.cookie, e->ours, sizeof(m.h.cookie));
	comes(&m, (uint32_t)sizeof(m.h) + m.h.len);
}

/* Something that the provider has is done. */
static void done(struct input *in, struct fabric_endpoint *endpoint)
{
	static const int errs[] = {0, 0, 0, FI_EIO, FI_ECANCELED, FI_EACCES, FI_ENOKEY};
	struct endpoint *ep;
	uint32_t i;

	if (!endpoint->ep)
		return;
	ep = container_of(endpoint->ep, struct endpoint, fid);
	if (!ep->nops)
		return;
	i = (uint32_t)take_number(in, 1) % ep->nops;
	cq_add(ep->cq, ep->ops[i].context, 0, errs[take_number(in, 1) % ARRAY_SIZE(errs)]);
	ep->ops[i] = ep->ops[--ep->nops];
	poll_once();
}

/* Of what the ep, or all of them, have it by. */
static void done_by_any(struct input *in)
{
	struct fabric_initiator *i;

	if (!d.shared) {
		if (e->endpoint_state != ENDPOINT_JOB)
			done(in, &e->endpoint);
		return;
	}
	i = &d.initiators[take_number(in, 1) % FABRIC_INITIATORS];
	if (i->state == INITIATOR_OPEN || i->state == INITIATOR_RETIRES)
		done(in, &i->endpoint);
}

static void import(struct input *in)
{
	_Alignas(8) uint8_t key[KEY_MAX], mac[16];
	uint32_t i = take(in) % KEYS, sealed = take(in), len, n, k;
	uint32_t part = fabric_part_bytes(&d);
	struct rkey rkey;

	if (keys[i].v[0])
		return;
	len = take_bytes(in, key, take_number(in, 1));
	if (sealed % 4 && len >= 64) {
		n = (len - 64) / part;
		len = 64 + n * part;
		key[0] = fabric_version(&d);
		memcpy(key + 2, &(uint16_t){(uint16_t)n}, 2);
		memcpy(key + 8, &(uint64_t){LEN}, 8);
		for (k = 0; k < n && sealed & 16; k++) /* they are as long as it is */
			memcpy(key + 64 + k * part + 8,
			       &(uint64_t){k < n - 1 ? 1024ull : LEN - k * 1024ull}, 8);
		memset(key + 40, 0, 16);
		siphash128(e->theirs, key, len, mac);
		memcpy(key + 40, mac, 16);
	}
	if (!backend_fabric.import(&e->ep, key, len, LEN, &rkey))
		keys[i] = rkey;
}

static void forget(struct input *in)
{
	uint32_t i = (uint32_t)take_number(in, 1) % KEYS, k;

	for (k = 0; k < CHUNKS; k++)
		if (is_out[k] && chunks[k].key == &keys[i])
			return;
	if (keys[i].v[0])
		backend_fabric.forget(&e->ep, &keys[i]);
	keys[i].v[0] = 0;
}

static void post(struct input *in)
{
	uint32_t i = (uint32_t)take_number(in, 1) % CHUNKS, kind = (uint32_t)take_number(in, 1);
	struct chunk *c = &chunks[i];
	const struct rkey *key = &keys[kind / 4 % KEYS];

	if (is_out[i] || (kind % 4 != CHUNK_SEND && !key->v[0]))
		return;
	*c = (struct chunk){.ep = &e->ep,
			    .kind = (uint8_t)(kind % 4),
			    .cls = (uint8_t)(kind / 16 % 3),
			    .flags = kind & 64 && kind % 4 == CHUNK_WRITE ? CHUNK_ACKED : 0,
			    .len = (uint32_t)take_number(in, 1) * 16 % (LEN + 1),
			    .local = local,
			    .key = kind % 4 == CHUNK_SEND ? NULL : key};
	if (c->kind == CHUNK_SEND)
		c->len %= MESSAGE_MAX + 1;
	if (c->kind == CHUNK_FLUSH)
		c->len = 0;
	c->off = take_number(in, 1) * 16;
	c->checksum = c->kind == CHUNK_SEND && kind & 128;
	is_out[i] = backend_fabric.post(&e->ep, &c, 1);
}

static void cancel(struct input *in)
{
	uint32_t i = (uint32_t)take_number(in, 1);

	if (is_out[i % CHUNKS])
		backend_fabric.cancel(&chunks[i % CHUNKS], i & 128 ? CANCEL_NOW : CANCEL_ASK);
}

static void unpin(void)
{
	if (!d.bound)
		must(!backend_fabric.unpin(&d.dev, &pin));
}

/* 1: it is over. */
static int unexpose(void)
{
	if (backend_fabric.unexpose(&exposure))
		return 0;
	unpin();
	return 1;
}

/* It is, or is taken back, which takes some time. */
static void expose(struct input *in)
{
	uint8_t key[KEY_MAX];
	uint32_t how = (uint32_t)take_number(in, 1);

	if (exposure.scratch) {
		unexpose();
		return;
	}
	exposure = (struct exposure){.ep = &e->ep,
				     .memory = memory,
				     .off = how % 64,
				     .len = 1 + how * 8ull,
				     .rights = how % 8,
				     .expires_ns = how & 16 ? clock_ns() + how * 1000 : NEVER_NS};
	pin = (struct pin){.memory = memory,
			   .off = exposure.off,
			   .len = exposure.len,
			   .rights = exposure.rights};
	exposure.pin = &pin;
	if (!d.bound && backend_fabric.pin(&d.dev, &pin))
		return;
	if (backend_fabric.expose(&exposure, key, KEY_MAX) < 0)
		unpin();
}

static void deed(struct input *in)
{
	static void (*const deeds[])(struct input * in) = {message, word,   import, forget,
							   post,    cancel, expose};
	uint32_t what = (uint32_t)take_number(in, 1) % 12;

	if (what < ARRAY_SIZE(deeds))
		deeds[what](in);
	else if (what == 7)
		help();
	else if (what == 8)
		done(in, &d.msg);
	else if (what == 9)
		done_by_any(in);
	else
		poll_once();
}

/* ---- life ---- */

static void begin(uint32_t how)
{
	memset(&d, 0, sizeof(d));
	d.dev = (struct device){.ops = &backend_fabric, .fd = -1};
	d.timer = d.to_helper.fd = d.from_helper.fd = -1;
	d.dead_after_ms = 10000;
	list_init(&d.eps);
	list_init(&d.telling);
	list_init(&d.free_slots);
	list_init(&d.given);
	list_init(&d.unposted);
	list_init(&d.expiring);
	d.expire_ns = NEVER_NS;
	chunk_queue_init(&d.out);
	fabric_av_init(&d);
	fabric_lock_init(&d);
	info.ep_attr = &ep_attr;
	info.domain_attr = &domain_attr;
	d.info = &info;
	d.domain = &domain;
	d.lib.strerror = no_words;
	d.key_mask = ~0ull;
	d.ops_most = FABRIC_OPS;
	d.most = UINT64_MAX;
	d.ranges = FABRIC_RANGES;
	d.acks = how & 1;
	d.shared = how >> 7 & 1;
	d.bound = how >> 1 & 1 || d.shared;
	d.raw = !d.bound && how & 4 ? RAW : 0;
	theirs = NULL;
	must(!fabric_endpoint_open(&d, &d.msg, OUT));
	must(!fabric_shared_open(&d));
	memset(keys, 0, sizeof(keys));
	memset(is_out, 0, sizeof(is_out));
	memset(&exposure, 0, sizeof(exposure));
	closed = 0;
	if (memory)
		return;
	memory = calloc(1, sizeof(*memory) + 2 * sizeof(memory->spans[0]));
	must(!!memory);
	memory->len = LEN;
	memory->nspans = 2;
	memory->spans[0] =
		(struct span){.len = 100, .addr = (uintptr_t)bytes, .fd = -1, .extent = &extent};
	memory->spans[1] = (struct span){.start = 100,
					 .len = LEN - 100,
					 .addr = (uintptr_t)bytes + 100,
					 .fd = -1,
					 .extent = &extent};
}

/* 1: it is that of a peer, as ours is made, and we wait for it. */
static int connects(struct input *in, uint32_t how)
{
	uint8_t addr[EP_ADDR_MAX], ours[EP_ADDR_MAX];
	uint32_t len;
	struct ep *ep;

	must(!backend_fabric.ep_open(&d.dev, &ep, ours, &len));
	e = container_of(ep, struct fabric_ep, ep);
	theirs = e->theirs;
	ep->bonded = how >> 3 & 1;
	if (how & 16)
		len = take_bytes(in, addr, take_number(in, 1) % EP_ADDR_MAX);
	else
		memcpy(addr, ours, len);
	if (!(how & 16))
		addr[4] ^= 1;
	return !backend_fabric.ep_connect(ep, addr, len, how >> 5 & 1, NULL);
}

static void up(void)
{
	help();
	poll_once();
	word(&(struct input){(const uint8_t[]){0, 1}, 2});
	word(&(struct input){(const uint8_t[]){4, 1}, 2});
	if (!d.shared)
		return;
	help();
	poll_once();
	word(&(struct input){(const uint8_t[]){11, 1}, 2});
	word(&(struct input){(const uint8_t[]){11, 2}, 2});
}

/* Nothing is stuck, or else it would be waited for. */
static void done_shared(void)
{
	uint32_t k;

	for (k = 0; d.shared && k < FABRIC_INITIATORS; k++)
		done_by_any(&(struct input){(const uint8_t[]){(uint8_t)k, 0, 0}, 3});
}

static void end(void)
{
	struct input all = {(const uint8_t[2]){0, 0}, 2}, in;
	uint64_t late = clock_ns() + 5 * NSEC_PER_SEC;

	backend_fabric.ep_close(&e->ep);
	while (!closed) {
		must(clock_ns() < late);
		help();
		in = all;
		done(&in, &d.msg);
		done_shared();
		poll_once();
	}
	while (exposure.scratch && !unexpose()) {
		must(clock_ns() < late);
		help();
		poll_once();
	}
}

static void leave(void)
{
	struct fabric_slab *slab;

	backend_fabric.ep_free(&e->ep);
	fabric_av_free(&d);
	fabric_endpoint_close(&d.msg);
	must(!fabric_shared_close(&d));
	while ((slab = d.slabs)) {
		d.slabs = slab->next;
		free(slab);
	}
	fabric_lock_free(&d);
	must(!opened);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	uint32_t how = (uint32_t)take_number(&in, 1), i;

	begin(how);
	if (connects(&in, how)) {
		if (!(how & 64))
			up();
		while (in.left)
			deed(&in);
		end();
	}
	for (i = 0; i < CHUNKS; i++)
		must(!is_out[i]);
	leave();
	return 0;
}
