/* SPDX-License-Identifier: Apache-2.0 */
/* The packets of a chunk in the simulated network: they are sent while the ep has free ones, lost,
 * placed, and answered by the peer one by one. */
#include "backend/sim/sim.h"

/* ---- packets ---- */

static void packet_again(struct sim_packet *p, uint32_t stage, uint64_t due)
{
	p->stage = stage;
	sim_heap_add(p->op->ep->dev, p, due);
}

/* At least 1 ns, so that sim_deliver() ends. */
static uint64_t packet_delay(const struct sim_packet *p, enum sim_drawn what)
{
	return 1 +
	       sim_within(&p->op->ep->dev->faults.delay, sim_draw(p->op->seed, what, p->number));
}

/* The packet has its data. */
static void packet_sums(struct sim_packet *p)
{
	sim_check_send(p, sim_draw(p->op->seed, DRAW_FLIP, p->number));
}

/* Left the heap for good. */
static void packet_free(struct sim_packet *p)
{
	struct sim_op *op = p->op;
	struct sim_ep *ep = op->ep;

	p->op = NULL;
	p->next = ep->free_packets;
	ep->free_packets = p;
	op->inflight--;
	sim_op_check(op);
	if (!list_empty(&ep->unsent))
		sim_wake(ep->dev);
}

static void packet_answered(struct sim_packet *p)
{
	assert(p->op->waiting);
	p->op->waiting--;
}

static void packet_failed(struct sim_packet *p, int err)
{
	struct sim_op *op = p->op;

	if (!op->res)
		op->res = err;
	list_del(&op->unsent);
	packet_answered(p);
	packet_free(p);
}

/* It has landed; the duplicate fault may make it land again. */
static void packet_landed(struct sim_packet *p, uint64_t now)
{
	const struct sim_op *op = p->op;

	if (sim_happens(op->ep->dev->faults.duplicate, sim_draw(op->seed, DRAW_TWICE, p->number))) {
		packet_again(p, SIM_AGAIN, now + packet_delay(p, DRAW_AGAIN));
		sim_op_check(p->op);
	} else {
		packet_free(p);
	}
}

/* ---- lost ---- */

/* Retransmits it after a time that doubles; after the last retry the rail counts as broken. */
static void packet_lost(struct sim_packet *p, uint64_t now)
{
	const struct sim_faults *f = &p->op->ep->dev->faults;
	struct sim_ep *ep = p->op->ep;

	if (p->op->stopped || ep->down) {
		packet_failed(p, -ECANCELED);
	} else if (p->lost == f->retries) {
		sim_ep_down(ep, -ETIMEDOUT, 0);
		packet_failed(p, -ECONNRESET);
	} else {
		packet_again(p, SIM_THERE, now + (f->resend_ns << p->lost++));
	}
}

static int is_dropped(const struct sim_packet *p, enum sim_drawn direction)
{
	uint64_t seed = sim_draw(p->op->seed, direction, p->number);

	return sim_happens(p->op->ep->dev->faults.drop, sim_draw(seed, direction, p->lost));
}

/* ---- at the peer ---- */

static struct sim_ep *peer_of(const struct sim_ep *ep)
{
	return sim_find_ep(ep->dev->net, ep->peer_place, ep->peer_id);
}

static struct exposure *find_exposure(const struct sim_op *op)
{
	struct sim_ep *peer = peer_of(op->ep);
	struct exposure *e;

	if (!peer)
		return NULL;
	e = handles_get(&peer->dev->exposures, op->exposure);
	return e && e->ep == &peer->ep ? e : NULL;
}

static int check_access(const struct sim_op *op, const struct exposure *e)
{
	uint32_t right = 0;

	if (op->kind == CHUNK_FLUSH && !op->exposure) /* it names no memory */
		return 0;
	if (op->kind == CHUNK_READ)
		right = URCCL_RIGHT_READ;
	else if (op->kind == CHUNK_WRITE)
		right = URCCL_RIGHT_WRITE;
	if (!e || (e->rights & right) != right)
		return -EACCES;
	if (op->kind == CHUNK_FLUSH)
		return 0;
	if (e->expires_ns != NEVER_NS && sim_now(op->ep->dev) >= e->expires_ns)
		return -EACCES;
	if (op->len > e->len || op->off > e->len - op->len)
		return -ERANGE;
	return 0;
}

