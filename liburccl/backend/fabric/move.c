/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks: the queues before the data endpoint, operations on it, and retries after it breaks. */
#include "backend/fabric/key.h"

#define BATCH 16 /* completions per read */
#define READS 4u /* such reads per poll */

/* chunk.res: posted again when all of it is back; FAULTING: likewise, and it is the faulting
 * chunk. */
#define AGAIN	 (-ERESTART)
#define FAULTING (-ESTALE)

/* ---- coming in ---- */

/* 1: a FLUSH that needs a READ. Others complete at once. */
static int proves(const struct fabric_ep *e, const struct chunk *c)
{
	return c->kind == CHUNK_FLUSH && fabric_ep_device(e)->acks;
}

static uint64_t bytes_of(const struct fabric_ep *e, const struct chunk *c)
{
	return proves(e, c) ? sizeof(uint64_t) : c->len;
}

/* CHUNK_QUIET, unless operations of a broken data endpoint or acknowledged writes may still
 * land. */
static uint32_t quiet_of(const struct fabric_ep *e, const struct chunk *c)
{
	int late = fabric_ep_device(e)->acks && c->kind == CHUNK_WRITE && c->scratch[0];

	return c->state & CHUNK_BROKE || late ? 0 : CHUNK_QUIET;
}

void fabric_move_clear(struct fabric_ep *e, struct chunk *c)
{
	e->suspects -= !!(c->state & CHUNK_SUSPECT);
	c->state &= (uint8_t)~CHUNK_SUSPECT;
}

/* None of its operations is under way. */
static void come_out(struct fabric_ep *e, struct chunk *c)
{
	fabric_move_clear(e, c);
	if (!fabric_ep_device(e)->acks || c->kind != CHUNK_WRITE || !c->scratch[0]) {
		fabric_out(e, c, c->res, CHUNK_QUIET);
	} else if (e->state != EP_UP) {
		fabric_out_failover(e, c, 0);
	} else if ((c->flags & (CHUNK_ACKED | CHUNK_CANCELLED)) == CHUNK_ACKED) {
		fabric_out(e, c, c->res, 0);
	} else {
		c->state |= CHUNK_ACKNOWLEDGED;
		c->scratch[0] = e->writes;
		chunk_queue_add(&e->unproved, c);
		fabric_move_prove(e);
	}
}

/* Checks that protect against mistakes of this program; the owner's region protects against all
 * others. */
static int chunk_check(const struct fabric_ep *e, const struct chunk *c)
{
	const struct fabric_key *k = fabric_key_of(c);
	uint32_t right = c->kind == CHUNK_READ ? URCCL_RIGHT_READ : URCCL_RIGHT_WRITE;

	if (c->checksum)
		return -EOPNOTSUPP;
	if (!(k->rights & right))
		return -EACCES;
	if (c->len > k->len || c->off > k->len - c->len)
		return -ERANGE;
	if (c->kind == CHUNK_READ && !fabric_writable(fabric_ep_device(e), c))
		return -EFAULT;
	return fabric_key_lives(k) ? 0 : -EACCES;
}

static int is_urgent(const struct chunk *c)
{
	return c->kind == CHUNK_FLUSH || c->cls != URCCL_CLASS_BULK || c->len <= FABRIC_SMALL;
}

static struct chunk_queue *queue_of(struct fabric_ep *e, const struct chunk *c)
{
	return is_urgent(c) ? &e->urgent : &e->bulk;
}

static void enqueue(struct fabric_ep *e, struct chunk *c)
{
	c->scratch[0] = 0;
	c->state |= CHUNK_QUEUED;
	e->queued++;
	chunk_queue_add(queue_of(e, c), c);
}

/* Puts it before all others, except for quarantined chunks, which all others wait for. */
static void enqueue_again(struct fabric_ep *e, struct chunk *c)
{
	struct chunk_queue *q = queue_of(e, c);
	struct chunk **at = &q->head;

	while (!(c->state & CHUNK_SUSPECT) && *at && (*at)->state & CHUNK_SUSPECT)
		at = &(*at)->next;
	c->scratch[0] = 0;
	c->state |= CHUNK_QUEUED;
	e->queued++;
	c->next = *at;
	*at = c;
	if (!c->next)
		q->tail = &c->next;
}

