/* SPDX-License-Identifier: Apache-2.0 */
#include "serve.h"
#include "load.h"
#include "talk.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SESSIONS = 64, BLOCKS_MAX = 1 << 24 };
static const uint64_t memory_max = 64ull << 30;

/* A client that asked for memory. */
struct session {
	uint32_t peer; /* 0: free */
	int gone;      /* its memory is to be taken back */
	struct area area;
	uint64_t notes;
	int works;	  /* both ways: we can work towards it */
	int wants_result; /* when its load has stopped */
	struct load load;
	struct options load_options;
	uint64_t past_entries; /* of loads that were stopped */
};

struct server {
	struct end end;
	const struct options *options;
	struct session session[SESSIONS];
	uint32_t clients;		    /* sessions in use */
	int served;			    /* one has left */
	struct session *worker;		    /* whose load is running */
	uint8_t told[1024][URCCL_NOTE_MAX]; /* payloads of control entries, until these end */
};

static struct session *session_of(struct server *s, uint32_t peer)
{
	uint32_t i;

	for (i = 0; i < SESSIONS; i++)
		if (s->session[i].peer == peer && !s->session[i].gone)
			return &s->session[i];
	return NULL;
}

/*
 * The payload must outlive the entry. It is a notification's worth, so each control entry keeps its
 * own: as many as the ring has entries for control. A client that does not take what it is told
 * is told no more: there is an entry left for the end of each.
 */
static void tell(struct server *s, uint32_t peer, enum talk tag, const void *payload, uint32_t len)
{
	uint8_t *copy = s->told[s->end.numbers % 1024];
	struct urccl_sqe *sqe;

	if (urccl_sq_space_left(s->end.ring) <= SESSIONS)
		return;
	sqe = end_sqe(&s->end);
	memcpy(copy, payload, len);
	urccl_prep_notify(sqe, (struct urccl_peer){peer}, tag, copy, len);
	end_submit(&s->end, sqe);
}

static void tell_result(struct server *s, struct session *c)
{
	struct talk_result r = {
		.cpu = bench_cpu_seconds(),
		.entries = c->past_entries + c->load.ended,
		.bytes = (c->past_entries + c->load.ended) * c->load.bytes,
		.notes = c->notes,
	};

	tell(s, c->peer, TALK_RESULT, &r, sizeof(r));
}

/* What it would have us do is possible, in its memory and ours, with tables that are not out of
 * proportion. */
static int work_is_sane(const struct talk_request *r)
{
	int is_vector = r->op == URCCL_OP_WRITEV || r->op == URCCL_OP_READV;
	int is_paged = r->op == URCCL_OP_WRITE_PAGED || r->op == URCCL_OP_READ_PAGED;
	uint64_t block = r->size, bytes = r->size;

	if (r->op > URCCL_OP_CMP_SWAP || !r->depth || r->depth > 8192 || !r->iovs || !r->blocks ||
	    !r->planes || !r->run || r->table > TABLE_DENSE || r->cls > URCCL_CLASS_CONTROL)
		return -EINVAL;
	if (is_vector && r->size % r->iovs)
		return -EINVAL;
	if (is_vector)
		block = r->size / r->iovs;
	if (is_paged && (__builtin_mul_overflow(bytes, r->blocks, &bytes) ||
			 __builtin_mul_overflow(bytes, r->planes, &bytes)))
		return -EINVAL;
	if (!r->span || r->span > r->len || bytes > r->span)
		return -EINVAL;
	if (!is_vector && !is_paged)
		return 0;
	if (!block)
		return -EINVAL;
	return r->span / block > BLOCKS_MAX ? -E2BIG : 0;
}

static int request_is_sane(const struct talk_request *r)
{
	if (r->version != TALK_VERSION)
		return -EPROTONOSUPPORT;
	if (!r->len || r->len > memory_max)
		return -E2BIG;
	return r->bidirectional ? work_is_sane(r) : 0;
}

/* What the client wants us to do towards it, as options of our own. */
static void prepare_work(struct server *s, struct session *c, const struct talk_request *r)
{
	struct options *o = &c->load_options;
	uint32_t depth_max = s->end.ring->entries / 2; /* the rest is for what we tell */

	*o = *s->options;
	o->op = (enum urccl_op)r->op;
	o->size = r->size;
	o->span = r->span;
	o->depth = r->depth < depth_max ? r->depth : depth_max;
	o->iovs = r->iovs;
	o->blocks = r->blocks;
	o->planes = r->planes;
	o->table = (enum perf_table)r->table;
	o->run = r->run;
	o->cls = r->cls;
	c->load.target.peer.id = c->peer;
	c->load.target.region = c->area.region;
	c->load.target.local = c->area.base;
	c->load.target.memory = c->area.memory;
	if (urccl_import(s->end.ctx, c->load.target.peer, &r->back, 1, &c->load.target.remote) == 0)
		c->works = 1;
}

/* 0: c has memory for it; or -errno, and is as it was. */
static int session_open(struct server *s, struct session *c, uint32_t peer,
			const struct talk_request *r)
{
	struct memory m = s->options->memory[SERVERS];
	struct area area;
	int err;

	m.alloc = r->alloc;
	m.pages = r->thp ? BENCH_PAGES_THP : BENCH_PAGES_4K;
	if (m.kind != MEMORY_GPU && !bench_has_memory(r->len))
		return -ENOMEM;
	err = area_try(&area, s->end.ctx, r->len, &m);
	if (err)
		return err;
	memset(c, 0, sizeof(*c));
	c->peer = peer;
	c->area = area;
	s->clients++;
	return 0;
}