/* Copies between the packet and the exposure, span by span. */
static void packet_copy(struct sim_packet *p, const struct exposure *e, int to_memory)
{
	uint64_t off = e->off + p->op->off + p->off, run;
	uint8_t *data = p->data, *at;
	uint32_t left = p->len, n;

	while (left) {
		at = memory_at(e->memory, off, &run);
		n = run < left ? (uint32_t)run : left;
		if (to_memory)
			memcpy(at, data, n);
		else
			memcpy(data, at, n);
		data += n;
		off += n;
		left -= n;
	}
}

static int inbox_full(const struct sim_device *dev)
{
	return dev->inbox_tail - dev->inbox_kept == SIM_INBOX;
}

static void inbox_put(struct sim_ep *to, const struct sim_packet *p)
{
	struct sim_message *m = &to->dev->inbox[to->dev->inbox_tail++ & (SIM_INBOX - 1)];

	m->ep = to;
	m->len = p->len;
	memcpy(m->data, p->data, p->len);
	sim_wake(to->dev);
}

/* ---- a packet's stages ---- */

/* The peer's answer: 0 or -errno. -EAGAIN: its inbox is full. */
static int packet_judge(const struct sim_packet *p)
{
	const struct sim_op *op = p->op;
	struct sim_ep *peer = peer_of(op->ep);
	int err;

	if (!peer)
		return -ECONNRESET;
	switch (op->kind) {
	case CHUNK_SEND:
		if (inbox_full(peer->dev))
			return op->stopped ? -ECANCELED : -EAGAIN;
		return sim_check_arrived(p);
	case CHUNK_WRITE:
		err = check_access(op, find_exposure(op));
		return err ? err : sim_check_arrived(p);
	case CHUNK_READ:
		if (op->stopped)
			return -ECANCELED;
		break;
	}
	return check_access(op, find_exposure(op));
}

static void packet_accepted(struct sim_packet *p, uint64_t now)
{
	struct sim_op *op = p->op;

	switch (op->kind) {
	case CHUNK_READ:
		packet_copy(p, find_exposure(op), 0);
		packet_sums(p);
		packet_again(p, SIM_BACK,
			     now + sim_line(peer_of(op->ep)->dev, p->len, now) +
				     packet_delay(p, DRAW_BACK));
		return;
	case CHUNK_FLUSH:
		break;
	case CHUNK_SEND:
		inbox_put(peer_of(op->ep), p);
		break;
	case CHUNK_WRITE:
		if (op->early) {
			packet_answered(p);
			packet_again(p, SIM_PLACING, now + 2 * packet_delay(p, DRAW_PLACE));
			sim_op_check(op);
			return;
		}
		packet_copy(p, find_exposure(op), 1);
		break;
	}
	if (is_dropped(p, DRAW_LOST_BACK)) { /* it was done, and will be done again */
		packet_lost(p, now);
		return;
	}
	packet_answered(p);
	if (op->kind == CHUNK_FLUSH)
		packet_free(p);
	else
		packet_landed(p, now);
}

/* A packet waits while either device is frozen; it is lost if either link is down or by chance. */
static int packet_arrives(struct sim_packet *p, uint64_t now)
{
	struct sim_ep *peer = peer_of(p->op->ep);
	struct sim_device *here = p->op->ep->dev, *there = peer ? peer->dev : here;
	uint64_t until = sim_frozen_until(here, now), other = sim_frozen_until(there, now);

	until = other > until ? other : until;
	if (until) {
		packet_again(p, p->stage, until);
		return 0;
	}
	if (sim_is_cut(here, now) || sim_is_cut(there, now) || is_dropped(p, DRAW_LOST)) {
		packet_lost(p, now);
		return 0;
	}
	return 1;
}

/* Applies the fault that was drawn at post. 0: none of the packet is placed. */
static int packet_maimed(struct sim_packet *p)
{
	if (p->op->fault == SIM_FAULT_NOTHING)
		return 0;
	if (p->op->fault == SIM_FAULT_PARTIAL)
		sim_check_cut(p, (uint32_t)(sim_draw(p->op->seed, DRAW_PART, p->number) %
					    (p->len + 1ull)));
	return 1;
}

