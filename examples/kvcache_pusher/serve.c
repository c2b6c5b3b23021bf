/* SPDX-License-Identifier: Apache-2.0 */
/* The decode role: opens the pool, lets pushers in, and serves all of them from one loop. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "serve.h"

#define POOL_RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

uint64_t serve_data(enum serve_entry what, const struct pusher *p, uint32_t slot)
{
	return (uint64_t)what << 56 | (uint64_t)(p ? p->index : 0) << 24 | slot;
}

bool serve_breaks(const struct pusher *p, const struct urccl_cqe *cqe)
{
	return p->lost || cqe->res == -ECONNRESET;
}

/* ---- opening ---- */

static int write_metadata(struct serve *s, int ready, struct problem *why)
{
	uint32_t contexts = s->o->contexts, i;
	struct dial dials[CONTEXTS_MAX];
	const char *bytes = (const char *)dials;
	size_t len = contexts * sizeof(*dials);
	FILE *f;

	memset(dials, 0, sizeof(dials));
	for (i = 0; i < contexts; i++) {
		int n = urccl_metadata(serve_node(s, i)->ctx, dials[i].to, sizeof(dials[i].to));

		if (n < 0)
			return problem(why, "cannot say how to be dialled: %s", urccl_errmsg());
		dials[i].len = (uint32_t)n;
	}
	if (ready >= 0 && write(ready, bytes, len) != (ssize_t)len)
		return problem(why, "cannot tell the pusher how to dial");
	if (!s->o->metadata)
		return 0;
	if (contexts == 1) {
		bytes = dials->to;
		len = dials->len;
	}
	f = fopen(s->o->metadata, "we");
	if (!f || fwrite(bytes, 1, len, f) != len || fclose(f))
		return problem(why, "%s: cannot be written: %s", s->o->metadata, strerror(errno));
	return 0;
}

static void say_ready(const struct serve *s)
{
	const struct shape *shape = &s->job->shape;
	const char *port = strrchr(s->o->address, ':');
	bool any = port && !strcmp(port, ":0");
	char text[200];

	if (s->o->quiet)
		return;
	shape_text(shape, text, sizeof(text));
	say("decode listens %s%s: %s; a pool of %u pages, %llu tokens",
	    any ? "for --push @" : "on ", any ? s->o->metadata : s->o->address, text, s->side.pages,
	    (unsigned long long)s->side.pages * shape->page);
}

/* ACCEPT gives an event for each context that dials us, and its WATCH what they say and that they
 * are lost. */
static void start_listening(struct serve *s)
{
	uint32_t i;

	s->reserved = 1 + SERVE_DOOR;
	for (i = 0; i < s->o->contexts; i++) {
		struct urccl_sqe *sqe = node_sqe(serve_node(s, i));

		urccl_prep_accept(sqe);
		urccl_sqe_add_flags(sqe, URCCL_SQE_WATCH);
		urccl_sqe_set_data64(sqe, serve_data(SENTRY_ACCEPT, NULL, 0));
		urccl_submit(serve_node(s, i)->ring);
	}
}

static int open_contexts(struct serve *s, struct node_config *c, struct problem *why)
{
	struct dial at;
	uint32_t i;

	for (i = 1; i < s->o->contexts; i++)
		serve_node(s, i)->epoll = serve_node(s, i)->timer = serve_node(s, i)->signals = -1;
	if (node_open(&s->node, c, why))
		return -1;
	for (i = 1; i < s->o->contexts; i++) {
		address_of(s->o->address, i, &at);
		c->listen = at.to;
		if (node_join(&s->node, serve_node(s, i), c, why))
			return -1;
	}
	if (node_cache(&s->node, &s->side, true, POOL_RIGHTS, &s->region[0], why))
		return -1;
	for (i = 1; i < s->o->contexts; i++)
		if (node_register(serve_node(s, i), &s->side, POOL_RIGHTS, &s->region[i]))
			return problem(why, "cannot register the pool: %s", urccl_errmsg());
	return 0;
}

