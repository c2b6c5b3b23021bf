/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kvcache_pusher's decode is told by pushers: hellos, questions in its memory, notes.
 * Whatever they say, no pusher has more entries under way than were reserved for it, no page is
 * another's before the pusher that had it has said that its writes ended or the pool is taken back
 * from it, and when all of them are gone every page is free and every handle of those for which
 * there was no place is given back. The first byte says how decode runs; then a byte says what
 * happens next.
 */
#define SERVE_PUSHERS 3u
#include "pusher_stub.h"

#include "serve.c"
#include "serve_door.c"
#include "serve_request.c"

#define PAGES	16u
#define PUSHERS SERVE_PUSHERS

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct serve s;
static struct job job;
static struct options o;
static struct pusher *writer[PAGES]; /* whose writes to the page may land */
static uint32_t writer_slot[PAGES];
static uint32_t turned_away, shut;

static struct pusher *some_pusher(struct input *in)
{
	struct pusher *p = s.pushers[take(in) % PUSHERS];

	return p && !p->closing ? p : NULL;
}

/* ---- what must hold ---- */

/* A page table is about to go. */
static void check_table(const struct urccl_sqe *sqe)
{
	struct pusher *p = s.pushers[sqe->user_data >> 24 & 0xffff];
	uint32_t slot = sqe->user_data & 0xffffff, i;
	const struct fill *f = &p->fills[slot];

	must(sqe->len <= p->table_bytes);
	for (i = 0; i < f->nget; i++) {
		must(f->dst[i] < PAGES && (!p->hello.pull || f->src[i] < p->hello.pages));
		must(!writer[f->dst[i]]);
		if (!p->hello.pull) {
			writer[f->dst[i]] = p;
			writer_slot[f->dst[i]] = slot;
		}
	}
}

static void writes_ended(const struct pusher *p, uint32_t slot)
{
	uint32_t i;

	for (i = 0; i < PAGES; i++)
		if (writer[i] == p && (slot == UINT32_MAX || writer_slot[i] == slot))
			writer[i] = NULL;
}

static void check_fill(const struct fill *f)
{
	uint32_t i, sum = 0;

	if (f->state != JOB_WAITING && f->state != JOB_FILLING)
		return;
	for (i = 0; i < f->nblocks; i++) {
		must(f->wants[i].npages && f->wants[i].npages <= PAGES);
		sum += f->wants[i].npages;
	}
	must(sum == f->npages && sum <= PAGES);
}

static void check(void)
{
	uint32_t under_way[PUSHERS] = {0}, at_door = 0, i, k;

	for (i = 0; i < STUB_ENTRIES; i++) {
		struct stub_entry *e = &stub_entries[i];
		uint32_t what = (uint32_t)(e->sqe.user_data >> 56);

		if (!e->busy || what == SENTRY_ACCEPT)
			continue;
		if (what >= SENTRY_NO_PLACE) {
			at_door++;
			continue;
		}
		under_way[e->sqe.user_data >> 24 & 0xffff]++;
		if (what == SENTRY_TABLE && !e->seen)
			check_table(&e->sqe);
		e->seen = true;
	}
	must(at_door == s.at_door && at_door <= SERVE_DOOR);
	for (i = 0; i < PUSHERS; i++) {
		must(!under_way[i] || under_way[i] <= s.pushers[i]->reserved);
		for (k = 0; s.pushers[i] && s.pushers[i]->fills && k < s.pushers[i]->nslots; k++)
			check_fill(&s.pushers[i]->fills[k]);
	}
}

/* ---- what happens ---- */

static void comes(struct input *in)
{
	struct msg_hello h = {
		.id = {.magic = PROTO_MAGIC, .version = PROTO_VERSION},
		.shape = job.shape,
		.tp_prefill = 1,
		.tp_decode = 1,
		.verify = 1,
	};
	uint32_t len = sizeof(h);
	uint8_t how = take(in);

	turned_away += s.npushers == PUSHERS;
	h.slots = how & 3;
	h.pull = how >> 2 & 1;
	h.pages = how & 8 ? PAGES : take(in);
	if (how & 16)
		((uint8_t *)&h)[take(in) % sizeof(h)] = take(in);
	if (how & 32)
		len = take(in);
	got_peer(&s, 0,
		 stub_event(URCCL_KIND_PEER, 1 + s.came, 0, len ? &h : NULL,
			    len < sizeof(h) ? len : sizeof(h)));
}

static void note(struct pusher *p, uint64_t tag, const void *payload, int64_t res)
{
	got_note(&s, p, stub_event(URCCL_KIND_NOTE, p->peer.id, tag, payload, res));
}

/* Written into the pusher's slot, and asked. */
static void asks(struct input *in)
{
	struct pusher *p = some_pusher(in);
	uint8_t how = take(in), npages = take(in);
	uint32_t slot, id = s.orders + 1u, i;
	uint8_t *at;
	struct msg_ask ask = {.tokens = npages * job.shape.page, .npages = npages};

	if (!p || !p->nslots || !p->post)
		return;
	slot = how % p->nslots;
	ask.id = id;
	ask.block_tokens = job.shape.page << (how >> 2 & 3);
	ask.nblocks = (ask.tokens + ask.block_tokens - 1) / ask.block_tokens;
	at = p->post + slot * p->question_bytes;
	if (how & 64) {
		i = take(in) % (sizeof(ask) / 4);
		((uint32_t *)&ask)[i] = how & 128 ? take(in) : UINT32_MAX - take(in);
	}
	memcpy(at, &ask, sizeof(ask));
	for (i = 0; i < p->question_bytes - sizeof(ask) && in->left; i++)
		at[sizeof(ask) + i] = i % 8 ? 0 : take(in) & 15;
	note(p, tag_make(MSG_ASK, slot, id), NULL, 0);
}

