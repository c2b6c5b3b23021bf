/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of pinned memory for bytes of GPUs: hands them to chunks and copies the bytes. */
#include <stdlib.h>
#include "engine/post.h"

/* Halves of the staging memory: peers read the first (relay.h), this context uses the second. */
#define HALVES 2u
/* One part in READ_PART of the second half receives the READs for PULLs (relays.reads). */
#define READ_PART 4u

struct slot {
	struct copy copy;    /* memory: the memory that the entry named; bytes: the slot */
	struct chunk *chunk; /* NULL: it is free */
};

void stage_init(struct stage *s)
{
	list_init(&s->ops);
	chunk_queue_init(&s->waiting);
}

int stage_open(struct engine *e, const struct memory *m)
{
	uint64_t all = m->len / SLOT_BYTES < GPU_SLOTS ? m->len / SLOT_BYTES : GPU_SLOTS;
	uint32_t half = (uint32_t)all / HALVES, reads = half / READ_PART, n = half - reads, i;
	uint8_t *base = (uint8_t *)(uintptr_t)m->spans[0].addr;
	struct stage *s = &e->stage;

	s->slots = calloc(n, sizeof(*s->slots));
	s->free = calloc(n, sizeof(struct slot *));
	if (!s->slots || !s->free ||
	    relays_open(e, base, half, base + (size_t)(half + n) * SLOT_BYTES, reads)) {
		stage_close(s);
		relays_close(&e->relays);
		return -ENOMEM;
	}
	for (i = 0; i < n; i++) {
		s->slots[i].copy.bytes = base + (size_t)(half + i) * SLOT_BYTES;
		s->free[n - 1 - i] = &s->slots[i];
	}
	s->nslots = s->nfree = n;
	s->memory = m;
	e->gpus = 1;
	return 0;
}

void stage_close(struct stage *s)
{
	free(s->slots);
	free(s->free);
	s->slots = NULL;
	s->free = NULL;
}

/* ---- slots ---- */

static struct slot *stage_slot_of(const struct engine *e, const struct chunk *c)
{
	return &e->stage.slots[(size_t)((uint8_t *)c->local - e->stage.slots[0].copy.bytes) /
			       SLOT_BYTES];
}

static struct slot *stage_slot_take(struct stage *s, struct chunk *c)
{
	struct slot *slot = s->free[--s->nfree];

	assert(c->len <= SLOT_BYTES);
	slot->chunk = c;
	slot->copy.memory = c->memory;
	slot->copy.local = c->local;
	slot->copy.len = c->len;
	slot->copy.copied = 0;
	slot->copy.in = c->kind == CHUNK_READ;
	c->memory = s->memory;
	c->local = slot->copy.bytes;
	return slot;
}

void stage_free(struct engine *e, struct chunk *c)
{
	struct op *op = c->op;
	struct slot *slot;

	if (op->peer->relay)
		relay_free(op->peer, c);
	if (!stage_has(&e->stage, c)) {
		if (c->npieces)
			bundle_free(e, c);
		return;
	}
	slot = stage_slot_of(e, c);
	assert(slot->chunk == c && !copy_is_out(&slot->copy));
	c->memory = slot->copy.memory;
	c->local = slot->copy.local;
	slot->chunk = NULL;
	e->stage.free[e->stage.nfree++] = slot;
	if (e->stage.waiting.head)
		e->slow_work = 1;
}

const struct memory *stage_memory(const struct engine *e, const struct chunk *c)
{
	return stage_slot_of(e, c)->copy.memory;
}

/* ---- copies ---- */

/* A GPU reaches GPU memory and pinned memory, other devices the extents that reg() took. */
static int reaches(const struct chunk *c, const struct extent *x)
{
	return c->key->gpu ? x->kind != GPU_MEMORY_HOST : x->direct >> c->ep->dev->index & 1;
}

static int misses(const struct chunk *c, const struct extent *x)
{
	return !reaches(c, x);
}

static int is_device(const struct chunk *c, const struct extent *x)
{
	(void)c;
	return x->kind == GPU_MEMORY_DEVICE;
}

static int any_extent_in(const struct chunk *c, uint8_t *at, uint64_t left,
			 int (*is)(const struct chunk *c, const struct extent *x))
{
	uint64_t len;

	for (; left; left -= len, at += len) {
		len = left;
		if (is(c, memory_extent(c->memory, (uintptr_t)at, &len)))
			return 1;
	}
	return 0;
}

static int any_extent(const struct chunk *c,
		      int (*is)(const struct chunk *c, const struct extent *x))
{
	const struct chunk_piece *p;

	if (!c->npieces)
		return any_extent_in(c, c->local, c->len, is);
	for (p = c->pieces; p < c->pieces + c->npieces; p++)
		if (any_extent_in(c, p->local, p->len, is))
			return 1;
	return 0;
}

