/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that move no data. The control thread executes CONNECT, CLOSE, REGISTER and others.
 * ACCEPT and TIMEOUT wait. CANCEL stops other entries. WATCH is in watch.c, MSG_RING in
 * msg_ring.c. */
#include "engine/op.h"
#include "engine/peer.h"

static struct ask *ask_of(const struct op *op)
{
	return &op->er->asks[op - op->er->ops];
}

/* ---- operations of the control thread
 * ---------------------------------------------------------- */

/* undo: the request that ends an object whose handle the program never got. */
static const struct asking {
	uint8_t type, undo; /* enum control_req_type */
} askings[URCCL_OP_LAST] = {
	[URCCL_OP_CONNECT] = {CONTROL_CONNECT, CONTROL_CLOSE},
	[URCCL_OP_CLOSE] = {CONTROL_CLOSE, 0},
	[URCCL_OP_REGISTER] = {CONTROL_REGISTER, CONTROL_UNREGISTER},
	[URCCL_OP_UNREGISTER] = {CONTROL_UNREGISTER, 0},
	[URCCL_OP_REVOKE] = {CONTROL_REVOKE, 0},
	[URCCL_OP_IMPORT] = {CONTROL_IMPORT, CONTROL_FORGET},
	[URCCL_OP_WARM] = {CONTROL_WARM, 0},
};

static void ask_post(struct op *op, struct control_req *req, uint32_t type)
{
	struct engine *e = op_engine(op);

	req->msg.type = type;
	req->msg.res = 0;
	req->msg.reply = &e->mailbox;
	ask_of(op)->out++;
	control_ask(e, req);
}

static void ask_start(struct op *op)
{
	struct ask *ask = ask_of(op);

	memset(ask, 0, sizeof(*ask));
	ask->op = op;
	op->state = OP_ASKING;
	/* At most one of the two is set. */
	ask->req.handle = op->sqe.region ? op->sqe.region : op->sqe.peer;
	ask->req.data = (const void *)(uintptr_t)op->sqe.addr;
	ask->req.len = op->sqe.len;
	ask->req.rights = op->sqe.rights;
	ask->req.hello = (const void *)(uintptr_t)op->note;
	ask->req.hello_len = op->note_len;
	ask_post(op, &ask->req, askings[op->sqe.opcode].type);
}

static void ask_stop(struct op *op)
{
	struct ask *ask = ask_of(op);

	if (ask->dropped)
		return;
	ask->dropped = 1;
	ask->drop.other = &ask->req;
	ask_post(op, &ask->drop, CONTROL_DROP);
}

/* Called before the CQE of the CONNECT is posted: notes_pending() posts the first event after
 * it. */
static void connect_watch(const struct op *op)
{
	struct engine_peer *p;

	if (!(op->sqe.flags & URCCL_SQE_WATCH) || op->res || op->er->closing)
		return;
	p = peer_get(op_engine(op), (uint32_t)op->handle);
	if (p)
		watch_given(op, p);
}

static void peer_handle_given(struct engine *e, uint32_t handle)
{
	struct engine_peer *p = peer_get(e, handle);

	if (p)
		p->handle_given = 1;
}

static void ask_answered(struct op *op, const struct control_req *req)
{
	uint32_t undo;

	if (req->msg.res < 0) {
		/* After a timeout the control thread knows what it waited for: records that, even
		 * if the outcome was reported before. */
		if (req->reason != REASON_NONE && op->res == -ETIMEDOUT && op->bits & OP_DECIDED)
			op_record(op, req->reason, req->arg[0], req->arg[1], req->arg[2]);
		op_fail(op, req->msg.res, req->reason, req->arg[0], req->arg[1], req->arg[2]);
		return;
	}
	/* A completed operation succeeds even if it was stopped too late, unless a failure was
	 * reported before. */
	undo = req->msg.type == askings[op->sqe.opcode].type ? askings[op->sqe.opcode].undo : 0;
	op->bits |= OP_DECIDED;
	if (!(op->bits & OP_REPORTED))
		op->res = 0;
	op->handle = undo ? req->handle : 0;
	/* The program does not get the new handle: end the object. */
	if (undo && ((op->bits & OP_REPORTED) || op->er->closing))
		ask_post(op, &ask_of(op)->req, undo);
	else if (undo && op->sqe.opcode == URCCL_OP_CONNECT)
		peer_handle_given(op_engine(op), req->handle);
}

