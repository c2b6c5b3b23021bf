/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request at prefill: asked for, computed layer by layer, each layer sent as soon as it is
 * there, decode told behind a fence; or, where it is aborted, cancelled, settled and given up.
 */
#include <string.h>
#include <xxhash.h>
#include "push.h"

static uint64_t mailbox_off(const struct push *p, const struct slot *s)
{
	return s->index * p->mailbox_bytes;
}

static uint64_t question_off(const struct push *p, const struct slot *s)
{
	return p->nslots * p->mailbox_bytes + s->index * p->question_bytes;
}

static uint64_t layer_ns(const struct push *p, const struct slot *s)
{
	double tokens = (double)s->nsend * p->job->shape.page;

	if (p->o->prefill_rate <= 0)
		return 0;
	return (uint64_t)(tokens / p->o->prefill_rate / p->job->shape.layers * 1e9);
}

/* ---- asking ---- */

/* The share of --abort, the same in every run: after how many layers, or 0. */
static uint32_t abort_after(const struct push *p, const struct request *r)
{
	uint64_t h = XXH64(&r->line, sizeof(r->line), 1);

	if ((double)(h % 100000) >= p->o->abort_percent * 1000)
		return 0;
	return 1 + (uint32_t)((h >> 32) % p->job->shape.layers);
}

static void write_question(struct push *p, struct slot *s)
{
	uint8_t *at = p->post + question_off(p, s);
	const struct request *r = s->req;
	struct msg_ask ask = {
		.id = s->id,
		.tokens = r->tokens,
		.block_tokens = p->job->trace.block_tokens,
		.nblocks = r->nblocks,
		.npages = s->npages,
	};

	memcpy(at, &ask, sizeof(ask));
	at += sizeof(ask);
	memcpy(at, r->hash, r->nblocks * sizeof(*r->hash));
	at += r->nblocks * sizeof(*r->hash);
	if (p->o->pull)
		memcpy(at, s->pages, s->npages * sizeof(*s->pages));
}

static void ask(struct push *p, struct slot *s)
{
	struct urccl_sqe *sqe = node_sqe(&p->node);
	uint64_t len = sizeof(struct msg_ask) + s->req->nblocks * sizeof(*s->req->hash);

	if (p->o->pull)
		len += s->npages * sizeof(*s->pages);
	write_question(p, s);
	urccl_prep_write(sqe, p->asks_remote, p->post + question_off(p, s), len,
			 s->index * p->welcome.ask_bytes);
	urccl_sqe_set_region(sqe, p->post_region);
	urccl_sqe_set_class(sqe, URCCL_CLASS_LATENCY);
	urccl_sqe_set_notify(p->node.ring, sqe, tag_make(MSG_ASK, s->index, s->id), NULL, 0);
	urccl_sqe_set_data64(sqe, push_data(ENTRY_ASK, s));
	s->inflight++;
	s->state = SLOT_ASKED;
}

static struct slot *idle_slot(struct push *p)
{
	uint32_t i;

	for (i = 0; i < p->nslots; i++)
		if (p->slots[i].state == SLOT_IDLE)
			return &p->slots[i];
	return NULL;
}

static void slot_begin(struct push *p, struct slot *s, const struct request *r, uint64_t begun)
{
	s->req = r;
	s->id = p->next;
	s->nsend = s->held = s->layer = s->inflight = 0;
	s->computed = s->cancelled = s->failed = s->give_up = false;
	s->told = s->settling = s->answered = false;
	s->abort_after = abort_after(p, r);
	s->abort.quiet = 1;
	s->begun = begun;
	s->last_compute = s->told_at = 0;
}

static void refuse(struct push *p, const struct request *r)
{
	struct tally *t = &p->tally;

	if (t->nrefused < 3 && !p->o->quiet)
		say("line %u: refused: %u tokens are %u pages, and %s has %u", r->line, r->tokens,
		    tokens_pages(r->tokens, p->job->shape.page),
		    p->pool.pages <= p->cache.pages ? "decode's pool" : "prefill's cache",
		    p->pool.pages <= p->cache.pages ? p->pool.pages : p->cache.pages);
	t->refused[t->nrefused++] = r->line;
}

