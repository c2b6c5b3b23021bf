/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that an entry is well formed, and resolves its handles. */
#include "engine/op.h"
#include "engine/peer.h"

enum field { /* fields of an entry, in memory order */
	     F_OBJECT = 1 << 0,
	     F_REGION = 1 << 1,
	     F_ADDR = 1 << 2,
	     F_LEN = 1 << 3,
	     F_OFF = 1 << 4,
	     F_TAG = 1 << 5,
	     F_GROUP = 1 << 6,
};

#define ORDER_FLAGS (URCCL_SQE_LINK | URCCL_SQE_DRAIN | URCCL_SQE_SKIP_SUCCESS | URCCL_SQE_NO_WAKE)
/* For operations whose CQE alone gives the program a handle. */
#define HANDLE_FLAGS (ORDER_FLAGS & ~URCCL_SQE_SKIP_SUCCESS)
#define DATA_FLAGS                                                            \
	(ORDER_FLAGS | URCCL_SQE_FENCE | URCCL_SQE_NOTIFY | URCCL_SQE_ACKED | \
	 URCCL_SQE_NO_REPLAY | URCCL_SQE_CHECKSUM | URCCL_SQE_EXT)
#define PLAIN_FLAGS \
	(ORDER_FLAGS | URCCL_SQE_FENCE | URCCL_SQE_ACKED | URCCL_SQE_NO_REPLAY | URCCL_SQE_CHECKSUM)
#define ATOMIC_FLAGS  (ORDER_FLAGS | URCCL_SQE_FENCE | URCCL_SQE_NOTIFY | URCCL_SQE_EXT)
#define ATOMIC_FIELDS (F_OBJECT | F_ADDR | F_OFF | F_TAG | F_GROUP)
#define DATA_FIELDS   (F_OBJECT | F_REGION | F_ADDR | F_LEN | F_OFF | F_TAG | F_GROUP)
#define VECTOR_FIELDS (DATA_FIELDS & ~(F_REGION | F_OFF))

/* the object that the entry's handle names */
enum object { OBJECT_NONE, OBJECT_REMOTE, OBJECT_PEER, OBJECT_WATCHED, OBJECT_CLOSED };

/* Two words that are tested at once. */
typedef uint64_t pair __attribute__((vector_size(16), aligned(8), may_alias));

/* The bits, by words, that a plain entry of an operation may have: its fields and flags, except
 * those that need a closer check: tag, NOTIFY, EXT, class control. Only the hot operations have
 * plain entries. */
#define FLAG_BITS(flags) ((uint64_t)(((flags)&PLAIN_FLAGS) | 1u << URCCL_SQE_CLASS_SHIFT) << 16)
#define MAY(fields, flags)                                                        \
	{                                                                         \
		{0xffffffff000000ffull | FLAG_BITS(flags), ~0ull},                \
			{((fields)&F_OBJECT ? 0xffffffffull : 0) |                \
				 ((fields)&F_REGION ? 0xffffffff00000000ull : 0), \
			 (fields)&F_ADDR ? ~0ull : 0},                            \
			{(fields)&F_LEN ? ~0ull : 0, (fields)&F_OFF ? ~0ull : 0}, \
			{0, (fields)&F_GROUP ? 0xffffffffull : 0},                \
	}
#define PLAIN(object, fields, bits, flags)                         \
	{                                                          \
		1, object, fields, flags, bits, MAY(fields, flags) \
	}
#define CLOSELY(object, fields, bits, flags)    \
	{                                       \
		1, object, fields, flags, bits, \
		{                               \
			{                       \
				0               \
			}                       \
		}                               \
	}

/* The fields and flags that each operation may use. Operations without a row are not supported by
 * this version. */
