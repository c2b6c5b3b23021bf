/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of a queue pair, from post to completion. Each request keeps its slot until it comes
 * out, and there are no more slots than entries in the send queue: a request with a slot always has
 * an entry.
 *
 * WRITEs are proved in groups. After the last one of a chain comes a READ of a byte of the peer,
 * unless such a READ is under way; when that completes, the next one follows the WRITEs posted
 * meanwhile. A single WRITE is thus proved at most one round trip after its acknowledgement, and a
 * stream of WRITEs costs one READ per round trip. Before the READ comes one from each device memory
 * that was written to since, if the peer gave the right to read it. Requests of a queue pair
 * complete in order, so the proof covers these READs too.
 *
 * A small WRITE that arrives while a proof is under way would not be proved before the next one. It
 * is held, and posted by one doorbell with the next proof, as are later ones. If there are
 * VERBS_HELD, all of them are posted, to keep the device busy. A held WRITE has no slot.
 */
#include "backend/verbs/verbs.h"

static uint32_t qp_id_of(const struct verbs_qp *w)
{
	return (uint32_t)(w - w->ep->qps);
}

static struct verbs_slot *slot_at(const struct verbs_qp *w, uint32_t number)
{
	return &w->slots[number & (w->depth - 1)];
}

/* One entry is reserved for a READ that proves, one for a SLOT_PUSH that is due, and some of the
 * first queue pair for control messages. */
uint32_t verbs_ring_room(const struct verbs_qp *w)
{
	uint32_t used = w->head - w->tail + 1 + w->pushes;

	used += qp_id_of(w) == QP_FIRST ? VERBS_WORDS : 0;

	return used < w->depth - 1 ? w->depth - 1 - used : 0;
}

/* The result of a chunk that is not known to be done. */
static int abort_res(const struct verbs_ep *e, const struct chunk *c)
{
	if (c->res)
		return c->res;
	if (c->flags & CHUNK_CANCELLED || e->state == EP_CLOSING)
		return -ECANCELED;
	return -ECONNRESET;
}

/* ---- doorbells ---- */

static void ring_doorbell(struct verbs_qp *w)
{
	struct verbs_device *d = verbs_ep_device(w->ep);
	struct verbs_chain *chain = &d->chain[qp_id_of(w)];
	struct ibv_send_wr *bad = NULL;
	uint32_t n = chain->n;

	chain->n = 0;
	/* Requests with a slot come out with the rest. */
	if (!n || w->failing)
		return;
	if (d->watch_ns == NEVER_NS)
		verbs_ep_watch(d);
	chain->wr[n - 1].next = NULL;
	chain->wr[n - 1].send_flags |= IBV_SEND_SIGNALED;
	w->plain = w->plain_bytes = 0;
	if (!ibv_post_send(w->qp, chain->wr, &bad)) {
		w->posted += n;
		return;
	}
	/* There was room, so the device or its driver has failed. */
	w->posted += bad ? (uint32_t)(bad - chain->wr) : n;
	verbs_ep_down(w->ep, -EIO);
}

static void signal_it(struct verbs_qp *w, struct ibv_send_wr *wr)
{
	wr->send_flags |= IBV_SEND_SIGNALED;
	w->plain = w->plain_bytes = 0;
}

/* Appends a request to the chain, with a slot. */
static struct ibv_send_wr *request(struct verbs_qp *w, enum ibv_wr_opcode opcode, struct chunk *c,
				   enum verbs_slot_kind kind)
{
	struct verbs_chain *chain = &verbs_ep_device(w->ep)->chain[qp_id_of(w)];
	struct ibv_send_wr *wr;

	/* A caller that queues requests of a queue pair rings the doorbell before another ep is
	 * served. */
	assert(!chain->n || chain->wr[0].wr_id >> 32 == w->handle);
	if (chain->n == VERBS_CHAIN)
		ring_doorbell(w);
	wr = &chain->wr[chain->n];
	*wr = (struct ibv_send_wr){
		.wr_id = (uint64_t)w->handle << 32 | (w->head & VERBS_NUMBER),
		.next = wr + 1,
		.sg_list = chain->sge[chain->n],
		.opcode = opcode,
	};
	chain->n++;
	if (++w->plain >= w->depth / 2)
		signal_it(w, wr);
	*slot_at(w, w->head++) = (struct verbs_slot){.chunk = c, .kind = (uint8_t)kind};
	return wr;
}