static int lacks_order(const struct engine *e, const struct chunk *c)
{
	const struct op *op = c->op;

	return !(op->bits & OP_ORDERED) &&
	       e->config.params->device_order == URCCL_DEVICE_ORDER_EXPLICIT &&
	       any_extent(c, is_device);
}

/* Finds the next bytes to copy, up to the end of their allocation. */
static const struct extent *copy_next(const struct copy *c, uint8_t **at, uint64_t *len)
{
	uint64_t run;

	*len = c->len - c->copied;
	if (c->local) {
		*at = c->local + c->copied;
	} else {
		*at = memory_at(c->memory, c->off + c->copied, &run);
		*len = *len < run ? *len : run;
	}
	return memory_extent(c->memory, (uintptr_t)*at, len);
}

/* gpu_submit() fails if the lane is full: CUDA delays the copy thread, and many jobs were
 * cancelled. */
static void copy_submit(struct copy *c, struct gpu_dev *gpu)
{
	c->waits_for = gpu_submit(gpu, &c->job) ? NULL : gpu;
}

int copy_run(struct copy *c)
{
	const struct extent *x;
	uint64_t len;
	uint8_t *at;

	for (; c->copied < c->len; c->copied += (uint32_t)len) {
		uint8_t *bytes = c->bytes + c->copied;

		x = copy_next(c, &at, &len);
		if (x->kind != GPU_MEMORY_DEVICE) {
			memcpy(c->in ? at : bytes, c->in ? bytes : at, len);
			continue;
		}
		c->job = (struct gpu_job){
			.kind = GPU_COPY,
			.lane = c->in ? GPU_IN : GPU_OUT,
			.src = (uintptr_t)(c->in ? bytes : at),
			.dst = (uintptr_t)(c->in ? at : bytes),
			.len = len,
		};
		copy_submit(c, x->gpu);
		return 0;
	}
	return 1;
}

int copy_done(struct copy *c)
{
	if (c->waits_for)
		copy_submit(c, c->waits_for);
	return !c->waits_for && gpu_job_done(&c->job);
}

int copy_cancel(struct copy *c)
{
	if (!c->waits_for)
		return gpu_cancel(&c->job);
	c->waits_for = NULL;
	return 1;
}

int copy_step(struct copy *c)
{
	c->copied += (uint32_t)c->job.len;
	return c->job.res || copy_run(c);
}

static int slot_copy(struct engine *e, struct slot *slot)
{
	if (copy_run(&slot->copy))
		return 1;
	e->stage.njobs++;
	e->slow_work = 1;
	return 0;
}

/* ---- chunks ---- */

void chunk_free(struct engine *e, struct chunk *c)
{
	if (e->gpus)
		stage_free(e, c);
	chunk_release(e, c);
}

void chunk_done(struct engine *e, struct chunk *c)
{
	struct op *op = c->op;

	chunk_free(e, c);
	op_count_chunk(op, c);
	op_returned(op);
}

void chunk_drop(struct engine *e, struct chunk *c)
{
	struct op *op = c->op;

	op->inflight--;
	if (c->seg < op->first_bad)
		op->first_bad = c->seg;
	chunk_free(e, c);
}

void ops_to_lanes(struct list *ops)
{
	while (!list_empty(ops)) {
		struct op *op = list_first(ops, struct op, link);

		list_del(&op->link);
		lane_add_op(op);
	}
}

void chunks_drop(struct engine *e, struct chunk_queue *q, const struct op *op)
{
	struct chunk **at = &q->head, *c;

	while ((c = *at)) {
		if (c->op != op) {
			at = &c->next;
			continue;
		}
		chunk_queue_del(q, at);
		chunk_drop(e, c);
	}
}

/* Another rail may be the best one by now: the lane chooses when it posts the chunk. */
static void chunk_hold(struct chunk *c)
{
	struct op *op = c->op;

	c->ep = NULL;
	lane_add_chunk(op->peer, op->lane, c);
}

static void chunk_copied(struct engine *e, struct chunk *c)
{
	if (c->kind == CHUNK_READ)
		chunk_done(e, c);
	else
		chunk_hold(c);
}

void chunk_wait(struct chunk_queue *q, struct list *ops, struct chunk *c)
{
	struct op *op = c->op;

	chunk_queue_add(q, c);
	if (op->bits & (OP_DONE_CURSOR | OP_DECIDED))
		return;
	list_del(&op->link);
	list_add_tail(&op->link, ops);
}

