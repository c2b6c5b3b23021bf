/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idle eviction in the engine. The control threads of both sides decide on it (peer/suspend.c).
 * Entries of a suspended peer are accepted and wait under their deadlines; the first one sends a
 * resume request. The numbers of notifications and atomics continue.
 */
#include "engine/op.h"
#include "engine/peer.h"

static int lanes_idle(const struct engine_peer *p)
{
	uint32_t i;

	for (i = 0; i < LANES; i++)
		if (p->lanes[i].held.head || !list_empty(&p->lanes[i].ops))
			return 0;
	return 1;
}

static int notes_idle(const struct engine_peer *p)
{
	return !p->notes_busy && !p->failed_notes.n && list_empty(&p->note_waiters) &&
	       list_empty(&p->parked_list) && !p->ack_due && !p->ack_sending;
}

/* A WRITE that was only acknowledged may not be placed yet: the rail is needed to prove it. */
static int rails_idle(const struct engine_peer *p)
{
	uint32_t i;

	for (i = 0; i < RAILS_MAX; i++) {
		const struct rail *rail = p->rails[i];

		if (rail && (rail->inflight || rail->flush_busy || rail->unproved ||
			     !list_empty(&rail->flush_wait) || !list_empty(&rail->flushing)))
			return 0;
	}
	return !p->requeued_chunks.head && list_empty(&p->requeued_ops);
}

/* Kernels of the program may use a mapped remote at any time, and only the rail tells its owner
 * when the mapping ends. */
static int remotes_idle(const struct engine_peer *p)
{
	const struct engine_remote *r;

	list_for_each_entry(r, &p->remotes, of_peer) {
		if (r->req_out || r->importing || r->has_address)
			return 0;
	}
	return 1;
}

int peer_idle(const struct engine_peer *p)
{
	if (p->state != PEER_UP || !p->rail || !p->rail->up || p->unfinished)
		return -EBUSY;
	return lanes_idle(p) && notes_idle(p) && rails_idle(p) && atomics_idle(p->atomics) &&
			       relay_idle(p) && remotes_idle(p)
		       ? 0
		       : -EBUSY;
}

int peer_pause(struct engine_peer *p)
{
	int busy = peer_idle(p);

	if (!busy)
		p->state = PEER_SUSPENDED;
	return busy;
}

void peer_go(struct engine_peer *p)
{
	p->state = PEER_UP;
	p->resume_asked = 0;
	while (!list_empty(&p->waiting))
		op_ready(list_first(&p->waiting, struct op, link));
	notes_resume(p);
	atomics_resume(p);
}

void peer_resume_back(struct control_req *req)
{
	struct engine_peer *p = container_of(req, struct engine_peer, resume);
	uint32_t reason = p->give_up_reason;

	p->resume_out = 0;
	p->give_up_reason = 0;
	if (reason && p->state <= PEER_UP)
		peer_give_up(p->engine, p, reason, p->give_up_arg);
}

void peer_forget_keys(struct engine_peer *p)
{
	struct list *pos;

	list_for_each(pos, &p->remotes)
		remote_suspend(list_entry(pos, struct engine_remote, of_peer));
}

uint64_t engine_peer_used(const struct engine_peer *p)
{
	return load_relaxed(&p->used);
}

uint64_t engine_peer_heard(const struct engine_peer *p)
{
	return load_relaxed(&p->heard);
}
