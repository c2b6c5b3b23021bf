/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory: the kind of each range that a program registers, and the staging buffer for devices
 * that do not reach GPU memory themselves. The first region of GPU memory makes the buffer, or the
 * first write to GPU memory that only the peer's engine reaches. It stays until the context is
 * closed. Its first half is for peers: it consists of runs of slots, and each run belongs to one
 * peer at a time. */
#include <pthread.h>
#include <unistd.h>

#include "region/private.h"

#define STAGING_RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

/* ---- the kind of a range ---- */

/* The memory at addr, of which len bytes were asked for; kept for the following spans. */
struct kind {
	struct gpu_pointer p;
	uint64_t addr;
};

static int kind_find(struct control *c, struct kind *k, uint64_t addr, uint64_t len,
		     struct control_error *t)
{
	int rc;

	if (addr >= k->addr && addr < k->p.end)
		return 0;
	k->addr = addr;
	rc = gpu_pointer_info(c->config.gpu, addr, len, &k->p);
	return rc ? error_set(t, rc, REASON_GPU, k->p.index, (uint64_t)k->p.code, 0) : 0;
}

static uint64_t allocation_id(const struct gpu_pointer *p)
{
	return p->is_vmm ? 0 : p->id;
}

/* Host memory may be pinned in part. */
static int span_kind(struct control *c, struct span *s, uint32_t i, struct kind *k,
		     struct control_error *t)
{
	uint64_t end = s->addr + s->len;

	s->kind = k->p.kind;
	if (s->kind == GPU_MEMORY_PINNED && !k->p.is_primary)
		s->kind = GPU_MEMORY_HOST;
	s->gpu_index = s->kind == GPU_MEMORY_HOST ? 0 : k->p.index;
	s->gpu_id = s->kind == GPU_MEMORY_DEVICE ? allocation_id(&k->p) : 0;
	if (s->kind == GPU_MEMORY_DEVICE && !k->p.is_primary)
		return error_set(t, -EINVAL, REASON_RANGE_GPU_CONTEXT, i, s->gpu_index, 0);
	while (k->p.end < end) {
		if (kind_find(c, k, k->p.end, end - k->p.end, t))
			return t->res;
		if (s->kind == GPU_MEMORY_DEVICE || k->p.kind == GPU_MEMORY_DEVICE)
			return error_set(t, -EINVAL, REASON_RANGE_GPU_MIXED, i, k->addr, 0);
		s->kind = GPU_MEMORY_HOST;
		s->gpu_index = 0;
	}
	return 0;
}

int spans_kinds(struct control *c, struct memory *m, struct control_error *t)
{
	struct kind kind = {.addr = UINT64_MAX};
	uint64_t addr, len;
	uint32_t k, i;

	for (k = 0; k < m->nspans; k++) {
		struct span *s = ranges_span(m, k);

		if (s->fd >= 0)
			continue;
		i = (uint32_t)(s - m->spans);
		ranges_run(m, k, &addr, &len);
		if (kind_find(c, &kind, addr, len, t) || span_kind(c, s, i, &kind, t))
			return t->res;
		if (s->kind == GPU_MEMORY_DEVICE && m->rights & URCCL_RIGHT_ATOMIC)
			return error_set(t, -EINVAL, REASON_RANGE_GPU_RIGHTS, i, s->gpu_index, 0);
	}
	return 0;
}

/* ---- staging memory ---- */

void staging_init(struct control *c)
{
	pthread_mutex_init(&c->staging.lock, NULL);
	list_init(&c->staging.ends);
}

void staging_fini(struct control *c)
{
	struct staging *s = &c->staging;
	int code;

	if (s->gpu && gpu_host_unregister(s->gpu, s->memory->addr, &code))
		c->unpinned = 1; /* the buffer stays allocated */
	if (s->memory && list_empty(&s->memory->link))
		list_add_tail(&s->memory->link, &c->allocations);
	pthread_mutex_destroy(&s->lock);
}

/* Called with the lock held. */
static int staging_make(struct control *c, struct gpu_dev *gpu, struct control_error *t)
{
	uint64_t bytes = c->config.params->staging_bytes;
	struct staging *s = &c->staging;
	struct allocation *a = s->memory;
	int code = 0, rc = a ? 0 : memory_alloc(bytes, &a);

	if (!rc && gpu && !s->gpu)
		rc = gpu_host_register(gpu, a->addr, a->len, &code);
	if (rc) {
		if (a && a != s->memory)
			memory_free(a);
		return error_set(t, rc, REASON_STAGING, bytes, (uint64_t)-rc, (uint64_t)code);
	}
	s->memory = a;
	s->gpu = s->gpu ? s->gpu : gpu;
	return 0;
}

/* Devices register memory without one by its address. */
static void extent_dmabuf(struct extent *a)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = a->addr & ~(page - 1);
	uint64_t end = (a->addr + a->len + page - 1) & ~(page - 1);

	if (gpu_dmabuf(a->gpu, from, end - from, &a->fd))
		a->fd = -1;
	a->fd_off = a->addr - from;
}

