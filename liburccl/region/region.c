/* SPDX-License-Identifier: Apache-2.0 */
/* Regions: memory that entries may name and adverts may give access to. The end of a region, and
 * the end of its adverts (revoke.c), proceed step by step as the engine and the peers answer:
 * region_step() takes the steps that are possible now. */
#include <stdlib.h>

#include "region/private.h"

/* ---- the engine's map ---- */

/* The command brings back the map that was in use before. */
static void region_map_back(struct cmd *cmd)
{
	memory_map_free(cmd->e.map);
	cmd->e.map = NULL;
}

/* ---- life ---- */

static void region_expired(struct control *c, struct control_timer *a);

static struct region *region_new(struct control *c, struct control_req *req,
				 struct control_error *t)
{
	struct region *r = calloc(1, sizeof(*r));
	int rc;

	*t = (struct control_error){-ENOMEM, REASON_NO_MEMORY, {sizeof(*r)}};
	if (!r)
		return NULL;
	r->memory = ranges_memory(c, req->data, (uint32_t)req->len, (uint32_t)req->rights, t);
	if (!r->memory)
		goto free_region;
	rc = random_bytes(r->key, sizeof(r->key));
	if (rc) {
		*t = (struct control_error){rc, REASON_RANDOM, {(uint64_t)-rc}};
		goto free_memory;
	}
	list_init(&r->link);
	list_init(&r->grants);
	list_init(&r->revoking_grants);
	list_init(&r->pins);
	list_init(&r->revoking);
	list_init(&r->due);
	timer_init(&r->timer, region_expired);
	timer_init(&r->revoke_timer, revoke_expired);
	return r;

free_memory:
	ranges_free(c, r->memory);
free_region:
	free(r);
	return NULL;
}

static void region_free_record(struct control *c, struct region *r)
{
	ranges_free(c, r->memory);
	free(r);
}

static void region_forget(struct control *c, struct region *r)
{
	list_del(&r->link);
	list_del(&r->due);
	timer_stop(&r->timer);
	timer_stop(&r->revoke_timer);
	handles_del(&c->region_handles, r->memory->handle);
	region_free_record(c, r);
}

/* Answers REVOKEs, which wait only for the end of the region's adverts. */
static void region_revoked(struct region *r, int res, uint32_t reason, uint64_t a, uint64_t b)
{
	while (!list_empty(&r->revoking)) {
		struct control_req *req = list_first(&r->revoking, struct control_req, link);

		list_del(&req->link);
		req_answer(req, res, reason, a, b, 0);
	}
	if (!r->unregistering)
		timer_stop(&r->timer);
}

/* A device did not release the memory: those that wait for it get that error, and may try again. */
static void region_kept(struct region *r, int err)
{
	struct control_req *req = r->unregistering;

	r->unregistering = NULL;
	if (req)
		req_answer(req, -EIO, REASON_UNPIN, r->memory->len, (uint64_t)-err, 0);
	region_revoked(r, -EIO, REASON_UNPIN, r->memory->len, (uint64_t)-err);
}

/* The devices have released it, or (err) did not. */
static void region_gone(struct control *c, struct region *r, int err)
{
	struct control_req *req = r->registering ? r->registering : r->unregistering;
	int failed = r->failed;

	if (err)
		log_unpinned(c, NULL, r->memory->len, err);
	if (err && !failed && !c->ending) {
		region_kept(r, err);
		return;
	}
	c->unpinned |= err != 0;
	extents_free(c, r);
	/* Without `req`, the entry or call gave up and was told that the region still exists. It
	 * stays until the next UNREGISTER. */
	if (!req && !c->ending)
		return;
	region_revoked(r, 0, REASON_NONE, 0, 0);
	region_forget(c, r);
	if (req)
		req_answer(req, failed, failed ? REASON_NO_MEMORY : REASON_NONE, sizeof(*r), 0, 0);
}

static int region_unreg(struct work *e)
{
	struct region *r = container_of(e, struct region, unreg);

	return extents_unreg(r->control, r);
}

static void region_unregged(struct control *c, struct work *e)
{
	region_gone(c, container_of(e, struct region, unreg), e->res);
}

/* Nothing uses it any more. */
static void region_quiet(struct control *c, struct region *r)
{
	if (r->unreg.out)
		return;
	r->control = c;
	if (extents_leave(c, r))
		work_begin(c, &r->unreg, WORK_UNPIN, region_unreg, region_unregged);
	else
		region_gone(c, r, extents_unreg(c, r));
}

