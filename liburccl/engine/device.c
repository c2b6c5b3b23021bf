/* SPDX-License-Identifier: Apache-2.0 */
/* Device rings: entries that kernels push. No doorbell reports them, so the engine polls the
 * lanes. */
#include "engine/op.h"
#include "engine/peer.h"

#define LANE_TURN    32u		  /* entries of a lane that one iteration takes */
#define PUSHING_NS   NSEC_PER_SEC	  /* time after an entry in which another may come soon */
#define SOON_NS	     (50 * NSEC_PER_USEC) /* longest sleep in that time */
#define IDLE_LOOK_NS NSEC_PER_MSEC	  /* longest sleep otherwise */

#define PUSHED_FLAGS                                                                 \
	(URCCL_SQE_FENCE | URCCL_SQE_NOTIFY | URCCL_SQE_CHECKSUM | URCCL_SQE_ACKED | \
	 URCCL_SQE_NO_REPLAY | 3u << URCCL_SQE_CLASS_SHIFT)
#define PUSHED_OPS                                                                                 \
	(1u << URCCL_OP_NOP | 1u << URCCL_OP_READ | 1u << URCCL_OP_WRITE | 1u << URCCL_OP_NOTIFY | \
	 1u << URCCL_OP_FETCH_ADD)

/* Kernels may only use registered memory, since the engine reads other memory unchecked. They may
 * only order entries of their own lane, so they set no group. */
static int may_be_pushed(const struct urccl_sqe *s)
{
	return s->opcode < URCCL_OP_LAST && PUSHED_OPS >> s->opcode & 1 &&
	       !(s->flags & ~PUSHED_FLAGS) && !s->group &&
	       !(s->opcode == URCCL_OP_NOTIFY && s->len);
}

/* Each lane has a share of the ring's entries, so that no lane waits for the entries of others. The
 * SQ has room for all shares. */
static uint32_t lane_pass(struct ring *r, uint32_t lane, uint32_t tail)
{
	struct device_ring *d = r->device;
	struct device_lane *l = &d->lane[lane];
	struct urccl_sqe *sqe;
	uint32_t n;

	for (n = 0; n < LANE_TURN && l->taken - l->ended < d->share; n++) {
		sqe = &r->pub.sqes[(tail + n) & r->pub.sq_mask];
		if (!device_lane_take(d, lane, sqe))
			break;
		if (!may_be_pushed(sqe))
			sqe->reserved |= PUSHED_WRONG;
		sqe->flags = (uint16_t)((sqe->flags & PUSHED_FLAGS) | URCCL_SQE_SKIP_SUCCESS);
		sqe->group = sqe->opcode == URCCL_OP_NOP ? 0 : 1 + lane; /* a NOP has no group */
		sqe->user_data = (uint64_t)lane << 32 | (uint32_t)(l->taken - 1);
	}
	return n;
}

uint32_t device_rings_pass(struct engine *e)
{
	uint32_t all = 0, n, i;
	const struct engine_ring *er;

	e->device_busy = 0;
	list_for_each_entry(er, &e->device_rings, device_link) {
		struct ring *r = er->ring;

		e->device_busy |= load_relaxed(&r->device->busy);
		for (n = i = 0; i < r->device->lanes && !er->closing; i++)
			n += lane_pass(r, i, r->producer_line.sq_tail + n);
		ring_passed(r, n);
		all += n;
	}
	if (all)
		e->pushed_ns = e->now;
	return all;
}

int device_rings_busy(const struct engine *e)
{
	const struct list *pos;

	list_for_each(pos, &e->device_rings) {
		struct ring *r = list_entry(pos, struct engine_ring, device_link)->ring;

		if (__atomic_load_n(&r->device->busy, __ATOMIC_SEQ_CST))
			return 1;
	}
	return 0;
}

uint64_t device_rings_sleep_ns(const struct engine *e, uint64_t until)
{
	uint64_t ns = until == NEVER_NS ? NEVER_NS : until > e->now ? until - e->now : 0;
	uint64_t look_ns = e->now - e->pushed_ns < PUSHING_NS ? SOON_NS : IDLE_LOOK_NS;

	return !list_empty(&e->device_rings) && look_ns < ns ? look_ns : ns;
}

int device_rings_are_empty(const struct engine *e)
{
	const struct list *pos;

	list_for_each(pos, &e->device_rings)
		if (!device_ring_is_empty(
			    list_entry(pos, struct engine_ring, device_link)->ring->device))
			return 0;
	return !list_empty(&e->device_rings);
}

int device_failed(const struct op *op)
{
	struct ring *r = op->er->ring;

	if (!r->device)
		return 1;
	device_lane_failed(r->device, (uint32_t)(op->sqe.user_data >> 32),
			   (uint32_t)op->sqe.user_data, op->res);
	return ring_has_slot(r);
}

void device_ended(const struct op *op)
{
	device_lane_ended(op->er->ring->device, (uint32_t)(op->sqe.user_data >> 32),
			  (uint32_t)op->sqe.user_data);
}