static void dequeue(struct fabric_ep *e, struct chunk_queue *q)
{
	e->queued--;
	chunk_queue_pop(q)->state &= (uint8_t)~CHUNK_QUEUED;
}

static void leave_queue(struct fabric_ep *e, struct chunk *c)
{
	if (!(c->state & CHUNK_QUEUED))
		return;
	fabric_queue_remove(queue_of(e, c), c);
	c->state &= (uint8_t)~CHUNK_QUEUED;
	e->queued--;
}

static void chunk_take(struct fabric_ep *e, struct chunk *c)
{
	int err;

	e->chunks++;
	c->flags &= CHUNK_ACKED; /* another rail may have had it before */
	c->state = 0;
	c->res = 0;
	c->scratch[0] = c->scratch[1] = 0;
	if (e->state != EP_UP) {
		fabric_out_failover(e, c, CHUNK_QUIET);
		return;
	}
	if (c->kind == CHUNK_SEND) {
		e->queued++;
		chunk_queue_add(&e->sends, c);
		return;
	}
	err = fabric_moves(c) ? chunk_check(e, c) : 0;
	if (err)
		fabric_out(e, c, err, CHUNK_QUIET);
	else
		enqueue(e, c);
}

uint32_t fabric_post(struct ep *ep, struct chunk **chunks, uint32_t n)
{
	struct fabric_ep *e = fabric_ep(ep);
	uint32_t i;

	if (e->state == EP_NEW || e->state == EP_CONNECTING)
		return 0;
	for (i = 0; i < n && e->queued < FABRIC_QUEUE; i++)
		chunk_take(e, chunks[i]);
	if (e->state == EP_UP) {
		fabric_msg_push(e);
		fabric_move_push(e);
	}
	return i;
}

/* ---- going out ---- */

static uint32_t packets_of(uint64_t len, uint32_t n)
{
	return 1 + (uint32_t)((len + (n - 1) * FABRIC_PACKET_RANGE) / FABRIC_PACKET);
}

/* 1: the provider may have this operation too. Bulk leaves room for urgent chunks. */
static int ep_has_room(const struct fabric_ep *e, const struct fabric_gathered *g)
{
	uint32_t left = g->bulk ? FABRIC_NARROW_LEFT : 0, packets = packets_of(g->len, g->n);

	if (fabric_ep_device(e)->ops_most - e->ops_out <= (g->bulk ? FABRIC_OPS_LEFT : 0))
		return 0;
	if (fabric_ep_device(e)->narrow && e->packets_out + packets > FABRIC_NARROW - left)
		return 0;
	return !g->bulk || !e->bulk_out || e->bulk_out + g->len <= FABRIC_WINDOW;
}

static void op_begin(struct fabric_ep *e, struct fabric_op *op, const struct fabric_gathered *g)
{
	struct chunk *c = g->first;
	uint32_t i;

	e->free_ops = op->next;
	e->ops_out++;
	op->chunk = c;
	op->n = (uint8_t)g->n;
	op->len = (uint32_t)g->len;
	op->bulk = (uint8_t)g->bulk;
	op->slot = e->slot;
	e->on[op->slot].out++;
	e->bulk_out += g->bulk ? g->len : 0;
	e->packets_out += packets_of(g->len, g->n);
	for (i = 0; i < g->n; i++, c = c->next) {
		if (fabric_moves(c))
			fabric_key_of(c)->out++;
		c->scratch[0] += g->remote[i].len;
		c->scratch[1]++;
	}
}

static int goes_again(const struct chunk *c)
{
	return c->res == AGAIN || c->res == FAULTING;
}

/* FAULTING of one piece replaces the result of another. */
static void set_res(struct chunk *c, int res)
{
	if (res == FAULTING || !goes_again(c))
		c->res = res;
}

/* After a failure with an unknown cause, the affected chunks are posted first, one at a time: if
 * one of them is the cause, the next failure shows which. */