static void region_step(struct control *c, struct region *r)
{
	if (r == c->staging.region)
		runs_step(c);
	if (r->add.out || r->del.out)
		return;
	if (r->nrelease_failed && r->nrelease_failed == r->nrevoking &&
	    list_empty(&r->revoking_grants) && !r->nrevoke_unacked)
		region_kept(r, r->release_failed);
	if (r->ending == REGION_LEAVING) {
		grants_free_region(c, r);
		if (list_empty(&r->pins) && list_empty(&r->grants) &&
		    list_empty(&r->revoking_grants))
			region_quiet(c, r);
		return;
	}
	if (r->nrevoke_unacked)
		return;
	if (r->ending) {
		region_leave(c, r);
		return;
	}
	if (r->keys_go)
		revoke_keys(c, r);
	if (list_empty(&r->revoking_grants) && !r->nrevoking)
		region_revoked(r, 0, REASON_NONE, 0, 0);
}

void regions_step(struct control *c)
{
	while (!list_empty(&c->due_regions)) {
		struct region *r = list_first(&c->due_regions, struct region, due);

		list_del(&r->due);
		region_step(c, r);
	}
}

/* ---- REGISTER ---- */

static void region_add_back(struct control *c, struct cmd *cmd)
{
	struct region *r = cmd->e.owner;
	struct control_req *req = r->registering;

	region_map_back(cmd);
	if (!cmd->e.msg.res)
		c->region_slots = cmd->e.len;
	else
		r->failed = cmd->e.msg.res;
	/* A region that the engine did not take ends, and the request is answered at its end. */
	if (r->failed && !r->ending) {
		r->ending = REGION_ENDING;
		region_leave(c, r);
		return;
	}
	if (req && !r->ending) {
		r->registering = NULL;
		req_answer(req, 0, REASON_NONE, 0, 0, 0);
	}
	region_step(c, r);
}

static int region_enter(struct control *c, struct region *r, struct control_error *t)
{
	struct memory_map *map;

	r->memory->handle = handles_add(&c->region_handles, r);
	if (!r->memory->handle) {
		*t = (struct control_error){-ENFILE, REASON_HANDLES, {c->region_handles.max}};
		return t->res;
	}
	map = memory_map_add(c->map, r->memory);
	if (!map) {
		*t = (struct control_error){-ENOMEM, REASON_NO_MEMORY, {sizeof(*map)}};
		handles_del(&c->region_handles, r->memory->handle);
		return t->res;
	}
	c->map = map;
	list_add_tail(&r->link, &c->regions);
	return 0;
}

static void region_post_add(struct control *c, struct region *r)
{
	r->add.e.memory = r->memory;
	r->add.e.map = c->map;
	r->add.e.owner = r;
	cmd_post(c, &r->add, ENGINE_REGION_ADD, region_add_back);
}

static void region_refused(struct control *c, struct work *e)
{
	struct region *r = container_of(e, struct region, unreg);
	struct control_req *req = r->registering;
	struct control_error t = r->error;

	if (e->res)
		log_unpinned(c, NULL, r->memory->len, e->res);
	c->unpinned |= e->res != 0;
	extents_free(c, r);
	region_free_record(c, r);
	req_answer_error(req, &t);
}

/* Registration failed: releases what was registered so far, then answers. */
static void region_refuse(struct control *c, struct region *r, const struct control_error *t)
{
	r->error = *t;
	r->control = c;
	if (extents_leave(c, r)) {
		work_begin(c, &r->unreg, WORK_UNPIN, region_unreg, region_refused);
		return;
	}
	r->unreg.res = extents_unreg(c, r);
	region_refused(c, &r->unreg);
}

/* The devices have registered its memory. */
static void region_begin(struct control *c, struct region *r)
{
	struct control_req *req = r->registering;
	struct control_error t;

	if (region_enter(c, r, &t)) {
		region_refuse(c, r, &t);
		return;
	}
	req->handle = r->memory->handle;
	region_post_add(c, r);
	if (HANDLE_SLOT(req->handle) >= c->region_slots)
		return;
	r->registering = NULL;
	req_answer(req, 0, REASON_NONE, 0, 0, 0);
}

static int region_pin(struct work *e)
{
	struct region *r = container_of(e, struct region, pin);

	return extents_reg(r->control, r, &r->error);
}