/* READs one byte, after all requests posted before. */
static void read_byte(struct verbs_qp *w, struct chunk *flush, enum verbs_slot_kind kind,
		      uint64_t at, uint32_t rkey)
{
	const struct verbs_ep *e = w->ep;
	struct ibv_send_wr *wr = request(w, IBV_WR_RDMA_READ, flush, kind);

	wr->sg_list[0] = (struct ibv_sge){.addr = e->word_at, .length = 1, .lkey = e->mr->lkey};
	wr->num_sge = 1;
	wr->wr.rdma.remote_addr = at;
	wr->wr.rdma.rkey = rkey;
}

static void push_post(struct verbs_qp *w)
{
	if (w->pushes)
		read_byte(w, NULL, SLOT_PUSH, w->push_at, w->push_rkey);
	w->pushes = 0;
}

static void proof_post(struct verbs_qp *w, struct chunk *flush)
{
	push_post(w);
	read_byte(w, flush, SLOT_PROOF, 0, w->ep->flush_rkey);
	w->unproved = 0;
	w->proving += !flush;
}

static void release(struct verbs_qp *w);

static void qp_flush(struct verbs_qp *w)
{
	const struct verbs_chain *chain = &verbs_ep_device(w->ep)->chain[qp_id_of(w)];

	/* A doorbell that is rung anyway can include the held ones. */
	if (w->held.head && (!w->proving || chain->n))
		release(w);
	if (w->unproved && !w->proving && !w->failing)
		proof_post(w, NULL);
	ring_doorbell(w);
}

/* ---- data ---- */

static const struct verbs_key *key_of(const struct chunk *c)
{
	return (const struct verbs_key *)(uintptr_t)c->key->v[0];
}

/* Finds the place of offset off at the peer; *run: contiguous bytes there. */
static uint64_t remote_at(const struct verbs_key *k, uint64_t off, uint32_t *rkey, uint64_t *run)
{
	uint32_t lo = 0, hi = k->n;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (k->piece[mid].start <= off)
			lo = mid;
		else
			hi = mid;
	}
	*rkey = k->piece[lo].rkey;
	*run = (lo + 1 < k->n ? k->piece[lo + 1].start : k->len) - off;
	return k->piece[lo].iova + (off - k->piece[lo].start);
}

/* 1: it writes to device memory that this side may also read. */
static int is_pushed(const struct chunk *c)
{
	uint32_t both = VERBS_KEY_DEVICE | URCCL_RIGHT_READ;

	return c->kind == CHUNK_WRITE && (key_of(c)->rights & both) == both;
}

/* A WRITE that needs a SLOT_PUSH never counts as ACKED: its key is valid now, and may not be
 * later. */
static enum verbs_slot_kind kind_of(const struct chunk *c)
{
	if (c->kind == CHUNK_READ)
		return SLOT_READ;
	return c->flags & CHUNK_ACKED && !is_pushed(c) ? SLOT_ACKED : SLOT_WRITE;
}

/* A request of the chunk writes there: a push that is due elsewhere goes first. */
static void push_later(struct verbs_qp *w, uint64_t at, uint32_t rkey)
{
	if (w->push_rkey != rkey)
		push_post(w);
	w->pushes = 1;
	w->push_rkey = rkey;
	w->push_at = at;
}

/* Queues one request for the chunk's bytes from `at` on. Returns its bytes. */
static uint32_t data_request(struct verbs_qp *w, struct chunk *c, struct verbs_local *local,
			     uint32_t at)
{
	struct verbs_device *d = verbs_ep_device(w->ep);
	enum verbs_slot_kind kind = kind_of(c);
	enum ibv_wr_opcode op = kind == SLOT_READ ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	uint32_t left = c->len - at, max = d->port.port_attr.max_msg_sz, done = 0, n, rkey;
	int most = (int)verbs_sges(d, kind == SLOT_READ);
	uint64_t run, to = remote_at(key_of(c), c->off + at, &rkey, &run);
	struct ibv_send_wr *wr;

	if (is_pushed(c))
		push_later(w, to, rkey);
	wr = request(w, op, c, kind);
	wr->wr.rdma.remote_addr = to;
	wr->wr.rdma.rkey = rkey;
	left = left < run ? left : (uint32_t)run;
	left = max && left > max ? max : left;
	while (left && wr->num_sge < most) {
		n = verbs_local_next(local, d->dev.index, left, &wr->sg_list[wr->num_sge]);
		assert(n);
		wr->num_sge++;
		left -= n;
		done += n;
	}
	/* The CPU copies inline bytes. */
	if (op == IBV_WR_RDMA_WRITE && done <= w->inlined && !local->unread)
		wr->send_flags |= IBV_SEND_INLINE;
	w->plain_bytes += done;
	if (w->plain_bytes >= VERBS_SIGNAL)
		signal_it(w, wr);
	w->unproved += kind == SLOT_WRITE;
	slot_at(w, w->head - 1)->last = at + done == c->len;
	c->scratch[0] = at;
	c->scratch[1] |=
		(uint64_t)(kind == SLOT_READ ? local->unread
					     : (key_of(c)->rights & VERBS_KEY_DEVICE) != 0);
	return done;
}

