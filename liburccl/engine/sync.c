/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start-when and signal-when: words of the program, and CUDA events. An entry starts only when its
 * word has the value, and sets the other word when it has succeeded. No event reports a change of a
 * word, so awaited words are polled: some in each iteration, and all before a sleep. Such a sleep
 * is short.
 *
 * Jobs of a GPU's copy thread query words in GPU memory and events, and set words. No stream waits
 * for them, since such a wait cannot be cancelled. An entry that is stopped while its job runs ends
 * when the job is done.
 */
#include "engine/op.h"
#include "engine/peer.h"

#define WORD_BYTES 8u

static int is_there(const struct sync *s)
{
	return load_acquire(s->wait) >= s->wait_value;
}

/* The extent of a word, or NULL. Registration checked that the CPU, or a GPU, may access memory
 * with rights for peers; a dma-buf is for devices only. */
static const struct extent *word_extent(const struct memory *m, uint64_t at, uint32_t rights)
{
	const struct extent *x = memory_span(m, memory_offset(m, at, WORD_BYTES))->extent;

	return x->rights & rights && !x->is_dmabuf ? x : NULL;
}

/* The region of a word, and in *gpu its GPU or NULL. NULL with op_fail() done. */
static struct memory *word_memory(struct op *op, const uint64_t *word, uint32_t rights,
				  struct gpu_dev **gpu)
{
	struct memory_map *map = op_engine(op)->map;
	const struct extent *x = NULL;
	uint64_t at = (uintptr_t)word;
	struct memory *m = map ? memory_map_find(map, at, WORD_BYTES) : NULL;

	if (!m) {
		op_fail(op, -EFAULT, REASON_REGION_NONE, WORD_BYTES, at, 0);
		return NULL;
	}
	x = word_extent(m, at, rights);
	if (!x) {
		op_fail(op, -EACCES, REASON_WORD_RIGHTS, at, 0, 0);
		return NULL;
	}
	*gpu = x->kind == GPU_MEMORY_DEVICE ? x->gpu : NULL;
	return m;
}

static void look_add(struct engine *e, struct sync *s, struct gpu_dev *dev)
{
	uint32_t i = 2 * gpu_about(dev)->index + (s->wait_kind == URCCL_SYNC_CUDA_EVENT);
	struct sync_look *k = &e->looks[i];

	if (!k->dev) {
		list_init(&k->waiting);
		list_init(&k->asked);
		k->dev = dev;
	}
	s->look = k;
	e->looking |= 1ull << i;
	slow_list_add(e, &s->link, &k->waiting);
}

/* Puts the entry into a waiting list, if it has to wait. */
static void wait_enter(struct op *op)
{
	const uint32_t any = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC;
	struct engine *e = op_engine(op);
	struct sync *s = sync_of(op);
	struct gpu_dev *gpu = NULL;

	if (s->wait_kind == URCCL_SYNC_CUDA_EVENT) {
		gpu = gpu_dev_any(e->config.gpu);
		if (!gpu)
			op_fail(op, -EINVAL, REASON_EVENT_GPU, 0, 0, 0);
	} else {
		s->wait_memory = word_memory(op, s->wait, any, &gpu);
	}
	if (op->bits & OP_DECIDED)
		return;
	if (gpu)
		look_add(e, s, gpu);
	else if (!is_there(s))
		slow_list_add(e, &s->link, &e->words);
}

void sync_enter(struct op *op)
{
	struct sync *s = sync_of(op);

	if (op->bits & OP_SIGNALS)
		s->signal_memory =
			word_memory(op, s->signal, URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC, &s->gpu);
	if (op->bits & OP_DECIDED)
		return;
	if (op->bits & OP_SIGNALS && s->gpu)
		op->bits ^= OP_SIGNALS | OP_SIGNALS_GPU;
	if (op->bits & OP_AWAITS)
		wait_enter(op);
	if (!list_empty(&s->link)) {
		op->blockers++;
		return;
	}
	s->wait_memory = NULL;
	op->bits &= ~(uint32_t)OP_AWAITS;
}

static void wait_over(struct sync *s)
{
	list_del(&s->link);
	s->look = NULL;
	s->wait_memory = NULL;
	s->op->bits &= ~(uint32_t)OP_AWAITS;
	op_unblock(s->op);
}

uint32_t sync_look(struct engine *e, uint32_t most)
{
	struct list *pos, *next;
	uint32_t n = 0;

	list_for_each_safe(pos, next, &e->words) {
		struct sync *s = list_entry(pos, struct sync, link);

		if (!most--) { /* the next call begins here */
			list_del(&e->words);
			list_add_tail(&e->words, pos);
			break;
		}
		if (!is_there(s))
			continue;
		wait_over(s);
		n++;
	}
	return n;
}

/* ---- queries by jobs ---- */

void sync_leave(struct op *op)
{
	struct sync *s = sync_of(op);

	if (s->asked && s->look->job.dev && !gpu_cancel(&s->look->job)) {
		op->inflight++;
		return;
	}
	list_del(&s->link);
	s->look = NULL;
	s->asked = 0;
}