static void close_contexts(struct serve *s)
{
	uint32_t i;

	for (i = s->o->contexts; i--;)
		node_close(serve_node(s, i));
}

static int serve_open(struct serve *s, const struct job *job, int ready, struct problem *why)
{
	struct msg_id id = {.magic = PROTO_MAGIC, .version = PROTO_VERSION};
	struct node_config c = {
		.transport = job->o->transport,
		.listen = job->o->address,
		.hello = &id,
		.hello_len = sizeof(id),
		.entries = SERVE_ENTRIES,
	};

	memset(s, 0, sizeof(*s));
	s->job = job;
	s->o = job->o;
	s->side.shape = &job->shape;
	s->side.ranks = job->o->tp_decode;
	s->side.memory = job->o->decode;
	s->side.pages = (uint32_t)(job->o->pool_bytes / shape_page_bytes(&job->shape));
	if (open_contexts(s, &c, why))
		return -1;
	if (pool_open(&s->pool, s->side.pages))
		return problem(why, "no memory for a pool of %u pages", s->side.pages);
	start_listening(s);
	if (write_metadata(s, ready, why))
		return -1;
	say_ready(s);
	return 0;
}

/* ---- pushers ---- */

/* Page table, FETCHED, answer, cancel, and what is read. */
static uint32_t entries_of_request(const struct serve *s, const struct msg_hello *h)
{
	return 4 + (h->pull ? s->job->shape.layers : 0);
}

/* Two words, and the UNREGISTER of its pool. CLOSE comes after all others. */
#define ENTRIES_OF_PUSHER 3u

static uint32_t entries_needed(const struct serve *s, const struct msg_hello *h)
{
	return h->slots * entries_of_request(s, h) + ENTRIES_OF_PUSHER;
}

/* Why this hello cannot be let in, in its own words; 0 if it can. */
static int judge_hello(const struct serve *s, const struct msg_hello *h, uint32_t len,
		       struct problem *p)
{
	char ours[160], theirs[160];

	if (len != sizeof(*h) || h->id.magic != PROTO_MAGIC || h->id.version != PROTO_VERSION)
		return problem(p, "you are no kvcache_pusher --push of this version");
	if (!shape_equal(&h->shape, &s->job->shape)) {
		shape_text(&s->job->shape, ours, sizeof(ours));
		shape_text(&h->shape, theirs, sizeof(theirs));
		return problem(p, "another shape: the pool has %s; you have %s", ours, theirs);
	}
	if (h->tp_prefill != s->o->tp_prefill || h->tp_decode != s->o->tp_decode)
		return problem(p, "the pool is for --tp %u:%u, not %u:%u", s->o->tp_prefill,
			       s->o->tp_decode, h->tp_prefill, h->tp_decode);
	if (s->o->verify && !h->verify)
		return problem(
			p,
			"this pool's pages are checked: --no-verify is for both ends or neither");
	if (!h->slots || h->slots > PROTO_SLOTS_MAX || !h->pages)
		return problem(p, "%u requests under way over %u pages cannot be", h->slots,
			       h->pages);
	if (entries_needed(s, h) > SERVE_ALONE)
		return problem(
			p,
			"%u requests at a time of %u layers each are more than decode reads: --parallel %u"
			" at most",
			h->slots, s->job->shape.layers,
			(SERVE_ALONE - ENTRIES_OF_PUSHER) / entries_of_request(s, h));
	if (s->reserved + entries_needed(s, h) > SERVE_ENTRIES)
		return problem(p, "no room for another pusher beside %u", s->npushers - 1);
	return 0;
}

