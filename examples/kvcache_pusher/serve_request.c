/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request at decode: prefix blocks found, pages taken for the rest, the page table written to
 * the pusher; then its pages are written by the pusher, or read by us, checked, and kept for the
 * next that has the same prefix.
 */
#include <stdlib.h>
#include <string.h>
#include "serve.h"

int fill_open(struct serve *s, struct pusher *p, struct fill *f)
{
	uint32_t pages = s->side.pages;

	f->wants = calloc(pages, sizeof(*f->wants));
	f->src = calloc(pages, sizeof(*f->src));
	f->dst = calloc(pages, sizeof(*f->dst));
	f->descs = calloc((size_t)s->job->shape.layers * p->ndescs, sizeof(*f->descs));
	return f->wants && f->src && f->dst && f->descs ? 0 : -1;
}

void fill_close(struct fill *f)
{
	free(f->wants);
	free(f->src);
	free(f->dst);
	free(f->descs);
}

/* ---- answers ---- */

static void begin_entry(struct pusher *p, struct fill *f)
{
	f->inflight++;
	p->inflight++;
}

static void answer(struct pusher *p, struct fill *f, enum verdict verdict)
{
	f->state = JOB_ANSWERED;
	f->answer.verdict = verdict;
	f->answer.wrong = f->wrong;
	p->done += verdict == VERDICT_RIGHT;
	p->wrong += verdict == VERDICT_WRONG;
	p->aborted += verdict == VERDICT_ABORTED;
	node_note(p->node, p->peer, tag_make(MSG_ANSWER, f->index, f->id), &f->answer,
		  sizeof(f->answer), serve_data(SENTRY_ANSWER, p, f->index));
	begin_entry(p, f);
}

static void put_pages(struct serve *s, struct fill *f, bool filled)
{
	pool_put(&s->pool, f->wants, f->nblocks, filled);
	s->pages_back = true;
}

/* What the pusher wrote may still land: its pages stay out of the pool until the pool is taken back
 * from it. */
static void set_aside(struct serve *s, struct pusher *p, struct fill *f)
{
	pool_set_aside(&s->pool, f->wants, f->nblocks, &p->unquiet);
	s->pages_back = true; /* the blocks that were there before */
}

static void all_there(struct serve *s, struct pusher *p, struct fill *f)
{
	f->block = f->page = f->layer = f->wrong = 0;
	f->chain = NO_PAGE;
	if (s->o->verify) {
		f->state = JOB_CHECKING;
		return;
	}
	put_pages(s, f, true);
	answer(p, f, VERDICT_RIGHT);
}

/* ---- questions ---- */

static bool question_makes_sense(const struct serve *s, const struct pusher *p,
				 const struct msg_ask *ask)
{
	uint64_t before = (uint64_t)(ask->nblocks - 1) * ask->block_tokens;

	return ask->nblocks && ask->nblocks <= s->side.pages && ask->tokens <= TOKENS_MAX &&
	       ask->block_tokens && ask->block_tokens <= TOKENS_MAX &&
	       ask->block_tokens % s->job->shape.page == 0 && ask->tokens > before &&
	       ask->tokens - before <= ask->block_tokens &&
	       ask->npages == tokens_pages(ask->tokens, s->job->shape.page) &&
	       ask->npages <= s->side.pages && ask->npages <= p->hello.pages;
}

