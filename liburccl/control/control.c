/* SPDX-License-Identifier: Apache-2.0 */
/* The control thread: its loop, its mailboxes, its tables. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "control/private.h"

#define EVENTS_MAX 64
#define MSG_QUIT   201 /* differs from all types of commands, requests and calls */

static void control_back(struct control *c, struct msg *msg)
{
	struct cmd *cmd;

	if (msg->type == MSG_RESOLVED) {
		dial_resolved(c, msg);
		return;
	}
	if (msg->type == MSG_PREFAULTED) {
		prefault_back(c, msg);
		return;
	}
	if (msg->type == MSG_WORK) {
		work_done(c, msg);
		return;
	}
	cmd = container_of(msg, struct cmd, e.msg);
	assert(cmd->out);
	cmd->out = 0;
	if (cmd->back)
		cmd->back(c, cmd);
}

static void control_drop(struct control *c, struct control_req *req)
{
	struct control_req *other = req->other;
	struct peer *p = other->owner;

	switch (p ? other->msg.type : 0) {
	case CONTROL_CONNECT:
		dial_drop(c, other);
		break;
	case CONTROL_CLOSE: /* CLOSE goes on by itself */
		p->closing = NULL;
		req_answer(other, -ECANCELED, REASON_CANCELLED, 0, 0, 0);
		break;
	case CONTROL_REGISTER:
	case CONTROL_UNREGISTER:
	case CONTROL_REVOKE:
		region_drop(c, other);
		break;
	case CONTROL_WARM:
		warm_drop(c, other);
		break;
	default: /* already answered, or about to be */
		break;
	}
	req_answer(req, 0, REASON_NONE, 0, 0, 0);
}

static void (*const requests[])(struct control *c, struct control_req *req) = {
	[CONTROL_CONNECT] = dial_req,
	[CONTROL_CLOSE] = peer_close_req,
	[CONTROL_DROP] = control_drop,
	[CONTROL_KEYS] = remote_keys,
	[CONTROL_RAIL_DOWN] = peer_rail_down_req,
	[CONTROL_RAIL_ADD_QPS] = path_grow_req,
	[CONTROL_AWAITED] = peer_awaited_req,
	[CONTROL_REGISTER] = region_register,
	[CONTROL_UNREGISTER] = region_unregister,
	[CONTROL_REVOKE] = region_revoke,
	[CONTROL_IMPORT] = remote_import,
	[CONTROL_SCRATCH] = remote_import,
	[CONTROL_RUN] = remote_import,
	[CONTROL_FORGET] = remote_forget,
	[CONTROL_RUN_FORGET] = remote_forget,
	[CONTROL_WARM] = warm_req,
	[CONTROL_RESUME] = resume_req,
	[CONTROL_RUN_END] = run_leave,
	[CONTROL_STAGE] = staging_request,
};

void control_request(struct control *c, struct control_req *req)
{
	req->owner = NULL;
	requests[req->msg.type](c, req);
}

/* The next steps of the peers and regions that something has happened to. */
static void control_steps(struct control *c)
{
	do {
		peers_step(c);
		regions_step(c);
		if (c->ending)
			control_step(c);
	} while (!list_empty(&c->due_peers) || !list_empty(&c->due_regions));
}

/* Handles the engine's answers first, since requests may refer to their results. Empties the
 * mailbox of requests first: an answer that precedes one of these requests is then seen too. */
static void control_messages(struct control *c)
{
	struct msg *asked = mailbox_take(&c->mailbox), *back = mailbox_take(&c->back), *next;

	for (; back; back = next) {
		next = back->next;
		control_back(c, back);
		control_steps(c);
	}
	for (; asked; asked = next) {
		next = asked->next;
		if (asked->type == MSG_QUIT)
			c->quitting = 1;
		else if (asked->type >= CALL_REQUEST)
			call_run(c, container_of(asked, struct control_call, msg));
		else
			control_request(c, container_of(asked, struct control_req, msg));
		control_steps(c);
	}
}

/* ---- the loop ---- */

static void control_event(struct control *c, const struct epoll_event *ev)
{
	if (ev->data.u64 & PROCESS_EVENT)
		process_event(c, ev->data.u64);
	else if (ev->data.ptr == &c->wake_fd)
		wake_drain(c->wake_fd);
	else if (listener_of(c, ev->data.ptr))
		listener_event(c, listener_of(c, ev->data.ptr));
	else
		conn_event(c, ev->data.ptr, ev->events);
	control_steps(c);
}

static void control_sleep(struct control *c)
{
	struct epoll_event ev[EVENTS_MAX];
	int ms = timers_wait_ms(c), n, i;

	if (mailbox_arm(&c->mailbox) || mailbox_arm(&c->back))
		ms = 0;
	n = epoll_wait(c->epoll_fd, ev, EVENTS_MAX, ms);
	for (i = 0; i < n; i++)
		control_event(c, &ev[i]);
	conns_free(c);
}

void control_turn(struct control *c)
{
	control_sleep(c);
	control_messages(c);
	timers_run(c);
	control_steps(c);
	conns_free(c);
}

static void *control_run(void *arg)
{
	struct control *c = arg;

	while (!c->quitting)
		control_turn(c);
	return NULL;
}

/* ---- called by other threads ---- */