static const struct shape {
	uint8_t known;
	uint8_t object; /* enum object */
	uint8_t fields; /* enum field */
	uint16_t flags; /* without class */
	uint32_t bits;	/* enum op_bits of the operation itself */
	pair may[4];	/* bits, by words, that a plain entry may have */
} shapes[256] = {
	[URCCL_OP_NOP] = PLAIN(OBJECT_NONE, 0, 0, ORDER_FLAGS),
	[URCCL_OP_READ] = PLAIN(OBJECT_REMOTE, DATA_FIELDS, OP_IS_DATA | OP_IS_RANGE, DATA_FLAGS),
	[URCCL_OP_WRITE] = PLAIN(OBJECT_REMOTE, DATA_FIELDS, OP_IS_DATA | OP_IS_RANGE, DATA_FLAGS),
	[URCCL_OP_READV] = PLAIN(OBJECT_PEER, VECTOR_FIELDS, OP_IS_DATA | OP_IS_VECTOR, DATA_FLAGS),
	[URCCL_OP_WRITEV] =
		PLAIN(OBJECT_PEER, VECTOR_FIELDS, OP_IS_DATA | OP_IS_VECTOR, DATA_FLAGS),
	[URCCL_OP_READ_PAGED] = PLAIN(OBJECT_REMOTE, DATA_FIELDS & ~F_OFF, OP_IS_DATA, DATA_FLAGS),
	[URCCL_OP_WRITE_PAGED] = PLAIN(OBJECT_REMOTE, DATA_FIELDS & ~F_OFF, OP_IS_DATA, DATA_FLAGS),
	[URCCL_OP_NOTIFY] = CLOSELY(OBJECT_PEER, F_OBJECT | F_ADDR | F_LEN | F_TAG | F_GROUP, 0,
				    ORDER_FLAGS | URCCL_SQE_FENCE),
	[URCCL_OP_FETCH_ADD] = PLAIN(OBJECT_REMOTE, ATOMIC_FIELDS, OP_IS_ATOMIC, ATOMIC_FLAGS),
	[URCCL_OP_CMP_SWAP] =
		PLAIN(OBJECT_REMOTE, ATOMIC_FIELDS | F_LEN, OP_IS_ATOMIC, ATOMIC_FLAGS),
	[URCCL_OP_CONNECT] = CLOSELY(OBJECT_NONE, F_ADDR | F_LEN, 0,
				     HANDLE_FLAGS | URCCL_SQE_EXT | URCCL_SQE_WATCH),
	[URCCL_OP_ACCEPT] = CLOSELY(OBJECT_NONE, 0, OP_MULTISHOT,
				    URCCL_SQE_NO_WAKE | URCCL_SQE_EXT | URCCL_SQE_WATCH),
	[URCCL_OP_WATCH] = CLOSELY(OBJECT_WATCHED, F_OBJECT, OP_MULTISHOT, URCCL_SQE_NO_WAKE),
	[URCCL_OP_CLOSE] = CLOSELY(OBJECT_CLOSED, F_OBJECT, 0, ORDER_FLAGS),
	[URCCL_OP_REGISTER] = CLOSELY(OBJECT_NONE, F_ADDR | F_LEN | F_OFF, 0, HANDLE_FLAGS),
	[URCCL_OP_UNREGISTER] = CLOSELY(OBJECT_NONE, F_REGION, 0, ORDER_FLAGS),
	[URCCL_OP_REVOKE] = CLOSELY(OBJECT_NONE, F_REGION, 0, ORDER_FLAGS),
	[URCCL_OP_IMPORT] = CLOSELY(OBJECT_PEER, F_OBJECT | F_ADDR | F_LEN, 0, HANDLE_FLAGS),
	[URCCL_OP_WARM] = CLOSELY(OBJECT_PEER, F_OBJECT, 0, ORDER_FLAGS),
	[URCCL_OP_CANCEL] = CLOSELY(OBJECT_NONE, F_LEN | F_TAG, 0, ORDER_FLAGS),
	[URCCL_OP_TIMEOUT] = CLOSELY(OBJECT_NONE, F_LEN | F_OFF | F_TAG, 0, ORDER_FLAGS),
	[URCCL_OP_MSG_RING] = PLAIN(OBJECT_NONE, F_OBJECT | F_ADDR | F_LEN | F_TAG, 0, ORDER_FLAGS),
};

static struct verdict verdict_make(int res, uint32_t reason, uint64_t a, uint64_t b)
{
	return (struct verdict){res, reason, a, b};
}

static struct verdict wrong_handle(uint32_t handle, enum handle_kind wanted, uint32_t stale)
{
	struct handle_error e = handle_error(handle, wanted, stale);

	return verdict_make(e.res, e.reason, e.arg[0], e.arg[1]);
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
		return verdict_make(-EINVAL, REASON_FIELD, 60, s->reserved);
	if (!surplus)
		return fine;
	i = (uint32_t)__builtin_ctz(surplus);
	memcpy(&value, (const char *)s + places[i], widths[i]);
	return verdict_make(-EINVAL, REASON_FIELD, places[i], value);
}