static int is_its_turn(const struct fabric_ep *e, const struct chunk *c)
{
	if (!e->suspects)
		return 1;
	return c->state & CHUNK_SUSPECT && e->ops_out == c->scratch[1];
}

/* 1: the chunk broke a data endpoint for the last time that is allowed. A break does not count if
 * the peer closed the data endpoint for its own reason, which fails all operations on it. */
static int is_quarantined(const struct fabric_ep *e, struct chunk *c)
{
	if (c->res != FAULTING)
		return 0;
	c->res = 0;
	if (e->peer_left)
		return 0;
	c->state = (uint8_t)(c->state + CHUNK_TRY);
	if (c->state < FABRIC_TRIES * CHUNK_TRY)
		return 0;
	c->res = -EIO;
	return 1;
}

/* 0: the provider does not accept its key; c->res is set. */
static int key_maps(const struct fabric_device *d, struct chunk *c)
{
	struct fabric_key *k = fabric_moves(c) ? fabric_key_of(c) : NULL;
	int err = k && k->mapped < k->n ? fabric_key_map(d, k) : 0;

	if (err)
		c->res = err;
	return !err;
}

/* 0: its key was revoked or has expired; c->res is set. */
static int key_holds(struct chunk *c)
{
	if (!fabric_moves(c) || fabric_key_lives(fabric_key_of(c)))
		return 1;
	c->res = -EACCES;
	return 0;
}

/* 0: its next piece must wait. */
static int may_go(struct fabric_ep *e, const struct chunk *c)
{
	return (!fabric_moves(c) || fabric_bound_ready(e, fabric_key_of(c))) && is_its_turn(e, c);
}

/* Posts the next piece of the chunk, perhaps with complete chunks after it. 0: the provider is
 * full, or the data endpoint broke. */
static int chunk_issue(struct fabric_ep *e, struct chunk *c, uint32_t bulk)
{
	struct fabric_device *d = fabric_ep_device(e);
	struct fabric_gathered g;
	ssize_t err;

	fabric_gather(e, c, bulk, &g);
	if (!ep_has_room(e, &g))
		return 0;
	err = fabric_issue(e, &g, e->free_ops);
	if (err == -FI_EAGAIN) {
		d->stalled = 1;
		fabric_shared_full(d);
		return 0;
	}
	fabric_shared_takes(d);
	if (err) {
		fabric_shared_refused(d, (int)-err);
		c->res = FAULTING;
		fabric_ep_fault(e);
		return 0;
	}
	op_begin(e, e->free_ops, &g);
	return 1;
}

/* 1: all of it is posted, or it went with chunks before it. */
static int issue_all(struct fabric_ep *e, struct chunk *c, uint32_t bulk)
{
	if (is_quarantined(e, c) || c->res) /* a piece of it was refused */
		return 1;
	while (c->scratch[0] < bytes_of(e, c)) {
		if (!key_holds(c))
			return 1;
		if (!may_go(e, c))
			return 0;
		if (!key_maps(fabric_ep_device(e), c))
			return 1;
		if (!chunk_issue(e, c, bulk))
			return 0;
	}
	return 1;
}

static void queue_push(struct fabric_ep *e, struct chunk_queue *q, uint32_t bulk)
{
	struct chunk *c;

	while ((c = q->head)) {
		if (c->flags & CHUNK_CANCELLED)
			c->res = -ECANCELED;
		else if (!issue_all(e, c, bulk))
			return;
		dequeue(e, q);
		if (!c->scratch[1])
			come_out(e, c);
	}
}

/* Chooses the endpoint. 1: operations may be posted. */
static int via_set(struct fabric_ep *e)
{
	if (e->endpoint_state != ENDPOINT_READY || e->peer_joined < e->number ||
	    e->state != EP_UP || e->broken)
		return 0;
	e->via = &e->endpoint;
	e->to = e->endpoint.peer;
	if (fabric_ep_device(e)->shared)
		e->via = fabric_shared_via(e, &e->to, &e->slot);
	return !!e->via;
}

