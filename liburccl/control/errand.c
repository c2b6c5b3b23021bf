/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work items: calls that may block in the kernel for a while, for example when an RDMA device
 * resolves the link address of a peer or pins gigabytes. Each runs on a thread of its own, so that
 * it delays neither the control thread nor an engine. At most ERRANDS_MAX of each kind run at once;
 * the others wait.
 *
 * Until back() the work item alone uses its object. When a rail grows, this holds for the new queue
 * pairs only.
 */
#include <pthread.h>

#include "control/private.h"

#define ERRANDS_MAX 16u

static void *errand_run(void *arg)
{
	struct errand *e = arg;

	e->res = e->run(e);
	mailbox_post(e->out, &e->msg);
	return NULL;
}

/* If no thread can be started, the control thread does the work itself. */
static void errand_start(const struct control *c, struct errand *e)
{
	e->has_thread = !helper_start(&e->thread, c->config.params->thread_name, "errand",
				      helper_cpus(c), errand_run, e);
	if (!e->has_thread)
		errand_run(e);
}

static void errand_next(struct control *c, enum errand_kind kind)
{
	while (c->nerrands[kind] < ERRANDS_MAX && !list_empty(&c->errands[kind])) {
		struct errand *e = list_first(&c->errands[kind], struct errand, link);

		list_del(&e->link);
		c->nerrands[kind]++;
		errand_start(c, e);
	}
}

void errand_begin(struct control *c, struct errand *e, enum errand_kind kind,
		  int (*run)(struct errand *e), void (*back)(struct control *c, struct errand *e))
{
	assert(!e->out);
	e->msg.type = MSG_ERRAND;
	e->out = &c->back;
	e->kind = kind;
	e->run = run;
	e->back = back;
	list_add_tail(&e->link, &c->errands[kind]);
	errand_next(c, kind);
}

void errand_drop(struct control *c, struct errand *e)
{
	if (!e->out || list_empty(&e->link))
		return;
	list_del(&e->link);
	e->out = NULL;
	errand_skip(c, e, -ECANCELED);
}

void errand_skip(struct control *c, struct errand *e, int res)
{
	assert(!e->out);
	e->out = &c->back;
	e->res = res;
	c->nerrands[e->kind]++;
	mailbox_post(e->out, &e->msg);
}

void errand_done(struct control *c, struct msg *msg)
{
	struct errand *e = container_of(msg, struct errand, msg);

	if (e->has_thread)
		pthread_join(e->thread, NULL);
	e->has_thread = 0;
	e->out = NULL;
	c->nerrands[e->kind]--;
	errand_next(c, e->kind);
	e->back(c, e);
}