bool request_next(struct push *p)
{
	const struct request *r = &p->job->trace.requests[p->next];
	uint64_t due = p->node.now;
	uint32_t npages;
	struct slot *s;

	if (p->stopping || p->next >= p->job->trace.n)
		return false;
	npages = tokens_pages(r->tokens, p->job->shape.page);
	if (p->o->speed > 0)
		due = p->started + (uint64_t)((double)r->due_ns / p->o->speed);
	if (due > p->node.now)
		return false;
	if (npages > p->pool.pages || npages > p->cache.pages) {
		refuse(p, r);
		p->next += p->o->contexts;
		return true;
	}
	s = idle_slot(p);
	if (!s || pool_take(&p->pages, npages, s->pages))
		return false;
	p->next += p->o->contexts;
	slot_begin(p, s, r, due);
	s->npages = npages;
	ask(p, s);
	return true;
}

/* ---- aborting ---- */

static void tell_abort(struct push *p, struct slot *s)
{
	s->state = SLOT_LEAVING;
	node_note(&p->node, p->peer, tag_make(MSG_ABORT, s->index, s->id), &s->abort,
		  sizeof(s->abort), push_data(ENTRY_ABORT, s));
	s->inflight++;
}

/*
 * Ends the request in mid-transfer. Its writes have one user_data, so one CANCEL ends them all;
 * each write's CQE says whether its bytes are proved to be quiet at the peer, and decode is told
 * that when the last of them has come.
 */
static void abort_request(struct push *p, struct slot *s)
{
	struct urccl_sqe *sqe;

	if (p->computing == s)
		p->computing = NULL;
	s->cancelled = true;
	if (p->o->pull) {
		tell_abort(p, s);
		return;
	}
	s->state = SLOT_SETTLING;
	sqe = node_sqe(&p->node);
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, push_data(ENTRY_WRITE, s));
	urccl_sqe_set_data64(sqe, push_data(ENTRY_CANCEL, s));
	s->inflight++;
}

/*
 * The library keeps a failure until a fence of its group is told of it, and keeps only so many. So
 * here a write of nothing is: it ends with -ECANCELED, and the group leaves nothing behind.
 */
static void settle(struct push *p, struct slot *s)
{
	struct urccl_sqe *sqe = node_sqe(&p->node);

	urccl_prep_write(sqe, p->pool_remote, p->cache.base, 0, 0);
	urccl_sqe_set_region(sqe, p->cache_region);
	urccl_sqe_set_group(sqe, s->id);
	urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE);
	urccl_sqe_set_data64(sqe, push_data(ENTRY_SETTLE, s));
	s->settling = true;
	s->inflight++;
}

void request_give_up(struct push *p, struct slot *s)
{
	s->give_up = true;
	if (s->state == SLOT_READY || s->state == SLOT_COMPUTING)
		abort_request(p, s);
}

static void write_failed(struct push *p, struct slot *s, const struct urccl_cqe *cqe)
{
	if (!(cqe->flags & URCCL_CQE_REMOTE_QUIET))
		s->abort.quiet = 0;
	p->tally.cancelled += s->cancelled && cqe->res == -ECANCELED;
	if (s->cancelled || s->failed || push_breaks(p, cqe))
		return;
	s->failed = true;
	say("line %u: a layer's write failed: %s", s->req->line, node_explain(&p->node, cqe));
	/* If DONE is under way already, its fence fails with this write. */
	if (s->state == SLOT_COMPUTING)
		abort_request(p, s);
}

/* ---- the page table ---- */

/* Decode wrote it into our mailbox before it told us. Nothing in it is trusted. */
static int read_table(struct push *p, struct slot *s)
{
	const uint8_t *at = p->post + mailbox_off(p, s);
	struct msg_table table;
	uint32_t i, unused = 0;

	memcpy(&table, at, sizeof(table));
	if (table.id != s->id || table.npages != s->npages || table.held > s->req->nblocks)
		return push_fatal(p, "decode's page table is of another request");
	s->held = table.held;
	memcpy(s->dst, at + sizeof(table), s->npages * sizeof(*s->dst));
	for (i = 0; i < s->npages; i++) {
		if (s->dst[i] == NO_PAGE) {
			s->pages[unused++] = s->pages[i];
			continue;
		}
		if (s->dst[i] >= p->pool.pages)
			return push_fatal(p, "decode's page table names page %u of %u", s->dst[i],
					  p->pool.pages);
		s->src[s->nsend] = s->pages[i];
		s->dst[s->nsend] = s->dst[i];
		s->logical[s->nsend++] = i;
	}
	pool_give(&p->pages, unused, s->pages);
	return 0;
}

