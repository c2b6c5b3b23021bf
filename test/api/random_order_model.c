/* SPDX-License-Identifier: Apache-2.0 */
/* What the end of an entry of random_order.c says of others: of those that had to end before it, of
 * what it cancelled, of what was made. */
#include "random_order.h"

struct entry entries[N + 64];
struct pair p;
struct target t;
uint32_t n, phase, nopen, refs, asking, closing;
struct urccl_region regions[N];
struct urccl_remote remotes[N];
uint32_t nregions, nremotes;

static int linked(uint32_t i)
{
	return i && entries[i - 1].sqe.flags & URCCL_SQE_LINK;
}

static void ended_well(struct entry *e)
{
	if (e->outcome == SILENT)
		e->outcome = DONE;
	CHECK_EQ(e->outcome, DONE);
}

static void check_drain(uint32_t i)
{
	uint32_t j;

	for (j = phase; j < i; j++) {
		CHECK_NE(entries[j].outcome, OPEN);
		if (entries[j].outcome == SILENT)
			entries[j].outcome = DONE;
	}
}

static int in_group(const struct entry *fence, const struct entry *e)
{
	return e->has_peer && (!fence->sqe.group || fence->sqe.group == e->sqe.group);
}

/* The first FENCE behind e that looks at it is told of its failure, and may end long after that: it
 * has to tell its own peer. Another one may meanwhile succeed. */
static int told_to_open(uint32_t j, uint32_t i)
{
	uint32_t k;

	for (k = j + 1; k < i; k++) {
		if (!(entries[k].sqe.flags & URCCL_SQE_FENCE) || entries[k].outcome > SILENT ||
		    !in_group(&entries[k], &entries[j]))
			continue;
		entries[k].owes = 1;
		return 1;
	}
	return 0;
}

static void check_fence(uint32_t i, int64_t res)
{
	struct entry *fence = &entries[i], *e;
	uint32_t j;

	for (j = phase; j < i; j++) {
		e = &entries[j];
		if (!in_group(fence, e))
			continue;
		if (res == -ECANCELED) {
			e->told = 1; /* perhaps: it may have been cancelled for another reason */
			continue;
		}
		CHECK_NE(e->outcome, OPEN);
		CHECK(e->outcome != FAILED || e->told || told_to_open(j, i));
	}
	if (res == -ECANCELED)
		fence->told = 1;
}

/* A vector that fails when it is taken may wait to tell its peer, but its array was never looked
 * at. */
static int maybe_blind(const struct entry *e)
{
	uint32_t i = (uint32_t)(e - entries);

	return e->promised && (linked(i) || e->sqe.flags & URCCL_SQE_FENCE) &&
	       (e->sqe.opcode == URCCL_OP_READV || e->sqe.opcode == URCCL_OP_WRITEV);
}

static int matches(const struct entry *cancel, const struct entry *e)
{
	uint64_t key = cancel->sqe.key;
	uint32_t op = e->sqe.opcode;

	if (op == URCCL_OP_CANCEL || e->bad)
		return 0;
	switch (cancel->sqe.key_kind) {
	case URCCL_CANCEL_BY_USER_DATA:
		return e->sqe.user_data == key;
	case URCCL_CANCEL_BY_PEER:
		return e->has_peer || op == URCCL_OP_CLOSE;
	case URCCL_CANCEL_BY_REGION: /* vectors name it in their first segment */
		return e->has_peer && !maybe_blind(e) &&
		       (e->sqe.region == key || op == URCCL_OP_WRITEV || op == URCCL_OP_READV);
	case URCCL_CANCEL_BY_REMOTE:
		return e->has_peer && op != URCCL_OP_NOTIFY && !maybe_blind(e);
	case URCCL_CANCEL_BY_GROUP:
		return e->sqe.group == key;
	default:
		return 1;
	}
}

static void check_cancel(uint32_t i, int64_t res)
{
	uint32_t j;

	CHECK(res > 0 || res == -ENOENT || res == -EALREADY);
	for (j = phase; j < i; j++)
		if (matches(&entries[i], &entries[j]))
			CHECK_NE(entries[j].outcome, OPEN);
}

static void check_res(const struct entry *e, const struct urccl_cqe *cqe)
{
	int64_t res = cqe->res;

	if (res >= 0) {
		CHECK(!e->bad);
		return;
	}
	if (closing && (res == -ECONNRESET || res == -ESTALE))
		return;
	if (e->sqe.opcode == URCCL_OP_CANCEL && (res == -ENOENT || res == -EALREADY))
		return;
	if (e->sqe.opcode == URCCL_OP_TIMEOUT && res == -ETIME)
		return;
	if (res != -ECANCELED && !(res == -ETIMEDOUT && e->sqe.deadline_us) &&
	    !(e->bad && (res == -EINVAL || res == -ERANGE))) {
		char why[300];

		urccl_explain(p.a.ctx, cqe, why, sizeof(why));
		fprintf(stderr, "opcode %u, flags 0x%x: %s\n", e->sqe.opcode, e->sqe.flags, why);
		CHECK_EQ(res, 0);
	}
	/* Where there is a deadline the peer may have had no time to say so. */
	if (e->has_peer && e->sqe.opcode != URCCL_OP_NOTIFY && !e->sqe.deadline_us)
		CHECK(cqe->flags & (URCCL_CQE_REMOTE_QUIET | URCCL_CQE_UNKNOWN) || closing);
}

void on_end(uint32_t i, const struct urccl_cqe *cqe)
{
	struct entry *e = &entries[i];
	uint32_t op = e->sqe.opcode;
	uint32_t good = cqe->res >= 0 || (cqe->res == -ETIME && e->sqe.timeout_flags);

	CHECK(i < n && (e->outcome == OPEN || (e->outcome == SILENT && cqe->res < 0)));
	check_res(e, cqe);
	nopen -= e->outcome == OPEN;
	e->outcome = good ? DONE : FAILED;
	e->res = cqe->res;
	e->unknown = !!(cqe->flags & URCCL_CQE_UNKNOWN);
	CHECK(!e->owes || e->res == -ECANCELED);
	asking -= op == URCCL_OP_CONNECT || op == URCCL_OP_CLOSE;
	if (op == URCCL_OP_CONNECT && good) {
		CHECK_EQ(cqe->handle, p.a.peer.id);
		refs++;
	}
	if (op == URCCL_OP_CLOSE && !good)
		refs++;
	if (op == URCCL_OP_REGISTER && good)
		regions[nregions++].id = (uint32_t)cqe->handle;
	if (op == URCCL_OP_IMPORT && good)
		remotes[nremotes++].id = (uint32_t)cqe->handle;
	if (cqe->res >= 0 && linked(i))
		ended_well(&entries[i - 1]);
	if (cqe->res >= 0 && e->sqe.flags & URCCL_SQE_DRAIN)
		check_drain(i);
	if (e->sqe.flags & URCCL_SQE_FENCE && (cqe->res >= 0 || cqe->res == -ECANCELED))
		check_fence(i, cqe->res);
	if (op == URCCL_OP_CANCEL && (cqe->res > 0 || cqe->res == -ENOENT || cqe->res == -EALREADY))
		check_cancel(i, cqe->res);
}
