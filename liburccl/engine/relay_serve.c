/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay: requests of peers for memory of this side. Nothing in a request is trusted. The engine
 * looks up the grant in its own table, and checks peer, rights, expiry and range against the
 * exposure: when the request comes, and again before a byte is copied.
 */
#include "engine/post.h"

/* ---- what the peer may ---- */

/* 1: the processor or a GPU can copy all of it. */
static int can_copy(const struct exposure *x, uint64_t off, uint64_t len)
{
	const struct memory *m = x->memory;
	const struct span *s = memory_span(m, x->off + off);

	for (; s < m->spans + m->nspans && s->start < x->off + off + len; s++)
		if (s->is_dmabuf)
			return 0;
	return 1;
}

/* The exposure that the request names. NULL: the request is refused with *res. */
static struct exposure *allowed(const struct engine *e, const struct engine_peer *p,
				const struct relay_request *m, int *res)
{
	uint32_t right = m->kind == RELAY_PULL ? URCCL_RIGHT_WRITE : URCCL_RIGHT_READ;
	struct exposure *x = exposure_find(e, p, m->grant, right);

	*res = -EACCES;
	if (!x)
		return NULL;
	*res = -ERANGE;
	if (m->len > x->len || m->off > x->len - m->len)
		return NULL;
	*res = -EOPNOTSUPP;
	if (!e->stage.memory || e->config.params->bounce == URCCL_ALLOW_NO ||
	    !can_copy(x, m->off, m->len))
		return NULL;
	*res = 0;
	return x;
}

/* ---- slots that PULLs are read into ---- */

/* Peers share the slots by the rule of chunk_may(). */
static uint8_t *read_take(struct engine *e, struct relay *r)
{
	struct relays *all = &e->relays;

	if (!all->nreads || (r->nreads && r->nreads * (1 + all->readers) >= all->nreads))
		return NULL;
	all->readers += !r->nreads++;
	return all->reads[--all->nreads];
}

static void read_give(struct engine *e, struct relay *r, struct relay_record *rec)
{
	if (!rec->bytes)
		return;
	e->relays.reads[e->relays.nreads++] = rec->bytes;
	e->relays.readers -= !--r->nreads;
	rec->bytes = NULL;
}

/* ---- a record ---- */

static void record_answer(struct engine *e, struct engine_peer *p, struct relay_record *rec,
			  const struct relay_answer *a)
{
	rec->answer = *a;
	rec->answer.type = MESSAGE_RELAYED;
	rec->answer.seq = rec->request.seq;
	rec->state = a->word == RELAY_FINAL ? RECORD_FINAL : RECORD_READY;
	relay_answer(p, rec);
	relay_kick(e, p->relay);
}

static void record_final(struct engine *e, struct engine_peer *p, struct relay_record *rec, int res)
{
	const struct relay_answer a = {.word = RELAY_FINAL, .res = res};

	read_give(e, p->relay, rec);
	if (rec->slot >= 0)
		run_slot_free(p->relay, (uint32_t)rec->slot);
	rec->slot = -1;
	record_answer(e, p, rec, &a);
}

/* The copy has ended: res is 0 or -errno. */
static void record_copied(struct engine *e, struct engine_peer *p, struct relay_record *rec,
			  int res)
{
	struct relay_answer a = {.word = RELAY_READY};

	if (rec->exposure)
		rec->exposure->copies--;
	rec->exposure = NULL;
	if (res || rec->request.kind == RELAY_PULL) {
		record_final(e, p, rec, res);
	} else if (rec->ended) {
		record_final(e, p, rec, -ECANCELED);
	} else {
		a.slot = (uint8_t)rec->slot;
		a.run = p->relay->run->number;
		record_answer(e, p, rec, &a);
	}
}

