/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of other threads (struct control_call). */
#include <stdlib.h>

#include "control/private.h"

/* ---- peers ---- */

static uint32_t peer_state(const struct peer *p)
{
	switch (p->stage) {
	case STAGE_UP:
		return URCCL_PEER_UP;
	case STAGE_DOWN:
		return URCCL_PEER_LOST;
	default:
		return URCCL_PEER_CONNECTING;
	}
}

static void call_peer_info(struct control *c, struct control_call *call)
{
	struct peer *p = peer_of(c, call->handle);
	struct urccl_peer_info *info = call->info;

	if (!p) {
		call_answer(call, fail_handle(call->handle, HANDLE_PEER, REASON_PEER_STALE));
		return;
	}
	info->transport = p->transport;
	info->incarnation = p->incarnation;
	info->state = peer_state(p);
	info->warm = p->stage == STAGE_UP && p->path_state < PATH_SUSPENDED;
	info->hello_len = p->hello_len;
	memset(info->hello, 0, sizeof(info->hello));
	memcpy(info->hello, p->hello, p->hello_len);
	addr_text(&p->remote, info->address, sizeof(info->address));
	call_answer(call, 0);
}

/* ---- rings: passed on to the engine ---- */

struct ring_cmd {
	struct cmd cmd;
	struct control_call *call;
};

static void ring_back(struct control *c, struct cmd *cmd)
{
	struct ring_cmd *rc = container_of(cmd, struct ring_cmd, cmd);
	int res = cmd->e.msg.res;

	(void)c;
	if (res < 0)
		fail(res,
		     "this context has the %u rings that one may have open: close one, or open "
		     "another context",
		     RINGS_MAX);
	call_answer(rc->call, res);
	free(rc);
}

static void call_ring(struct control *c, struct control_call *call)
{
	struct ring_cmd *rc = calloc(1, sizeof(*rc));

	if (!rc) {
		call_answer(call, fail(-ENOMEM, "no memory for a command to the engine"));
		return;
	}
	rc->cmd.e.ring = call->ring;
	rc->call = call;
	cmd_post(c, &rc->cmd, call->msg.type == CALL_RING_ADD ? ENGINE_RING_ADD : ENGINE_RING_DEL,
		 ring_back);
}

/* ---- shutdown ---- */

static void call_stopped(struct control *c, struct cmd *cmd)
{
	(void)cmd;
	call_answer(c->shutdown, 0);
	c->shutdown = NULL;
}

void control_step(struct control *c)
{
	if (c->ending == 1 && list_empty(&c->peers)) {
		c->ending = 2;
		regions_end(c);
	}
	if (c->ending == 2 && list_empty(&c->regions)) {
		c->ending = 3;
		cmd_post(c, &c->stop, ENGINE_STOP, call_stopped);
	}
}

static void call_shutdown(struct control *c, struct control_call *call)
{
	struct peer *p;

	c->ending = 1;
	c->shutdown = call;
	listener_close(c);
	while (!list_empty(&c->pending))
		conn_close(c, list_first(&c->pending, struct conn, pending));
	dials_close(c);
	list_for_each_entry_safe(p, &c->peers, link) {
		p->refs = 0;
		if (p->stage == STAGE_DOWN) {
			peer_due(c, p);
			continue;
		}
		peer_bye(c, p);
		peer_down(c, p, -ESHUTDOWN, REASON_CLOSING, 0, 0);
	}
	importers_drop(c);
}

/* ---- dispatch ---- */

static void call_request(struct control *c, struct control_call *call)
{
	call->req.call = call;
	control_request(c, &call->req);
}

static void call_metadata(struct control *c, struct control_call *call)
{
	call_answer(call, metadata_make(c, call->data, call->n));
}

static void call_listening(struct control *c, struct control_call *call)
{
	call_answer(call, listener_text(c, (uint32_t)call->off, call->data, call->n));
}

static void (*const calls[])(struct control *c, struct control_call *call) = {
	[CALL_REQUEST] = call_request,	   [CALL_ALLOC] = region_alloc,
	[CALL_FREE] = region_free,	   [CALL_ADVERTISE] = advert_make,
	[CALL_METADATA] = call_metadata,   [CALL_LISTENING] = call_listening,
	[CALL_PEER_INFO] = call_peer_info, [CALL_REGION_INFO] = region_info,
	[CALL_REMOTE_INFO] = remote_info,  [CALL_REMOTE_MAP] = remote_map,
	[CALL_REMOTE_UNMAP] = remote_map,  [CALL_RING_ADD] = call_ring,
	[CALL_RING_DEL] = call_ring,	   [CALL_SHUTDOWN] = call_shutdown,
};

void call_run(struct control *c, struct control_call *call)
{
	if (c->ending)
		call_answer(call, fail(-ESHUTDOWN, "the context is being closed"));
	else
		calls[call->msg.type](c, call);
}