static struct verdict check_flags(const struct urccl_sqe *s, const struct shape *shape)
{
	uint32_t flags = s->flags & ((1u << URCCL_SQE_CLASS_SHIFT) - 1);
	uint32_t surplus = flags & ~(uint32_t)shape->flags;
	uint32_t cls = (uint32_t)s->flags >> URCCL_SQE_CLASS_SHIFT;
	int notes = shape->flags & URCCL_SQE_NOTIFY, data = shape->flags & URCCL_SQE_ACKED;

	if (surplus & URCCL_SQE_FENCE)
		return verdict_make(-EINVAL, REASON_FENCE_PEER, 0, 0);
	if (shape->bits & OP_MULTISHOT && (surplus & URCCL_SQE_LINK))
		return verdict_make(-EINVAL, REASON_LINK_MULTISHOT, 0, 0);
	if (surplus & URCCL_SQE_SKIP_SUCCESS && !(shape->bits & OP_MULTISHOT))
		return verdict_make(-EINVAL, REASON_SKIP_HANDLE, s->opcode, 0);
	if (surplus)
		return verdict_make(surplus >> 11 ? -EOPNOTSUPP : -EINVAL,
				    surplus >> 11 ? REASON_FLAG : REASON_FLAG_INVALID, surplus,
				    s->opcode);
	if (cls > URCCL_CLASS_CONTROL)
		return verdict_make(-EOPNOTSUPP, REASON_CLASS, cls, 0);
	if (s->dtype)
		return data ? verdict_make(-EOPNOTSUPP, REASON_DTYPE, s->dtype, 0)
			    : verdict_make(-EINVAL, REASON_FIELD, 1, s->dtype);
	if (notes && s->tag && !(s->flags & URCCL_SQE_NOTIFY))
		return verdict_make(-EINVAL, REASON_FIELD, 48, s->tag);
	return fine;
}

static struct verdict check_note(uint64_t addr, uint64_t len)
{
	if (len > URCCL_NOTE_MAX)
		return verdict_make(-E2BIG, REASON_NOTE_LEN, len, URCCL_NOTE_MAX);
	if (len && !addr)
		return verdict_make(-EINVAL, REASON_NOTE_NULL, len, 0);
	return fine;
}

/* The offset of the first byte in the second half that is set and not used, or its size if there is
 * none. */
static uint32_t ext_surplus(const struct urccl_ext *x, int is_data)
{
	struct urccl_ext rest = *x;
	const uint8_t *bytes = (const uint8_t *)&rest;
	uint32_t i = 0;

	rest.note_len = 0;
	rest.note = 0;
	if (is_data) {
		rest.wait_kind = rest.signal_kind = 0;
		rest.wait_ptr = rest.wait_value = rest.signal_ptr = rest.signal_value = 0;
	}
	while (i < sizeof(rest) && !bytes[i])
		i++;
	return i;
}

#define SIGNAL_KINDS (1u << URCCL_SYNC_NONE | 1u << URCCL_SYNC_WORD)
#define WAIT_KINDS   (SIGNAL_KINDS | 1u << URCCL_SYNC_CUDA_EVENT | 1u << URCCL_SYNC_DONE)

/* Checks a word to wait for or to set, or an event. *_at: offsets of its kind and address. */
static struct verdict check_word(uint8_t kind, uint32_t kinds, uint32_t kind_at, uint64_t ptr,
				 uint32_t ptr_at, uint64_t value)
{
	if (kind > URCCL_SYNC_DONE || !(kinds >> kind & 1))
		return verdict_make(-EOPNOTSUPP, REASON_EXT_FIELD, 64 + kind_at, 0);
	if ((kind == URCCL_SYNC_NONE || kind == URCCL_SYNC_DONE) && ptr)
		return verdict_make(-EINVAL, REASON_FIELD, 64 + ptr_at, ptr);
	if (kind != URCCL_SYNC_WORD && value)
		return verdict_make(-EINVAL, REASON_FIELD, 64 + ptr_at + 8, value);
	if (kind == URCCL_SYNC_WORD && (!ptr || ptr % 8))
		return verdict_make(-EINVAL, REASON_EXT_WORD, ptr, 0);
	if (kind == URCCL_SYNC_CUDA_EVENT && !ptr)
		return verdict_make(-EINVAL, REASON_EVENT_NULL, 0, 0);
	return fine;
}

static struct verdict check_sync(struct op *op, const struct urccl_ext *x)
{
	struct verdict v = check_word(x->wait_kind, WAIT_KINDS, 16, x->wait_ptr, 24, x->wait_value);
	struct sync *s = sync_of(op);

