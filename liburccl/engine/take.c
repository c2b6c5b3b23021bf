/* SPDX-License-Identifier: Apache-2.0 */
/* Takes entries off a ring: copies, checks, resolves handles, and either starts them or lets them
 * wait. */
#include "engine/private.h"

#define SMALL_BYTES 16384u /* entries up to here have a lane of their own */

enum field { /* of an entry, in the order of their place */
	     F_OBJECT = 1 << 0,
	     F_REGION = 1 << 1,
	     F_ADDR = 1 << 2,
	     F_LEN = 1 << 3,
	     F_OFF = 1 << 4,
	     F_TAG = 1 << 5,
	     F_GROUP = 1 << 6,
};

#define ORDER_FLAGS (URCCL_SQE_LINK | URCCL_SQE_DRAIN | URCCL_SQE_SKIP_SUCCESS | URCCL_SQE_NO_WAKE)
#define DATA_FLAGS                                                            \
	(ORDER_FLAGS | URCCL_SQE_FENCE | URCCL_SQE_NOTIFY | URCCL_SQE_ACKED | \
	 URCCL_SQE_NO_REPLAY | URCCL_SQE_EXT)
#define DATA_FIELDS (F_OBJECT | F_REGION | F_ADDR | F_LEN | F_OFF | F_TAG | F_GROUP)

enum object { OBJECT_NONE, OBJECT_PEER, OBJECT_REMOTE };

/* What an operation may use; an operation that is not here is one this version does not carry out.
 */
static const struct shape {
	uint8_t known;
	uint8_t object; /* enum object */
	uint8_t fields; /* enum field */
	uint8_t multishot;
	uint16_t flags; /* without class */
} shapes[URCCL_OP_LAST] = {
	[URCCL_OP_NOP] = {1, OBJECT_NONE, 0, 0, ORDER_FLAGS},
	[URCCL_OP_READ] = {1, OBJECT_REMOTE, DATA_FIELDS, 0, DATA_FLAGS},
	[URCCL_OP_WRITE] = {1, OBJECT_REMOTE, DATA_FIELDS, 0, DATA_FLAGS},
	[URCCL_OP_READV] = {1, OBJECT_PEER, DATA_FIELDS & ~(F_REGION | F_OFF), 0, DATA_FLAGS},
	[URCCL_OP_WRITEV] = {1, OBJECT_PEER, DATA_FIELDS & ~(F_REGION | F_OFF), 0, DATA_FLAGS},
	[URCCL_OP_READ_PAGED] = {1, OBJECT_REMOTE, DATA_FIELDS & ~F_OFF, 0, DATA_FLAGS},
	[URCCL_OP_WRITE_PAGED] = {1, OBJECT_REMOTE, DATA_FIELDS & ~F_OFF, 0, DATA_FLAGS},
	[URCCL_OP_NOTIFY] = {1, OBJECT_PEER, F_OBJECT | F_ADDR | F_LEN | F_TAG | F_GROUP, 0,
			     ORDER_FLAGS | URCCL_SQE_FENCE},
	[URCCL_OP_CONNECT] = {1, OBJECT_NONE, F_ADDR | F_LEN, 0, ORDER_FLAGS | URCCL_SQE_EXT},
	[URCCL_OP_ACCEPT] = {1, OBJECT_NONE, 0, 1, URCCL_SQE_NO_WAKE},
	[URCCL_OP_WATCH] = {1, OBJECT_NONE, F_OBJECT, 1, URCCL_SQE_NO_WAKE},
	[URCCL_OP_CLOSE] = {1, OBJECT_NONE, F_OBJECT, 0, ORDER_FLAGS},
	[URCCL_OP_CANCEL] = {1, OBJECT_NONE, F_LEN | F_TAG, 0, ORDER_FLAGS},
	[URCCL_OP_TIMEOUT] = {1, OBJECT_NONE, F_LEN | F_OFF, 0, ORDER_FLAGS},
};

/* What is wrong with an entry; res 0: nothing. */
struct verdict {
	int res;
	uint32_t reason;
	uint64_t a, b;
};

static struct verdict wrong(int res, uint32_t reason, uint64_t a, uint64_t b)
{
	return (struct verdict){res, reason, a, b};
}

static const struct verdict fine = {0, REASON_NONE, 0, 0};

static uint32_t fields_set(const struct urccl_sqe *s)
{
	return (s->remote ? F_OBJECT : 0) | (s->region ? F_REGION : 0) | (s->addr ? F_ADDR : 0) |
	       (s->len ? F_LEN : 0) | (s->off ? F_OFF : 0) | (s->tag ? F_TAG : 0) |
	       (s->group ? F_GROUP : 0);
}

static struct verdict check_fields(const struct urccl_sqe *s, const struct shape *shape)
{
	static const uint8_t places[] = {16, 20, 24, 32, 40, 48, 56};
	static const uint8_t widths[] = {4, 4, 8, 8, 8, 8, 4};
	uint32_t surplus = fields_set(s) & ~(uint32_t)shape->fields, i;
	uint64_t value = 0;

