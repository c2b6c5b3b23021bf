/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to requests and calls, and commands to the engine. */
#include <stdio.h>

#include "conn/shared.h"

void cmd_post(struct control *c, struct cmd *cmd, enum engine_cmd_type type,
	      void (*back)(struct control *c, struct cmd *cmd))
{
	assert(!cmd->out);
	cmd->out = 1;
	cmd->back = back;
	cmd->e.msg.type = type;
	cmd->e.msg.res = 0;
	cmd->e.msg.reply = &c->back;
	mailbox_post(c->to_engine, &cmd->e.msg);
}

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

void req_answer(struct control_req *req, int res, uint32_t reason, uint64_t a, uint64_t b,
		uint64_t e)
{
	req->owner = NULL;
	req->reason = reason;
	req->arg[0] = a;
	req->arg[1] = b;
	req->arg[2] = e;
	if (!req->call)
		msg_reply(&req->msg, res);
	else
		call_answer(req->call, res < 0 ? fail_reason(res, reason, req->arg) : res);
}

void req_answer_error(struct control_req *req, const struct control_error *t)
{
	req_answer(req, t->res, t->reason, t->arg[0], t->arg[1], t->arg[2]);
}

void req_answer_handle(struct control_req *req, enum handle_kind wanted, uint32_t stale)
{
	struct handle_error e = handle_error(req->handle, wanted, stale);

	req_answer(req, e.res, e.reason, e.arg[0], e.arg[1], 0);
}