static void record_copy(struct engine *e, struct engine_peer *p, struct relay_record *rec,
			uint8_t *bytes)
{
	const struct relay_request *m = &rec->request;
	int res;
	struct exposure *x = allowed(e, p, m, &res);

	if (!x) {
		record_final(e, p, rec, res);
		return;
	}
	rec->exposure = x;
	x->copies++;
	rec->state = RECORD_COPIES;
	rec->copy = (struct copy){.memory = x->memory,
				  .off = x->off + m->off,
				  .bytes = bytes,
				  .len = m->len,
				  .in = m->kind == RELAY_PULL};
	if (copy_run(&rec->copy))
		record_copied(e, p, rec, 0);
	else
		relay_kick(e, p->relay);
}

static void record_read(struct engine *e, struct engine_peer *p, struct relay_record *rec,
			const struct rkey *key)
{
	const struct relay_request *m = &rec->request;
	uint32_t lane = m->len <= RELAY_SMALL ? LANE_SMALL : LANE_BULK;

	rec->state = RECORD_READS;
	rec->read = (struct chunk){
		.kind = CHUNK_READ,
		.cls = lane == LANE_BULK ? URCCL_CLASS_BULK : URCCL_CLASS_LATENCY,
		.len = m->len,
		.local = rec->bytes,
		.memory = e->stage.memory,
		.key = key,
		.off = m->slot * SLOT_BYTES,
		.op = p,
		.seg = RELAY_SEG_READ,
		.checksum = m->checksum,
	};
	lane_add_chunk(p, lane, &rec->read);
}

/* Starts the request if it can. 1: it no longer waits. */
static uint32_t record_start(struct engine *e, struct engine_peer *p, struct relay_record *rec)
{
	const struct rkey *key;
	uint8_t *bytes;
	int res = 0, slot;

	if (rec->request.kind == RELAY_FETCH) {
		slot = run_slot_take(e, p, &bytes);
		if (slot < 0)
			return 0;
		rec->slot = (int8_t)slot;
		record_copy(e, p, rec, bytes);
		return 1;
	}
	key = relay_key(p, rec->request.run, &res);
	if (!key && res) {
		record_final(e, p, rec, res);
		return 1;
	}
	if (key && !rec->bytes)
		rec->bytes = read_take(e, p->relay);
	if (!key || !rec->bytes)
		return 0;
	record_read(e, p, rec, key);
	return 1;
}

uint32_t relay_record_look(struct engine *e, struct engine_peer *p, struct relay_record *rec)
{
	if (!rec->used || rec->state > RECORD_COPIES)
		return 0;
	if (rec->state == RECORD_WAITS)
		return record_start(e, p, rec);
	if (rec->state == RECORD_READS || !copy_done(&rec->copy))
		return 0;
	/* The exposure may have ended meanwhile: the rest is not copied then. */
	if (handles_get(&e->grants, rec->request.grant) != rec->exposure)
		record_copied(e, p, rec, -EACCES);
	else if (copy_step(&rec->copy))
		record_copied(e, p, rec, rec->copy.job.res);
	return 1;
}

/* Stops the copy: the peer is lost, the exposure ends, or the peer sent END. 1: no GPU copies for
 * it. */
static int copy_stop(struct engine *e, struct engine_peer *p, struct relay_record *rec, int res)
{
	if (!rec->used || rec->state != RECORD_COPIES)
		return 1;
	if (!copy_cancel(&rec->copy))
		return 0;
	record_copied(e, p, rec, res);
	return 1;
}

int relay_record_stop(struct engine *e, struct engine_peer *p, struct relay_record *rec)
{
	if (!copy_stop(e, p, rec, -ECONNRESET))
		return 0;
	if (rec->used && rec->state == RECORD_WAITS)
		record_final(e, p, rec, -ECONNRESET);
	return 1;
}

int relay_copies_stop(struct engine *e, struct exposure *x)
{
	struct engine_peer *p = x->peer;
	uint32_t i;

	for (i = 0; i < RELAY_WINDOW && x->copies; i++)
		if (p->relay->records[i].exposure == x)
			(void)copy_stop(e, p, &p->relay->records[i], -EACCES);
	return !x->copies;
}

