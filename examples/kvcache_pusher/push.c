/* SPDX-License-Identifier: Apache-2.0 */
/* The prefill role: dials decode, replays the trace, tells what it took. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "push.h"

#define SECONDS_TO_ANSWER 10 /* for what decode answers at once */
#define SECONDS_TO_STOP	  5  /* after Ctrl-C */
#define FAULT_BYTES	  (64u << 10)

int push_fatal(struct push *p, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (p->over)
		return -1;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say("%s", text);
	p->over = true;
	p->tally.status = EXIT_FAILED;
	return -1;
}

bool push_breaks(const struct push *p, const struct urccl_cqe *cqe)
{
	return p->lost || cqe->res == -ECONNRESET;
}

uint64_t push_data(enum push_entry what, const struct slot *s)
{
	return (uint64_t)what << 56 | (s ? s->index : 0);
}

void push_busy(struct push *p, int change)
{
	struct busy *busy = &p->first->tally.busy;

	pthread_mutex_lock(p->lock);
	if (change > 0)
		busy_begin(busy, p->node.now);
	else
		busy_end(busy, p->node.now);
	pthread_mutex_unlock(p->lock);
}

/* ---- setting up ---- */

#define RING_MAX       32768u /* a ring has no more entries */
#define PUSH_BESIDE    8u     /* entries of the connection */
#define REQUEST_BESIDE 8u     /* of a request, beside one for each layer */

uint32_t push_requests_max(const struct shape *s)
{
	return (RING_MAX - PUSH_BESIDE) / (s->layers + REQUEST_BESIDE);
}

static uint32_t ring_entries(const struct push *p)
{
	uint32_t want = p->nslots * (p->job->shape.layers + REQUEST_BESIDE) + PUSH_BESIDE;
	uint32_t entries = 64;

	while (entries < want)
		entries <<= 1;
	return entries;
}

static int open_post(struct push *p, struct problem *why)
{
	struct urccl_range range = {.fd = -1};

	p->mailbox_bytes = table_bytes(p->cache.pages);
	p->question_bytes = ask_bytes(p->cache.pages);
	range.len = p->nslots * (p->mailbox_bytes + p->question_bytes);
	p->post = calloc(1, range.len);
	if (!p->post)
		return problem(why, "no memory for mailboxes");
	range.addr = (uint64_t)(uintptr_t)p->post;
	if (urccl_register(p->node.ctx, &range, 1, URCCL_RIGHT_WRITE, &p->post_region))
		return problem(why, "cannot register the mailboxes: %s", urccl_errmsg());
	return 0;
}

static int make_hello(struct push *p, struct problem *why)
{
	struct msg_hello *h = &p->hello;

	h->id.magic = PROTO_MAGIC;
	h->id.version = PROTO_VERSION;
	h->shape = p->job->shape;
	h->tp_prefill = p->o->tp_prefill;
	h->tp_decode = p->o->tp_decode;
	h->slots = p->nslots;
	h->pages = p->cache.pages;
	h->pull = p->o->pull;
	h->verify = p->o->verify;
	h->run = p->o->contexts > 1 ? p->o->run : 0;
	if (urccl_advertise(p->node.ctx, p->post_region, 0, p->nslots * p->mailbox_bytes,
			    URCCL_RIGHT_WRITE, 0, &h->mailbox) ||
	    (p->o->pull && urccl_advertise(p->node.ctx, p->cache_region, 0, side_bytes(&p->cache),
					   URCCL_RIGHT_READ, 0, &h->cache)))
		return problem(why, "cannot advertise: %s", urccl_errmsg());
	return 0;
}

static int open_slot(struct push *p, struct slot *s)
{
	uint32_t pages = p->cache.pages, layers = p->job->shape.layers;

	s->pages = calloc(pages, sizeof(*s->pages));
	s->src = calloc(pages, sizeof(*s->src));
	s->dst = calloc(pages, sizeof(*s->dst));
	s->logical = calloc(pages, sizeof(*s->logical));
	s->descs = calloc((size_t)layers * p->ndescs, sizeof(*s->descs));
	s->ready = calloc(layers, sizeof(*s->ready));
	return s->pages && s->src && s->dst && s->logical && s->descs && s->ready ? 0 : -1;
}

