/* SPDX-License-Identifier: Apache-2.0 */
/* A field, a type or a flag that an operation does not use ends its entry, whatever the operation,
 * and is named. */
#include "pair.h"

enum {
	OBJECT = 1 << 0,
	REGION = 1 << 1,
	ADDR = 1 << 2,
	LEN = 1 << 3,
	OFF = 1 << 4,
	TAG = 1 << 5,
	GROUP = 1 << 6,
	RESERVED = 1 << 7,
	DTYPE = 1 << 8,
	FIELDS = 9,
};

#define ORDER  (URCCL_SQE_LINK | URCCL_SQE_DRAIN | URCCL_SQE_SKIP_SUCCESS | URCCL_SQE_NO_WAKE)
#define HANDLE (ORDER & ~(uint32_t)URCCL_SQE_SKIP_SUCCESS) /* it comes in the CQE */
#define FENCED (ORDER | URCCL_SQE_FENCE)
#define TELLS  (FENCED | URCCL_SQE_NOTIFY)
#define MOVES  (TELLS | URCCL_SQE_CHECKSUM | URCCL_SQE_ACKED | URCCL_SQE_NO_REPLAY)

static struct pair p;

/* What each uses; DTYPE: it has one, of which nothing is carried out. */
static const struct {
	uint32_t fields, flags;
} uses[URCCL_OP_LAST] = {
	[URCCL_OP_NOP] = {0, ORDER},
	[URCCL_OP_READ] = {OBJECT | REGION | ADDR | LEN | OFF | GROUP | DTYPE, MOVES},
	[URCCL_OP_WRITE] = {OBJECT | REGION | ADDR | LEN | OFF | GROUP | DTYPE, MOVES},
	[URCCL_OP_READV] = {OBJECT | ADDR | LEN | GROUP | DTYPE, MOVES},
	[URCCL_OP_WRITEV] = {OBJECT | ADDR | LEN | GROUP | DTYPE, MOVES},
	[URCCL_OP_READ_PAGED] = {OBJECT | REGION | ADDR | LEN | GROUP | DTYPE, MOVES},
	[URCCL_OP_WRITE_PAGED] = {OBJECT | REGION | ADDR | LEN | GROUP | DTYPE, MOVES},
	[URCCL_OP_NOTIFY] = {OBJECT | ADDR | LEN | TAG | GROUP, FENCED},
	[URCCL_OP_FETCH_ADD] = {OBJECT | ADDR | OFF | GROUP, TELLS},
	[URCCL_OP_CMP_SWAP] = {OBJECT | ADDR | LEN | OFF | GROUP, TELLS},
	[URCCL_OP_CONNECT] = {ADDR | LEN, HANDLE | URCCL_SQE_WATCH},
	[URCCL_OP_ACCEPT] = {0, URCCL_SQE_NO_WAKE | URCCL_SQE_WATCH},
	[URCCL_OP_WATCH] = {OBJECT, URCCL_SQE_NO_WAKE},
	[URCCL_OP_WARM] = {OBJECT, ORDER},
	[URCCL_OP_CLOSE] = {OBJECT, ORDER},
	[URCCL_OP_REGISTER] = {ADDR | LEN | OFF, HANDLE},
	[URCCL_OP_UNREGISTER] = {REGION, ORDER},
	[URCCL_OP_REVOKE] = {REGION, ORDER},
	[URCCL_OP_IMPORT] = {OBJECT | ADDR | LEN, HANDLE},
	[URCCL_OP_CANCEL] = {LEN | TAG, ORDER},
	[URCCL_OP_TIMEOUT] = {LEN | OFF | TAG, ORDER},
	[URCCL_OP_MSG_RING] = {OBJECT | ADDR | LEN | TAG, ORDER},
};

static struct urccl_sqe *entry(uint32_t op)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_nop(sqe);
	sqe->opcode = (uint8_t)op;
	return sqe;
}

static void refused(struct urccl_sqe *sqe, const char *word)
{
	uint32_t op = sqe->opcode, flags = sqe->flags;
	struct urccl_cqe cqe = pair_run(&p, &p.a, sqe);

	if (cqe.res != -EINVAL)
		fprintf(stderr, "opcode %u, flags %#x: %s\n", op, flags, word);
	CHECK_EQ(cqe.res, -EINVAL);
	check_sentence(&p.a, &cqe, word);
}

static const char *set(struct urccl_sqe *sqe, uint32_t field)
{
	switch (field) {
	case OBJECT:
		sqe->peer = 1;
		return "field remote";
	case REGION:
		sqe->region = 1;
		return "field region";
	case ADDR:
		sqe->addr = 1;
		return "field addr";
	case LEN:
		sqe->len = 1;
		return "field len";
	case OFF:
		sqe->off = 1;
		return "field off";
	case TAG:
		sqe->tag = 1;
		return "field tag";
	case GROUP:
		sqe->group = 1;
		return "field group";
	case RESERVED:
		sqe->reserved = 1;
		return "field reserved";
	default:
		sqe->dtype = URCCL_DTYPE_FP16;
		return "field dtype";
	}
}

static void fields(uint32_t op)
{
	struct urccl_sqe *sqe;
	const char *word;
	uint32_t i;

	for (i = 0; i < FIELDS; i++) {
		if (uses[op].fields & 1u << i)
			continue;
		sqe = entry(op);
		word = set(sqe, 1u << i);
		refused(sqe, word);
	}
}

static const char *word_of(uint32_t op, uint32_t flag)
{
	if (flag == URCCL_SQE_LINK)
		return "chain";
	if (flag == URCCL_SQE_FENCE)
		return "FENCE";
	if (flag == URCCL_SQE_SKIP_SUCCESS &&
	    (uses[op].flags & ~(uint32_t)URCCL_SQE_WATCH) == HANDLE)
		return "SKIP_SUCCESS";
	return "flags";
}

/* A LINK that cannot be has begun a chain all the same, which the next entry ends. */
static void flags(uint32_t op)
{
	struct urccl_sqe *sqe;
	uint32_t flag;

	for (flag = 1; flag <= URCCL_SQE_WATCH; flag <<= 1) {
		if (uses[op].flags & flag || flag == URCCL_SQE_EXT)
			continue;
		sqe = entry(op);
		urccl_sqe_add_flags(sqe, flag);
		refused(sqe, word_of(op, flag));
		if (flag == URCCL_SQE_LINK)
			CHECK_EQ(pair_run(&p, &p.a, entry(URCCL_OP_NOP)).res, -ECANCELED);
	}
}

int main(int argc, char **argv)
{
	uint32_t op;

	pair_begin(&p, argc, argv);
	for (op = 0; op < URCCL_OP_LAST; op++) {
		fields(op);
		flags(op);
		CHECK_EQ(pair_run(&p, &p.a, entry(URCCL_OP_NOP)).res, 0);
	}
	pair_close(&p);
	return 0;
}