	if (!v.res)
		v = check_word(x->signal_kind, SIGNAL_KINDS, 17, x->signal_ptr, 40,
			       x->signal_value);
	if (v.res || !(x->wait_kind | x->signal_kind))
		return v;
	s->wait_kind = x->wait_kind;
	s->wait = (const uint64_t *)(uintptr_t)x->wait_ptr;
	s->wait_value = x->wait_kind == URCCL_SYNC_WORD ? x->wait_value : 1;
	s->signal = (uint64_t *)(uintptr_t)x->signal_ptr;
	s->signal_value = x->signal_value;
	s->wait_memory = s->signal_memory = NULL;
	op->bits |= x->wait_kind ? OP_ORDERED : 0;
	op->bits |= x->wait_ptr ? OP_AWAITS : 0;
	op->bits |= x->signal_kind ? OP_SIGNALS | OP_CHAINED : 0;
	return fine;
}

static int has_hello(const struct urccl_sqe *s)
{
	return s->opcode == URCCL_OP_CONNECT || s->opcode == URCCL_OP_ACCEPT;
}

/* Checks the second half: the payload of the notification, or the hello, and the words of a data
 * entry. */
static struct verdict check_ext(struct op *op, const struct urccl_ext *x)
{
	struct verdict v;
	uint32_t place;

	if (!(op->sqe.flags & URCCL_SQE_EXT))
		return fine;
	place = ext_surplus(x, op_is_data(op));
	if (place == offsetof(struct urccl_ext, codec) ||
	    place == offsetof(struct urccl_ext, codec) + 1)
		return verdict_make(-EOPNOTSUPP, REASON_EXT_FIELD, 64 + place, 0);
	if (place < sizeof(*x))
		return verdict_make(-EINVAL, REASON_FIELD, 64 + place, ((const uint8_t *)x)[place]);
	if (!has_hello(&op->sqe) && !(op->sqe.flags & URCCL_SQE_NOTIFY) && x->note_len)
		return verdict_make(-EINVAL, REASON_FIELD, 68, x->note_len);
	op->note = x->note;
	op->note_len = x->note_len;
	v = check_note(x->note, x->note_len);
	return !v.res && op_is_data(op) ? check_sync(op, x) : v;
}

/* The kind of handle in the key of a CANCEL; 0: none. */
static const uint8_t cancel_kinds[] = {
	[URCCL_CANCEL_BY_PEER] = HANDLE_PEER,
	[URCCL_CANCEL_BY_REGION] = HANDLE_REGION,
	[URCCL_CANCEL_BY_REMOTE] = HANDLE_REMOTE,
};

/* 1: the kind of the CANCEL is known and fits its key. Group 0 is no group. */
static int has_key(const struct urccl_sqe *s)
{
	if (s->key_kind == URCCL_CANCEL_BY_ALL)
		return !s->key;
	if (s->key_kind == URCCL_CANCEL_BY_GROUP)
		return s->key && s->key <= UINT32_MAX;
	return s->key_kind < URCCL_CANCEL_BY_ALL;
}

static struct verdict check_cancel(const struct urccl_sqe *s)
{
	uint8_t wanted = s->key_kind < sizeof(cancel_kinds) ? cancel_kinds[s->key_kind] : 0;

	if (!has_key(s))
		return verdict_make(-EINVAL, REASON_CANCEL_KEY, s->key_kind, s->key);
	if (wanted && HANDLE_KIND((uint32_t)s->key) != wanted)
		return wrong_handle((uint32_t)s->key, wanted, REASON_NONE);
	return fine;
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
			return verdict_make(-EINVAL, REASON_DIAL_NONE, 0, 0);
		return s->len > URCCL_METADATA_MAX
			       ? verdict_make(-EINVAL, REASON_DIAL_LONG, s->len, URCCL_METADATA_MAX)
			       : fine;
	case URCCL_OP_REGISTER:
	case URCCL_OP_IMPORT:
		return s->addr && s->len ? fine : verdict_make(-EINVAL, REASON_ARRAY_NONE, 0, 0);
	case URCCL_OP_CANCEL:
		return check_cancel(s);
	case URCCL_OP_TIMEOUT:
		if (s->timeout_flags & ~(uint64_t)URCCL_TIMEOUT_ETIME_SUCCESS)
			return verdict_make(-EINVAL, REASON_TIMEOUT_FLAGS, s->timeout_flags, 0);
		return s->deadline_us ? verdict_make(-EINVAL, REASON_FIELD, 4, s->deadline_us)
				      : fine;
	default:
		return fine;
	}
}