/* Evaluates the job's result for one entry. Returns 1 if it was unblocked. */
static uint32_t look_at(struct sync_look *k, struct sync *s)
{
	const struct gpu_table *t = gpu_table(k->dev, k->job.kind);
	int64_t failed = k->job.res ? k->job.res : t->res[s->place];
	uint64_t code = (uint64_t)(k->job.res ? k->job.code : t->code[s->place]);
	int is_event = k->job.kind == GPU_QUERY_EVENTS;

	s->asked = 0;
	list_del(&s->link);
	if (s->op->bits & OP_DECIDED) {
		s->look = NULL;
		s->op->inflight--;
		op_returned(s->op);
		return 0;
	}
	if (failed == -ECANCELED || (!failed && t->value[s->place] < s->wait_value)) {
		list_add_tail(&s->link, &k->waiting);
		return 0;
	}
	if (failed) {
		op_fail(s->op, (int)failed, is_event ? REASON_EVENT : REASON_GPU_WORD,
			(uintptr_t)s->wait, code, 0);
		return 0;
	}
	wait_over(s);
	return 1;
}

/* The job queries the words that have waited longest since their last query. */
static void look_ask(struct sync_look *k, enum gpu_kind kind)
{
	struct gpu_table *t = gpu_table(k->dev, kind);
	uint32_t n = 0;

	for (; n < GPU_LOOKS && !list_empty(&k->waiting); n++) {
		struct sync *s = list_first(&k->waiting, struct sync, link);

		list_del(&s->link);
		list_add_tail(&s->link, &k->asked);
		s->asked = 1;
		s->place = n;
		t->at[n] = (uintptr_t)s->wait;
	}
	k->job = (struct gpu_job){.kind = (uint8_t)kind, .lane = GPU_CONTROL, .len = n};
	if (!gpu_submit(k->dev, &k->job))
		k->job.res = -ECANCELED; /* they are queried again */
}

static uint32_t sync_look_done(struct engine *e, uint32_t i)
{
	struct sync_look *k = &e->looks[i];
	uint32_t n = 0;

	if (k->job.dev && !gpu_job_done(&k->job))
		return 0;
	while (!list_empty(&k->asked))
		n += look_at(k, list_first(&k->asked, struct sync, link));
	if (list_empty(&k->waiting))
		e->looking &= ~(1ull << i);
	else
		look_ask(k, i & 1 ? GPU_QUERY_EVENTS : GPU_READ_WORDS);
	return n;
}

/* ---- words set by jobs ---- */

void sync_signal_gpu(struct op *op)
{
	struct engine *e = op_engine(op);
	struct sync *s = sync_of(op);

	s->job = (struct gpu_job){
		.kind = GPU_WRITE_WORD,
		.lane = GPU_CONTROL,
		.src = s->signal_value,
		.dst = (uintptr_t)s->signal,
		.len = WORD_BYTES,
		.res = -EAGAIN,
	};
	op->inflight++;
	op->state = OP_SIGNALLING;
	gpu_submit(s->gpu, &s->job);
	slow_list_add(e, &s->link, &e->signals);
}

static void signal_leave(struct sync *s)
{
	list_del(&s->link);
	s->op->inflight--;
}

/* If the job sets the word all the same, the entry succeeds. */
void sync_signal_stop(struct op *op)
{
	struct sync *s = sync_of(op);

	if (s->job.dev && !gpu_cancel(&s->job))
		return;
	if (s->job.res)
		signal_leave(s);
}

static void signal_look(struct sync *s)
{
	struct op *op = s->op;

	if (!s->job.dev && s->job.res == -EAGAIN)
		gpu_submit(s->gpu, &s->job);
	if (s->job.dev ? !gpu_job_done(&s->job) : s->job.res == -EAGAIN)
		return;
	if (s->job.res && !(op->bits & OP_DECIDED)) {
		op_fail(op, -EIO, REASON_GPU_WORD, (uintptr_t)s->signal, (uint64_t)s->job.code, 0);
		return;
	}
	signal_leave(s);
	op_ready(op);
}

uint32_t sync_look_gpus(struct engine *e)
{
	struct list *pos, *next;
	uint64_t left;
	uint32_t n = 0;

	if (e->config.clock && (e->looking || !list_empty(&e->signals)))
		gpu_step(e->config.gpu);
	for (left = e->looking; left; left &= left - 1)
		n += sync_look_done(e, (uint32_t)__builtin_ctzll(left));
	list_for_each_safe(pos, next, &e->signals)
		signal_look(list_entry(pos, struct sync, link));
	return n;
}

/* Called before the program can see the CQE. */
void sync_signal(const struct op *op)
{
	const struct sync *s = sync_of(op);

	store_release(s->signal, s->signal_value);
}

int sync_in(const struct op *op, const struct memory *m)
{
	const struct sync *s = sync_of(op);

	return op->bits & (OP_AWAITS | OP_SIGNALS | OP_SIGNALS_GPU) &&
	       (s->wait_memory == m || s->signal_memory == m);
}