void request_back(struct engine *e, struct control_req *req)
{
	struct ask *ask;
	struct op *op;

	(void)e;
	ask = req->msg.type == CONTROL_DROP ? container_of(req, struct ask, drop)
					    : container_of(req, struct ask, req);
	op = ask->op;
	if (req == &ask->req) {
		ask->dropped = 1; /* there is nothing left to drop */
		ask_answered(op, req);
	}
	if (--ask->out)
		return;
	connect_watch(op);
	op_ready(op);
}

/* ---- ACCEPT ---------------------------------------------------------------------------------- */

static int listens(const struct engine *e)
{
	const char *listen = e->config.params->listen;

	return !listen || *listen;
}

static void accept_start(struct op *op)
{
	struct engine *e = op_engine(op);
	struct op *old = e->accept;

	if (!listens(e)) {
		op_fail(op, -EOPNOTSUPP, REASON_NO_LISTENER, 0, 0, 0);
		return;
	}
	e->accept = op;
	op->state = OP_PARKED;
	if (old)
		op_fail(old, -ECANCELED, REASON_REPLACED, 0, 0, 0);
}

/* The payload belongs to the program, which keeps it while the ACCEPT exists. */
static void answer(const struct op *accept, struct engine_cmd *cmd)
{
	if (!(accept->sqe.flags & URCCL_SQE_EXT)) {
		cmd->answer = NULL;
		return;
	}
	cmd->answer_len = accept->note_len;
	if (accept->note_len)
		memcpy(cmd->answer, (const void *)(uintptr_t)accept->note, accept->note_len);
}

static int post_peer(struct op *accept, struct engine_cmd *cmd)
{
	void *payload;
	struct urccl_cqe *cqe = ring_post_event(accept->er->ring, &payload);

	if (!cqe)
		return 0;
	cqe->user_data = accept->sqe.user_data;
	cqe->res = cmd->len;
	cqe->flags = URCCL_KIND_PEER | URCCL_CQE_MORE;
	cqe->peer = cmd->peer->handle;
	cqe->handle = cmd->peer->handle;
	if (cmd->len)
		memcpy(payload, cmd->data, cmd->len);
	cmd->peer->handle_given = 1;
	answer(accept, cmd);
	if (accept->sqe.flags & URCCL_SQE_WATCH)
		watch_given(accept, cmd->peer);
	return 1;
}

int accepts_pending(struct engine *e)
{
	struct engine_cmd *cmd;

	while (e->accept && !list_empty(&e->pending_accepts)) {
		cmd = list_first(&e->pending_accepts, struct engine_cmd, link);
		if (!post_peer(e->accept, cmd))
			return 1;
		list_del(&cmd->link);
		msg_reply(&cmd->msg, 0);
	}
	return 0;
}

/* ---- TIMEOUT --------------------------------------------------------------------------------- */

static void timeout_start(struct op *op)
{
	op->state = OP_PARKED;
	if (!op->sqe.count)
		return;
	if (__builtin_add_overflow(op->er->completions, op->sqe.count, &op->until))
		return; /* more completions than there will ever be */
	list_add_tail(&op->drain_link, &op->er->timeouts);
	op->er->watched = 1;
}

/* A CQE was posted to the ring. */
void timeouts_count(struct engine_ring *er)
{
	struct op *op;

	list_for_each_entry_safe(op, &er->timeouts, drain_link) {
		if (er->completions < op->until || (op->bits & OP_DECIDED))
			continue;
		list_del(&op->drain_link);
		op_result(op, 0);
	}
}

/* ---- CANCEL ---------------------------------------------------------------------------------- */