/* ---- requests ---- */

static void request_begin(struct engine *e, struct engine_peer *p, struct relay_record *rec)
{
	int res;

	peer_awaited(e, p); /* a peer that is frozen must not keep slots for ever */
	rec->used = 1;
	rec->ended = rec->tries = 0;
	rec->state = RECORD_WAITS;
	if (rec->request.kind == RELAY_END)
		record_final(e, p, rec, -ECANCELED);
	else if (!allowed(e, p, &rec->request, &res))
		record_final(e, p, rec, res);
	else if (!record_start(e, p, rec))
		relay_kick(e, p->relay);
}

static void request_end(struct engine *e, struct engine_peer *p, struct relay_record *rec)
{
	struct chunk *c = &rec->read;

	rec->ended = 1;
	switch (rec->state) {
	case RECORD_WAITS:
		record_final(e, p, rec, -ECANCELED);
		return;
	case RECORD_READS:
		if (c->taken && !(c->flags & CHUNK_CANCELLED))
			c->ep->dev->ops->cancel(c, CANCEL_ASK);
		return;
	case RECORD_COPIES:
		(void)copy_stop(e, p, rec, -ECANCELED);
		return;
	case RECORD_READY:
		record_final(e, p, rec, 0);
		return;
	default:
		relay_answer(p, rec);
		return;
	}
}

/* A peer uses a number again once it has FINAL of the last request with it. Requests that come
 * before that are ignored. */
void relay_serve(struct engine *e, struct engine_peer *p, const struct relay_request *m)
{
	struct relay_record *rec = &p->relay->records[m->seq % RELAY_WINDOW];
	int32_t ahead = (int32_t)(m->seq - rec->request.seq);

	if (p->state != PEER_UP && !(p->state == PEER_SUSPENDED && p->nup))
		return;
	if (rec->used && (ahead < 0 || (ahead && rec->state != RECORD_FINAL)))
		return;
	store_relaxed(&p->heard, e->iterations);
	if (!rec->used || ahead) {
		rec->request = *m;
		request_begin(e, p, rec);
	} else if (m->kind == RELAY_END) {
		request_end(e, p, rec);
	} else if (rec->state >= RECORD_READY) {
		relay_answer(p, rec);
	}
}

/* ---- the READ of a PULL ---- */

void relay_unbound(struct engine *e, struct chunk *c)
{
	struct relay_record *rec = container_of(c, struct relay_record, read);
	struct engine_peer *p = c->op;

	rec->state = RECORD_WAITS;
	if (rec->ended)
		record_final(e, p, rec, -ECANCELED);
	relay_kick(e, p->relay);
}

/* If its rail broke the READ is posted again: it wrote only to the slot. */
void relay_read_out(struct engine *e, struct chunk *c)
{
	struct relay_record *rec = container_of(c, struct relay_record, read);
	struct engine_peer *p = c->op;
	int res = c->res;

	if (c->flags & (CHUNK_FAILOVER | CHUNK_REFUSED) && p->failover && p->state <= PEER_UP &&
	    ++rec->tries < RELAY_TRIES) {
		relay_unbound(e, c);
		return;
	}
	if (rec->ended)
		record_final(e, p, rec, -ECANCELED);
	else if (res == -EBADMSG || (res == -EOPNOTSUPP && c->checksum))
		record_final(e, p, rec, res);
	else if (res || p->state > PEER_UP)
		record_final(e, p, rec, -EREMOTEIO);
	else
		record_copy(e, p, rec, rec->bytes);
}

/* No device took it before the peer's rails closed. */
void relay_read_dropped(struct engine *e, struct chunk *c)
{
	struct relay_record *rec = container_of(c, struct relay_record, read);
	struct engine_peer *p = c->op;

	read_give(e, p->relay, rec);
	rec->state = RECORD_FINAL;
}
