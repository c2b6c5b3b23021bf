/* SPDX-License-Identifier: Apache-2.0 */
/* Regions: memory that entries may name and adverts may give away. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/private.h"

#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC)

/* ---- what a program may register ---- */

/* Asks the kernel whether all of it is mapped: better said here than found out by a copy. */
static int range_mapped(const struct urccl_range *r)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t from = r->addr & ~(page - 1), to = r->addr + r->len;

	/* On memory MS_ASYNC does nothing but look. */
	return !msync((void *)(uintptr_t)from, to - from, MS_ASYNC);
}

static int range_check(const struct urccl_range *r, uint32_t i)
{
	if (r->reserved)
		return fail(-EINVAL, "range %u: reserved must be 0", i);
	if (!r->addr || !r->len)
		return fail(-EINVAL, "range %u has %s", i, r->len ? "no address" : "no length");
	if (r->fd >= 0)
		return fail(
			-EOPNOTSUPP,
			"range %u has a file descriptor (%d), which this version does not carry "
			"out: set fd to -1 and addr to the mapping",
			i, r->fd);
	if (r->fd != -1 || r->fd_off)
		return fail(-EINVAL, "range %u: without a file descriptor fd is -1 and fd_off 0",
			    i);
	if (r->len > UINT64_MAX - r->addr)
		return fail(-EFAULT, "range %u passes the end of memory", i);
	if (!range_mapped(r))
		return fail(-EFAULT, "range %u: %llu bytes at 0x%llx are not all mapped", i,
			    (unsigned long long)r->len, (unsigned long long)r->addr);
	return 0;
}

static int ranges_check(const struct control_call *call)
{
	uint64_t total = 0;
	uint32_t i;
	int rc;

	if (!call->n || !call->ranges)
		return fail(-EINVAL, "no ranges to register");
	if (call->n > RANGES_MAX)
		return fail(-E2BIG, "%u ranges are above the limit of %u", call->n, RANGES_MAX);
	if (call->rights & URCCL_REG_ATOMIC_NATIVE)
		return fail(-EOPNOTSUPP, "URCCL_REG_ATOMIC_NATIVE needs a device that carries "
					 "atomics out by itself, and no transport here has one: "
					 "register with URCCL_RIGHT_ATOMIC alone");
	if (call->rights & ~(uint32_t)RIGHTS)
		return fail(-EOPNOTSUPP, "this version does not carry out rights 0x%x",
			    call->rights & ~(uint32_t)RIGHTS);
	for (i = 0; i < call->n; i++) {
		rc = range_check(&call->ranges[i], i);
		if (rc)
			return rc;
		if (call->ranges[i].len > UINT64_MAX - total)
			return fail(-EINVAL, "the ranges together pass 64 bits");
		total += call->ranges[i].len;
	}
	return 0;
}

/* ---- allocations that a region holds part of ---- */

static void span_hold(struct control *c, struct span *s, int on)
{
	struct list *pos;

	list_for_each(pos, &c->allocations) {
		struct allocation *a = list_entry(pos, struct allocation, link);

		if (s->addr >= a->addr + a->len || s->addr + s->len <= a->addr)
			continue;
		if (on)
			a->users++;
		else
			a->users--;
		if (s->addr < a->addr || s->addr + s->len > a->addr + a->len)
			continue;
		s->fd = a->fd;
		s->fd_off = s->addr - a->addr;
	}
}

static void memory_hold(struct control *c, struct memory *m, int on)
{
	uint32_t i;

	if (list_empty(&c->allocations))
		return;
	for (i = 0; i < m->nspans; i++)
		span_hold(c, &m->spans[i], on);
}

static struct memory *memory_make(struct control *c, const struct control_call *call)
{
	struct memory *m = calloc(1, sizeof(*m) + call->n * sizeof(m->spans[0]));
	uint32_t i;

	if (!m)
		return NULL;
	m->rights = call->rights;
	m->nspans = call->n;
	for (i = 0; i < call->n; i++) {
		m->spans[i].start = m->len;
		m->spans[i].len = call->ranges[i].len;
		m->spans[i].addr = call->ranges[i].addr;
		m->spans[i].fd = -1;
		m->len += call->ranges[i].len;
	}
	memory_hold(c, m, 1);
	return m;
}