/* A key of 0 matches nothing: segments have 0 if their region is looked up by address. */
static int seg_matches(const struct op *op, uint32_t by, uint64_t key)
{
	const struct urccl_seg *s = (const struct urccl_seg *)(uintptr_t)op->sqe.addr;
	uint64_t i;

	if (!key || (op->sqe.opcode != URCCL_OP_READV && op->sqe.opcode != URCCL_OP_WRITEV))
		return 0;
	for (i = 0; i < op->sqe.len; i++)
		if ((by == URCCL_CANCEL_BY_REGION ? s[i].region : s[i].remote) == key)
			return 1;
	return 0;
}

static int matches(const struct op *cancel, const struct op *op)
{
	uint64_t key = cancel->sqe.key;

	if (op->sqe.opcode == URCCL_OP_CANCEL || cancel->seq <= op->seq)
		return 0;
	switch (cancel->sqe.key_kind) {
	case URCCL_CANCEL_BY_USER_DATA:
		return op->sqe.user_data == key;
	case URCCL_CANCEL_BY_PEER:
		return (op->peer && op->peer->handle == key) ||
		       (op->sqe.opcode == URCCL_OP_CLOSE && op->sqe.peer == key);
	case URCCL_CANCEL_BY_REGION:
		return (key && op->sqe.region == key) ||
		       seg_matches(op, URCCL_CANCEL_BY_REGION, key);
	case URCCL_CANCEL_BY_REMOTE:
		return (op->remote && op->remote->handle == key) ||
		       seg_matches(op, URCCL_CANCEL_BY_REMOTE, key);
	case URCCL_CANCEL_BY_GROUP:
		return op->sqe.group == key;
	default:
		return 1;
	}
}

static void cancel_done(struct op *cancel)
{
	list_del(&cancel->drain_link);
	op_result(cancel, cancel->hits ? (int64_t)cancel->hits : -EALREADY);
}

/* Called while the ended entry can still be read. */
void cancel_target_ended(struct op *op)
{
	struct op *cancel;

	list_for_each_entry_safe(cancel, &op->er->cancels, drain_link) {
		if ((cancel->bits & OP_DECIDED) || !matches(cancel, op))
			continue;
		cancel->hits += op->res == -ECANCELED;
		if (--cancel->left == 0)
			cancel_done(cancel);
	}
}

static void cancel_start(struct op *cancel)
{
	struct engine_ring *er = cancel->er;
	uint32_t i;

	cancel->state = OP_PARKED;
	for (i = 0; i < er->entries; i++)
		cancel->left += er->ops[i].state != OP_FREE && matches(cancel, &er->ops[i]);
	if (!cancel->left) {
		op_result(cancel, -ENOENT);
		return;
	}
	list_add_tail(&cancel->drain_link, &er->cancels);
	er->watched = 1;
	for (i = 0; i < er->entries; i++)
		if (er->ops[i].state != OP_FREE && matches(cancel, &er->ops[i]))
			op_fail(&er->ops[i], -ECANCELED, REASON_CANCELLED, 0, 0, 0);
}

/* ---- dispatch
 * ---------------------------------------------------------------------------------- */

void request_start(struct op *op)
{
	switch (op->sqe.opcode) {
	case URCCL_OP_ACCEPT:
		accept_start(op);
		break;
	case URCCL_OP_WATCH:
		watch_start(op);
		break;
	case URCCL_OP_TIMEOUT:
		timeout_start(op);
		break;
	case URCCL_OP_CANCEL:
		cancel_start(op);
		break;
	case URCCL_OP_MSG_RING:
		msg_ring_start(op);
		break;
	default:
		ask_start(op);
		break;
	}
}

int request_stop(struct op *op)
{
	struct engine *e = op_engine(op);

	if (op->state == OP_ASKING) {
		if (ask_of(op)->out)
			ask_stop(op);
		return !ask_of(op)->out;
	}
	if (e->accept == op)
		e->accept = NULL;
	if (op->sqe.opcode == URCCL_OP_WATCH)
		watch_stop(op);
	list_del(&op->drain_link); /* TIMEOUT, CANCEL */
	return 1;
}