void fabric_move_push(struct fabric_ep *e)
{
	if (!via_set(e))
		return;
	queue_push(e, &e->urgent, 0);
	if (e->endpoint_state == ENDPOINT_READY && !e->broken)
		queue_push(e, &e->bulk, 1);
	/* FI_MORE promised another operation, but its chunk was cancelled before it found room.
	 * The provider may hold back the earlier ones until then: only a new data endpoint ends
	 * that. */
	if (e->endpoint_state == ENDPOINT_READY && e->more && !e->urgent.head && !e->bulk.head)
		fabric_ep_break(e);
}

/* ---- coming back ---- */

/* Ends an operation, and calls then() for each of its chunks, with res. */
static void op_end(struct fabric_ep *e, struct fabric_op *op,
		   void (*then)(struct fabric_ep *e, struct chunk *c, int res), int res)
{
	struct chunk *c = op->chunk, *next;
	uint32_t n = op->n;

	op->chunk = NULL;
	op->next = e->free_ops;
	e->free_ops = op;
	e->ops_out--;
	e->on[op->slot].out--;
	e->bulk_out -= op->bulk ? op->len : 0;
	e->packets_out -= packets_of(op->len, n);
	e->writes += c->kind == CHUNK_WRITE ? n : 0; /* before any of them asks for a proof */
	for (; n; n--, c = next) {
		struct fabric_key *k = fabric_moves(c) ? fabric_key_of(c) : NULL;

		next = c->next;
		c->scratch[1]--;
		if (k && !--k->out && (k->unanswered || k->forgotten))
			e->due |= DUE_REVOKED;
		then(e, c, res);
	}
}

/* 1: the error concerns this operation only, which had no effect. Not so for other errors; for
 * several chunks if a completion does not mean placed; for an unknown key if keys end with the
 * peer's data endpoint; or for a proof, which no owner refuses. */
static int is_refusal(const struct fabric_device *d, const struct fabric_op *op, int err)
{
	if (!op || !fabric_moves(op->chunk) || (op->n > 1 && d->acks))
		return 0;
	if (err == FI_ENOKEY || err == FI_EKEYREJECTED)
		return !d->bound;
	return err == FI_EACCES || err == FI_EPERM;
}

/* A connection that breaks fails its operations with FI_ECANCELED: such an operation is no cause,
 * unless it was alone. */
static int is_to_blame(const struct fabric_ep *e, const struct fabric_op *op, int err)
{
	struct fabric_device *d = fabric_ep_device(e);
	uint64_t out = d->shared ? fabric_shared_out(d, op->slot) : e->ops_out;

	return err != FI_ECANCELED || out == op->chunk->scratch[1];
}

/* None of its operations is on a data endpoint of ours. */
static void reclaim(struct fabric_ep *e, struct chunk *c)
{
	int res = c->state & CHUNK_NOW ? -ECANCELED : 0;

	if (!res && e->state != EP_UP) {
		leave_queue(e, c);
		fabric_out_failover(e, c, 0);
		return;
	}
	if (res) {
		leave_queue(e, c);
		fabric_out(e, c, res, 0);
		return;
	}
	c->state |= CHUNK_BROKE;
	if (e->faulted && !(c->state & CHUNK_SUSPECT)) {
		c->state |= CHUNK_SUSPECT;
		e->suspects++;
	}
	if (c->res != FAULTING)
		c->res = 0;
	c->path |= URCCL_PATH_REPLAYED;
	leave_queue(e, c);
	enqueue_again(e, c);
}

/* An operation with a piece of it has ended. */
static void piece_done(struct fabric_ep *e, struct chunk *c, int res)
{
	if (res)
		set_res(c, res);
	if (c->scratch[1])
		return;
	if (goes_again(c) || (c->state & CHUNK_NOW && c->state & CHUNK_QUEUED))
		reclaim(e, c);
	else if (!(c->state & CHUNK_QUEUED))
		come_out(e, c);
}

/* It was refused together with others, and none of its operations is under way: post it again,
 * alone. */
static void piece_refused(struct fabric_ep *e, struct chunk *c, int res)
{
	if (c->flags & CHUNK_CANCELLED) {
		piece_done(e, c, res);
	} else if (e->state != EP_UP) {
		fabric_out_failover(e, c, CHUNK_QUIET);
	} else {
		c->state = (uint8_t)(c->state + CHUNK_TRY);
		c->path |= URCCL_PATH_REPLAYED;
		enqueue_again(e, c);
	}
}