/* The pusher wrote it into our memory and could write again: what is used is a copy, checked. */
static bool read_question(struct serve *s, struct pusher *p, struct fill *f, uint32_t id)
{
	const uint8_t *at = p->post + f->index * p->question_bytes;
	struct msg_ask ask;
	uint32_t i;

	memcpy(&ask, at, sizeof(ask));
	if (ask.id != id || !question_makes_sense(s, p, &ask))
		return false;
	f->id = id;
	f->nblocks = ask.nblocks;
	f->npages = ask.npages;
	at += sizeof(ask);
	for (i = 0; i < f->nblocks; i++) {
		memcpy(&f->wants[i].hash, at + i * sizeof(uint64_t), sizeof(uint64_t));
		f->wants[i].npages =
			block_pages(ask.tokens, ask.block_tokens, s->job->shape.page, i);
	}
	at += f->nblocks * sizeof(uint64_t);
	if (p->hello.pull)
		memcpy(f->src, at, f->npages * sizeof(*f->src));
	for (i = 0; p->hello.pull && i < f->npages; i++)
		if (f->src[i] >= p->hello.pages)
			return false;
	return true;
}

/* Decode's page of each page of the request, or NO_PAGE where it has the block; src and dst keep
 * what is missing. */
static void make_table(const struct serve *s, struct fill *f, uint8_t *at)
{
	uint32_t *table = (uint32_t *)(void *)(at + sizeof(struct msg_table)), logical = 0, i, k,
		 page;
	struct msg_table head = {.id = f->id, .npages = f->npages};

	f->nget = 0;
	for (i = 0; i < f->nblocks; i++) {
		const struct want *w = &f->wants[i];

		page = s->pool.blocks[w->block].first;
		head.held += w->held;
		for (k = 0; k < w->npages; k++, page = s->pool.next[page], logical++) {
			table[logical] = w->held ? NO_PAGE : page;
			if (w->held)
				continue;
			f->src[f->nget] = f->src[logical];
			f->dst[f->nget++] = page;
		}
	}
	memcpy(at, &head, sizeof(head));
}

/* A notified write: when the pusher is told, the table is there. */
static void write_table(struct serve *s, struct pusher *p, struct fill *f)
{
	uint8_t *at = p->post + p->nslots * p->question_bytes + f->index * p->table_bytes;
	struct urccl_sqe *sqe = node_sqe(p->node);

	make_table(s, f, at);
	urccl_prep_write(sqe, p->mailbox, at,
			 sizeof(struct msg_table) + f->npages * sizeof(uint32_t),
			 f->index * table_bytes(p->hello.pages));
	urccl_sqe_set_region(sqe, p->post_region);
	urccl_sqe_set_class(sqe, URCCL_CLASS_LATENCY);
	urccl_sqe_set_notify(p->node->ring, sqe, tag_make(MSG_TABLE, f->index, f->id), NULL, 0);
	urccl_sqe_set_data64(sqe, serve_data(SENTRY_TABLE, p, f->index));
	begin_entry(p, f);
	f->state = JOB_FILLING;
}

/* The first in order of arrival among those in this state. */
static struct fill *first_in(struct serve *s, enum job_state state, struct pusher **owner)
{
	struct fill *best = NULL;
	uint32_t i, k;

	for (i = 0; i < SERVE_PUSHERS; i++) {
		struct pusher *p = s->pushers[i];

		for (k = 0; p && p->fills && k < p->nslots; k++) {
			if (p->fills[k].state != state || (best && p->fills[k].order > best->order))
				continue;
			best = &p->fills[k];
			*owner = p;
		}
	}
	return best;
}

static int get_pages(struct serve *s, struct pusher *p, struct fill *f)
{
	uint64_t evicted = s->pool.evicted;
	int res = pool_get(&s->pool, f->wants, f->nblocks);

	p->stats.evicted += s->pool.evicted - evicted;
	return res;
}

void fills_retry(struct serve *s)
{
	struct pusher *p;
	struct fill *f;

	s->pages_back = false;
	while ((f = first_in(s, JOB_WAITING, &p)) && !get_pages(s, p, f)) {
		f->asked = f->fetched = f->wrong = 0;
		f->aborted = f->read_failed = false;
		write_table(s, p, f);
	}
}

