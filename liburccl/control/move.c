/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of urccl_alloc() that a peer has mapped and does not let go of: it is stopped, or an
 * INLINE context that nobody calls, or was given up while it was one of these. Its memory is taken
 * back all the same, by giving this process other pages under the same addresses.
 *
 * First the engine tells every peer that has the memory mapped, those whose adverts hold good too,
 * that it counts no more; from then on they come through the ring. Then the pages are made, which
 * takes its time, on a thread of their own. What was moved is not mapped by peers any more.
 *
 * The end of the context does so for memory that the program keeps, views of files of its own, and
 * once: there is nobody to try again.
 */
#include <stdlib.h>
#include <unistd.h>

#include "control/private.h"

struct move {
	struct msg msg;	  /* the thread's, from its start on */
	struct list link; /* of control.moves */
	struct allocation *a;
	struct mailbox *out;
	struct cmd cmd;
	pthread_t thread;
	int res; /* the thread's */
};

static struct allocation *allocation_at(struct control *c, uint64_t addr)
{
	return memory_allocation(&c->allocations, addr, 1);
}

int move_begun(struct control *c, uint64_t addr)
{
	const struct allocation *a = allocation_at(c, addr);

	return a && a->moving;
}

/* ---- the thread ---- */

static void *move_run(void *arg)
{
	struct move *m = arg;

	m->res = memory_move(m->a);
	mailbox_post(m->out, &m->msg);
	return NULL;
}

/* ---- from the first word to the last ---- */

static void extents_mark(struct control *c, const struct allocation *a, enum extent_moving how)
{
	struct list *pos;
	uint32_t i;

	list_for_each(pos, &c->regions) {
		struct region *r = list_entry(pos, struct region, link);

		for (i = 0; i < r->nextents; i++)
			if (r->extents[i]->addr - a->addr < a->len)
				store_release(&r->extents[i]->moving, how);
	}
}

/* Regions that wait for it. A step may be the last of its region. */
static void regions_step(struct control *c)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &c->regions)
		region_step(c, list_entry(pos, struct region, link));
}

static void move_left(struct control *c, struct allocation *a, int err)
{
	log_strange(c, a->addr, a->len, err);
	close(a->fd);
	a->fd = -1;
}

/* The engine has looked at what waits there. */
static void move_ended(struct control *c, struct cmd *cmd)
{
	struct move *m = container_of(cmd, struct move, cmd);
	int res = m->res;

	list_del(&m->link);
	free(m);
	regions_pin(c);
	if (!res || c->ending)
		regions_step(c);
	control_step(c);
}

static void move_done(struct control *c, struct move *m)
{
	struct allocation *a = m->a;

	if (!m->res) {
		extents_mark(c, a, EXTENT_MOVED);
		close(a->fd);
		a->fd = -1;
	} else if (c->ending) {
		move_left(c, a, m->res);
	}
	cmd_post(c, &m->cmd, ENGINE_MOVE, move_ended);
}

void move_back(struct control *c, struct msg *msg)
{
	struct move *m = container_of(msg, struct move, msg);

	pthread_join(m->thread, NULL);
	move_done(c, m);
}

/* Every peer was told. */
static void move_told(struct control *c, struct cmd *cmd)
{
	struct move *m = container_of(cmd, struct move, cmd);
	int err = helper_start(&m->thread, c->config.params->thread_name, "move", helper_cpus(c),
			       move_run, m);

	if (!err) /* res is the thread's from now on */
		return;
	m->res = err;
	move_done(c, m);
}

static int is_under_way(struct control *c, const struct allocation *a)
{
	struct list *pos;

	list_for_each(pos, &c->moves)
		if (list_entry(pos, struct move, link)->a == a)
			return 1;
	return 0;
}

/* A device has, or gets, its pages by their place in the machine, for regions that go on. */
static int is_pinned(struct control *c, const struct allocation *a)
{
	struct list *pos;
	uint32_t i;

	if (c->npinning) /* of what memory is not in the list yet */
		return 1;
	if (!devices_by_pages(c))
		return 0;
	list_for_each(pos, &c->regions) {
		struct region *r = list_entry(pos, struct region, link);

		for (i = 0; i < r->nextents && r->ending != REGION_LEAVING; i++)
			if (r->extents[i]->addr - a->addr < a->len)
				return 1;
	}
	return 0;
}

/* One that failed, for want of memory, is tried again by the next call, and one that devices have
 * pinned a while later. */
static void move_begin(struct control *c, struct allocation *a, struct region *r)
{
	struct move *m;

	if (a->fd < 0 || is_under_way(c, a))
		return;
	if (is_pinned(c, a)) {
		if ((r->unregistering || !list_empty(&r->revoking)) && !alarm_is_set(&r->lag))
			alarm_set(c, &r->lag, MOVE_NS);
		return;
	}
	m = calloc(1, sizeof(*m));
	if (!m && c->ending)
		move_left(c, a, -ENOMEM);
	if (!m)
		return;
	m->msg.type = MSG_MOVED;
	m->a = a;
	m->out = &c->back;
	a->moving = 1;
	extents_mark(c, a, EXTENT_MOVING);
	list_add_tail(&m->link, &c->moves);
	cmd_post(c, &m->cmd, ENGINE_MOVE, move_told);
}

/* ---- who wants it ---- */

void move_await(struct control *c, struct region *r)
{
	uint32_t i;

	for (i = 0; i < r->nextents && r->extents[i]->fd < 0; i++)
		;
	if (i < r->nextents && !alarm_is_set(&r->lag) && !c->ending)
		alarm_set(c, &r->lag, MOVE_NS);
}

void move_expired(struct control *c, struct alarm *al)
{
	struct region *r = container_of(al, struct region, lag);
	struct allocation *a;
	uint32_t i;

	if (c->ending)
		return;
	if (!r->del.out && list_empty(&r->doomed)) {
		region_step(c, r);
		return;
	}
	for (i = 0; i < r->nextents; i++) {
		a = allocation_at(c, r->extents[i]->addr);
		if (a)
			move_begin(c, a, r);
	}
}

int move_wanted(struct control *c, struct region *r)
{
	struct allocation *a;
	int wanted = 0;
	uint32_t i;

	for (i = 0; i < r->nextents; i++) {
		int strange = load_acquire(&r->extents[i]->strange) != 0;

		if (r->extents[i]->fd < 0 || (!strange && list_empty(&c->moves)))
			continue;
		a = allocation_at(c, r->extents[i]->addr);
		if (!a || a->fd < 0)
			continue;
		if (strange && (!c->ending || a->kind == ALLOCATION_VIEW))
			move_begin(c, a, r);
		a->unmoved |= strange && c->ending && a->kind == ALLOCATION_VIEW;
		/* What others pin is moved when these leave too. */
		wanted |= (strange && c->ending < 2) || is_under_way(c, a);
	}
	return wanted;
}