static void op_refused(struct fabric_ep *e, struct fabric_op *op)
{
	if (op->n == 1)
		op_end(e, op, piece_done, -EACCES);
	else
		op_end(e, op, piece_refused, -ECANCELED);
}

/* The effect of the failure is unknown, so the data endpoint is closed. Errors that follow from
 * that are ignored. A shared endpoint goes on, so the operation is over; a separate endpoint has it
 * until it is closed. */
static void op_failed(struct fabric_ep *e, struct fabric_op *op, int err)
{
	struct fabric_device *d = fabric_ep_device(e);
	struct chunk *c = op->chunk;
	int res = AGAIN;
	uint32_t i;

	d->initiators[op->slot].full_ns = 0;
	if (!e->broken && !e->leave_ns) {
		fabric_shared_failed(d, op->slot);
		if (is_to_blame(e, op, err))
			res = FAULTING;
		else
			e->faulted = 1;
	}
	fabric_ep_fault(e);
	if (d->shared) {
		op_end(e, op, piece_done, res);
		return;
	}
	for (i = 0; i < op->n; i++, c = c->next)
		set_res(c, res);
}

/* An error without a context has no known operation. 0, or -errno if it came from a shared
 * endpoint. */
static int failed(struct fabric_device *d, struct fabric_endpoint *endpoint, struct fabric_op *op,
		  int err)
{
	struct fabric_ep *e;

	if (!op && d->shared)
		return -FI_EIO;
	e = op ? fabric_ep(op->chunk->ep) : container_of(endpoint, struct fabric_ep, endpoint);
	if (is_refusal(d, op, err)) {
		op_refused(e, op);
	} else if (op) {
		op_failed(e, op, err);
	} else {
		e->faulted |= !e->broken && !e->leave_ns;
		fabric_ep_fault(e);
	}
	return 0;
}

static int read_error(struct fabric_device *d, struct fabric_endpoint *endpoint)
{
	struct fi_cq_err_entry err = {0};
	struct fabric_op *op = NULL;
	ssize_t n = fi_cq_readerr(endpoint->cq, &err, 0);

	if (n < 0 && n != -FI_EAGAIN)
		return (int)n;
	if (n != 1)
		return 0;
	if (err.op_context)
		op = container_of(err.op_context, struct fabric_op, context);
	return failed(d, endpoint, op, err.err);
}

/* Stops after an error: the helper thread may have the data endpoint then. */
int fabric_move_read(struct fabric_device *d, struct fabric_endpoint *endpoint)
{
	struct fi_cq_msg_entry entries[BATCH];
	uint32_t reads;
	ssize_t i, n;

	for (reads = 0; reads < READS; reads++) {
		n = fi_cq_read(endpoint->cq, entries, BATCH);
		if (n == -FI_EAVAIL)
			return read_error(d, endpoint);
		if (n < 0 && n != -FI_EAGAIN)
			return (int)n;
		if (n > 0)
			d->dev.served = 1;
		for (i = 0; i < n; i++) {
			struct fabric_op *op =
				container_of(entries[i].op_context, struct fabric_op, context);

			fabric_shared_passed(d, op->slot);
			op_end(fabric_ep(op->chunk->ep), op, piece_done, 0);
		}
		if (n < BATCH)
			break; /* a further read may cost a system call */
	}
	return 0;
}

void fabric_move_poll(struct fabric_ep *e)
{
	struct fabric_device *d = fabric_ep_device(e);

	if (e->endpoint_state != ENDPOINT_JOB && e->endpoint.cq &&
	    fabric_move_read(d, &e->endpoint))
		fabric_ep_fault(e); /* the queue has failed */
	fabric_move_push(e);
}

/* ---- proof of placement, for the backend itself ---- */

