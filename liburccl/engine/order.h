/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that wait for other entries: LINK, DRAIN, FENCE. */
#ifndef ORDER_H
#define ORDER_H

#include "engine/engine.h"

struct op;

/* Most scopes of a ring with entries that ended acknowledged and are not proved. */
#define ACKED_KEPT(entries) ((entries) / 2)

/* The entries that one FENCE waits for: of one ring and peer, and of one group or (all) every
 * group. */
struct scope {
	struct scope *hash_next;
	struct list idle; /* in the ring's list of idle scopes; scopes in use again may still be in
			   * it */
	struct engine_peer *peer;
	uint32_t group;
	uint32_t all;
	uint32_t unfinished;
	uint32_t counted;    /* of them: before its last waiter */
	uint32_t failed;     /* failures that no FENCE was told of, */
	uint32_t lost;	     /* and whether some of them are lost bytes */
	struct list waiting; /* FENCE entries (op.fence_link) */
	/* For entries that ended acknowledged (flush.c). While some are not proved, the scope is in
	 * its peer's list. unproved: 1 while it is there; the scope of all groups adds 1 for each
	 * group that is there. */
	struct engine_ring *er;
	struct list acked_link;
	uint64_t acked_seq;   /* number of the last of them */
	uint32_t acked_rails; /* rails that carried them, one bit each */
	uint32_t unproved;
	uint32_t lost_at; /* peer.acked_losses when some of them were lost; 0: never */
};

/* ---- order.c ---- */

int order_enter(struct op *op);	       /* LINK, DRAIN, FENCE: sets blockers; not 0: it has failed */
void order_leave(struct op *op);       /* leaves its chain, and updates DRAIN entries */
void order_leave_peer(struct op *op);  /* updates FENCE entries */
void order_leave_fence(struct op *op); /* it waits for a FENCE no more, if it did */
uint32_t order_waits_for(const struct op *op); /* entries, of a FENCE that waits */
/* The outcome of a chained or failed entry is known: updates LINK and FENCE entries. */
void order_outcome(struct op *op, int failed);
int order_ring_init(struct engine_ring *er);
void order_ring_fini(struct engine_ring *er);
void order_ring_quiet(struct engine_ring *er); /* all its entries have ended */
/* The scope of all groups that belongs to the scope s, which is in use. */
struct scope *order_scope_all(struct scope *s);
void order_settle(struct scope *s); /* the scope may be idle now */
void order_lost(struct scope *s);   /* keeps lost bytes of acknowledged entries as a failure */
void order_forget_peer(struct engine_ring *er, struct engine_peer *p);

#endif
