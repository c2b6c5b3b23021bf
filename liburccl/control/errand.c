/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may take the kernel a while (an RDMA device's port looks for a peer's link address, or pins
 * gigabytes) runs on threads of its own, one for each errand, so that it holds up neither the
 * control thread nor an engine. More than ERRANDS_MAX wait.
 *
 * Until back() nobody else touches what the errand is for.
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

/* Without a thread it is done here. */
static void errand_start(struct errand *e)
{
	e->has_thread = !pthread_create(&e->thread, NULL, errand_run, e);
	if (e->has_thread)
		(void)pthread_setname_np(e->thread, "urccl-errand");
	else
		errand_run(e);
}

static void errand_next(struct control *c)
{
	while (c->nerrands < ERRANDS_MAX && !list_empty(&c->errands)) {
		struct errand *e = list_first(&c->errands, struct errand, link);

		list_del(&e->link);
		c->nerrands++;
		errand_start(e);
	}
}

void errand_begin(struct control *c, struct errand *e, int (*run)(struct errand *e),
		  void (*back)(struct control *c, struct errand *e))
{
	assert(!e->out);
	e->msg.type = MSG_ERRAND;
	e->out = &c->back;
	e->run = run;
	e->back = back;
	list_add_tail(&e->link, &c->errands);
	errand_next(c);
}

void errand_skip(struct control *c, struct errand *e, int res)
{
	assert(!e->out);
	e->out = &c->back;
	e->res = res;
	c->nerrands++;
	mailbox_post(e->out, &e->msg);
}

void errand_done(struct control *c, struct msg *msg)
{
	struct errand *e = container_of(msg, struct errand, msg);

	if (e->has_thread)
		pthread_join(e->thread, NULL);
	e->has_thread = 0;
	e->out = NULL;
	c->nerrands--;
	errand_next(c);
	e->back(c, e);
}