static void got_question(struct serve *s, struct pusher *p, struct fill *f, uint32_t id)
{
	/* The pusher has our last answer before we know it. */
	if (f->state == JOB_ANSWERED && f->inflight && !f->asked_again) {
		f->asked_again = id;
		return;
	}
	if (f->state != JOB_IDLE || f->inflight || !read_question(s, p, f, id)) {
		serve_drop(s, p, "its question makes no sense");
		return;
	}
	f->order = ++s->orders;
	f->state = JOB_WAITING;
	/* Those that wait already come first. */
	fills_retry(s);
}

/* ---- pulling ---- */

static void read_layers(struct serve *s, struct pusher *p, struct fill *f, uint32_t ready)
{
	while (f->asked < ready) {
		struct urccl_paged *descs = f->descs + (uint64_t)f->asked * p->ndescs;
		struct urccl_sqe *sqe = node_sqe(p->node);

		layer_fill(&s->side, &p->cache, f->asked++, f->nget, f->dst, f->src, descs);
		urccl_prep_read_paged(sqe, p->remote_cache, s->region[p->context], descs,
				      p->ndescs);
		urccl_sqe_set_group(sqe, f->id);
		urccl_sqe_set_data64(sqe, serve_data(SENTRY_READ, p, f->index));
		busy_begin(&p->busy, s->node.now);
		begin_entry(p, f);
	}
}

static void reads_ended(struct serve *s, struct pusher *p, struct fill *f)
{
	if (p->lost || f->aborted || f->read_failed) {
		put_pages(s, f, false);
		f->state = JOB_IDLE;
		if (!p->lost)
			answer(p, f, f->aborted ? VERDICT_ABORTED : VERDICT_FAILED);
	} else if (f->fetched == s->job->shape.layers) {
		node_note(p->node, p->peer, tag_make(MSG_FETCHED, f->index, f->id), NULL, 0,
			  serve_data(SENTRY_FETCHED, p, f->index));
		begin_entry(p, f);
		all_there(s, p, f);
	}
}

static void end_of_read(struct serve *s, struct pusher *p, struct fill *f,
			const struct urccl_cqe *cqe)
{
	busy_end(&p->busy, s->node.now);
	f->fetched++;
	if (cqe->res >= 0) {
		p->stats.read_bytes += (uint64_t)cqe->res;
		tally_path(&p->stats.path, &p->stats.transports, cqe->path);
	} else if (!f->aborted && !f->read_failed) {
		f->read_failed = true;
		if (!serve_breaks(p, cqe))
			say("pusher %u: a layer's read failed: %s", p->number,
			    node_explain(p->node, cqe));
	}
	if (f->state == JOB_FILLING && f->fetched == f->asked)
		reads_ended(s, p, f);
}

static void cancel_reads(struct pusher *p, struct fill *f)
{
	struct urccl_sqe *sqe = node_sqe(p->node);

	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, serve_data(SENTRY_READ, p, f->index));
	urccl_sqe_set_data64(sqe, serve_data(SENTRY_CANCEL, p, f->index));
	begin_entry(p, f);
}

/* ---- aborting ---- */

static void got_abort(struct serve *s, struct pusher *p, struct fill *f,
		      const struct msg_abort *word)
{
	/* Pulling, the last read may have ended before the word came: then it is a request like
	 * any other. */
	if (f->state != JOB_FILLING || f->aborted)
		return;
	f->aborted = true;
	if (p->hello.pull && f->fetched < f->asked) {
		cancel_reads(p, f);
		return;
	}
	if (word->quiet) {
		put_pages(s, f, false);
	} else {
		say("pusher %u: request %u was aborted, but its writes are not known to have ended",
		    p->number, f->id);
		set_aside(s, p, f);
	}
	answer(p, f, VERDICT_ABORTED);
}

/* ---- what arrives ---- */

static void got_layer(struct serve *s, struct pusher *p, struct fill *f,
		      const struct msg_layer *word)
{
	if (!p->hello.pull || word->ready > s->job->shape.layers)
		serve_drop(s, p, "it computes layers that there are not");
	else if (f->state == JOB_FILLING && !f->aborted && !f->read_failed)
		read_layers(s, p, f, word->ready);
}