static void says(struct input *in)
{
	struct pusher *p = some_pusher(in);
	uint8_t what = take(in), slot = take(in), how = take(in), payload[URCCL_NOTE_MAX];
	uint32_t id = take(in), len = how >> 1, i;

	if (!p)
		return;
	if (how & 1 && p->fills && p->nslots)
		id = p->fills[slot % p->nslots].id;
	for (i = 0; i < len; i++)
		payload[i] = take(in);
	if (what == MSG_DONE || what == MSG_ABORT)
		writes_ended(p, slot);
	note(p, tag_make((enum message)what, slot, id), payload,
	     what & 128 ? -ECANCELED : (int64_t)len);
}

/* Of a request that there is. */
static void goes_on(struct input *in)
{
	struct pusher *p = some_pusher(in);
	uint8_t how = take(in);
	uint32_t slot, word = how >> 4;

	if (!p || !p->fills)
		return;
	slot = (how >> 2 & 3) % p->nslots;
	if ((how & 3) == 0 || ((how & 3) == 1 && word))
		writes_ended(p, slot);
	note(p,
	     tag_make((enum message[]){MSG_DONE, MSG_ABORT, MSG_LAYER, MSG_LAYER}[how & 3], slot,
		      p->fills[slot].id),
	     &word, how & 3 ? sizeof(word) : 0);
}

static void ends(uint32_t which, uint8_t how)
{
	struct urccl_cqe cqe = {.flags = URCCL_KIND_OP};
	const struct urccl_sqe *sqe;
	struct urccl_sqe copy;
	uint32_t what;

	sqe = stub_end(which, &copy);
	what = sqe ? (uint32_t)(sqe->user_data >> 56) : 0;
	if (what <= SENTRY_ACCEPT)
		return;
	cqe.user_data = sqe->user_data;
	cqe.res = what == SENTRY_READ ? 64 : 0;
	if (how & 1 && what == SENTRY_TAKE_BACK)
		cqe.res = -ETIMEDOUT;
	else if (how & 1 && what != SENTRY_CLOSE && what != SENTRY_SHUT)
		cqe.res = how & 2 ? -ECONNRESET : how & 4 ? -ECANCELED : -ETIMEDOUT;
	shut += what == SENTRY_SHUT;
	if (what == SENTRY_TAKE_BACK && !cqe.res)
		writes_ended(s.pushers[sqe->user_data >> 24 & 0xffff], UINT32_MAX);
	got_end(&s, 0, &cqe);
}

static void is_lost(struct pusher *p, int64_t res)
{
	got_lost(&s, p, stub_event(URCCL_KIND_LOST, p->peer.id, 0, NULL, res));
}

static void turn(void)
{
	if (s.pages_back)
		fills_retry(&s);
	fills_check(&s);
}

static void happens(struct input *in)
{
	struct pusher *p;
	uint8_t what = take(in);

	switch (what & 7) {
	case 0:
		comes(in);
		break;
	case 1:
		asks(in);
		break;
	case 2:
		says(in);
		break;
	case 3:
		p = some_pusher(in);
		if (p)
			is_lost(p, what & 8 ? -ECONNRESET : 0);
		break;
	case 4:
		ends(take(in), what >> 3);
		break;
	case 5:
		turn();
		break;
	default:
		goes_on(in);
		break;
	}
}

/* All of them go, and everything ends. */
static void leave(void)
{
	uint32_t i;

	for (i = 0; i < PUSHERS; i++)
		if (s.pushers[i] && !s.pushers[i]->closing)
			is_lost(s.pushers[i], -ECONNRESET);
	check();
	while (s.npushers || s.at_door) {
		ends(0, 0);
		turn();
		check();
	}
	must(s.pool.nfree + s.pool.idle_pages == PAGES);
	must(shut == turned_away);
	must(s.reserved == 1 + SERVE_DOOR);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	uint8_t how = take(&in);
	struct problem why;

	job.shape =
		(struct shape){.layers = 2, .planes = 1, .heads = 1, .dim = 4, .elt = 1, .page = 2};
	o = (struct options){.quiet = true, .tp_prefill = 1, .tp_decode = 1, .verify = how & 1};
	o.contexts = 1;
	o.address = "";
	o.pool_bytes = PAGES * shape_page_bytes(&job.shape);
	job.o = &o;
	memset(writer, 0, sizeof(writer));
	memset(stub_entries, 0, sizeof(stub_entries));
	stub_busy = turned_away = shut = 0;
	must(!serve_open(&s, &job, -1, &why));
	stub_entries[0].busy = false; /* ACCEPT does not end */
	stub_busy = 0;
	while (in.left) {
		happens(&in);
		check();
	}
	leave();
	must(!serve_close(&s));
	return 0;
}