	if (s->reserved)
		return wrong(-EINVAL, REASON_FIELD, 60, s->reserved);
	if (!surplus)
		return fine;
	i = (uint32_t)__builtin_ctz(surplus);
	memcpy(&value, (const char *)s + places[i], widths[i]);
	return wrong(-EINVAL, REASON_FIELD, places[i], value);
}

static struct verdict check_flags(const struct urccl_sqe *s, const struct shape *shape)
{
	uint32_t flags = s->flags & ((1u << URCCL_SQE_CLASS_SHIFT) - 1);
	uint32_t surplus = flags & ~(uint32_t)shape->flags;
	uint32_t cls = (uint32_t)s->flags >> URCCL_SQE_CLASS_SHIFT;
	int data = shape->flags & URCCL_SQE_NOTIFY;

	if (surplus & URCCL_SQE_FENCE)
		return wrong(-EINVAL, REASON_FENCE_PEER, 0, 0);
	if (shape->multishot && (surplus & URCCL_SQE_LINK))
		return wrong(-EINVAL, REASON_LINK_MULTISHOT, 0, 0);
	if (data && (surplus & URCCL_SQE_CHECKSUM))
		return wrong(-EOPNOTSUPP, REASON_FLAG, URCCL_SQE_CHECKSUM, 0);
	if (surplus)
		return wrong(surplus >> 10 ? -EOPNOTSUPP : -EINVAL,
			     surplus >> 10 ? REASON_FLAG : REASON_FLAG_INVALID, surplus, 0);
	if (cls > URCCL_CLASS_CONTROL)
		return wrong(-EOPNOTSUPP, REASON_FLAG, s->flags & ~0x3fffu, 0);
	if (s->dtype)
		return data ? wrong(-EOPNOTSUPP, REASON_DTYPE, s->dtype, 0)
			    : wrong(-EINVAL, REASON_FIELD, 1, s->dtype);
	if (data && s->tag && !(s->flags & URCCL_SQE_NOTIFY))
		return wrong(-EINVAL, REASON_FIELD, 48, s->tag);
	return fine;
}

static struct verdict check_note(uint64_t addr, uint64_t len)
{
	if (len > URCCL_NOTE_MAX)
		return wrong(-E2BIG, REASON_NOTE_LEN, len, URCCL_NOTE_MAX);
	if (len && !addr)
		return wrong(-EINVAL, REASON_NOTE_NULL, len, 0);
	return fine;
}

static int ext_unused(const struct urccl_ext *x, uint32_t *place)
{
	struct urccl_ext rest = *x;
	const uint8_t *bytes = (const uint8_t *)&rest;
	uint32_t i;

	rest.note_len = 0;
	rest.note = 0;
	for (i = 0; i < sizeof(rest); i++) {
		*place = i;
		if (bytes[i])
			return 0;
	}
	return 1;
}

/* The second half: only the notification's payload (CONNECT: the hello) is carried out. */
static struct verdict check_ext(struct op *op, const struct urccl_ext *x)
{
	uint32_t place;
	int reserved;

	if (!(op->sqe.flags & URCCL_SQE_EXT))
		return fine;
	if (!ext_unused(x, &place)) {
		reserved = place < 4 || (place >= 20 && place < 24) || place >= 56;
		return reserved ? wrong(-EINVAL, REASON_FIELD, 64 + place, 1)
				: wrong(-EOPNOTSUPP, REASON_EXT_FIELD, place, 0);
	}
	if (op->sqe.opcode != URCCL_OP_CONNECT && !(op->sqe.flags & URCCL_SQE_NOTIFY) &&
	    x->note_len)
		return wrong(-EINVAL, REASON_FIELD, 68, x->note_len);
	op->note = x->note;
	op->note_len = x->note_len;
	return check_note(x->note, x->note_len);
}

static struct verdict check_rest(struct op *op)
{
	struct urccl_sqe *s = &op->sqe;

	switch (s->opcode) {
	case URCCL_OP_NOTIFY:
		op->note = s->addr;
		op->note_len = s->len > URCCL_NOTE_MAX ? 0 : (uint32_t)s->len;
		return check_note(s->addr, s->len);
	case URCCL_OP_CONNECT:
		if (!s->addr || !s->len)
			return wrong(-EINVAL, REASON_ADDR_NULL, 1, 0);
		return s->len > URCCL_METADATA_MAX ? wrong(-EINVAL, REASON_DIAL_TEXT, 0, 0) : fine;
	case URCCL_OP_CANCEL:
		if (s->key_kind > URCCL_BY_ALL || (s->key_kind == URCCL_BY_ALL && s->key))
			return wrong(-EINVAL, REASON_CANCEL_KEY, s->key_kind, 0);
		return fine;
	case URCCL_OP_TIMEOUT:
		return s->timeout_us ? wrong(-EINVAL, REASON_FIELD, 4, s->timeout_us) : fine;
	default:
		return fine;
	}
}