static int open_slots(struct push *p, struct problem *why)
{
	uint32_t i;

	p->slots = calloc(p->nslots, sizeof(*p->slots));
	for (i = 0; p->slots && i < p->nslots; i++) {
		p->slots[i].index = i;
		if (open_slot(p, &p->slots[i]))
			break;
	}
	if (!p->slots || i < p->nslots || pool_open(&p->pages, p->cache.pages))
		return problem(why, "no memory for %u requests of %u pages", p->nslots,
			       p->cache.pages);
	return 0;
}

/*
 * Unchecked, nobody fills the cache, and memory that was never written is no memory yet, so that we
 * do. If there is not so much of it the kernel would end a process for that: we say no before
 * devices have pinned what there is.
 */
static int cache_fits(const struct push *p, struct problem *why)
{
	uint64_t len = p->o->contexts * side_bytes(&p->cache), room = memory_available();

	if (p->o->verify || p->o->pull || p->cache.memory.kind != MEMORY_HOST || len <= room)
		return 0;
	return problem(why, "no memory for a cache of %.2f GiB: %.2f GiB are available",
		       (double)len / (1u << 30), (double)room / (1u << 30));
}

/* The k-th context. */
static void push_init(struct push *p, const struct job *job, uint32_t k, struct push *first,
		      pthread_mutex_t *lock)
{
	memset(p, 0, sizeof(*p));
	p->node.epoll = p->node.timer = p->node.signals = -1;
	p->job = job;
	p->o = job->o;
	p->first = first;
	p->lock = lock;
	p->next = k;
	p->nslots = (job->o->parallel + k) / job->o->contexts;
}

static int push_open(struct push *p, struct problem *why)
{
	const struct job *job = p->job;
	struct node_config c = {.transport = job->o->transport, .listen = ""};

	p->cache.shape = p->pool.shape = &job->shape;
	p->cache.ranks = job->o->tp_prefill;
	p->pool.ranks = job->o->tp_decode;
	p->cache.memory = job->o->prefill;
	p->cache.pages =
		(uint32_t)(job->o->cache_bytes / job->o->contexts / shape_page_bytes(&job->shape));
	p->ndescs = layer_descs(&p->cache, &p->pool);
	c.entries = ring_entries(p);
	if (tally_open(&p->tally, job->o, &job->shape, job->trace.n))
		return problem(why, "no memory for %u requests", job->trace.n);
	if (node_open(&p->node, &c, why) || cache_fits(p, why) ||
	    node_cache(&p->node, &p->cache, false, job->o->pull ? URCCL_RIGHT_READ : 0,
		       &p->cache_region, why) ||
	    open_post(p, why) || make_hello(p, why) || open_slots(p, why))
		return -1;
	if (!job->o->verify && p->cache.memory.kind != MEMORY_GPU)
		memset(p->cache.base, 1, side_bytes(&p->cache));
	return 0;
}

static void push_close(struct push *p)
{
	uint32_t i;

	node_close(&p->node);
	for (i = 0; p->slots && i < p->nslots; i++) {
		struct slot *s = &p->slots[i];

		free(s->pages);
		free(s->src);
		free(s->dst);
		free(s->logical);
		free(s->descs);
		free(s->ready);
	}
	free(p->slots);
	free(p->post);
	free(p->cache.page);
	pool_close(&p->pages);
	tally_close(&p->tally);
}

/* ---- what arrives ---- */

static void connected(struct push *p, const struct urccl_cqe *cqe)
{
	struct urccl_peer_info info = {.size = sizeof(info)};
	struct msg_id id;

	if (cqe->res < 0) {
		push_fatal(p, "cannot connect to decode: %s", node_explain(&p->node, cqe));
		return;
	}
	p->peer.id = (uint32_t)cqe->handle;
	if (urccl_get_peer_info(p->node.ctx, p->peer, &info) || info.hello_len < sizeof(id)) {
		push_fatal(p, "what listens there is no kvcache_pusher --serve");
		return;
	}
	memcpy(&id, info.hello, sizeof(id));
	if (id.magic != PROTO_MAGIC || id.version != PROTO_VERSION)
		push_fatal(p, "what listens there is no kvcache_pusher --serve of this version");
}

