/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work items: calls that may block in the kernel for a while, for example when an RDMA device
 * resolves the link address of a peer or pins gigabytes. Each runs on a thread of its own, so that
 * it delays neither the control thread nor an engine. At most WORKS_MAX of each kind run at once;
 * the others wait.
 *
 * Until back() the work item alone uses its object. When a rail grows, this holds for the new queue
 * pairs only.
 */
#include <pthread.h>

#include "conn/shared.h"

#define WORKS_MAX 16u

static void *work_run(void *arg)
{
	struct work *e = arg;

	e->res = e->run(e);
	mailbox_post(e->out, &e->msg);
	return NULL;
}

/* If no thread can be started, the control thread does the work itself. */
static void work_start(const struct control *c, struct work *e)
{
	e->has_thread = !helper_start(&e->thread, c->config.params->thread_name, "errand",
				      helper_cpus(c), work_run, e);
	if (!e->has_thread)
		work_run(e);
}

static void work_next(struct control *c, enum work_kind kind)
{
	while (c->nworks[kind] < WORKS_MAX && !list_empty(&c->works[kind])) {
		struct work *e = list_first(&c->works[kind], struct work, link);

		list_del(&e->link);
		c->nworks[kind]++;
		work_start(c, e);
	}
}

void work_begin(struct control *c, struct work *e, enum work_kind kind, int (*run)(struct work *e),
		void (*back)(struct control *c, struct work *e))
{
	assert(!e->out);
	e->msg.type = MSG_WORK;
	e->out = &c->back;
	e->kind = kind;
	e->run = run;
	e->back = back;
	list_add_tail(&e->link, &c->works[kind]);
	work_next(c, kind);
}

void work_drop(struct control *c, struct work *e)
{
	if (!e->out || list_empty(&e->link))
		return;
	list_del(&e->link);
	e->out = NULL;
	work_skip(c, e, -ECANCELED);
}

void work_skip(struct control *c, struct work *e, int res)
{
	assert(!e->out);
	e->out = &c->back;
	e->res = res;
	c->nworks[e->kind]++;
	mailbox_post(e->out, &e->msg);
}

void work_done(struct control *c, struct msg *msg)
{
	struct work *e = container_of(msg, struct work, msg);

	if (e->has_thread)
		pthread_join(e->thread, NULL);
	e->has_thread = 0;
	e->out = NULL;
	c->nworks[e->kind]--;
	work_next(c, e->kind);
	e->back(c, e);
}

const struct cpus *helper_cpus(const struct control *c)
{
	return c->config.params->control_cpus ? &c->opener : NULL;
}