static int open_post(struct serve *s, struct pusher *p)
{
	struct urccl_range range = {.fd = -1};
	uint32_t i;

	p->nslots = p->hello.slots;
	p->question_bytes = ask_bytes(s->side.pages);
	p->table_bytes = table_bytes(s->side.pages);
	range.len = p->nslots * (p->question_bytes + p->table_bytes);
	p->post = calloc(1, range.len);
	p->fills = calloc(p->nslots, sizeof(*p->fills));
	if (!p->post || !p->fills)
		return -1;
	for (i = 0; i < p->nslots; i++) {
		p->fills[i].index = i;
		if (fill_open(s, p, &p->fills[i]))
			return -1;
	}
	range.addr = (uint64_t)(uintptr_t)p->post;
	return urccl_register(p->node->ctx, &range, 1, URCCL_RIGHT_WRITE, &p->post_region);
}

static int exchange_adverts(struct serve *s, struct pusher *p)
{
	struct msg_welcome *w = &p->word.welcome;

	w->pages = s->side.pages;
	w->verify = s->o->verify;
	w->memory = s->side.memory.kind;
	w->gpu = s->side.memory.gpu;
	w->ask_bytes = p->question_bytes;
	if (node_register(p->node, &s->side, POOL_RIGHTS, &p->pool_region) ||
	    urccl_advertise(p->node->ctx, p->pool_region, 0, side_bytes(&s->side), POOL_RIGHTS, 0,
			    &w->pool) ||
	    urccl_advertise(p->node->ctx, p->post_region, 0, p->nslots * p->question_bytes,
			    URCCL_RIGHT_WRITE, 0, &w->asks) ||
	    urccl_import(p->node->ctx, p->peer, &p->hello.mailbox, 1, &p->mailbox))
		return -1;
	return p->hello.pull
		       ? urccl_import(p->node->ctx, p->peer, &p->hello.cache, 1, &p->remote_cache)
		       : 0;
}

/* A word to the pusher as a whole. */
static void send_word(struct pusher *p, enum message what, const void *payload, uint32_t len)
{
	node_note(p->node, p->peer, tag_make(what, 0, 0), payload, len,
		  serve_data(SENTRY_WORD, p, 0));
	p->inflight++;
}

static void refuse(struct pusher *p, const char *why)
{
	say("pusher %u (%s) is refused: %s", p->number, p->address, why);
	p->refused = true;
	snprintf(p->word.refusal.text, sizeof(p->word.refusal.text), "%.255s", why);
	send_word(p, MSG_REFUSAL, &p->word, (uint32_t)strlen(p->word.refusal.text));
}

static uint64_t cpu_without_checking(const struct serve *s)
{
	return process_cpu_ns() - s->verify_cpu;
}

/* CPU time is the process's: from when there are several nobody knows what one of them took. */
static void beside_others(struct serve *s, struct pusher *p)
{
	uint32_t i;

	for (i = 0; i < SERVE_PUSHERS; i++) {
		struct pusher *q = s->pushers[i];

		if (q && q->hello.run && q->hello.run == p->hello.run)
			continue;
		if (!q || q == p || q->refused || q->lost || q->said_bye)
			continue;
		p->stats.beside = q->stats.beside = 1;
	}
}

static void welcome(struct serve *s, struct pusher *p, const void *hello, uint32_t len)
{
	struct problem why;

	memcpy(&p->hello, hello, len < sizeof(p->hello) ? len : sizeof(p->hello));
	if (judge_hello(s, &p->hello, len, &why)) {
		p->hello.pull = 0;
		refuse(p, why.text);
		return;
	}
	p->cache.shape = &s->job->shape;
	p->cache.ranks = p->hello.tp_prefill;
	p->cache.pages = p->hello.pages;
	p->ndescs = layer_descs(&s->side, &p->cache);
	if (open_post(s, p) || exchange_adverts(s, p)) {
		refuse(p, "decode has no memory for it, or its adverts are no good");
		return;
	}
	s->reserved += entries_needed(s, &p->hello) - p->reserved;
	p->reserved = entries_needed(s, &p->hello);
	p->cpu_start = cpu_without_checking(s);
	beside_others(s, p);
	send_word(p, MSG_WELCOME, &p->word, sizeof(p->word.welcome));
	if (!s->o->quiet)
		say("pusher %u (%s) %ss, %u requests at a time", p->number, p->address,
		    p->hello.pull ? "offer" : "pushe", p->nslots);
}