/* Posts as much as there is room for: a chunk of many pieces may need more requests than a queue
 * pair has. */
static void data_post(struct verbs_qp *w, struct chunk *c, uint32_t at)
{
	struct verbs_local local;

	verbs_local_at(&local, c, at);
	while (at < c->len && !w->failing && verbs_ring_room(w) > (uint32_t)is_pushed(c))
		at += data_request(w, c, &local, at);
	w->half = at < c->len ? c : NULL;
	w->half_at = at;
}

/* ---- held requests ---- */

/* The queue pair for a chunk. */
static struct verbs_qp *qp_for(struct verbs_ep *e, const struct chunk *c)
{
	enum verbs_qp_id id = QP_SMALL;

	if (c->cls == URCCL_CLASS_BULK)
		id = c->kind == CHUNK_READ ? QP_READS : QP_WRITES;
	if (verbs_qp_is_ready(&e->qps[id]))
		return &e->qps[id];
	if (id != QP_SMALL)
		verbs_grow(&e->qps[id]);
	return &e->qps[QP_FIRST];
}

/* The queue pair that a chunk was given. */
static struct verbs_qp *chunk_qp(struct verbs_ep *e, const struct chunk *c)
{
	return &e->qps[c->state - 1];
}

static int may_wait(const struct verbs_qp *w, const struct chunk *c)
{
	return w->proving && kind_of(c) == SLOT_WRITE && w->nheld < VERBS_HELD &&
	       w->held_bytes + c->len <= VERBS_HOLD;
}

static void chunk_hold(struct verbs_qp *w, struct chunk *c)
{
	chunk_queue_add(&w->held, c);
	w->nheld++;
	w->held_bytes += c->len;
}

static void unhold(struct verbs_qp *w, struct chunk **at)
{
	struct chunk *c = *at;

	chunk_queue_del(&w->held, at);
	w->nheld--;
	w->held_bytes -= c->len;
}

static void release(struct verbs_qp *w)
{
	struct chunk *c;

	while ((c = w->held.head) && w->ep->state == EP_UP && !w->half && !w->failing &&
	       verbs_ring_room(w) > (uint32_t)is_pushed(c)) {
		unhold(w, &w->held.head);
		data_post(w, c, 0);
	}
}

/* Returns a held chunk: none of its bytes was under way. */
static void unheld_out(struct verbs_qp *w, struct chunk **at)
{
	struct chunk *c = *at;

	unhold(w, at);
	verbs_out(verbs_ep_device(w->ep), c, abort_res(w->ep, c), CHUNK_QUIET);
}

int verbs_ring_unhold(struct chunk *c)
{
	struct verbs_qp *w = chunk_qp(verbs_ep(c->ep), c);
	struct chunk **at;

	for (at = &w->held.head; *at; at = &(*at)->next) {
		if (*at != c)
			continue;
		unheld_out(w, at);
		return 1;
	}
	return 0;
}

/* ---- accepting chunks ---- */

static int data_take(struct verbs_ep *e, struct chunk *c)
{
	struct verbs_qp *w = qp_for(e, c);

	c->state = (uint8_t)(qp_id_of(w) + 1);
	if (w->half || verbs_ring_room(w) <= w->nheld + (uint32_t)is_pushed(c)) {
		if (c->cls != URCCL_CLASS_BULK)
			verbs_grow(&e->qps[QP_SMALL]);
		return 0;
	}
	if (may_wait(w, c))
		chunk_hold(w, c);
	else
		data_post(w, c, 0);
	return 1;
}