static struct verdict resolve(struct engine *e, struct op *op, const struct shape *shape)
{
	if (shape->object == OBJECT_REMOTE) {
		op->remote = remote_get(e, op->sqe.remote);
		if (!op->remote)
			return wrong(-ESTALE, REASON_REMOTE_STALE, op->sqe.remote, 0);
		op->peer = op->remote->peer;
	} else if (shape->object == OBJECT_PEER ||
		   (op->sqe.opcode == URCCL_OP_WATCH && op->sqe.peer)) {
		op->peer = peer_get(e, op->sqe.peer);
		if (!op->peer)
			return wrong(-ESTALE, REASON_PEER_STALE, op->sqe.peer, 0);
	} else if (op->sqe.opcode == URCCL_OP_CLOSE && !peer_get(e, op->sqe.peer)) {
		return wrong(-ESTALE, REASON_PEER_STALE, op->sqe.peer, 0);
	}
	return fine;
}

static struct verdict check(struct engine *e, struct op *op, const struct urccl_ext *ext)
{
	const struct shape *shape = &shapes[op->sqe.opcode < URCCL_OP_LAST ? op->sqe.opcode : 0];
	struct verdict v;

	if (op->sqe.opcode >= URCCL_OP_LAST)
		return wrong(-EINVAL, REASON_OPCODE, op->sqe.opcode, 0);
	if (!shape->known)
		return wrong(-EOPNOTSUPP, REASON_UNSUPPORTED, op->sqe.opcode, 0);
	if (shape->multishot)
		op->bits |= OP_MULTISHOT;
	v = check_fields(&op->sqe, shape);
	if (!v.res)
		v = check_flags(&op->sqe, shape);
	if (!v.res)
		v = check_ext(op, ext);
	if (!v.res)
		v = check_rest(op);
	if (!v.res)
		v = resolve(e, op, shape);
	return v;
}

static void choose_lane(struct op *op)
{
	uint32_t cls = (uint32_t)op->sqe.flags >> URCCL_SQE_CLASS_SHIFT;

	if (cls == URCCL_CLASS_CONTROL)
		op->lane = LANE_CONTROL;
	else if (cls == URCCL_CLASS_LATENCY)
		op->lane = LANE_LATENCY;
	else if (op->total <= SMALL_BYTES && op->sqe.opcode != URCCL_OP_READV &&
		 op->sqe.opcode != URCCL_OP_WRITEV)
		op->lane = LANE_SMALL;
	else
		op->lane = LANE_BULK;
}

static struct op *op_new(struct engine_ring *er, const struct urccl_sqe *sqe)
{
	struct op *op = &er->ops[er->free[--er->nfree]];

	op->sqe = *sqe;
	op->peer = NULL;
	op->remote = NULL;
	op->memory = NULL;
	op->scope_all = op->scope_group = NULL;
	op->linked = op->linked_to = NULL;
	op->flush_key = NULL;
	op->note = op->total = op->placed = op->handle = 0;
	op->started_ns = op->deadline_ns = 0;
	op->res = 0;
	op->bits = op->note_len = op->path = op->detail = op->left = op->drain_left = op->hits = 0;
	op->first_bad = UINT32_MAX;
	op->blockers = 0;
	op->note_slot = NOTE_WINDOW;
	op_set_state(op, OP_WAITING);
	return op;
}

static void open_data(struct op *op)
{
	struct cursor *c = &op->cursor;

	c->cur.len = 0;
	c->element.len = c->element.pos = 0;
	c->elements = 0;
	c->desc = c->fresh = 0;
	if (op->sqe.flags & URCCL_SQE_NOTIFY)
		op->bits |= OP_PROMISED;
	if (!cursor_open(op))
		choose_lane(op);
}

static void take(struct engine *e, struct engine_ring *er, const struct urccl_sqe *sqe,
		 const struct urccl_ext *ext)
{
	struct op *op = op_new(er, sqe);
	struct verdict v = check(e, op, ext);

	if (op->peer && !(op->bits & OP_MULTISHOT))
		count_add(&op->peer->unfinished, 1u);
	if (order_enter(op))
		return;
	if (v.res) {
		op_fail(op, v.res, v.reason, v.a, v.b, 0);
		return;
	}
	if (op_is_data(op))
		open_data(op);
	else if (op->sqe.opcode == URCCL_OP_NOTIFY)
		op->bits |= OP_PROMISED;
	if (op->state != OP_FREE && er->closing)
		op_fail(op, -ESHUTDOWN, REASON_CLOSING, 0, 0, 0);
	if (op->state == OP_WAITING && !op->blockers && !(op->bits & OP_DECIDED))
		op_begin(op);
	if (op->state != OP_FREE && !op->is_fresh) {
		op->is_fresh = 1;
		op->fresh_next = e->fresh;
		e->fresh = op;
	}
}

uint32_t take_ring(struct engine *e, struct engine_ring *er)
{
	struct ring *r = er->ring;
	uint32_t n = ring_submitted(r), i;

	if (n > er->nfree)
		n = er->nfree; /* a program that wrote its own tail gets what it can have */
	for (i = 0; i < n; i++)
		take(e, er, ring_sqe(r, i), ring_ext(r, i));
	if (n) {
		ring_taken(r, n);
		count_add(&e->stats.submitted, n);
	}
	return n;
}