static void got_peer(struct serve *s, uint32_t context, const struct urccl_cqe *cqe)
{
	struct urccl_peer_info info = {.size = sizeof(info)};
	struct node *node = serve_node(s, context);
	struct pusher *p = NULL;
	uint32_t i;

	for (i = 0; i < SERVE_PUSHERS && s->pushers[i]; i++)
		;
	if (i < SERVE_PUSHERS && s->reserved + 2 <= SERVE_ENTRIES)
		p = calloc(1, sizeof(*p));
	if (!p) {
		door_refuse(s, context, (struct urccl_peer){cqe->peer});
		return;
	}
	s->pushers[i] = p;
	s->npushers++;
	p->index = i;
	p->number = ++s->came;
	p->unquiet = NO_BLOCK;
	p->context = context;
	p->node = node;
	p->peer.id = cqe->peer;
	p->reserved = 2;
	s->reserved += p->reserved;
	if (!urccl_get_peer_info(node->ctx, p->peer, &info))
		memcpy(p->address, info.address, sizeof(p->address));
	welcome(s, p, urccl_cqe_note(node->ring, cqe), (uint32_t)cqe->res);
}

/* ---- pushers that leave ---- */

static void pusher_free(struct serve *s, struct pusher *p)
{
	uint32_t i;

	for (i = 0; p->fills && i < p->nslots; i++)
		fill_close(&p->fills[i]);
	if (p->post_region.id && urccl_unregister(p->node->ctx, p->post_region))
		say("pusher %u: its mailbox cannot be taken back: %s", p->number, urccl_errmsg());
	else
		free(p->post);
	free(p->fills);
	s->pushers[p->index] = NULL;
	s->npushers--;
	s->reserved -= p->reserved;
	free(p);
	s->over |= s->o->once && !s->npushers;
}

/* When nothing of it is in flight any more, its handle goes back. */
static void maybe_close(struct pusher *p)
{
	struct urccl_sqe *sqe;

	if (!p->lost || p->inflight || p->closing)
		return;
	p->closing = true;
	if (p->mailbox.id)
		urccl_unimport(p->node->ctx, p->mailbox);
	if (p->remote_cache.id)
		urccl_unimport(p->node->ctx, p->remote_cache);
	sqe = node_sqe(p->node);
	urccl_prep_close(sqe, p->peer);
	urccl_sqe_set_data64(sqe, serve_data(SENTRY_CLOSE, p, 0));
}

static void take_back(struct pusher *p)
{
	struct urccl_sqe *sqe;

	if (!p->pool_region.id)
		return;
	sqe = node_sqe(p->node);
	urccl_prep_unregister(sqe, p->pool_region);
	urccl_sqe_set_data64(sqe, serve_data(SENTRY_TAKE_BACK, p, 0));
	p->inflight++;
}

static void taken_back(struct serve *s, struct pusher *p, const struct urccl_cqe *cqe)
{
	/* It is frozen and has the memory: again, where others may want it. */
	if (cqe->res == -ETIMEDOUT && !s->over && !s->o->once) {
		take_back(p);
		return;
	}
	if (cqe->res < 0) {
		say("pusher %u: the pool cannot be taken back from it, and what it had of it stays "
		    "unused: %s",
		    p->number, node_explain(p->node, cqe));
		return;
	}
	pool_give_back(&s->pool, &p->unquiet);
	s->pages_back = true;
}

static void pusher_gone(struct serve *s, struct pusher *p)
{
	uint32_t i;

	p->lost = true;
	for (i = 0; p->fills && i < p->nslots; i++)
		fill_lost(s, p, &p->fills[i]);
	take_back(p);
	s->pages_back = true;
	s->done += p->done;
	s->aborted += p->aborted;
	maybe_close(p);
}