static int has_writes(const struct verbs_qp *w)
{
	return w == &w->ep->qps[QP_FIRST] || verbs_qp_is_ready(w);
}

/* Unproved WRITEs may be on any queue pair except that for READs. */
static int flush_take(struct verbs_ep *e, struct chunk *c)
{
	uint32_t i;

	for (i = 0; i < QP_READS; i++)
		if (has_writes(&e->qps[i]) && !verbs_ring_room(&e->qps[i]))
			return 0;
	c->scratch[0] = 0;
	for (i = 0; i < QP_READS; i++) {
		if (!has_writes(&e->qps[i]))
			continue;
		proof_post(&e->qps[i], c);
		c->scratch[0]++;
	}
	return 1;
}

static int chunk_take(struct verbs_ep *e, struct chunk *c)
{
	if (c->kind == CHUNK_SEND)
		return verbs_message_send(e, c);
	return c->kind == CHUNK_FLUSH ? flush_take(e, c) : data_take(e, c);
}

/* Checks that need no peer: 0 or -errno. */
static int chunk_refused(const struct chunk *c)
{
	int res;

	if (c->kind == CHUNK_SEND || c->kind == CHUNK_FLUSH)
		return 0;
	res = c->checksum ? -EOPNOTSUPP : verbs_allowed(key_of(c), c);
	/* The device would break the queue pair. */
	if (!res && c->kind == CHUNK_READ && !verbs_writable(c, c->ep->dev->index))
		res = -EFAULT;
	return res;
}

static int post_one(struct verbs_ep *e, struct chunk *c)
{
	int res = chunk_refused(c);

	c->flags &= CHUNK_ACKED;
	c->res = 0;
	c->path = 0;
	c->state = QP_FIRST + 1;
	c->scratch[1] = 0;
	if (!res && e->state != EP_UP)
		res = -ECONNRESET;
	if (!res)
		return chunk_take(e, c);
	verbs_out(verbs_ep_device(e), c, res, CHUNK_QUIET);
	return 1;
}

uint32_t verbs_ring_post(struct verbs_ep *e, struct chunk **chunks, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (!post_one(e, chunks[i]))
			break;
	for (n = 0; n < QPS; n++)
		qp_flush(&e->qps[n]);
	return i;
}

void verbs_ring_send(struct verbs_ep *e, struct chunk *c, uint32_t word, uint32_t len)
{
	struct verbs_qp *w = &e->qps[QP_FIRST];
	struct ibv_send_wr *wr = request(w, IBV_WR_SEND, c, c ? SLOT_SEND : SLOT_WORD);
	uint32_t place = VERBS_SLOTS + e->place;

	e->place = (e->place + 1) % VERBS_SLOTS;
	e->sending++;
	slot_at(w, w->head - 1)->last = (uint8_t)word;
	wr->sg_list[0] = (struct ibv_sge){
		.addr = (uintptr_t)e->pages + place * VERBS_SLOT,
		.length = len,
		.lkey = e->mr->lkey,
	};
	wr->num_sge = 1;
}

void verbs_ring_doorbell(struct verbs_ep *e)
{
	qp_flush(&e->qps[QP_FIRST]);
}

void verbs_ring_kick(struct verbs_ep *e)
{
	uint32_t i;

	if (e->state == EP_UP || e->state == EP_CONNECTING || e->state == EP_CLOSING)
		verbs_message_kick(e);
	for (i = 0; i < QPS; i++) {
		struct verbs_qp *w = &e->qps[i];

		if (w->half && !w->failing && e->state == EP_UP)
			data_post(w, w->half, w->half_at);
		qp_flush(w);
	}
}

/* ---- completions ---- */

/* Bytes of a failed WRITE may still be under way. A request that the peer refused left none, but
 * the requests before it were only acknowledged. */
static void data_out(struct verbs_ep *e, struct chunk *c, int res)
{
	const struct verbs_qp *w = chunk_qp(e, c);
	int quiet = !res || (res == -EACCES && !c->scratch[0]) || c->kind != CHUNK_WRITE, coded;

	if (c->kind == CHUNK_WRITE && kind_of(c) == SLOT_ACKED && !res)
		quiet = 0;
	coded = res && res != -ECONNRESET && res != -ECANCELED && w->code;
	if (coded)
		c->scratch[0] = w->code;
	verbs_out(verbs_ep_device(e), c, res,
		  (quiet ? CHUNK_QUIET : 0) | (coded ? CHUNK_CODED : 0) |
			  (res == -EACCES ? CHUNK_REFUSED : 0) |
			  (c->scratch[1] ? CHUNK_UNFLUSHED : 0));
}