static void answer_request(struct server *s, uint32_t peer, const struct talk_request *r)
{
	struct session *c = session_of(s, 0);
	struct talk_offer offer = {.version = TALK_VERSION};

	offer.err = request_is_sane(r);
	if (!offer.err && (!c || session_of(s, peer)))
		offer.err = -EBUSY;
	if (!offer.err)
		offer.err = session_open(s, c, peer, r);
	if (!offer.err) {
		urccl_advertise(s->end.ctx, c->area.region, 0, r->len, c->area.rights, 0,
				&offer.advert);
		if (r->bidirectional)
			prepare_work(s, c, r);
	}
	tell(s, peer, TALK_OFFER, &offer, sizeof(offer));
}

static void start_work(struct server *s, struct session *c)
{
	if (c->works && !s->worker) {
		load_open(&c->load, &s->end, &c->load_options, TAG_LOAD);
		c->load.forgiving = 1;
		load_start(&c->load, ~0ull);
		s->worker = c;
	}
	tell_result(s, c);
}

/* The load's last entries end later, in turns to come: tidy() tells the result then. */
static void stop_work(struct server *s, struct session *c)
{
	if (s->worker != c) {
		tell_result(s, c);
		return;
	}
	c->load.limit = c->load.posted;
	c->wants_result = 1;
}

static void note(struct server *s, const struct urccl_cqe *cqe)
{
	struct session *c = session_of(s, cqe->peer);
	struct talk_request request;

	switch (cqe->tag) {
	case TALK_REQUEST:
		if (cqe->res != sizeof(request))
			return;
		memcpy(&request, urccl_cqe_note(s->end.ring, cqe), sizeof(request));
		answer_request(s, cqe->peer, &request);
		break;
	case TALK_START:
		if (c)
			start_work(s, c);
		break;
	case TALK_STOP:
		if (c)
			stop_work(s, c);
		break;
	case TALK_PING:
		tell(s, cqe->peer, TALK_PONG, urccl_cqe_note(s->end.ring, cqe), (uint32_t)cqe->res);
		break;
	default:
		if (c)
			c->notes++;
	}
}

static void lost(struct server *s, uint32_t peer)
{
	struct session *c = session_of(s, peer);
	struct urccl_sqe *sqe = end_sqe(&s->end);

	/* The reference that its PEER event gave us. */
	urccl_prep_close(sqe, (struct urccl_peer){peer});
	end_submit(&s->end, sqe);
	if (!c)
		return;
	c->gone = 1;
	if (s->worker == c)
		c->load.limit = c->load.posted;
}

static void serve_event(struct end *e, const struct urccl_cqe *cqe)
{
	struct server *s = e->owner;

	switch (urccl_cqe_kind(cqe)) {
	case URCCL_KIND_NOTE:
		if (cqe->res >= 0)
			note(s, cqe);
		break;
	case URCCL_KIND_LOST:
		lost(s, cqe->peer);
		break;
	case URCCL_KIND_OP:
		/* A client that left does not take our answers: nothing to do about it. */
		end_note_end(e, cqe);
		break;
	}
}

static void forget(struct server *s, struct session *c)
{
	if (area_close(&c->area, s->end.ctx) < 0)
		return;
	memset(c, 0, sizeof(*c));
	s->clients--;
	s->served = 1;
}

static void end_work(struct server *s)
{
	struct session *c = s->worker;

	c->past_entries += c->load.ended;
	c->load.ended = 0;
	load_close(&c->load);
	s->worker = NULL;
	if (c->wants_result && !c->gone)
		tell_result(s, c);
	c->wants_result = 0;
}

/* What must not be done while completions are being looked at. */
static void tidy(struct server *s)
{
	uint32_t i;

	if (s->worker && s->worker->load.limit == s->worker->load.posted &&
	    !s->worker->load.inflight)
		end_work(s);
	for (i = 0; i < SESSIONS; i++)
		if (s->session[i].gone && s->worker != &s->session[i])
			forget(s, &s->session[i]);
}

/* One write, so that those of several threads do not mix. */
static void say_where(struct server *s, int say_fd)
{
	struct whom whom = {.len = 0};
	int n = urccl_metadata(s->end.ctx, whom.bytes, sizeof(whom.bytes));

	_Static_assert(sizeof(whom) <= PIPE_BUF, "one write to a pipe");
	if (n < 0)
		bench_die("cannot say where we are: %s", urccl_errmsg());
	whom.len = (uint32_t)n;
	if (write(say_fd, &whom, sizeof(whom)) != sizeof(whom))
		bench_die("cannot say where we are: %s", strerror(errno));
}

void serve(const struct options *o, int once, int say_fd)
{
	struct server *s = calloc(1, sizeof(*s));
	struct urccl *ctx = end_context(o, SERVERS, o->listen);
	struct urccl_sqe *sqe;

	if (!s)
		bench_die("out of memory");
	s->options = o;
	end_open(&s->end, o, ctx, o->server_wait);
	s->end.owner = s;
	s->end.event = serve_event;
	sqe = end_sqe(&s->end);
	urccl_prep_accept(sqe);
	end_submit(&s->end, sqe);
	sqe = end_sqe(&s->end);
	urccl_prep_watch(sqe, (struct urccl_peer){0});
	end_submit(&s->end, sqe);
	if (say_fd >= 0) {
		say_where(s, say_fd);
	} else {
		printf("listening on %s; stop with Ctrl-C\n", o->listen);
		bench_flush();
	}
	while (!once || !s->served || s->clients) {
		if (s->worker)
			load_post(&s->worker->load);
		if (end_reap(&s->end))
			tidy(s);
		else
			end_idle(&s->end);
	}
	end_close(&s->end);
	urccl_close(ctx);
	free(s);
}