static void region_pinned(struct control *c, struct work *e)
{
	struct region *r = container_of(e, struct region, pin);
	struct control_error t = r->error;

	if (r->ending)
		t = (struct control_error){-ECANCELED, REASON_CANCELLED, {0}};
	if (r->ending || e->res || staging_enter(c, &t))
		region_refuse(c, r, &t);
	else
		region_begin(c, r);
}

/* Its pages are touched, if that was requested. */
static void region_reg(struct control *c, struct region *r)
{
	struct control_error t;

	if (extents_get(c, r, &t)) {
		region_refuse(c, r, &t);
	} else if (extents_slow(c, r)) {
		r->control = c;
		work_begin(c, &r->pin, WORK_PIN, region_pin, region_pinned);
	} else if (extents_reg(c, r, &t)) {
		region_refuse(c, r, &t);
	} else {
		region_begin(c, r);
	}
}

static void region_prefaulted(struct control *c, void *arg, int res, uint64_t addr)
{
	struct region *r = arg;
	struct control_req *req = r->registering;

	r->prefault = NULL;
	if (!res && !r->ending) {
		region_reg(c, r);
		return;
	}
	region_free_record(c, r);
	if (res == -EFAULT && ranges_full(c, addr))
		res = -ENOSPC;
	if (res)
		req_answer(req, res, REASON_PREFAULT, (uint64_t)-res, addr, 0);
	else
		req_answer(req, -ECANCELED, REASON_CANCELLED, 0, 0, 0);
}

void region_register(struct control *c, struct control_req *req)
{
	struct control_error t;
	struct region *r = NULL;
	int err;

	if (!ranges_check(c, req->data, req->len, req->rights, &t))
		r = region_new(c, req, &t);
	if (!r) {
		req_answer_error(req, &t);
		return;
	}
	r->registering = req;
	req->owner = r;
	if (!(req->rights & URCCL_REG_PREFAULT)) {
		region_reg(c, r);
		return;
	}
	r->prefault = prefault_start(c, r->memory, region_prefaulted, r, &err);
	if (r->prefault)
		return;
	region_free_record(c, r);
	req_answer(req, err, REASON_PREFAULT_THREAD, (uint64_t)-err, 0, 0);
}

struct region *region_own(struct control *c, const struct urccl_range *range, uint32_t rights)
{
	struct control_req req = {.data = range, .len = 1, .rights = rights};
	struct control_error t;
	struct region *r = region_new(c, &req, &t);

	if (r && (extents_get(c, r, &t) || extents_reg(c, r, &t) || region_enter(c, r, &t))) {
		(void)extents_leave(c, r);
		c->unpinned |= extents_unreg(c, r) != 0;
		extents_free(c, r);
		region_free_record(c, r);
		r = NULL;
	}
	if (r)
		region_post_add(c, r);
	return r;
}

/* ---- its end ---- */

static struct region *region_of(struct control *c, struct control_req *req)
{
	struct region *r = handles_get(&c->region_handles, req->handle);

	if (!r)
		req_answer_handle(req, HANDLE_REGION, REASON_REGION_GONE);
	return r;
}

static void region_del_back(struct control *c, struct cmd *cmd)
{
	region_map_back(cmd);
	region_step(c, cmd->e.owner);
}

static void region_del(struct control *c, struct region *r, struct memory_map *map)
{
	r->ending = REGION_LEAVING;
	c->map = map;
	r->del.e.memory = r->memory;
	r->del.e.map = map;
	r->del.e.owner = r;
	cmd_post(c, &r->del, ENGINE_REGION_DEL, region_del_back);
}

void region_leave(struct control *c, struct region *r)
{
	struct memory_map *map = memory_map_del(c->map, r->memory);
	struct control_req *req = r->unregistering;

	if (map) {
		region_del(c, r, map);
		return;
	}
	/* The region stays, but its adverts have ended. */
	r->ending = 0;
	r->unregistering = NULL;
	if (req)
		req_answer(req, -ENOMEM, REASON_NO_MEMORY, sizeof(*map), 0, 0);
	req = r->registering;
	r->registering = NULL;
	if (req)
		req_answer(req, r->failed, REASON_NO_MEMORY, sizeof(*map), 0, 0);
	region_step(c, r);
}

/* The request gave up, or its time is over. */
static void region_late(struct region *r, struct control_req *req, int res)
{
	req_answer(req, res, REASON_REGION_BUSY, r->memory->handle, 0, 0);
}

