/* SPDX-License-Identifier: Apache-2.0 */
/* The relay: requests to peers, for chunks of entries of this side. */
#include "engine/post.h"

/* ---- slots ---- */

static void slot_free(struct engine *e, struct engine_peer *p, struct relay_slot *s)
{
	if (s->request.kind == RELAY_PULL)
		run_slot_free(p->relay, s->request.slot);
	s->state = RELAY_FREE;
	relay_kick(e, p->relay);
}

static void slot_end(struct engine_peer *p, struct relay_slot *s)
{
	s->chunk = NULL;
	s->state = RELAY_ENDING;
	relay_slot_send(p, s);
}

/* The peer answered res. Errors that mean nothing here are reported as -EREMOTEIO. */
static void chunk_fail(struct engine *e, struct chunk *c, int res)
{
	struct op *op = c->op;
	uint32_t len = c->len;

	switch (res) {
	case -EACCES:
	case -ERANGE:
	case -EBADMSG:
		c->res = res;
		chunk_done(e, c);
		return;
	case -EOPNOTSUPP:
		if (!c->checksum)
			break;
		c->res = res;
		chunk_done(e, c);
		return;
	default:
		break;
	}
	chunk_drop(e, c);
	op_fail(op, -EREMOTEIO, REASON_RELAY, len, (uint64_t)-res, 0);
	op_returned(op);
}

static void slot_fail(struct engine *e, struct engine_peer *p, struct relay_slot *s, int res)
{
	struct chunk *c = s->chunk;

	s->chunk = NULL;
	if (s->state == RELAY_FILLED)
		slot_end(p, s);
	else
		slot_free(e, p, s);
	if (c)
		chunk_fail(e, c, res);
}

static void slot_ask(struct engine_peer *p, struct relay_slot *s)
{
	s->state = RELAY_ASKED;
	relay_slot_send(p, s);
}

/* The copy into the slot has ended, well or not. */
static void slot_filled(struct engine *e, struct engine_peer *p, struct relay_slot *s)
{
	struct chunk *c = s->chunk;
	struct op *op = c->op;

	if (!s->copy.job.res && !(op->bits & OP_DECIDED)) {
		slot_ask(p, s);
		return;
	}
	s->chunk = NULL;
	slot_free(e, p, s);
	chunk_drop(e, c);
	op_fail(op, -EIO, REASON_GPU_COPY, s->copy.job.len, (uint64_t)s->copy.job.code, 0);
	op_returned(op);
}

static void relay_slot_take(struct engine *e, struct engine_peer *p, struct relay_slot *s,
			    struct chunk *c, uint8_t *bytes, int run_slot)
{
	struct relay *r = p->relay;

	s->chunk = c;
	s->request = (struct relay_request){
		.type = MESSAGE_RELAY,
		.kind = bytes ? RELAY_PULL : RELAY_FETCH,
		.slot = bytes ? (uint8_t)run_slot : 0,
		.checksum = bytes ? c->checksum : 0,
		.seq = r->next++,
		.run = bytes ? r->run->number : 0,
		.grant = key_grant(c->key),
		.off = c->off,
		.len = c->len,
	};
	if (!bytes) {
		slot_ask(p, s);
		return;
	}
	s->state = RELAY_FILLING;
	s->copy = (struct copy){.memory = c->memory,
				.local = c->local,
				.bytes = bytes,
				.len = c->len};
	if (copy_run(&s->copy))
		slot_filled(e, p, s);
	else
		relay_kick(e, r);
}

/* Starts the chunk's request. 0: no slot or no number is free. */
static int slot_start(struct engine *e, struct engine_peer *p, struct chunk *c)
{
	struct relay_slot *s = &p->relay->slots[p->relay->next % RELAY_WINDOW];
	uint8_t *bytes = NULL;
	int slot = 0;

	if (s->state || s->message.sending)
		return 0;
	if (c->kind == CHUNK_WRITE) {
		slot = run_slot_take(e, p, &bytes);
		if (slot < 0)
			return 0;
	}
	relay_slot_take(e, p, s, c, bytes, slot);
	return 1;
}

/* The chunk becomes the READ of the peer's slot, and goes on as any READ of its entry does. */
static void slot_read(struct engine *e, struct engine_peer *p, struct relay_slot *s)
{
	struct chunk *c = s->chunk;
	int res = 0;
	const struct rkey *key = relay_key(p, s->run, &res);

	if (!key) {
		if (res)
			slot_fail(e, p, s, res);
		else
			relay_kick(e, p->relay);
		return;
	}
	s->key = c->key;
	s->state = RELAY_READING;
	c->key = key;
	c->off = s->slot * SLOT_BYTES;
	c->ep = p->rail->ep;
	if (stage_chunk(e, c))
		lane_add_chunk(p, ((struct op *)c->op)->lane, c);
}

/* ---- chunks of entries ---- */

static void relay_wait(struct engine *e, struct relay *r, struct chunk *c)
{
	chunk_wait(&r->waiting, &r->ops, c);
	relay_kick(e, r);
}

void relay_chunk(struct engine *e, struct chunk *c)
{
	struct op *op = c->op;
	struct engine_peer *p = op->peer;

	op->path |= URCCL_PATH_BOUNCE_REMOTE | URCCL_PATH_DEVICE;
	if (c->kind == CHUNK_WRITE)
		op->path |= URCCL_PATH_BOUNCE_LOCAL;
	c->ep = NULL;
	if (p->relay->waiting.head || !slot_start(e, p, c))
		relay_wait(e, p->relay, c);
}