void serve_drop(struct serve *s, struct pusher *p, const char *why)
{
	if (p->lost)
		return;
	say("pusher %u (%s) is dropped: %s", p->number, p->address, why);
	s->vanished++;
	pusher_gone(s, p);
}

static void got_lost(struct serve *s, struct pusher *p, const struct urccl_cqe *cqe)
{
	uint32_t under_way = 0, i;

	if (p->lost)
		return;
	for (i = 0; p->fills && i < p->nslots; i++)
		under_way += p->fills[i].state != JOB_IDLE;
	if (cqe->res < 0)
		say("pusher %u (%s) has vanished with %u requests under way: %s", p->number,
		    p->address, under_way, node_explain(p->node, cqe));
	else if (!p->said_bye && !p->refused)
		say("pusher %u (%s) has left with %u requests under way", p->number, p->address,
		    under_way);
	else if (!p->refused && !s->o->quiet)
		say("pusher %u (%s) has left: %u requests right, %u wrong, %u aborted", p->number,
		    p->address, p->done, p->wrong, p->aborted);
	s->vanished += p->refused || !p->said_bye;
	pusher_gone(s, p);
}

/* ---- what arrives ---- */

static void got_bye(struct serve *s, struct pusher *p)
{
	p->said_bye = true;
	p->stats.cpu_ns = cpu_without_checking(s) - p->cpu_start;
	p->stats.read_ns = p->busy.total;
	send_word(p, MSG_STATS, &p->stats, sizeof(p->stats));
}

static struct pusher *find(struct serve *s, uint32_t context, uint32_t peer)
{
	uint32_t i;

	for (i = 0; i < SERVE_PUSHERS; i++)
		if (s->pushers[i] && s->pushers[i]->context == context &&
		    s->pushers[i]->peer.id == peer && !s->pushers[i]->closing)
			return s->pushers[i];
	return NULL;
}

static void got_note(struct serve *s, struct pusher *p, const struct urccl_cqe *cqe)
{
	uint32_t slot = tag_slot(cqe->tag);
	enum message what = tag_what(cqe->tag);

	if (p->lost || p->refused)
		return;
	if (cqe->res < 0 && cqe->res != -ESHUTDOWN)
		serve_drop(s, p, "a word of its will not come");
	else if (cqe->res < 0)
		return; /* it closes: LOST follows */
	else if (what == MSG_BYE && !p->said_bye)
		got_bye(s, p);
	else if (slot < p->nslots && what != MSG_BYE)
		fill_note(s, p, &p->fills[slot], what, tag_id(cqe->tag),
			  urccl_cqe_note(p->node->ring, cqe), (uint32_t)cqe->res);
	else
		serve_drop(s, p, "it said something that is not of this protocol");
}

static void got_end(struct serve *s, uint32_t context, const struct urccl_cqe *cqe)
{
	enum serve_entry what = (enum serve_entry)(cqe->user_data >> 56);
	struct pusher *p;

	if (what == SENTRY_ACCEPT) {
		if (!s->over)
			say("cannot listen: %s", node_explain(serve_node(s, context), cqe));
		s->vanished++;
		s->over = true;
		return;
	}
	if (what == SENTRY_NO_PLACE || what == SENTRY_SHUT) {
		door_end_of_entry(s, cqe);
		return;
	}
	p = s->pushers[cqe->user_data >> 24 & 0xffff];
	if (what == SENTRY_CLOSE) {
		pusher_free(s, p);
		return;
	}
	p->inflight--;
	if (what == SENTRY_TAKE_BACK)
		taken_back(s, p, cqe);
	else if (what != SENTRY_WORD)
		fill_end_of_entry(s, p, &p->fills[cqe->user_data & 0xffffff], what, cqe);
	else if (cqe->res < 0 && !p->said_bye && !serve_breaks(p, cqe))
		serve_drop(s, p, node_explain(p->node, cqe));
	maybe_close(p);
}