static void memory_drop(struct control *c, struct memory *m)
{
	memory_hold(c, m, 0);
	free(m);
}

/* ---- devices ---- */

static void region_unreg(struct control *c, struct region *r, uint32_t n)
{
	while (n) {
		struct device *dev = c->config.devices[--n];

		dev->ops->unreg(dev, r->memory);
	}
}

static int region_reg(struct control *c, struct region *r)
{
	uint32_t i;
	int rc;

	for (i = 0; i < c->config.ndevices; i++) {
		struct device *dev = c->config.devices[i];

		rc = dev->ops->reg(dev, r->memory);
		if (rc) {
			region_unreg(c, r, i);
			return rc;
		}
	}
	return 0;
}

/* ---- the engine's map ---- */

/* The command brings back the map that was in use before. */
static void region_map_back(struct cmd *cmd)
{
	memory_map_free(cmd->e.map);
	cmd->e.map = NULL;
}

static void region_forget(struct control *c, struct region *r)
{
	list_del(&r->link);
	handles_del(&c->region_handles, r->memory->handle);
	memory_drop(c, r->memory);
	free(r);
	control_step(c);
}

void region_step(struct control *c, struct region *r)
{
	struct control_call *call = r->call;
	int rc;

	if (!r->ending || r->add.out || r->del.out)
		return;
	grants_free_region(c, r);
	if (!list_empty(&r->grants))
		return;
	if (!r->quiet)
		region_unreg(c, r, c->config.ndevices);
	r->quiet = 1;
	/* A call that gave up waiting was told that the region is still there: it stays for the
	 * next call to take. */
	if (!call && !c->ending)
		return;
	alarm_stop(&r->alarm);
	rc = r->failed ? fail(r->failed, "no memory for another region") : 0;
	region_forget(c, r);
	if (call)
		call_answer(call, rc);
}

static void region_expired(struct control *c, struct alarm *a)
{
	struct region *r = container_of(a, struct region, alarm);
	struct control_call *call = r->call;

	(void)c;
	r->call = NULL;
	call_answer(call, fail(-ETIMEDOUT,
			       "region 0x%x is still in use after 2 s: its memory must stay, call "
			       "urccl_unregister() again",
			       r->memory->handle));
}

static struct region *region_new(struct control *c, const struct control_call *call, int *rc)
{
	struct region *r = calloc(1, sizeof(*r));

	*rc = fail(-ENOMEM, "no memory for a region of %u ranges", call->n);
	if (!r)
		return NULL;
	r->memory = memory_make(c, call);
	if (!r->memory)
		goto free_region;
	*rc = random_bytes(r->key, sizeof(r->key));
	if (*rc) {
		fail(*rc, "no random bytes for the region's key: %s", strerrordesc_np(-*rc));
		goto drop_memory;
	}
	r->memory->handle = handles_add(&c->region_handles, r);
	if (!r->memory->handle) {
		*rc = fail(-ENFILE, "no handle is left for another region");
		goto drop_memory;
	}
	*rc = region_reg(c, r);
	if (*rc)
		goto del_handle;
	list_init(&r->grants);
	alarm_init(&r->alarm, region_expired);
	list_add_tail(&r->link, &c->regions);
	return r;

del_handle:
	handles_del(&c->region_handles, r->memory->handle);
drop_memory:
	memory_drop(c, r->memory);
free_region:
	free(r);
	return NULL;
}

/* ---- its end ---- */

static void region_del_back(struct control *c, struct cmd *cmd)
{
	region_map_back(cmd);
	region_step(c, cmd->e.owner);
}

static void region_del(struct control *c, struct region *r, struct memory_map *map)
{
	r->ending = 1;
	c->map = map;
	r->del.e.memory = r->memory;
	r->del.e.map = map;
	r->del.e.owner = r;
	cmd_post(c, &r->del, ENGINE_REGION_DEL, region_del_back);
}

