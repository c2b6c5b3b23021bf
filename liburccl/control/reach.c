/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of connecting may block (backend.h's ep_meet: an RDMA device's port looks for the peer's
 * link address) runs on threads of its own, one for each path, so that a peer which cannot be
 * reached holds up neither the control thread nor the others. More than REACHES_MAX wait.
 *
 * A path that is on its way here stays among its peer's until path_reached().
 */
#include <pthread.h>

#include "control/private.h"

#define REACHES_MAX 16u

/* It has the ep and its address for itself, and writes res. */
static void *reach_run(void *arg)
{
	struct reach *r = arg;
	const struct rail *rail = &container_of(r, struct path, reach)->rail;

	r->res = rail->ep->dev->ops->ep_meet(rail->ep, rail->addr, rail->addr_len);
	mailbox_post(r->out, &r->msg);
	return NULL;
}

/* Without a thread it is done here. */
static void reach_start(struct reach *r)
{
	r->has_thread = !pthread_create(&r->thread, NULL, reach_run, r);
	if (r->has_thread)
		(void)pthread_setname_np(r->thread, "urccl-reach");
	else
		reach_run(r);
}

static void reach_next(struct control *c)
{
	while (c->nreaches < REACHES_MAX && !list_empty(&c->reaches)) {
		struct reach *r = list_first(&c->reaches, struct reach, link);

		list_del(&r->link);
		c->nreaches++;
		reach_start(r);
	}
}

void reach_begin(struct control *c, struct path *path)
{
	struct reach *r = &path->reach;

	assert(!r->out);
	r->msg.type = MSG_REACHED;
	r->out = &c->back;
	list_add_tail(&r->link, &c->reaches);
	reach_next(c);
}

void reach_again(struct control *c, struct path *path, int res)
{
	struct reach *r = &path->reach;

	r->out = &c->back;
	r->res = res;
	c->nreaches++;
	mailbox_post(r->out, &r->msg);
}

void reach_back(struct control *c, struct msg *msg)
{
	struct reach *r = container_of(msg, struct reach, msg);

	if (r->has_thread)
		pthread_join(r->thread, NULL);
	r->has_thread = 0;
	r->out = NULL;
	c->nreaches--;
	reach_next(c);
	path_reached(c, container_of(r, struct path, reach), r->res);
}
