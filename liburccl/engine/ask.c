/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the engine to the control thread: keys of a remote, a ping, a peer that must be
 * resumed or given up, a rail that is down. */
#include "engine/op.h"
#include "engine/peer.h"

#define PEER_PING_PARTS 4u /* pings per dead_after to a peer that entries wait for */

/* While a request is out, a simulated clock is held, since the answer takes real time. Nothing
 * waits for the answer to a ping. */
struct clock *control_held_by(const struct engine *e, const struct control_req *req)
{
	return req->msg.type == CONTROL_AWAITED ? NULL : e->config.clock;
}

void control_ask(struct engine *e, struct control_req *req)
{
	if (control_held_by(e, req))
		clock_hold(e->config.clock);
	mailbox_post(e->config.control, &req->msg);
}

/* ---- keys ---- */

uint32_t key_part(const struct rail_key *k)
{
	const struct engine_remote *r = k->remote;
	uint32_t i;

	for (i = 0; i < RAIL_NUMBERS; i++)
		if (r->rail_keys[i] && k >= r->rail_keys[i] && k < r->rail_keys[i] + r->nparts)
			return (uint32_t)(k - r->rail_keys[i]);
	assert(0);
	return 0;
}

uint32_t key_grant(const struct rkey *key)
{
	const struct rail_key *k = key_of(key);

	return k->remote->parts[key_part(k)].grant;
}

/* The transports that cannot provide keys, one bit each. */
static uint64_t transports_of(const struct engine_peer *p)
{
	return p->rail ? 1ull << p->rail->ep->dev->ops->transport : 0;
}

void remote_fail(struct op *op, const struct engine_remote *r, int err)
{
	switch (err) {
	case -EACCES:
		op_fail(op, err, REASON_KEYS, EACCES, r->handle, 0);
		return;
	case -ESTALE:
		op_fail(op, err, REASON_KEYS_STALE, r->handle, 0, 0);
		return;
	case -EOPNOTSUPP:
		op_fail(op, err, REASON_KEYS_GPU, r->handle, transports_of(r->peer), 0);
		return;
	default:
		if (r->why == ENOMEM)
			op_fail(op, err, REASON_KEYS_MEMORY, r->len, 0, 0);
		else
			op_fail(op, err, REASON_KEYS_FAILED, r->why, 0, 0);
	}
}

void remote_waiters(struct engine_remote *r, int err)
{
	struct op *op;

	while (!list_empty(&r->waiters)) {
		op = list_first(&r->waiters, struct op, link);
		list_del(&op->link);
		if (err)
			remote_fail(op, r, err);
		else
			op_ready(op);
	}
}

/* The entry must be in no list. */
void remote_need_keys(struct op *op, struct engine_remote *r)
{
	if (r->failed) {
		remote_fail(op, r, r->failed);
		return;
	}
	list_add_tail(&op->link, &r->waiters);
	remote_ask(r);
}

void remote_ask(struct engine_remote *r)
{
	struct engine *e = r->peer->engine;

	if (r->asked || r->failed)
		return;
	r->asked = 1;
	r->req_out = 1;
	r->req = (struct control_req){.msg = {.type = CONTROL_KEYS, .reply = &e->mailbox},
				      .handle = r->peer->handle,
				      .remote = r};
	control_ask(e, &r->req);
}

/* ---- peers ---- */

void peer_awaited(struct engine *e, struct engine_peer *p)
{
	if (list_empty(&p->awaited.link))
		wheel_set(&e->wheel, &p->awaited, e->now + e->dead_after_ns / PEER_PING_PARTS);
}

static void resume_post(struct engine_peer *p, uint32_t reason, uint64_t arg)
{
	struct engine *e = p->engine;

	p->resume_asked = p->resume_out = 1;
	p->resume = (struct control_req){.msg = {.type = CONTROL_RESUME, .reply = &e->mailbox},
					 .handle = p->handle,
					 .reason = reason,
					 .arg = {arg}};
	control_ask(e, &p->resume);
}

void peer_ask_resume(struct engine_peer *p)
{
	peer_awaited(p->engine, p);
	if (!p->resume_asked && !p->resume_out)
		resume_post(p, REASON_NONE, 0);
}

/* Gives up a peer that has no rail. */
static void peer_give_up_suspended(struct engine_peer *p, uint32_t reason, uint64_t arg)
{
	if (p->resume_out) {
		p->give_up_reason = reason;
		p->give_up_arg = arg;
	} else {
		resume_post(p, reason, arg);
	}
}

void rail_report(struct engine *e, struct rail *rail, int res, uint32_t reason, uint64_t arg)
{
	if (rail->down_out || rail->ending)
		return;
	rail->down_out = 1;
	rail->down = (struct control_req){.msg = {.type = CONTROL_RAIL_DOWN,
						  .res = res,
						  .reply = &e->mailbox},
					  .handle = rail->peer->handle,
					  .rail = rail,
					  .reason = reason,
					  .arg = {arg}};
	control_ask(e, &rail->down);
}

void peer_give_up(struct engine *e, struct engine_peer *p, uint32_t reason, uint64_t arg)
{
	if (p->rail)
		rail_report(e, p->rail, -ECONNRESET, reason, arg);
	else
		peer_give_up_suspended(p, reason, arg);
}