int extent_gpu(struct control *c, struct extent *a, struct control_error *t)
{
	struct staging *s = &c->staging;
	int code = 0, rc = gpu_dev_get(c->config.gpu, a->gpu_index, &a->gpu, &code);

	if (rc)
		return error_set(t, rc, REASON_GPU, a->gpu_index, (uint64_t)code, (uint64_t)-rc);
	if (a->kind != GPU_MEMORY_DEVICE)
		return 0;
	pthread_mutex_lock(&s->lock);
	rc = staging_make(c, a->gpu, t);
	pthread_mutex_unlock(&s->lock);
	if (!rc && a->direct)
		extent_dmabuf(a);
	return rc;
}

static void staging_back(struct control *c, struct cmd *cmd)
{
	(void)c;
	(void)cmd;
}

int staging_enter(struct control *c, struct control_error *t)
{
	struct urccl_range range = {.fd = -1};
	struct staging *s = &c->staging;
	struct allocation *a;

	pthread_mutex_lock(&s->lock);
	a = s->memory;
	pthread_mutex_unlock(&s->lock);
	if (!a || s->region || c->ending)
		return 0;
	if (list_empty(&a->link))
		list_add_tail(&a->link, &c->allocations);
	range.addr = a->addr;
	range.len = a->len;
	s->region = region_own(c, &range, STAGING_RIGHTS);
	if (!s->region)
		return error_set(t, -ENOMEM, REASON_STAGING, a->len, ENOMEM, 0);
	s->cmd.e.memory = s->region->memory;
	cmd_post(c, &s->cmd, ENGINE_STAGE, staging_back);
	return 0;
}

static int staging_work(struct work *e)
{
	struct staging *s = container_of(e, struct staging, work);
	int rc;

	pthread_mutex_lock(&s->lock);
	rc = staging_make(container_of(s, struct control, staging), NULL, &s->error);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

static void staging_made(struct control *c, struct work *e)
{
	struct control_req *req = c->staging.req;
	struct control_error t = c->staging.error;
	int rc = e->res ? e->res : staging_enter(c, &t);

	req_answer(req, rc, rc ? t.reason : REASON_NONE, t.arg[0], t.arg[1], t.arg[2]);
}

void staging_request(struct control *c, struct control_req *req)
{
	struct staging *s = &c->staging;

	s->req = req;
	work_begin(c, &s->work, WORK_PIN, staging_work, staging_made);
}

/* ---- runs of slots that peers read ---- */

void run_advert(uint64_t incarnation, uint32_t run, struct urccl_advert *a)
{
	*a = (struct urccl_advert){
		.version = ADVERT_VERSION,
		.rights = URCCL_RIGHT_READ,
		.kind = ADVERT_RUN,
		.region = run,
		.incarnation = incarnation,
		.length = RUN_BYTES,
	};
}

int run_region(struct control *c, const struct peer *p, struct urccl_advert *a, struct region **out)
{
	struct urccl_advert ours;
	uint64_t off;
	uint32_t run = engine_peer_run(p->engine, &off);

	run_advert(c->config.incarnation, run, &ours);
	if (!run || memcmp(a, &ours, sizeof(ours)) != 0)
		return -EACCES;
	if (c->ending || !c->staging.region)
		return -ESHUTDOWN;
	a->offset = off;
	*out = c->staging.region;
	return 0;
}

/* 1: the peer has no grant of its run, which begins at off, and no device has it pinned. */
static int run_is_left(const struct control *c, const struct peer *p, uint64_t off)
{
	const struct list *pos;

	list_for_each(pos, &p->grants)
		if (list_entry(pos, struct grant, of_peer)->region == c->staging.region)
			return 0;
	list_for_each(pos, &c->staging.region->pins)
		if (list_entry(pos, struct pinned, of_region)->pin.off == off)
			return 0;
	return 1;
}

void runs_step(struct control *c)
{
	struct control_req *req;

	list_for_each_entry_safe(req, &c->staging.ends, link) {
		struct peer *p = handles_get(&c->peer_handles, req->handle);
		int lost = !p || p->stage == STAGE_DOWN;

		if (!lost && !run_is_left(c, p, req->arg[0]))
			continue;
		list_del(&req->link);
		req_answer(req, lost ? -ECONNRESET : 0, REASON_NONE, 0, 0, 0);
	}
}

void run_leave(struct control *c, struct control_req *req)
{
	struct peer *p = handles_get(&c->peer_handles, req->handle);
	struct grant *g;

	list_add_tail(&req->link, &c->staging.ends);
	if (p && p->stage != STAGE_DOWN) {
		list_for_each_entry_safe(g, &p->grants, of_peer) {
			if (g->region != c->staging.region || g->revoking)
				continue;
			grant_set_revoking(g);
			grant_end(c, g);
		}
	}
	runs_step(c);
}