/*
 * The keys of the pool come with the first entry that needs them: a small one, so that no request
 * waits for them. Over shm, where the pool is mapped, it is also what makes the mapping real: one
 * byte of each window that the kernel maps at a fault, all into the same place.
 */
static void fetch_keys(struct push *p)
{
	struct urccl_peer_info info = {.size = sizeof(info)};
	struct urccl_sqe *sqe = node_sqe(&p->node);
	uint64_t windows = 1;

	if (!urccl_get_peer_info(p->node.ctx, p->peer, &info) &&
	    info.transport == URCCL_TRANSPORT_SHM && p->welcome.memory != MEMORY_GPU)
		windows = (side_bytes(&p->pool) + FAULT_BYTES - 1) / FAULT_BYTES;

	p->touch = (struct urccl_paged){
		.size = sizeof(p->touch),
		.ndims = 1,
		.block = 1,
		.dim = {{.count = windows, .remote_stride = FAULT_BYTES}},
	};
	/* Into the cache, in which nothing is yet: a GPU may not reach other memory. */
	urccl_prep_read_paged(sqe, p->pool_remote, p->cache_region, &p->touch, 1);
	urccl_sqe_set_data64(sqe, push_data(ENTRY_KEYS, NULL));
}

static void got_keys(struct push *p, const struct urccl_cqe *cqe)
{
	if (cqe->res < 0 && !push_breaks(p, cqe))
		push_fatal(p, "decode's pool cannot be used: %s", node_explain(&p->node, cqe));
	p->welcomed = cqe->res >= 0;
}

static void welcomed(struct push *p, const void *payload)
{
	memcpy(&p->welcome, payload, sizeof(p->welcome));
	p->pool.pages = p->welcome.pages;
	if (urccl_import(p->node.ctx, p->peer, &p->welcome.pool, 1, &p->pool_remote) ||
	    urccl_import(p->node.ctx, p->peer, &p->welcome.asks, 1, &p->asks_remote)) {
		push_fatal(p, "decode's adverts are no good: %s", urccl_errmsg());
		return;
	}
	p->tally.verify = p->o->verify && p->welcome.verify;
	p->tally.memory[0] = p->cache.memory;
	p->tally.memory[1] = (struct memory){p->welcome.memory, p->welcome.gpu};
	/* Decode reads: nothing of the pool is needed here, and its GPU may be out of reach. */
	if (p->o->pull && p->welcome.memory == MEMORY_GPU)
		p->welcomed = true;
	else
		fetch_keys(p);
}

static void got_note(struct push *p, const struct urccl_cqe *cqe)
{
	const void *payload = urccl_cqe_note(p->node.ring, cqe);
	enum message what = tag_what(cqe->tag);
	uint32_t slot = tag_slot(cqe->tag), len = cqe->res < 0 ? 0 : (uint32_t)cqe->res;

	/* What decode did not say because it closes is of no interest: LOST follows. */
	if (cqe->res == -ESHUTDOWN)
		return;
	if (cqe->res < 0)
		push_fatal(p, "a word of decode's will not come: %s", strerror((int)-cqe->res));
	else if (what == MSG_WELCOME && len == sizeof(p->welcome) && !p->pool_remote.id)
		welcomed(p, payload);
	else if (what == MSG_REFUSAL)
		push_fatal(p, "decode refuses: %.*s", (int)len, (const char *)payload);
	else if (what == MSG_STATS && len == sizeof(p->tally.decode)) {
		memcpy(&p->tally.decode, payload, len);
		p->tally.have_stats = true;
	} else if (slot < p->nslots && p->slots[slot].id == tag_id(cqe->tag))
		request_note(p, &p->slots[slot], what, payload, len);
	else if (slot < p->nslots && p->o->pull && what == MSG_FETCHED &&
		 tag_id(cqe->tag) < p->slots[slot].id)
		return; /* its ANSWER came first: they are in no order */
	else
		push_fatal(p, "decode said something that is not of this protocol");
}

static void got_lost(struct push *p, const struct urccl_cqe *cqe)
{
	p->lost = true;
	if (p->leaving || p->stopping || node_interrupts(&p->node))
		p->over = true;
	else if (cqe->res == 0)
		push_fatal(p, "decode has closed the connection");
	else
		push_fatal(p, "decode is lost: %s", node_explain(&p->node, cqe));
}