/* Resolves the handle of the entry itself; segments are resolved when they are reached. 0: the
 * handle is stale. */
static int resolve(struct engine *e, struct op *op, const struct shape *shape)
{
	if (shape->object == OBJECT_REMOTE) {
		op->remote = remote_get(e, op->sqe.remote);
		if (op->remote)
			op->peer = op->remote->peer;
		return op->remote != NULL;
	}
	if (shape->object == OBJECT_NONE || (shape->object == OBJECT_WATCHED && !op->sqe.peer))
		return 1; /* WATCH of all peers */
	op->peer = peer_get(e, op->sqe.peer);
	if (!op->peer)
		return 0;
	if (shape->object == OBJECT_CLOSED)
		op->peer = NULL; /* it continues after the peer's other entries end */
	return 1;
}

static struct verdict unresolved(const struct op *op, const struct shape *shape)
{
	if (shape->object == OBJECT_REMOTE)
		return wrong_handle(op->sqe.remote, HANDLE_REMOTE, REASON_REMOTE_STALE);
	return wrong_handle(op->sqe.peer, HANDLE_PEER, REASON_PEER_STALE);
}

/* 1: the entry needs no closer check. A dozen operations on words decide that for almost every
 * entry. */
static int is_plain(const struct urccl_sqe *s, const struct shape *shape)
{
	const pair *w = (const pair *)(const void *)s;
	pair any;

	any = (w[0] & ~shape->may[0]) | (w[1] & ~shape->may[1]) | (w[2] & ~shape->may[2]) |
	      (w[3] & ~shape->may[3]);
	return !(any[0] | any[1]);
}

static struct verdict check_pushed(const struct op *op)
{
	if (op->er->ring->device && op->sqe.reserved & PUSHED_WRONG)
		return verdict_make(-EINVAL, REASON_PUSHED, op->sqe.opcode, 0);
	return fine;
}

static struct verdict check_closely(struct op *op, const struct shape *shape,
				    const struct urccl_ext *ext)
{
	struct verdict v;

	if (op->sqe.opcode == URCCL_OP_UNPREPARED &&
	    !op->er->ring->device) { /* all other bytes are from the slot's last entry */
		op->sqe.user_data = op->sqe.flags = 0;
		return verdict_make(-EINVAL, REASON_UNPREPARED, 0, 0);
	}
	if (op->sqe.opcode >= URCCL_OP_LAST)
		return verdict_make(-EINVAL, REASON_OPCODE, op->sqe.opcode, 0);
	if (!shape->known)
		return verdict_make(-EOPNOTSUPP, REASON_UNSUPPORTED, op->sqe.opcode, 0);
	if (op->sqe.opcode == URCCL_OP_NOTIFY ||
	    (shape->bits & (OP_IS_DATA | OP_IS_ATOMIC) && op->sqe.flags & URCCL_SQE_NOTIFY))
		op->bits |= OP_PROMISED;
	v = check_pushed(op);
	if (!v.res)
		v = check_fields(&op->sqe, shape);
	if (!v.res)
		v = check_flags(&op->sqe, shape);
	if (!v.res)
		v = check_ext(op, ext);
	if (!v.res)
		v = check_rest(op);
	return v;
}

/* Not inlined, to keep the code of plain entries fast. */
__attribute__((noinline)) static int check_other(struct engine *e, struct op *op,
						 const struct shape *shape,
						 const struct urccl_sqe *sqe, struct verdict *v)
{
	*v = check_closely(op, shape, ring_ext(op->er->ring, sqe));
	/* Malformed entries are resolved too: a later FENCE must learn of their failure. */
	if (!resolve(e, op, shape) && !v->res)
		*v = unresolved(op, shape);
	if (!op->peer)
		op->bits &= ~(uint32_t)OP_PROMISED;
	return v->res;
}

int check_entry(struct engine *e, struct op *op, const struct urccl_sqe *sqe, struct verdict *v)
{
	const struct shape *shape = &shapes[op->sqe.opcode];

	op->bits = shape->bits;
	if (!is_plain(&op->sqe, shape))
		return check_other(e, op, shape, sqe, v);
	if (resolve(e, op, shape))
		return 0;
	*v = unresolved(op, shape);
	return v->res;
}