static void reap(struct serve *s, uint32_t context)
{
	struct urccl_ring *ring = serve_node(s, context)->ring;
	struct urccl_cqe *cqe;

	while ((cqe = urccl_peek_cqe(ring))) {
		uint32_t kind = urccl_cqe_kind(cqe);
		struct pusher *p = kind == URCCL_KIND_OP ? NULL : find(s, context, cqe->peer);

		if (kind == URCCL_KIND_PEER)
			got_peer(s, context, cqe);
		else if (kind == URCCL_KIND_NOTE && p)
			got_note(s, p, cqe);
		else if (kind == URCCL_KIND_LOST && p)
			got_lost(s, p, cqe);
		else if (kind == URCCL_KIND_OP && !(cqe->flags & URCCL_CQE_MORE))
			got_end(s, context, cqe);
		urccl_cqe_seen(ring, cqe);
	}
}

/* ---- the run ---- */

/* 0, or -1 if it cannot be written. */
static int summary(const struct serve *s)
{
	double verify = (double)s->verify_cpu / 1e9;

	if (s->o->json)
		printf("{\"pushers\": %u, \"right\": %u, \"aborted\": %u, \"vanished\": %u, \"evicted\": %llu, "
		       "\"pages\": %llu, \"wrong\": %llu, \"verify_seconds\": %.3f}\n",
		       s->came, s->done, s->aborted, s->vanished,
		       (unsigned long long)s->pool.evicted, (unsigned long long)s->checked,
		       (unsigned long long)s->wrong, verify);
	else if (!s->o->quiet)
		printf("served %u pushers: %u requests right, %u aborted, %llu blocks evicted; %llu pages of a "
		       "layer checked in %.2f s, %llu wrong\n",
		       s->came, s->done, s->aborted, (unsigned long long)s->pool.evicted,
		       (unsigned long long)s->checked, verify, (unsigned long long)s->wrong);
	return report_written();
}

/* What summary() says. */
static int serve_close(struct serve *s)
{
	uint32_t i;
	int res;

	for (i = 0; i < SERVE_PUSHERS; i++) {
		if (!s->pushers[i] || s->pushers[i]->lost)
			continue;
		s->done += s->pushers[i]->done;
		s->aborted += s->pushers[i]->aborted;
	}
	res = summary(s);
	/* Ends the connections; after it nobody touches the pushers' memory. */
	close_contexts(s);
	for (i = 0; i < SERVE_PUSHERS; i++) {
		struct pusher *p = s->pushers[i];
		uint32_t k;

		for (k = 0; p && p->fills && k < p->nslots; k++)
			fill_close(&p->fills[k]);
		if (p) {
			free(p->fills);
			free(p->post);
			free(p);
		}
	}
	free(s->door_queue);
	pool_close(&s->pool);
	return res;
}

int serve_run(const struct job *job, int ready)
{
	struct problem why;
	struct serve s;
	uint32_t i;
	bool more;
	int status;

	if (serve_open(&s, job, ready, &why)) {
		say("%s", why.text);
		close_contexts(&s);
		return EXIT_FAILED;
	}
	while (!s.over && !s.node.interrupts) {
		for (i = 0; i < job->o->contexts; i++)
			reap(&s, i);
		if (s.pages_back)
			fills_retry(&s);
		more = fills_check(&s);
		node_wait(&s.node, more || s.pages_back || s.over ? 0 : UINT64_MAX);
	}
	status = s.wrong || (s.o->once && s.vanished) ? EXIT_FAILED : EXIT_FINE;
	if (!s.over && s.node.interrupts) {
		if (!s.o->quiet)
			say("interrupted: closing %u connections", s.npushers);
		status = s.wrong ? EXIT_FAILED : EXIT_INTERRUPTED;
	}
	return serve_close(&s) && status == EXIT_FINE ? EXIT_FAILED : status;
}
