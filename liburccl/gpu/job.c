/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's side of jobs. Each lane has a ring of slots. The engine alone takes a slot that is
 * FREE, and frees it when it has seen the end of its job; the copy thread frees those that were
 * cancelled. */
#include "gpu/private.h"

static struct gpu_slot *job_slot(struct gpu_lane_state *l, uint64_t seq)
{
	return &l->slots[seq % GPU_SLOTS];
}

int gpu_submit(struct gpu_dev *dev, struct gpu_job *job)
{
	struct gpu_lane_state *l = &dev->lanes[job->lane];
	uint64_t seq = l->tail + 1;
	struct gpu_slot *slot = job_slot(l, seq);

	if (job->kind == GPU_GATHER)
		job->len = job->pieces->len;
	assert(!job->dev && job->len && job->len <= GPU_COPY_MAX);
	l->is_full = load_acquire(&slot->state) != GPU_FREE;
	if (l->is_full)
		return 0;
	slot->code = 0;
	if (job->kind == GPU_GATHER) {
		slot->pieces = job->pieces;
		slot->method = gather_method(dev, job);
	} else {
		slot->src = job->src;
		slot->dst = job->dst;
	}
	slot->len = (uint32_t)job->len;
	slot->kind = job->kind;
	store_relaxed(&slot->seq, seq);
	store_relaxed(&slot->state, GPU_QUEUED);
	job->dev = dev;
	job->res = job->code = 0;
	job->seq = seq;
	if (!l->jobs)
		l->moved_ns = 0;
	store_relaxed(&l->jobs, l->jobs + 1);
	/* Publishes the slot, and is the store of the sleep hand-shake. */
	__atomic_store_n(&l->tail, seq, __ATOMIC_SEQ_CST);
	if (sleep_take(&dev->box.asleep))
		wake_write(dev->box.fd);
	return 1;
}

static int job_end(struct gpu_job *job, uint64_t word, int res, int code)
{
	store_relaxed(&job->dev->lanes[job->lane].jobs, job->dev->lanes[job->lane].jobs - 1);
	job->res = res;
	job->code = code;
	if (job->kind == GPU_GATHER)
		gather_end(job, word);
	job->dev = NULL;
	return 1;
}

int gpu_job_done(struct gpu_job *job)
{
	struct gpu_lane_state *l = &job->dev->lanes[job->lane];
	struct gpu_slot *slot = job_slot(l, job->seq);
	/* The word first: a job before the one that it names may have failed. */
	uint64_t word = load_acquire(l->word);
	uint32_t state = load_acquire(&slot->state);
	int code, failed = state == GPU_FAILED;

	if ((word < job->seq * GPU_PARTS || state == GPU_BEGUN) && !failed && state != GPU_ENDED)
		return 0;
	failed |= slot->code != 0; /* of one piece, and the others have ended */
	code = !failed ? 0 : slot->code ? slot->code : gpu_dev_code(job->dev);
	if (job->kind == GPU_GATHER)
		job->method = (uint8_t)slot->method;
	store_release(&slot->state, GPU_FREE);
	return job_end(job, word, failed ? -EIO : 0, code);
}

int gpu_cancel(struct gpu_job *job)
{
	struct gpu_slot *slot = job_slot(&job->dev->lanes[job->lane], job->seq);
	uint32_t state = GPU_QUEUED;

	if (__atomic_compare_exchange_n(&slot->state, &state, GPU_CANCELLED, 0, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE))
		return job_end(job, 0, -ECANCELED, 0);
	return gpu_job_done(job);
}

void gpu_import(struct gpu_dev *dev, struct gpu_import *imp)
{
	imp->addr = 0;
	imp->res = imp->code = 0;
	imp->done = 0;
	imp->users = 1;
	imp->msg = (struct msg){.type = GPU_MSG_IMPORT};
	__atomic_fetch_add(&dev->imports, 1, __ATOMIC_RELAXED);
	mailbox_post(&dev->box, &imp->msg);
}

void gpu_unimport(struct gpu_dev *dev, struct gpu_import *imp)
{
	if (__atomic_fetch_sub(&imp->users, 1, __ATOMIC_ACQ_REL) > 1)
		return;
	imp->end = (struct msg){.type = GPU_MSG_UNIMPORT};
	__atomic_fetch_add(&dev->imports, 1, __ATOMIC_RELAXED);
	mailbox_post(&dev->box, &imp->end);
}

/* A quarter of the time since a word came, or since the lane was empty: a copy is seen to end when
 * it has taken a quarter longer at most, and a hung GPU wakes nobody often. */
static uint64_t lane_sleep_ns(struct gpu_lane_state *l, uint64_t now)
{
	uint64_t word = load_relaxed(l->word), ns;

	if (l->is_full)
		l->is_full = load_acquire(&job_slot(l, l->tail + 1)->state) != GPU_FREE;
	if (word != l->word_looked || !l->moved_ns) {
		l->word_looked = word;
		l->moved_ns = now;
	}
	ns = (now - l->moved_ns) / 4;
	ns = ns < GPU_LATE_NS ? ns : GPU_LATE_NS;
	return ns > GPU_LOOK_NS ? ns : GPU_LOOK_NS;
}

static uint64_t dev_sleep_ns(struct gpu_dev *dev, uint64_t now)
{
	uint64_t ns = load_relaxed(&dev->imports) ? GPU_LOOK_NS : NEVER_NS, of;
	struct gpu_lane_state *l;

	for (l = dev->lanes; l < dev->lanes + GPU_LANES; l++) {
		of = l->jobs || l->is_full ? lane_sleep_ns(l, now) : NEVER_NS;
		ns = of < ns ? of : ns;
	}
	return ns;
}

int gpu_imports_busy(const struct gpu_dev *dev)
{
	return load_acquire(&dev->imports) != 0;
}

int gpu_is_stuck(struct gpu *g, uint64_t since)
{
	const struct gpu_dev *dev;
	uint32_t i, lane;

	if (clock_ns() - since < GPU_STUCK_NS)
		return 0;
	for (i = 0; i < GPUS_MAX; i++) {
		dev = load_acquire(&g->devs[i]);
		for (lane = 0; dev && lane < GPU_LANES; lane++)
			if (load_relaxed(&dev->lanes[lane].jobs))
				return 1;
	}
	return 0;
}

uint64_t gpu_sleep_ns(struct gpu *g, uint64_t now)
{
	struct gpu_dev *dev;
	uint64_t ns = NEVER_NS, of;
	uint32_t i;

	if (!g || !load_acquire(&g->lib))
		return ns;
	for (i = 0; i < GPUS_MAX; i++) {
		dev = load_acquire(&g->devs[i]);
		of = dev ? dev_sleep_ns(dev, now) : NEVER_NS;
		ns = of < ns ? of : ns;
	}
	return ns;
}
