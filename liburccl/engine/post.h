/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting entries into chunks, posting these to devices, and taking them back. */
#ifndef POST_H
#define POST_H

#include "engine/op.h"
#include "engine/peer.h"

/* The part of chunk_free() that every chunk needs. */
static inline void chunk_release(struct engine *e, struct chunk *c)
{
	struct op *op = c->op;

	e->chunk_peers -= !--op->peer->chunks;
	c->op = NULL;
	c->next = e->chunk_free;
	e->chunk_free = c;
	e->chunks_used--;
}

/* A chunk of the entry is back and was freed; its content is as it came out. */
static inline __attribute__((always_inline)) void op_count_chunk(struct op *op,
								 const struct chunk *c)
{
	op->inflight--;
	if (!c->res) {
		op->placed += c->len;
		op->peer->silent = 0;
	} else {
		op_fail_chunk(op, c);
	}
}

/* lane.c */
/* The probe of that name: a device took the chunk, or its bytes were copied at once. */
void chunk_posted(uint32_t peer, enum chunk_kind kind, uint64_t len);
void lane_wake(struct lane *l); /* it has work */
void lane_add_op(struct op *op);
void lane_add_chunk(struct engine_peer *p, uint32_t lane, struct chunk *c);
/* Sends a message of this engine to the peer's, by the chunk c. */
static inline void lane_send(struct engine_peer *p, struct chunk *c, uint32_t seg, void *message,
			     uint32_t len, uint8_t checksum)
{
	*c = (struct chunk){.ep = peer_ep(p),
			    .kind = CHUNK_SEND,
			    .cls = URCCL_CLASS_CONTROL,
			    .len = len,
			    .local = message,
			    .checksum = checksum,
			    .op = p,
			    .seg = seg};
	lane_add_chunk(p, LANE_CONTROL, c);
}
/* 1: the peer may use one more chunk. */
int chunk_may(const struct engine *e, const struct engine_peer *p);
uint64_t chunk_bytes(const struct rail *rail);	     /* largest piece of an entry, */
uint64_t chunk_limit(const struct rail *rail);	     /* and of bulk while the window is small */
void rail_busy(struct engine *e, struct rail *rail); /* it starts to carry bytes */
uint32_t rail_post(struct engine *e, struct rail *rail, struct chunk **batch, uint32_t n);
/* As rail_post(); chunks that the device does not take wait in the lane. */
uint32_t batch_post(struct engine *e, struct lane *l, struct rail *rail, struct chunk **batch,
		    uint32_t n);

/* schedule.c */
/* The entry's next chunk for a rail. NULL: it has none now, or no chunk is free. */
struct chunk *op_chunk(struct engine *e, struct op *op, struct rail *rail, uint64_t most);
int op_exhausted(const struct op *op); /* 1: it certainly has no more pieces */
uint32_t schedule(struct engine *e);
uint32_t poll_devices(struct engine *e, uint32_t all); /* all: also those without rails */
void sweep_chunks(struct engine *e);
void chunk_out(struct engine *e, struct chunk *c);

/* flush.c: proves that acknowledged writes are placed, by the rail that carried them */
void flush_all(struct engine *e);
int flush_begin(struct op *op);		 /* 0: no rail can do it */
int flush_may_wait(const struct op *op); /* 1: it may end acknowledged, since its scope has room to
					  * record that */
void flush_defer(struct op *op);	 /* it ends successfully, but only acknowledged */
void acked_forget(struct scope *s);
int flush_fenced(struct op *op);    /* 0: its notification may be sent */
void flush_lost(struct rail *rail); /* it broke */
void flush_out(struct engine *e, struct chunk *c);

/* stripe.c: bulk over several rails */
uint32_t lane_stripe(struct engine *e, struct lane *l);
void rail_carried(const struct engine *e, struct rail *rail, uint32_t len);

/* replay.c: rails come and go */
void rail_joined(struct engine *e, struct rail *rail);
void rail_broke(struct engine *e, struct rail *rail, int res);
void rail_missed(struct engine *e, struct rail *rail, int res); /* it did not come up */
void rail_fenced(struct engine *e, struct engine_peer *p, uint32_t number);
int rail_leaves(struct rail *rail); /* removes it from the rails that are up; 1: it was one */
/* Removes rails of other transports from the rails that are up: their numbers mean other rails. */
void rails_of(struct engine_peer *p, const struct backend *ops);
void peer_choose(struct engine_peer *p); /* chooses its best rail */
/* The rail for bulk that was under way this often when a rail broke. Needs at least one rail that
 * is up. */
#define TRIES_STEADY 3u
struct rail *peer_steady(const struct engine_peer *p);
/* Binds a chunk that no device has to a rail. 0: it cannot, and waits elsewhere. */
int chunk_bind(struct chunk *c, struct rail *rail);
/* 1: it is posted again later. */
int chunk_fail_over(struct engine *e, struct rail *rail, struct chunk *c);
/* A chunk was acknowledged, and its rail is broken by now. */
void chunk_unproved(struct rail *rail, struct op *op);
int op_requeue(struct op *op); /* sends all of it again, when possible; 0: it cannot */
void replay_run(struct engine_peer *p);
void replay_drop(struct op *op); /* drops its chunks that wait to be posted again */

void op_begin_other(struct op *op); /* op.c */

/* Nothing blocks the entry any more. */
static inline __attribute__((always_inline)) void op_begin(struct op *op)
{
	if (op->sqe.opcode == URCCL_OP_NOP) {
		op_end_nop(op);
	} else if ((op->bits & (OP_IS_DATA | OP_LOOKUP)) == OP_IS_DATA &&
		   op->peer->state == PEER_UP) {
		op->state = OP_MOVING;
		peer_awaited(op_engine(op), op->peer);
		lane_add_op(op);
	} else {
		op_begin_other(op);
	}
}

#endif