static void got_end(struct push *p, const struct urccl_cqe *cqe)
{
	enum push_entry what = (enum push_entry)(cqe->user_data >> 56);
	uint32_t slot = (uint32_t)cqe->user_data;

	if (what == ENTRY_CONNECT)
		connected(p, cqe);
	else if (what == ENTRY_KEYS)
		got_keys(p, cqe);
	else if (what == ENTRY_BYE && cqe->res < 0 && !push_breaks(p, cqe))
		push_fatal(p, "decode cannot be told of the end: %s", node_explain(&p->node, cqe));
	else if (what == ENTRY_CLOSE)
		p->over = true;
	else if (what >= ENTRY_ASK)
		request_end_of_entry(p, &p->slots[slot], what, cqe);
}

static void reap(struct push *p)
{
	struct urccl_cqe *cqe;

	while ((cqe = urccl_peek_cqe(p->node.ring))) {
		uint32_t kind = urccl_cqe_kind(cqe);

		if (kind == URCCL_KIND_NOTE)
			got_note(p, cqe);
		else if (kind == URCCL_KIND_LOST)
			got_lost(p, cqe);
		else if (kind == URCCL_KIND_OP && !(cqe->flags & URCCL_CQE_MORE))
			got_end(p, cqe);
		urccl_cqe_seen(p->node.ring, cqe);
	}
	if (p->node.interrupts && !p->stopping && !p->leaving) {
		say("interrupted: cancelling what is under way");
		p->stopping = true;
		p->tally.interrupted = true;
	}
}

/* Waits until *done, or the run is over. Returns -1 if it is not done. */
static int wait_for(struct push *p, const bool *done, const char *what)
{
	uint64_t until = now_ns() + SECONDS_TO_ANSWER * NSEC;

	while (!*done && !p->over && !p->stopping) {
		node_wait(&p->node, until);
		reap(p);
		if (p->node.now >= until)
			return push_fatal(p, "%s in %d s", what, SECONDS_TO_ANSWER);
	}
	return *done ? 0 : -1;
}

/* ---- the run ---- */

static int dial(struct push *p, const void *to, uint32_t to_len)
{
	struct urccl_sqe *sqe = node_sqe(&p->node);

	urccl_prep_connect(sqe, to, to_len);
	urccl_sqe_set_hello(p->node.ring, sqe, &p->hello, sizeof(p->hello));
	urccl_sqe_set_deadline_us(sqe, SECONDS_TO_ANSWER * 1000000u);
	urccl_sqe_add_flags(sqe, URCCL_SQE_WATCH);
	urccl_sqe_set_data64(sqe, push_data(ENTRY_CONNECT, NULL));
	return wait_for(p, &p->welcomed, "no welcome from decode");
}

static bool all_idle(const struct push *p)
{
	uint32_t i;

	for (i = 0; i < p->nslots; i++)
		if (p->slots[i].state != SLOT_IDLE)
			return false;
	return true;
}

/* When there is something to do even if nothing arrives. */
static uint64_t next_time(const struct push *p)
{
	uint64_t at = p->node.now + NSEC / 10;

	if (p->computing && p->computing->due < at)
		at = p->computing->due;
	if (p->o->speed > 0 && p->next < p->job->trace.n) {
		uint64_t due =
			p->started +
			(uint64_t)((double)p->job->trace.requests[p->next].due_ns / p->o->speed);

		if (due > p->node.now && due < at)
			at = due;
	}
	return at;
}

/* Ctrl-C: what is under way is cancelled, and decode told, so that it can use its pages again at
 * once. */
static void stop(struct push *p, uint64_t *until)
{
	uint32_t i;

	if (*until == UINT64_MAX) {
		*until = p->node.now + SECONDS_TO_STOP * NSEC;
		for (i = 0; i < p->nslots; i++)
			request_give_up(p, &p->slots[i]);
	}
	if (p->node.interrupts > 1 || p->node.now > *until)
		p->over = true;
}

static void say_start(const struct push *p)
{
	if (p->o->quiet || p != p->first)
		return;
	say("prefill replays %u requests of %s into decode's pool of %u pages", p->job->trace.n,
	    p->o->trace ? p->o->trace : "the built-in trace", p->pool.pages);
}