/* Starts chunks that wait, the oldest first. If one starts, all entries that wait here go back to
 * their lanes. */
uint32_t relay_waiting_start(struct engine *e, struct engine_peer *p)
{
	struct relay *r = p->relay;
	struct chunk *c;
	uint32_t n = 0;

	while (r->waiting.head) {
		c = chunk_queue_pop(&r->waiting);
		if (!slot_start(e, p, c)) {
			chunk_queue_add_first(&r->waiting, c);
			break;
		}
		n++;
	}
	if (n)
		ops_to_lanes(&r->ops);
	return n;
}

/* Ends the chunk, as its entry was stopped. A WRITE with a request to the peer ends with the
 * answer. Once the entry is aborted it ends without the answer, and counts as not quiet. A READ
 * with a request ends at once, since only READING moves bytes to this side. */
static void slot_drop(struct engine *e, struct engine_peer *p, struct relay_slot *s, struct op *op)
{
	struct chunk *c = s->chunk;
	int writes = s->request.kind == RELAY_PULL;

	switch (s->state) {
	case RELAY_FILLING:
		if (!copy_cancel(&s->copy))
			return;
		s->chunk = NULL;
		slot_free(e, p, s);
		break;
	case RELAY_ASKED:
	case RELAY_ENDING:
		if (s->state == RELAY_ASKED)
			slot_end(p, s);
		s->chunk = writes && !(op->bits & OP_ABORTED) ? c : NULL;
		if (s->chunk)
			return;
		op->bits |= writes ? OP_UNQUIET : 0;
		break;
	case RELAY_FILLED:
		slot_end(p, s);
		break;
	default:
		return; /* READING: the device, the lane or the stage ends it */
	}
	chunk_drop(e, c);
}

void relay_drop(struct op *op)
{
	struct engine_peer *p = op->peer;
	struct engine *e = op_engine(op);
	uint32_t i;

	chunks_drop(e, &p->relay->waiting, op);
	for (i = 0; i < RELAY_WINDOW; i++)
		if (p->relay->slots[i].chunk && p->relay->slots[i].chunk->op == op)
			slot_drop(e, p, &p->relay->slots[i], op);
}

static struct relay_slot *slot_reading(const struct engine_peer *p, const struct chunk *c)
{
	uint32_t i;

	for (i = 0; i < RELAY_WINDOW; i++)
		if (p->relay->slots[i].chunk == c && p->relay->slots[i].state == RELAY_READING)
			return &p->relay->slots[i];
	return NULL;
}

void relay_free(struct engine_peer *p, const struct chunk *c)
{
	struct relay_slot *s = slot_reading(p, c);

	if (s)
		slot_end(p, s);
}

const struct rkey *relay_entry_key(const struct engine_peer *p, const struct chunk *c)
{
	const struct relay_slot *s = p->relay ? slot_reading(p, c) : NULL;

	return s ? s->key : c->key;
}

/* ---- answers ---- */

static void final_received(struct engine *e, struct engine_peer *p, struct relay_slot *s, int res)
{
	struct chunk *c = s->chunk;

	if (!relay_slot_sends(s))
		return;
	if (!c || (s->request.kind == RELAY_PULL && !res)) {
		s->chunk = NULL;
		slot_free(e, p, s);
		if (!c)
			return;
		c->res = 0;
		chunk_done(e, c);
		return;
	}
	slot_fail(e, p, s, res ? res : -EREMOTEIO);
}

void relay_answered(struct engine *e, struct engine_peer *p, const struct relay_answer *m)
{
	struct relay_slot *s = &p->relay->slots[m->seq % RELAY_WINDOW];

	if (!s->state || s->request.seq != m->seq)
		return;
	if (m->word == RELAY_FINAL) {
		final_received(e, p, s, m->res);
		return;
	}
	if (s->state != RELAY_ASKED || s->request.kind != RELAY_FETCH)
		return;
	s->run = m->run;
	s->slot = m->slot;
	s->state = RELAY_FILLED;
	slot_read(e, p, s);
}

uint32_t relay_slot_look(struct engine *e, struct engine_peer *p, struct relay_slot *s)
{
	if (s->state == RELAY_FILLED) {
		slot_read(e, p, s);
		return s->state != RELAY_FILLED;
	}
	if (s->state != RELAY_FILLING || !copy_done(&s->copy))
		return 0;
	if (((struct op *)s->chunk->op)->bits & OP_DECIDED || copy_step(&s->copy))
		slot_filled(e, p, s);
	return 1;
}

/* There is no staging memory: WRITEs that wait fail. */
static void relay_refuse(struct engine *e, struct engine_peer *p, int res, uint64_t bytes)
{
	struct relay *r = p->relay;
	struct chunk *c, *next;

	for (c = chunk_queue_take(&r->waiting); c; c = next) {
		struct op *op = c->op;

		next = c->next;
		if (c->kind == CHUNK_READ) {
			relay_wait(e, r, c);
			continue;
		}
		chunk_drop(e, c);
		op_fail(op, res, REASON_STAGING, bytes, (uint64_t)-res, 0);
		op_returned(op);
	}
}

/* ENGINE_STAGE came before this answer. If the memory is still missing, the engine could not
 * allocate its tables. */
void relay_stage_back(struct engine *e, struct control_req *req)
{
	int res = req->msg.res || e->stage.memory ? req->msg.res : -ENOMEM;
	struct engine_peer *p;

	e->relays.stage_out = 0;
	list_for_each_entry(p, &e->peers, link) {
		if (p->relay && res)
			relay_refuse(e, p, res, req->arg[0]);
	}
}
