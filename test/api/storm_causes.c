/* SPDX-License-Identifier: Apache-2.0 */
/* What the entries of storm.c may fail of: each sentence, and what was done to the entry, or to the
 * network that it was on, if it is true. */
#include "storm.h"

static int has_failed(const struct entry *e)
{
	return e->outcome || (!e->open && !e->good);
}

static int was_cancelled(const struct entry *e)
{
	return (int)e->cancelled;
}

static int was_linked(const struct entry *e)
{
	return e->after && has_failed(e->after);
}

/* Of those that a FENCE waits for. */
static int was_fenced(const struct entry *e)
{
	const struct entry *o;

	if (!(e->flags & URCCL_SQE_FENCE))
		return 0;
	for (o = entries; o < e; o++)
		if (o->opcode != URCCL_OP_NOP && o->peer == e->peer && has_failed(o) &&
		    (!e->group || e->group == o->group))
			return 1;
	return causes.warm_failed && !e->group;
}

/* Or what was acknowledged, and its rail broke. */
static int was_fenced_by_any(const struct entry *e)
{
	const struct entry *o;

	for (o = entries; o < e; o++)
		if (o->peer == e->peer && has_failed(o))
			return !!(e->flags & URCCL_SQE_FENCE);
	return e->flags & URCCL_SQE_FENCE && causes.breaks;
}

/* A FENCE asks whether the bytes of earlier ones are placed, where they were to be. */
static int was_revoked(const struct entry *e)
{
	return e < entries + causes.revoked || (causes.revoked && e->flags & URCCL_SQE_FENCE);
}

static int was_closed(const struct entry *e)
{
	return e < entries + causes.closed;
}

static int was_taken_back(const struct entry *e)
{
	return was_revoked(e) || was_closed(e) || causes.breaks;
}

static int is_on_bad_rail(const struct entry *e)
{
	return e->opcode != URCCL_OP_NOP && causes.breaks;
}

static int may_not_go_again(const struct entry *e)
{
	return is_on_bad_rail(e) && e->flags & URCCL_SQE_NO_REPLAY;
}

static int was_late(const struct entry *e)
{
	return e->own_us || causes.slow || causes.frozen || was_closed(e);
}

static int is_on_bad_device(const struct entry *e)
{
	return e->opcode != URCCL_OP_NOP && causes.errors;
}

static int was_flipped(const struct entry *e)
{
	return causes.flips && e->flags & URCCL_SQE_CHECKSUM;
}

static const struct {
	int res;
	const char *says;
	int (*holds)(const struct entry *e);
} reasons[] = {
	{-ECANCELED, "cancelled (ECANCELED)", was_cancelled},
	{-ECANCELED, "an earlier entry of its chain failed", was_linked},
	{-ECANCELED, "of the entries that the fence waits for", was_fenced},
	{-ECANCELED, "an entry that the fence may wait for failed", was_fenced_by_any},
	{-ECANCELED, "was ended by urccl_unimport() while", was_revoked},
	{-EACCES, "the peer revoked the region", was_revoked},
	{-EACCES, "instead of keys for the advert", was_revoked},
	{-EACCES, "the device gave EACCES", was_revoked},
	{-EACCES, "the peer refused the access", was_revoked},
	{-ESTALE, "names no imported memory", was_taken_back},
	{-ESTALE, "names no connected peer", was_closed},
	{-ESTALE, "the peer was lost", was_closed},
	{-ESTALE, "another incarnation answers at its address", was_closed},
	{-ECONNRESET, "the peer was lost", was_closed},
	{-ECONNRESET, "the peer closed the connection", was_closed},
	{-ECONNRESET, "the connection broke", was_closed},
	{-ECONNRESET, "not to be sent again on another path", may_not_go_again},
	{-ECONNRESET, "on its way when a rail broke", is_on_bad_rail},
	{-ETIMEDOUT, "not finished after", was_late},
	{-ETIMEDOUT, "no ring there watches us", was_late},
	{-ETIMEDOUT, "the peer's library has said nothing", was_late},
	{-EIO, "the device gave EIO", is_on_bad_device},
	{-EBADMSG, "their checksums differ", was_flipped},
};

#define MANY 1024u /* that fail at a time: more than records are kept for */

/* The deadline that passed is the one that it was given. */
static int names_deadline(const struct entry *e, const char *why)
{
	char after[64];

	snprintf(after, sizeof(after), "after %u us", e->own_us ? e->own_us : DEADLINE_MS * 1000);
	return strstr(why, after) != NULL;
}

void check_cause(const struct entry *e, const struct urccl_cqe *cqe)
{
	static uint32_t known, gone;
	char why[300];
	uint32_t i;

	CHECK_GE(urccl_explain(p.a.ctx, cqe, why, sizeof(why)), 1);
	/* More failed before this was looked at than are kept. */
	if (strstr(why, "its record is gone")) {
		CHECK_LE(++gone, MANY + known);
		return;
	}
	known++;
	for (i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (cqe->res == reasons[i].res && strstr(why, reasons[i].says) &&
		    reasons[i].holds(e) && (cqe->res != -ETIMEDOUT || names_deadline(e, why)))
			return;
	fprintf(stderr, "entry %u, opcode %u, flags %#x, %lld: %s\n", (unsigned int)(e - entries),
		e->opcode, e->flags, (long long)cqe->res, why);
	CHECK(!"a cause that it was given");
}