static void replay(struct push *p)
{
	uint64_t until = UINT64_MAX;
	bool more;

	say_start(p);
	p->started = p->tally.start = p->node.now = now_ns();
	while (!p->over && !((p->next >= p->job->trace.n || p->stopping) && all_idle(p))) {
		reap(p);
		if (p->stopping)
			stop(p, &until);
		while (!p->over && request_next(p))
			;
		more = !p->over && request_compute(p);
		report_progress(&p->tally, p->node.now);
		node_wait(&p->node, more ? 0 : next_time(p));
	}
	p->tally.end = now_ns();
}

static void *replay_thread(void *arg)
{
	replay(arg);
	return NULL;
}

/* Each context by a thread of its own. */
static void replay_all(struct push *all)
{
	uint64_t cpu = process_cpu_ns();
	pthread_t threads[CONTEXTS_MAX];
	uint32_t n = all->o->contexts, i;

	for (i = 1; i < n; i++) {
		if (pthread_create(&threads[i], NULL, replay_thread, &all[i])) {
			push_fatal(all, "no thread for another context");
			break;
		}
	}
	n = i;
	replay(all);
	for (i = 1; i < n; i++)
		pthread_join(threads[i], NULL);
	cpu = process_cpu_ns() - cpu;
	for (i = 0; i < n; i++)
		cpu -= all[i].fill_cpu;
	all->tally.cpu_ns = cpu;
}

/* In order: decode says what it did, then the connection ends. */
static void leave(struct push *p)
{
	struct urccl_sqe *sqe;
	bool never = false;

	p->leaving = true;
	p->stopping = false;
	p->node.interrupts = 0;
	node_note(&p->node, p->peer, tag_make(MSG_BYE, 0, 0), NULL, 0, push_data(ENTRY_BYE, NULL));
	if (wait_for(p, &p->tally.have_stats, "no answer from decode"))
		return;
	if (p->over)
		return;
	sqe = node_sqe(&p->node);
	urccl_prep_close(sqe, p->peer);
	urccl_sqe_set_data64(sqe, push_data(ENTRY_CLOSE, NULL));
	wait_for(p, &never, "the connection did not close");
}

/* A wrong page is no better for having been interrupted. */
static int exit_status(const struct tally *t)
{
	if (t->wrong || t->decode.wrong)
		return EXIT_FAILED;
	if (t->interrupted)
		return EXIT_INTERRUPTED;
	return t->failed || t->quiet < t->aborted ? EXIT_FAILED : t->status;
}

static int dial_all(struct push *all, const struct dial *dials, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < all->o->contexts; i++)
		if (dial(&all[i], dials[i % n].to, dials[i % n].len))
			return -1;
	return 0;
}

/* In the first one's tally. */
static void add_up(struct push *all)
{
	uint32_t i;

	for (i = 0; i < all->o->contexts; i++) {
		if (!all[i].over)
			leave(&all[i]);
		if (i)
			tally_add(&all->tally, &all[i].tally);
	}
}

static int push_all(struct push *all, const struct dial *dials, uint32_t n)
{
	struct problem why;
	uint32_t i;

	for (i = 0; i < all->o->contexts; i++) {
		if (push_open(&all[i], &why)) {
			say("%s", why.text);
			return EXIT_FAILED;
		}
	}
	if (dial_all(all, dials, n)) {
		for (i = 1; i < all->o->contexts; i++)
			tally_add(&all->tally, &all[i].tally);
		return exit_status(&all->tally);
	}
	replay_all(all);
	add_up(all);
	if (report_end(&all->tally))
		all->tally.status = EXIT_FAILED;
	return exit_status(&all->tally);
}

int push_run(const struct job *job, const struct dial *dials, uint32_t n)
{
	struct push *all = calloc(job->o->contexts, sizeof(*all));
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	int status = EXIT_FAILED;
	uint32_t i;

	for (i = 0; all && i < job->o->contexts; i++)
		push_init(&all[i], job, i, all, &lock);
	if (all)
		status = push_all(all, dials, n);
	else
		say("no memory for %u contexts", job->o->contexts);
	for (i = 0; all && i < job->o->contexts; i++)
		push_close(&all[i]);
	free(all);
	return status;
}