void fill_note(struct serve *s, struct pusher *p, struct fill *f, enum message what, uint32_t id,
	       const void *payload, uint32_t len)
{
	union {
		struct msg_layer layer;
		struct msg_abort abort;
	} word = {{0}};

	memcpy(&word, payload, len < sizeof(word) ? len : sizeof(word));
	if (what == MSG_ASK)
		got_question(s, p, f, id);
	else if (f->id != id)
		serve_drop(s, p, "it speaks of a request that it did not ask for");
	else if (what == MSG_DONE && f->state == JOB_FILLING && !(p->hello.pull && f->nget))
		all_there(s, p, f);
	else if (what == MSG_LAYER && len == sizeof(word.layer))
		got_layer(s, p, f, &word.layer);
	else if (what == MSG_ABORT && len == sizeof(word.abort))
		got_abort(s, p, f, &word.abort);
	else
		serve_drop(s, p, "it said something that is not of this protocol");
}

void fill_end_of_entry(struct serve *s, struct pusher *p, struct fill *f, enum serve_entry what,
		       const struct urccl_cqe *cqe)
{
	uint32_t id = f->asked_again;

	f->inflight--;
	if (what == SENTRY_READ)
		end_of_read(s, p, f, cqe);
	else if (cqe->res < 0 && what != SENTRY_CANCEL && !serve_breaks(p, cqe))
		serve_drop(s, p, node_explain(p->node, cqe));
	if (f->inflight || f->state != JOB_ANSWERED)
		return;
	f->state = JOB_IDLE;
	f->asked_again = 0;
	if (id && !p->lost)
		got_question(s, p, f, id);
}

/* What we read from it ends by itself. */
void fill_lost(struct serve *s, struct pusher *p, struct fill *f)
{
	if (f->state == JOB_FILLING && f->fetched < f->asked)
		return;
	if (f->state == JOB_FILLING || f->state == JOB_CHECKING)
		set_aside(s, p, f);
	f->state = JOB_IDLE;
}

/* ---- checking ---- */

/* Time of a check before the loop looks at the ring again. A page of a GPU's memory takes 30 us. */
#define CHECK_NS 500000u

static void check_page(struct serve *s, struct pusher *p, struct fill *f)
{
	const struct want *w = &f->wants[f->block];

	if (f->chain == NO_PAGE)
		f->chain = s->pool.blocks[w->block].first;
	s->checked++;
	p->stats.checked++;
	if (!page_right(&s->side, f->chain, f->layer, w->hash, f->page)) {
		s->wrong++;
		p->stats.wrong++;
		f->wrong++;
	}
	/* Pages of one layer are near each other, those of one page's layers far apart. */
	f->chain = s->pool.next[f->chain];
	if (++f->page < w->npages)
		return;
	f->page = 0;
	f->chain = NO_PAGE;
	if (++f->layer < s->job->shape.layers)
		return;
	f->layer = 0;
	f->block++;
}

bool fills_check(struct serve *s)
{
	uint64_t start = thread_cpu_ns(), until = now_ns() + CHECK_NS, took;
	struct pusher *p = NULL;
	struct fill *f = first_in(s, JOB_CHECKING, &p);

	if (!f)
		return false;
	while (f->block < f->nblocks && now_ns() < until)
		check_page(s, p, f);
	took = thread_cpu_ns() - start;
	s->verify_cpu += took;
	p->stats.verify_ns += took;
	if (f->block < f->nblocks)
		return true;
	put_pages(s, f, !f->wrong);
	if (f->wrong)
		say("pusher %u: request %u has %u wrong pages of a layer", p->number, f->id,
		    f->wrong);
	answer(p, f, f->wrong ? VERDICT_WRONG : VERDICT_RIGHT);
	return true;
}