static void proof_done(struct verbs_qp *w, uint32_t number, struct chunk *flush, int res)
{
	if (!res)
		w->proved = number;
	w->proving -= !flush;
	if (!flush)
		return;
	if (res && !flush->res)
		flush->res = abort_res(w->ep, flush);
	if (!--flush->scratch[0])
		verbs_out(verbs_ep_device(w->ep), flush, flush->res, CHUNK_QUIET);
}

static void request_done(struct verbs_qp *w, uint32_t number, int res)
{
	struct verbs_slot *s = slot_at(w, number);
	struct verbs_ep *e = w->ep;
	struct chunk *c = s->chunk;

	switch (s->kind) {
	case SLOT_PROOF:
		proof_done(w, number, c, res);
		return;
	case SLOT_PUSH:
		return;
	case SLOT_WORD:
		e->sending--;
		if (!res)
			verbs_message_gone(e, s->last);
		return;
	case SLOT_SEND:
		e->sending--;
		data_out(e, c, res ? abort_res(e, c) : 0);
		return;
	case SLOT_WRITE:
		/* A proof lets it out, or the end of the queue pair. */
		if (res != -ECONNRESET)
			c->res = res;
		return;
	default:
		if (res && !c->res)
			c->res = res == -ECONNRESET ? abort_res(e, c) : res;
		if (s->last)
			data_out(e, c, c->res);
	}
}

/* Frees slots that are no longer needed. */
static void retire(struct verbs_qp *w)
{
	for (; w->tail != w->acked; w->tail++) {
		struct verbs_slot *s = slot_at(w, w->tail);

		if (s->kind != SLOT_WRITE)
			continue;
		if ((int32_t)(w->proved - w->tail) <= 0)
			break;
		if (s->last)
			data_out(w->ep, s->chunk, 0);
	}
	/* Numbers wrap: an old value would some day seem to be ahead of the tail. */
	if ((int32_t)(w->proved - w->tail) < 0)
		w->proved = w->tail;
}

static int result_of(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_REM_ACCESS_ERR:
		return -EACCES;
	case IBV_WC_REM_INV_REQ_ERR:
		return -EREMOTEIO;
	case IBV_WC_WR_FLUSH_ERR:
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_LOC_QP_OP_ERR: /* rxe also reports this if the port's link is down */
	case IBV_WC_REM_OP_ERR:	   /* the peer's queue pair cannot continue */
	case IBV_WC_FATAL_ERR:
	case IBV_WC_GENERAL_ERR:
		return -ECONNRESET;
	default:
		return -EIO;
	}
}

void verbs_ring_done(struct verbs_qp *w, uint32_t number, enum ibv_wc_status status)
{
	int res = result_of(status);

	number = w->acked + ((number - w->acked) & VERBS_NUMBER);
	/* Requests that were given up do not come back. */
	if (number - w->acked >= w->posted - w->acked)
		return;
	/* Before the first error, unsignalled requests without a completion succeeded. After it,
	 * every request has a completion: one without was not seen to be done. */
	for (; w->acked != number; w->acked++)
		request_done(w, w->acked, w->erred ? -ECONNRESET : 0);
	w->erred |= res != 0;
	request_done(w, w->acked++, res);
	retire(w);
	if (res && !w->failing)
		verbs_ep_down(w->ep, status == IBV_WC_RETRY_EXC_ERR ? -ETIMEDOUT : res);
}

int verbs_ring_is_drained(const struct verbs_qp *w)
{
	return w->acked == w->posted && !w->receives;
}

void verbs_ring_drain(struct verbs_qp *w)
{
	struct chunk *half = w->half;

	for (; w->acked != w->head; w->acked++)
		request_done(w, w->acked, -ECONNRESET);
	w->posted = w->head;
	for (; w->tail != w->head; w->tail++) {
		struct verbs_slot *s = slot_at(w, w->tail);

		if (s->kind == SLOT_WRITE && s->last)
			data_out(w->ep, s->chunk, abort_res(w->ep, s->chunk));
	}
	w->half = NULL;
	if (half)
		data_out(w->ep, half, abort_res(w->ep, half));
	while (w->held.head)
		unheld_out(w, &w->held.head);
}