static int control_wake_open(struct control *c)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &c->wake_fd};

	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (c->epoll_fd < 0)
		return fail_errno(-errno, "cannot open an epoll descriptor");
	c->wake_fd = wake_open();
	if (c->wake_fd < 0)
		return fail_errno(c->wake_fd, "cannot open an eventfd");
	if (epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->wake_fd, &ev))
		return fail(-errno, "cannot watch an eventfd: %s", errno_text(errno));
	mailbox_init(&c->mailbox, c->wake_fd);
	mailbox_init(&c->back, c->wake_fd);
	return 0;
}

static int control_tables(struct control *c)
{
	uint32_t max = 1u << HANDLE_SLOT_BITS;

	if (handles_init(&c->peer_handles, max, HANDLE_PEER) ||
	    handles_init(&c->region_handles, max, HANDLE_REGION) ||
	    handles_init(&c->remote_handles, max, HANDLE_REMOTE))
		return fail(-ENOMEM, "no memory for the tables of handles");
	c->peer_hash = calloc(PEER_HASH, sizeof(struct peer *));
	c->pins = calloc(PIN_HASH, sizeof(struct pinned *));
	if (!c->peer_hash || !c->pins)
		return fail(-ENOMEM, "no memory for the tables of handles");
	return 0;
}

int control_open(const struct control_config *config, struct control **control)
{
	struct control *c = calloc(1, sizeof(*c));
	uint32_t i;
	int rc;

	if (!c) {
		(void)gpu_close(config->gpu);
		return fail(-ENOMEM, "no memory for the control thread");
	}
	c->config = *config;
	c->peer_ops = &handshake_ops;
	staging_init(c);
	c->host = host_id();
	log_init(&c->log, config->params);
	c->epoll_fd = c->wake_fd = c->reserve_fd = c->mappings.fd = -1;
	c->start_ns = clock_now(config->clock);
	list_init(&c->conns);
	list_init(&c->closed);
	list_init(&c->pending);
	list_init(&c->peers);
	list_init(&c->due_peers);
	list_init(&c->due_regions);
	list_init(&c->held);
	list_init(&c->active);
	for (i = 0; i < WORK_KINDS; i++)
		list_init(&c->works[i]);
	list_init(&c->dials);
	list_init(&c->regions);
	list_init(&c->allocations);
	timer_init(&c->listen_timer, NULL);
	timer_init(&c->suspend_timer, suspend_timer);
	timer_init(&c->idle_timer, suspend_idle);
	rc = random_bytes(c->advert_key, sizeof(c->advert_key));
	if (rc)
		fail(rc, "no random numbers: %s", errno_text(-rc));
	if (!rc)
		rc = class_socket_read(&c->socket, config->params, URCCL_CLASS_CONTROL);
	if (!rc)
		rc = control_wake_open(c);
	if (!rc)
		rc = control_tables(c);
	if (!rc)
		rc = listener_open(c);
	if (rc) {
		control_close(c);
		return rc;
	}
	*control = c;
	return 0;
}

struct mailbox *control_mailbox(struct control *c)
{
	return &c->mailbox;
}

int control_start(struct control *c, struct engine *engine)
{
	const struct urccl_params *p = c->config.params;
	struct thread_how how = {
		.prefix = p->thread_name,
		.part = "control",
		.setting = "control",
		.cpus = p->control_cpus,
		.nice = p->control_nice,
	};
	int rc;

	thread_cpus(&c->opener);
	c->engine = engine;
	c->to_engine = engine_mailbox(engine);
	rc = thread_start(&c->thread, &how, control_run, c);
	c->started = !rc;
	return rc;
}

static void control_free_jobs(struct control *c)
{
	struct msg *msg, *next;

	if (c->wake_fd < 0)
		return;
	for (msg = mailbox_take(&c->back); msg; msg = next) {
		next = msg->next;
		if (msg->type == MSG_RESOLVED)
			free(container_of(msg, struct job, msg));
	}
}

static void control_quit(struct control *c)
{
	c->quit.type = MSG_QUIT;
	mailbox_post(&c->mailbox, &c->quit);
}

void control_leave(struct control *c)
{
	log_end(&c->log);
	control_quit(c);
	pthread_detach(c->thread);
}

void control_close(struct control *c)
{
	if (c->started) {
		control_quit(c);
		pthread_join(c->thread, NULL);
	}
	staging_fini(c);
	if (gpu_close(c->config.gpu)) /* a copy may still be under way */
		c->unpinned = 1;
	resolver_close(c);
	control_free_jobs(c);
	conns_close(c);
	listener_close(c);
	while (!list_empty(&c->allocations)) {
		struct allocation *a = list_first(&c->allocations, struct allocation, link);

		list_del(&a->link);
		if (c->unpinned) /* a driver may still use it */
			memory_leave(a);
		else
			memory_free(a);
	}
	handles_fini(&c->peer_handles);
	handles_fini(&c->region_handles);
	handles_fini(&c->remote_handles);
	free(c->grants);
	free(c->pins);
	free(c->peer_hash);
	fd_close(c->wake_fd);
	fd_close(c->epoll_fd);
	mappings_close(&c->mappings);
	free(c);
}

void control_call(struct control *c, struct control_call *call)
{
	call->done = 0;
	call->msg.reply = NULL;
	mailbox_post(&c->mailbox, &call->msg);
}