static void got_table(struct push *p, struct slot *s)
{
	if (s->state != SLOT_ASKED) {
		push_fatal(p, "decode sent a page table that was not asked for");
		return;
	}
	if (read_table(p, s))
		return;
	s->state = SLOT_READY;
	s->order = ++p->orders;
	if (!s->nsend)
		s->abort_after = 0;
	if (s->give_up)
		abort_request(p, s);
}

/* ---- computing and sending ---- */

static struct slot *next_ready(struct push *p)
{
	struct slot *best = NULL;
	uint32_t i;

	for (i = 0; i < p->nslots; i++) {
		struct slot *s = &p->slots[i];

		if (s->state == SLOT_READY && (!best || s->order < best->order))
			best = s;
	}
	return best;
}

/* What stands for the model: the layer's page bytes, for decode to check. If it does not, any will
 * do. */
static void compute_layer(struct push *p, struct slot *s)
{
	uint32_t per_block = p->job->trace.block_tokens / p->job->shape.page, i;
	uint64_t cpu = thread_cpu_ns();

	s->computed = true;
	for (i = 0; p->tally.verify && i < s->nsend; i++) {
		uint32_t page = s->logical[i];

		page_fill(&p->cache, s->src[i], s->layer, s->req->hash[page / per_block],
			  page % per_block);
	}
	p->fill_cpu += thread_cpu_ns() - cpu;
	p->node.now = now_ns();
}

static void write_layer(struct push *p, struct slot *s)
{
	struct urccl_paged *descs = s->descs + (uint64_t)s->layer * p->ndescs;
	struct urccl_sqe *sqe = node_sqe(&p->node);

	layer_fill(&p->cache, &p->pool, s->layer, s->nsend, s->src, s->dst, descs);
	urccl_prep_write_paged(sqe, p->pool_remote, p->cache_region, descs, p->ndescs);
	urccl_sqe_set_group(sqe, s->id);
	urccl_sqe_set_data64(sqe, push_data(ENTRY_WRITE, s));
	push_busy(p, 1);
}

static void tell_layer(struct push *p, struct slot *s)
{
	s->ready[s->layer].ready = s->layer + 1;
	node_note(&p->node, p->peer, tag_make(MSG_LAYER, s->index, s->id), &s->ready[s->layer],
		  sizeof(*s->ready), push_data(ENTRY_LAYER, s));
}

/* Behind the fence: seen by decode after every byte of this request's writes. */
static void tell_done(struct push *p, struct slot *s)
{
	struct urccl_sqe *sqe = node_sqe(&p->node);

	urccl_prep_notify(sqe, p->peer, tag_make(MSG_DONE, s->index, s->id), NULL, 0);
	urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE);
	urccl_sqe_set_group(sqe, s->id);
	urccl_sqe_set_class(sqe, URCCL_CLASS_LATENCY);
	urccl_sqe_set_data64(sqe, push_data(ENTRY_DONE, s));
	s->inflight++;
}

static void all_computed(struct push *p, struct slot *s)
{
	p->computing = NULL;
	s->last_compute = p->node.now;
	s->state = SLOT_SENT;
	/* Pulling, decode counts the layers; if it has all blocks already there is nothing to
	 * count. */
	if (!p->o->pull || !s->nsend)
		tell_done(p, s);
}

static void send_layer(struct push *p, struct slot *s)
{
	if (p->o->pull)
		tell_layer(p, s);
	else
		write_layer(p, s);
	s->inflight++;
	s->layer++;
	s->computed = false;
	s->last_compute = p->node.now;
	s->due += layer_ns(p, s);
	if (s->layer == s->abort_after)
		abort_request(p, s);
	else if (s->layer == p->job->shape.layers)
		all_computed(p, s);
}

bool request_compute(struct push *p)
{
	struct slot *s = p->computing;

	if (!s) {
		s = next_ready(p);
		if (!s)
			return false;
		p->computing = s;
		s->state = SLOT_COMPUTING;
		s->due = p->node.now + layer_ns(p, s);
		if (!s->nsend)
			all_computed(p, s);
		return true;
	}
	if (!s->computed)
		compute_layer(p, s);
	if (p->node.now < s->due)
		return false;
	send_layer(p, s);
	return true;
}