static int region_end(struct control *c, struct region *r)
{
	struct memory_map *map;

	if (r->ending)
		return 0;
	map = memory_map_del(c->map, r->memory);
	if (!map)
		return fail(-ENOMEM, "no memory for the map of regions");
	region_del(c, r, map);
	return 0;
}

static void region_add_back(struct control *c, struct cmd *cmd)
{
	struct region *r = cmd->e.owner;
	struct control_call *call = r->call;

	region_map_back(cmd);
	if (!cmd->e.msg.res)
		c->region_slots = cmd->e.len;
	else
		r->failed = cmd->e.msg.res;
	/* One that was not taken ends: the call is answered then. */
	if (call && !r->ending && (!r->failed || region_end(c, r))) {
		r->call = NULL;
		call_answer(call, r->failed);
	}
	region_step(c, r);
}

void region_register(struct control *c, struct control_call *call)
{
	struct memory_map *map;
	struct region *r;
	int rc = ranges_check(call);

	if (rc) {
		call_answer(call, rc);
		return;
	}
	r = region_new(c, call, &rc);
	if (!r) {
		call_answer(call, rc);
		return;
	}
	map = memory_map_add(c->map, r->memory);
	if (!map) {
		region_unreg(c, r, c->config.ndevices);
		region_forget(c, r);
		call_answer(call, fail(-ENOMEM, "no memory for the map of regions"));
		return;
	}
	call->handle = r->memory->handle;
	r->add.e.memory = r->memory;
	r->add.e.map = c->map = map;
	r->add.e.owner = r;
	cmd_post(c, &r->add, ENGINE_REGION_ADD, region_add_back);
	if (HANDLE_SLOT(call->handle) < c->region_slots)
		call_answer(call, 0);
	else
		r->call = call;
}

static struct region *region_of(struct control *c, uint32_t handle)
{
	struct region *r = handles_get(&c->region_handles, handle);

	if (!r)
		fail(-ESTALE, "region handle 0x%x names no registered memory", handle);
	return r;
}

void region_unregister(struct control *c, struct control_call *call)
{
	struct region *r = region_of(c, call->handle);
	int rc;

	if (!r) {
		call_answer(call, -ESTALE);
		return;
	}
	if (r->call) {
		call_answer(call,
			    fail(-EBUSY, "another thread unregisters region 0x%x", call->handle));
		return;
	}
	rc = region_end(c, r);
	if (rc) {
		call_answer(call, rc);
		return;
	}
	r->call = call;
	alarm_set(c, &r->alarm, UNREGISTER_NS);
	region_step(c, r);
}

void regions_end(struct control *c)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &c->regions) {
		struct region *r = list_entry(pos, struct region, link);

		/* No ring is left that could look anything up: without maps this takes no longer
		 * where there are many. */
		if (!r->ending)
			region_del(c, r, NULL);
		region_step(c, r);
	}
}

void region_info(struct control *c, struct control_call *call)
{
	struct region *r = region_of(c, call->handle);
	struct urccl_region_info *info = call->info;
	uint32_t i;

	if (!r) {
		call_answer(call, -ESTALE);
		return;
	}
	info->nranges = r->memory->nspans;
	info->len = r->memory->len;
	info->rights = r->memory->rights;
	info->mappable = 1;
	for (i = 0; i < r->memory->nspans; i++)
		info->mappable &= r->memory->spans[i].fd >= 0;
	call_answer(call, 0);
}

/* ---- shareable memory ---- */

void region_alloc(struct control *c, struct control_call *call)
{
	list_add_tail(&call->allocation->link, &c->allocations);
	call_answer(call, 0);
}

void region_free(struct control *c, struct control_call *call)
{
	struct list *pos;

	list_for_each(pos, &c->allocations) {
		struct allocation *a = list_entry(pos, struct allocation, link);

		if (a->addr != call->addr)
			continue;
		if (a->users) {
			call_answer(call,
				    fail(-EBUSY, "a region holds part of it: unregister first"));
			return;
		}
		list_del(&a->link);
		call->allocation = a;
		call_answer(call, 0);
		return;
	}
	call_answer(call, fail(-EINVAL, "0x%llx is not what urccl_alloc() gave",
			       (unsigned long long)call->addr));
}