/* Gives the chunk a slot. A READ is posted next, a WRITE once its bytes are in the slot. */
static void chunk_start(struct engine *e, struct chunk *c)
{
	struct slot *slot = stage_slot_take(&e->stage, c);

	if (c->kind == CHUNK_READ || slot_copy(e, slot))
		chunk_hold(c);
}

static int chunk_refuse(struct engine *e, struct chunk *c, int res, uint32_t reason)
{
	uint64_t transport = 1ull << c->ep->dev->ops->transport;
	struct op *op = c->op;

	chunk_drop(e, c);
	op_fail(op, res, reason, transport, 0, 0);
	op_returned(op);
	return 0;
}

int stage_chunk(struct engine *e, struct chunk *c)
{
	struct op *op = c->op;

	if (lacks_order(e, c))
		return chunk_refuse(e, c, -EINVAL, REASON_DEVICE_ORDER);
	if (c->npieces)
		return 1;
	if (c->key->relay) {
		if (e->config.params->bounce == URCCL_ALLOW_NO)
			return chunk_refuse(e, c, -EACCES, REASON_BOUNCE_GPU);
		relay_chunk(e, c);
		return 0;
	}
	if (!(c->memory->staged >> c->ep->dev->index & 1) && !(c->key->gpu & c->memory->pageable))
		return 1;
	if (!any_extent(c, misses))
		return 1;
	if (e->config.params->bounce == URCCL_ALLOW_NO)
		return chunk_refuse(e, c, -EACCES, REASON_BOUNCE_GPU);
	if (!e->stage.memory)
		return chunk_refuse(e, c, -EOPNOTSUPP, REASON_STAGE_NONE);
	op->path |= URCCL_PATH_BOUNCE_LOCAL | URCCL_PATH_DEVICE;
	if (!e->stage.nfree || e->stage.waiting.head) {
		chunk_wait(&e->stage.waiting, &e->stage.ops, c);
		return 0;
	}
	if (c->kind == CHUNK_READ) {
		stage_slot_take(&e->stage, c);
		return 1;
	}
	chunk_start(e, c);
	return 0;
}

int stage_in(struct engine *e, struct chunk *c)
{
	struct op *op = c->op;

	if (c->kind != CHUNK_READ || !stage_has(&e->stage, c))
		return 0;
	c->taken = 0;
	if (op->bits & OP_DECIDED) {
		chunk_drop(e, c);
		op_returned(op);
	} else if (slot_copy(e, stage_slot_of(e, c))) {
		chunk_done(e, c);
	}
	return 1;
}

void stage_drop(struct op *op)
{
	struct engine *e = op_engine(op);
	uint32_t i;

	if (op->peer->relay)
		relay_drop(op);
	chunks_drop(e, &e->stage.waiting, op);
	for (i = 0; i < e->stage.nslots && e->stage.njobs; i++) {
		struct slot *slot = &e->stage.slots[i];

		if (!copy_is_out(&slot->copy) || slot->chunk->op != op || !copy_cancel(&slot->copy))
			continue;
		e->stage.njobs--;
		chunk_drop(e, slot->chunk);
	}
}

/* ---- each iteration ---- */

static void job_ended(struct engine *e, struct slot *slot)
{
	struct chunk *c = slot->chunk;
	struct op *op = c->op;

	e->stage.njobs--;
	slot->copy.copied += (uint32_t)slot->copy.job.len;
	if (slot->copy.job.res) {
		op_fail(op, -EIO, REASON_GPU_COPY, slot->copy.job.len,
			(uint64_t)slot->copy.job.code, 0);
	} else if (!(op->bits & OP_DECIDED)) {
		if (slot_copy(e, slot))
			chunk_copied(e, c);
		return;
	}
	chunk_drop(e, c);
	op_returned(op);
}

/* Gives free slots to the chunks that wait, the oldest first. If one gets a slot, all entries that
 * wait here go back to their lanes. */
static uint32_t wake_waiting(struct engine *e)
{
	struct stage *s = &e->stage;
	uint32_t n = 0;

	for (; s->waiting.head && s->nfree; n++)
		chunk_start(e, chunk_queue_pop(&s->waiting));
	if (n)
		ops_to_lanes(&s->ops);
	return n;
}

uint32_t stage_look(struct engine *e)
{
	uint32_t i, n = 0;

	if (e->config.clock)
		gpu_step(e->config.gpu);
	for (i = 0; i < e->stage.nslots && e->stage.njobs; i++) {
		struct slot *slot = &e->stage.slots[i];

		if (!copy_is_out(&slot->copy) || !copy_done(&slot->copy))
			continue;
		job_ended(e, slot);
		n++;
	}
	n += wake_waiting(e);
	if (!list_empty(&e->relays.active))
		n += relays_look(e);
	return n;
}