/* A call waits for CALL_NS; an entry waits until its own deadline. */
static void region_expired(struct control *c, struct control_timer *a)
{
	struct region *r = container_of(a, struct region, timer);
	struct control_req *req = r->unregistering;

	(void)c;
	if (req && req->call) {
		r->unregistering = NULL;
		region_late(r, req, -ETIMEDOUT);
	}
	list_for_each_entry_safe(req, &r->revoking, link) {
		if (!req->call)
			continue;
		list_del(&req->link);
		region_late(r, req, -ETIMEDOUT);
	}
}

static void region_await(struct control *c, struct region *r, struct control_req *req)
{
	req->owner = r;
	if (req->call && !timer_is_set(&r->timer))
		timer_set(c, &r->timer, CALL_NS);
}

void region_unregister(struct control *c, struct control_req *req)
{
	struct region *r = region_of(c, req);

	if (!r)
		return;
	if (r->unregistering) {
		req_answer(req, -EBUSY, REASON_REGION_TAKEN, req->handle, 0, 0);
		return;
	}
	r->unregistering = req;
	region_await(c, r, req);
	pins_retry(c, r);
	if (!r->ending) {
		r->ending = REGION_ENDING;
		revoke_begin(c, r);
	}
	region_step(c, r);
}

void region_revoke(struct control *c, struct control_req *req)
{
	struct region *r = region_of(c, req);
	int rc;

	if (!r)
		return;
	if (r->ending) {
		req_answer(req, -ESTALE, REASON_REGION_GONE, req->handle, 0, 0);
		return;
	}
	rc = random_bytes(r->key, sizeof(r->key));
	if (rc) {
		req_answer(req, rc, REASON_RANDOM, (uint64_t)-rc, 0, 0);
		return;
	}
	list_add_tail(&req->link, &r->revoking);
	region_await(c, r, req);
	pins_retry(c, r);
	revoke_begin(c, r);
	region_step(c, r);
}

/* The entry no longer waits. An end that has begun goes on. A registration that has begun stops:
 * its answer comes when nothing uses the program's memory any more. */
void region_drop(struct control *c, struct control_req *req)
{
	struct region *r = req->owner;

	switch (req->msg.type) {
	case CONTROL_REGISTER:
		if (!r->prefault && !r->pin.out)
			return; /* the engine answers at once */
		r->ending = REGION_ENDING;
		if (r->prefault)
			prefault_stop(r->prefault);
		work_drop(c, &r->pin);
		return;
	case CONTROL_UNREGISTER:
		r->unregistering = NULL;
		break;
	default:
		list_del(&req->link);
		break;
	}
	region_late(r, req, -ECANCELED);
}

void regions_end(struct control *c)
{
	struct region *r;

	list_for_each_entry_safe(r, &c->regions, link) {
		/* NULL: no new map, since no ring is left to look up regions. Making one for each
		 * region would be slow if there are many. */
		pins_retry(c, r);
		if (r->ending != REGION_LEAVING)
			region_del(c, r, NULL);
		region_step(c, r);
	}
}

void region_info(struct control *c, struct control_call *call)
{
	struct region *r = handles_get(&c->region_handles, call->handle);
	struct urccl_region_info *info = call->info;
	uint32_t i;

	if (!r) {
		call_answer(call, fail_handle(call->handle, HANDLE_REGION, REASON_REGION_STALE));
		return;
	}
	info->nranges = r->memory->nspans;
	info->len = r->memory->len;
	info->rights = r->memory->rights;
	info->extents = r->nextents;
	info->shared = r->nshared;
	info->mappable = c->config.params->enforce != URCCL_ENFORCE_OWNER;
	for (i = 0; i < r->memory->nspans; i++)
		info->mappable &= r->memory->spans[i].fd >= 0 && !r->memory->spans[i].is_dmabuf;
	if (r->memory->spans[0].kind == GPU_MEMORY_DEVICE)
		info->device = 1 + r->memory->spans[0].gpu_index;
	for (i = 0; i < c->config.ndevices; i++)
		if (r->memory->staged >> c->config.devices[i]->index & 1)
			info->staged |= 1u << c->config.devices[i]->ops->transport;
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
	struct allocation *a;

	list_for_each_entry(a, &c->allocations, link) {
		if (a->addr != call->addr || a->kind != ALLOCATION_OURS)
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
	call_answer(call, fail(-EINVAL, "0x%llx is not what urccl_alloc() gave: pass its address",
			       (unsigned long long)call->addr));
}
