/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of other threads (struct control_call). */
#include <stdio.h>
#include <stdlib.h>

#include "control/private.h"

void call_answer(struct control_call *call, int res)
{
	if (res < 0)
		snprintf(call->error, sizeof(call->error), "%s", urccl_errmsg());
	call->msg.res = res;
	/* The caller may free the call as soon as it sees `done`. The wake-up of a freed address is
	 * harmless. */
	store_release(&call->done, 1);
	futex_wake(&call->done);
}

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

static void call_peer_name(struct control *c, struct control_call *call)
{
	struct peer *p = peer_of(c, call->handle);

	/* The peer's BYE may be here unread even if its data path is closed already. */
	if (p && p->conn) {
		conn_read(c, p->conn);
		p = peer_of(c, call->handle);
	}
	if (p)
		addr_text(&p->remote, call->data, call->n);
	call_answer(call,
		    p ? p->leaving : fail_handle(call->handle, HANDLE_PEER, REASON_PEER_STALE));
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

static void call_ring(struct control *c, struct control_call *call, enum engine_cmd_type type)
{
	struct ring_cmd *rc = calloc(1, sizeof(*rc));

	if (!rc) {
		call_answer(call, fail(-ENOMEM, "no memory for a command to the engine"));
		return;
	}
	rc->cmd.e.ring = call->ring;
	rc->call = call;
	cmd_post(c, &rc->cmd, type, ring_back);
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
	struct list *pos, *tmp;

	c->ending = 1;
	c->shutdown = call;
	listener_close(c);
	while (!list_empty(&c->pending))
		conn_close(c, list_first(&c->pending, struct conn, pending));
	dials_close(c);
	list_for_each_safe(pos, tmp, &c->peers) {
		struct peer *p = list_entry(pos, struct peer, link);

		p->refs = 0;
		if (p->stage == STAGE_DOWN) {
			peer_step(c, p);
			continue;
		}
		peer_bye(c, p);
		peer_down(c, p, -ESHUTDOWN, REASON_CLOSING, 0, 0);
	}
	importers_drop(c);
	control_step(c);
}

/* ---- dispatch ---- */

static void call_dispatch(struct control *c, struct control_call *call)
{
	switch (call->msg.type) {
	case CALL_REQUEST:
		call->req.call = call;
		control_request(c, &call->req);
		break;
	case CALL_ALLOC:
		region_alloc(c, call);
		break;
	case CALL_FREE:
		region_free(c, call);
		break;
	case CALL_ADVERTISE:
		advert_make(c, call);
		break;
	case CALL_METADATA:
		call_answer(call, metadata_make(c, call->data, call->n));
		break;
	case CALL_LISTENING:
		call_answer(call, listener_text(c, (uint32_t)call->off, call->data, call->n));
		break;
	case CALL_PEER_INFO:
		call_peer_info(c, call);
		break;
	case CALL_REGION_INFO:
		region_info(c, call);
		break;
	case CALL_REMOTE_INFO:
		remote_info(c, call);
		break;
	case CALL_REMOTE_MAP:
	case CALL_REMOTE_UNMAP:
		remote_map(c, call);
		break;
	case CALL_PEER_NAME:
		call_peer_name(c, call);
		break;
	case CALL_RING_ADD:
		call_ring(c, call, ENGINE_RING_ADD);
		break;
	case CALL_RING_DEL:
		call_ring(c, call, ENGINE_RING_DEL);
		break;
	case CALL_SHUTDOWN:
		call_shutdown(c, call);
		break;
	default:
		call_answer(call, fail(-EINVAL, "call %u is not known", call->msg.type));
		break;
	}
}

void call_run(struct control *c, struct control_call *call)
{
	if (c->ending)
		call_answer(call, fail(-ESHUTDOWN, "the context is being closed"));
	else
		call_dispatch(c, call);
}