static void packet_there(struct sim_packet *p, uint64_t now)
{
	int err;

	if (!packet_arrives(p, now))
		return;
	err = packet_judge(p);
	if (err == -EAGAIN) {
		packet_again(p, SIM_THERE, now + SIM_RETRY_NS);
	} else if (err) {
		packet_failed(p, err);
	} else if (!packet_maimed(p)) {
		packet_answered(p);
		packet_free(p);
	} else {
		packet_accepted(p, now);
	}
}

/* Access was checked when it was acknowledged. If the exposure is gone since, unexpose or close has
 * placed or dropped the packet's data. */
static void packet_placed(struct sim_packet *p, uint64_t now)
{
	struct exposure *e = find_exposure(p->op);

	if (e)
		packet_copy(p, e, 1);
	packet_landed(p, now);
}

static void packet_twice(struct sim_packet *p)
{
	const struct sim_op *op = p->op;
	struct sim_ep *peer = peer_of(op->ep);
	struct exposure *e;

	if (op->kind == CHUNK_SEND) {
		if (peer && !inbox_full(peer->dev))
			inbox_put(peer, p);
	} else {
		e = find_exposure(op);
		if (!check_access(op, e))
			packet_copy(p, e, 1);
	}
	packet_free(p);
}

static void packet_back(struct sim_packet *p, uint64_t now)
{
	struct sim_op *op = p->op;
	int err;

	if (!packet_arrives(p, now))
		return;
	err = op->stopped ? -ECANCELED : sim_check_arrived(p);
	if (err) {
		packet_failed(p, err);
		return;
	}
	memcpy((uint8_t *)op->chunk->local + p->off, p->data, p->len);
	packet_answered(p);
	packet_free(p);
}

void sim_deliver(struct sim_device *dev, uint64_t now)
{
	struct sim_packet *p;

	while (dev->heap_len && dev->heap[0]->due <= now) {
		p = dev->heap[0];
		sim_heap_del(dev, p);
		switch (p->stage) {
		case SIM_THERE:
			packet_there(p, now);
			break;
		case SIM_PLACING:
			packet_placed(p, now);
			break;
		case SIM_AGAIN:
			packet_twice(p);
			break;
		case SIM_BACK:
			packet_back(p, now);
			break;
		}
	}
}

/* Like a NIC, which writes out data that it holds for memory before it deregisters it. */
void sim_settle(struct sim_device *owner, const struct exposure *exposure)
{
	struct urccl_sim *net = owner->net;
	const struct sim_device *dev;
	struct sim_packet *p;
	uint32_t slot, i;

	for (slot = 0; slot < SIM_DEVICES; slot++) {
		dev = net->devices[slot];
		for (i = 0; dev && i < dev->heap_len; i++) {
			p = dev->heap[i];
			if (p->stage != SIM_PLACING || find_exposure(p->op) != exposure)
				continue;
			packet_copy(p, exposure, 1);
			p->stage = SIM_AGAIN;
		}
	}
}

/* ---- sending ---- */

static void op_send(struct sim_op *op, uint64_t now)
{
	struct sim_packet *p = op->ep->free_packets;
	uint32_t left = op->len - op->sent, outward;

	op->ep->free_packets = p->next;
	p->op = op;
	p->number = op->packets++;
	p->off = op->sent;
	p->len = left < SIM_PACKET_BYTES ? left : SIM_PACKET_BYTES;
	p->lost = 0;
	outward = op->kind == CHUNK_WRITE || op->kind == CHUNK_SEND ? p->len : 0;
	if (outward) {
		memcpy(p->data, (uint8_t *)op->chunk->local + p->off, p->len);
		packet_sums(p);
	}
	op->sent += p->len;
	op->waiting++;
	op->inflight++;
	packet_again(p, SIM_THERE,
		     now + sim_line(op->ep->dev, outward, now) + packet_delay(p, DRAW_DELAY));
}

/* Sends a packet of each op in turn, so that a short op does not wait for a long one. */
void sim_send(struct sim_ep *ep, uint64_t now)
{
	struct sim_op *op;

	while (ep->free_packets && !list_empty(&ep->unsent)) {
		op = list_first(&ep->unsent, struct sim_op, unsent);
		list_del(&op->unsent);
		op_send(op, now);
		if (op->sent < op->len)
			list_add_tail(&op->unsent, &ep->unsent);
	}
	if (list_empty(&ep->unsent))
		list_del(&ep->sending);
}