int fabric_move_prove(struct fabric_ep *e)
{
	if (!fabric_ep_device(e)->acks || e->proved == e->writes)
		return 1;
	if (e->proving)
		return 0;
	e->proving = 1;
	e->prove_to = e->writes;
	e->prove = (struct chunk){.ep = &e->ep, .kind = CHUNK_FLUSH, .cls = URCCL_CLASS_LATENCY};
	enqueue(e, &e->prove);
	return 0;
}

/* 1: the last proof covers it. */
static int is_proved(const struct fabric_ep *e, const struct chunk *c)
{
	return (int32_t)(e->prove_to - (uint32_t)c->scratch[0]) >= 0;
}

void fabric_move_proved(struct fabric_ep *e, int res)
{
	struct chunk *c;
	uint32_t quiet;

	e->proving = 0;
	if (!res)
		e->proved = e->prove_to;
	while ((c = e->unproved.head) && (e->state != EP_UP || is_proved(e, c))) {
		chunk_queue_pop(&e->unproved);
		quiet = !res && is_proved(e, c) ? CHUNK_QUIET : 0;
		if (e->state == EP_UP)
			fabric_out(e, c, c->res, quiet);
		else
			fabric_out_failover(e, c, quiet);
	}
	if (e->state == EP_UP)
		e->due |= DUE_REVOKED;
	if (e->unproved.head)
		fabric_move_prove(e);
}

/* ---- cancel ---- */

void fabric_cancel(struct chunk *c, enum cancel_how how)
{
	struct fabric_ep *e = fabric_ep(c->ep);

	if (c->state & CHUNK_OUT)
		return;
	if (c->kind == CHUNK_SEND) {
		c->flags |= CHUNK_CANCELLED;
		fabric_msg_cancel(e, c, how);
		return;
	}
	c->flags |= CHUNK_CANCELLED;
	if (c->state & CHUNK_ACKNOWLEDGED) {
		if (how == CANCEL_NOW && fabric_queue_remove(&e->unproved, c))
			fabric_out(e, c, c->res, 0);
		return;
	}
	/* After a break the peer may still use its old data endpoint, so operations of the chunk
	 * may still land. CANCEL_ASK then waits until the peer is ready, and the chunk comes out of
	 * its queue. */
	if (!c->scratch[1] && (how == CANCEL_NOW || !(c->state & CHUNK_BROKE))) {
		leave_queue(e, c);
		c->res = -ECANCELED;
		if (how == CANCEL_NOW)
			fabric_out(e, c, c->res, quiet_of(e, c));
		else
			come_out(e, c);
		return;
	}
	if (how != CANCEL_NOW)
		return;
	c->state |= CHUNK_NOW;
	fabric_shared_stop_waiting(e);
	fabric_ep_break(e);
}

static void piece_closed(struct fabric_ep *e, struct chunk *c, int res)
{
	set_res(c, res);
	if (!c->scratch[1])
		reclaim(e, c);
}

void fabric_move_reclaim(struct fabric_ep *e, uint16_t slot)
{
	uint32_t i;

	for (i = 0; i < FABRIC_OPS && e->on[slot].out; i++)
		if (e->ops[i].chunk && e->ops[i].slot == slot)
			op_end(e, &e->ops[i], piece_closed, AGAIN);
}

int fabric_move_reads(const struct fabric_ep *e)
{
	uint32_t i;

	for (i = 0; i < FABRIC_OPS && e->ops_out; i++)
		if (e->ops[i].chunk && e->ops[i].chunk->kind != CHUNK_WRITE)
			return 1;
	return 0;
}

void fabric_move_begin(struct fabric_ep *e)
{
	e->faulted = 0;
	e->more = 0;
}

static void end_queue(struct fabric_ep *e, struct chunk_queue *q)
{
	struct chunk *c;

	while ((c = q->head)) {
		dequeue(e, q);
		if (c->scratch[1])
			set_res(c, AGAIN); /* some of its operations are not back */
		else
			fabric_out_failover(e, c, quiet_of(e, c));
	}
}

void fabric_move_end(struct fabric_ep *e)
{
	end_queue(e, &e->urgent);
	end_queue(e, &e->bulk);
	/* Acknowledged writes wait for the proof, if one is under way. */
	if (!e->proving)
		fabric_move_proved(e, -ECANCELED);
}