/* ---- what comes back ---- */

static void count_request(struct push *p, const struct slot *s)
{
	struct tally *t = &p->tally;

	if (s->verdict == VERDICT_ABORTED) {
		if (!s->cancelled || s->failed) {
			t->failed++;
			return;
		}
		t->aborted++;
		t->quiet += s->abort.quiet;
		return;
	}
	if (s->verdict != VERDICT_RIGHT) {
		t->wrong += s->verdict == VERDICT_WRONG;
		t->failed += s->verdict != VERDICT_WRONG;
		return;
	}
	t->done++;
	t->blocks_reused += s->held;
	t->blocks_sent += s->req->nblocks - s->held;
	t->exposed.ns[t->exposed.n++] = s->told_at - s->last_compute;
	t->whole.ns[t->whole.n++] = s->told_at - s->begun;
}

/* A slot is free again when decode has answered and none of its entries is left. */
static void maybe_end(struct push *p, struct slot *s)
{
	if (!s->answered || s->inflight)
		return;
	count_request(p, s);
	pool_give(&p->pages, s->nsend, s->src);
	/* Pulling, it may end by a failed read before all of it is computed. */
	if (p->computing == s)
		p->computing = NULL;
	s->state = SLOT_IDLE;
}

static void end_of_write(struct push *p, struct slot *s, const struct urccl_cqe *cqe)
{
	push_busy(p, -1);
	if (cqe->res < 0) {
		write_failed(p, s, cqe);
		return;
	}
	p->tally.bytes += (uint64_t)cqe->res;
	tally_path(&p->tally.path, &p->tally.transports, cqe->path);
}

static void end_of_done(struct push *p, struct slot *s, const struct urccl_cqe *cqe)
{
	if (cqe->res >= 0) {
		s->told = true;
		s->told_at = p->node.now;
	} else if (cqe->res == -ECANCELED) {
		s->state = SLOT_SETTLING;
	} else if (!push_breaks(p, cqe)) {
		push_fatal(p, "line %u: decode cannot be told: %s", s->req->line,
			   node_explain(&p->node, cqe));
	}
}

void request_end_of_entry(struct push *p, struct slot *s, enum push_entry what,
			  const struct urccl_cqe *cqe)
{
	s->inflight--;
	if (what == ENTRY_WRITE)
		end_of_write(p, s, cqe);
	else if (what == ENTRY_DONE)
		end_of_done(p, s, cqe);
	else if (cqe->res < 0 && what != ENTRY_CANCEL && what != ENTRY_SETTLE &&
		 !push_breaks(p, cqe))
		push_fatal(p, "line %u: decode cannot be told: %s", s->req->line,
			   node_explain(&p->node, cqe));
	if (s->state == SLOT_SETTLING && !s->inflight && !s->settling)
		settle(p, s);
	else if (s->state == SLOT_SETTLING && !s->inflight)
		tell_abort(p, s);
	maybe_end(p, s);
}

/* Pulling, decode may answer that it failed at any time. */
static bool awaits_answer(const struct push *p, const struct slot *s)
{
	return !s->answered && s->state >= (p->o->pull ? SLOT_COMPUTING : SLOT_SENT);
}

/* Pulling, decode has all of it: FETCHED says so, or the answer that overtook it. */
static void told(struct push *p, struct slot *s)
{
	if (!p->o->pull || s->told)
		return;
	s->told = true;
	s->told_at = p->node.now;
}

void request_note(struct push *p, struct slot *s, enum message what, const void *payload,
		  uint32_t len)
{
	struct msg_answer answer;

	if (what == MSG_TABLE) {
		got_table(p, s);
	} else if (what == MSG_FETCHED && p->o->pull && (s->answered || s->state >= SLOT_SENT)) {
		told(p, s);
	} else if (what == MSG_ANSWER && len == sizeof(answer) && awaits_answer(p, s)) {
		memcpy(&answer, payload, sizeof(answer));
		told(p, s);
		s->answered = true;
		s->verdict = answer.verdict;
		if (answer.verdict == VERDICT_WRONG)
			say("line %u: decode found %u wrong pages of a layer", s->req->line,
			    answer.wrong);
		maybe_end(p, s);
	} else {
		push_fatal(p, "decode said something that is not of this protocol");
	}
}
