/* SPDX-License-Identifier: Apache-2.0 */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLICE_NS     20000000ull   /* a signal is seen this late behind another waiting thread */
#define WAIT_NS	     1000000000ull /* a close of a full ring waits so long for a waiter */
#define NSEC_PER_SEC 1000000000ull

int core_open(struct core *core, struct urccl *ctx, const struct urccl_ring_params *params)
{
	pthread_condattr_t attr;
	int rc;

	memset(core, 0, sizeof(*core));
	rc = urccl_ring_open(ctx, params, &core->ring);
	if (rc)
		return rc;
	core->ctx = ctx;
	pthread_mutex_init(&core->producer, NULL);
	pthread_mutex_init(&core->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&core->freed, &attr);
	pthread_condattr_destroy(&attr);
	return 0;
}

static void events_free(struct core_event *event)
{
	struct core_event *next;

	for (; event; event = next) {
		next = event->next;
		free(event);
	}
}

void core_forget(struct core *core)
{
	events_free(core->first);
	core->first = core->last = NULL;
	core->ring = NULL;
}

/* ---- the consumer: one thread at a time ---- */

static int consumer_try(struct core *core)
{
	int got;

	pthread_mutex_lock(&core->lock);
	got = !core->busy && !core->closing;
	core->busy |= (uint32_t)got;
	pthread_mutex_unlock(&core->lock);
	return got;
}

static void deadline_after(uint64_t ns, struct timespec *at)
{
	clock_gettime(CLOCK_MONOTONIC, at);
	ns += (uint64_t)at->tv_nsec;
	at->tv_sec += (time_t)(ns / NSEC_PER_SEC);
	at->tv_nsec = (long)(ns % NSEC_PER_SEC);
}

/* 0: this thread is the consumer. -EINTR: not in this slice. */
static int consumer_wait(struct core *core, uint64_t ns)
{
	struct timespec at;
	int rc = 0;

	pthread_mutex_lock(&core->lock);
	core->waiters++;
	if (core->busy && !core->closing) {
		deadline_after(ns < SLICE_NS ? ns : SLICE_NS, &at);
		pthread_cond_timedwait(&core->freed, &core->lock, &at);
	}
	if (core->closing)
		rc = -ESTALE;
	else if (core->busy)
		rc = -EINTR;
	else
		core->busy = 1;
	if (rc)
		core->waiters--;
	if (core->closing)
		pthread_cond_broadcast(&core->freed);
	pthread_mutex_unlock(&core->lock);
	return rc;
}

static void consumer_leave(struct core *core, int waited)
{
	pthread_mutex_lock(&core->lock);
	core->busy = 0;
	core->waiters -= (uint32_t)waited;
	if (core->waiters || core->closing)
		pthread_cond_broadcast(&core->freed);
	pthread_mutex_unlock(&core->lock);
}

/* A NOP's CQE wakes the thread that waits for one; where the ring is full of entries that are
 * unfinished, it wakes at the end of its slice. */
static void send_waiters_away(struct core *core)
{
	struct urccl_sqe *sqe = core_begin(core);

	if (sqe) {
		urccl_prep_nop(sqe);
		core_end(core, 1);
	}
}

void core_close(struct core *core)
{
	uint32_t waiting;

	if (!core->ring)
		return;
	pthread_mutex_lock(&core->lock);
	core->closing = 1;
	waiting = core->busy;
	pthread_mutex_unlock(&core->lock);
	if (waiting)
		send_waiters_away(core);
	pthread_mutex_lock(&core->lock);
	pthread_cond_broadcast(&core->freed);
	while (core->busy || core->waiters)
		pthread_cond_wait(&core->freed, &core->lock);
	pthread_mutex_unlock(&core->lock);
	pthread_mutex_lock(&core->producer); /* the last core_end() is over */
	pthread_mutex_unlock(&core->producer);
	urccl_ring_close(core->ring);
	pthread_cond_destroy(&core->freed);
	pthread_mutex_destroy(&core->lock);
	pthread_mutex_destroy(&core->producer);
	core_forget(core);
}

/* ---- producer ---- */

struct urccl_sqe *core_begin(struct core *core)
{
	struct urccl_sqe *sqe;

	pthread_mutex_lock(&core->producer);
	sqe = urccl_get_sqe(core->ring);
	if (!sqe)
		pthread_mutex_unlock(&core->producer);
	return sqe;
}

void core_end(struct core *core, int hand_over)
{
	if (hand_over)
		urccl_submit(core->ring);
	pthread_mutex_unlock(&core->producer);
}

void core_submit(struct core *core)
{
	pthread_mutex_lock(&core->producer);
	urccl_submit(core->ring);
	pthread_mutex_unlock(&core->producer);
}

/* ---- taking CQEs ---- */

static void chain_add(struct core_entry *entry, struct core_entry ***tail)
{
	if (entry->chained)
		return;
	entry->chained = 1;
	entry->next = NULL;
	**tail = entry;
	*tail = &entry->next;
}

struct core_entry *core_unchain(struct core_entry **chain)
{
	struct core_entry *entry = *chain;

	if (entry) {
		*chain = entry->next;
		entry->chained = 0;
	}
	return entry;
}

static struct core_event *event_of(const struct core *core, const struct urccl_cqe *cqe)
{
	uint32_t kind = urccl_cqe_kind(cqe);
	int has_payload = kind == URCCL_KIND_NOTE || kind == URCCL_KIND_PEER;
	uint32_t len = has_payload && cqe->res > 0 ? (uint32_t)cqe->res : 0;
	struct core_event *event = malloc(sizeof(*event) + len);

	if (!event)
		return NULL;
	event->next = NULL;
	event->cqe = *cqe;
	event->len = len;
	if (len)
		memcpy(event->payload, urccl_cqe_note(core->ring, cqe), len);
	return event;
}

static void event_add(struct core_event *event, struct core_event **first, struct core_event **last)
{
	if (*first)
		(*last)->next = event;
	else
		__atomic_store_n(first, event, __ATOMIC_RELEASE);
	*last = event;
}

/* 0: no memory for the event, its CQE stays. */
static int take_event(struct core *core, const struct urccl_cqe *cqe, struct core_entry *entry)
{
	struct core_event *event = event_of(core, cqe);

	if (!event)
		return 0;
	if (entry)
		event_add(event, &entry->first, &entry->last);
	else
		event_add(event, &core->first, &core->last);
	return 1;
}

static int take_cqe(struct core *core, const struct urccl_cqe *cqe, struct core_entry ***tail)
{
	uint32_t kind = urccl_cqe_kind(cqe);
	struct core_entry *entry = urccl_cqe_get_data(cqe);

	if (kind == URCCL_KIND_MSG)
		entry = core->everything;
	if (kind != URCCL_KIND_OP && !take_event(core, cqe, entry))
		return 0;
	if (!entry)
		return 1;
	if (kind == URCCL_KIND_OP || !(cqe->flags & URCCL_CQE_MORE)) {
		uint32_t more = cqe->flags & URCCL_CQE_MORE;

		entry->cqe = *cqe;
		__atomic_store_n(&entry->phase, more ? CORE_KNOWN : CORE_ENDED, __ATOMIC_RELEASE);
		if (!more && core->everything == entry)
			core->everything = NULL;
	}
	chain_add(entry, tail);
	return 1;
}

uint32_t core_reap(struct core *core, struct core_entry **chain)
{
	struct core_entry **tail = chain;
	struct urccl_cqe *cqe;
	uint32_t n = 0;

	*chain = NULL;
	/* Most polls find nothing: they take no lock. */
	if (!urccl_cq_ready(core->ring) || !consumer_try(core))
		return 0;
	while ((cqe = urccl_peek_cqe(core->ring)) && take_cqe(core, cqe, &tail)) {
		urccl_cqe_seen(core->ring, cqe);
		n++;
	}
	consumer_leave(core, 0);
	return n;
}

int core_arm(struct core *core)
{
	int rc;

	if (!consumer_try(core))
		return 0; /* the thread that waits has the loop called when it is done */
	rc = urccl_arm(core->ring, URCCL_ARM_FOR_CQE, 0);
	consumer_leave(core, 0);
	return rc == 1;
}

int core_wait(struct core *core, const struct core_entry *entry, uint32_t phase, uint64_t ns)
{
	struct urccl_cqe *cqe;
	int rc = consumer_wait(core, ns);

	if (rc)
		return rc;
	if (!entry || !(core_phase(entry) > (phase & ~(uint32_t)CORE_EVENT) ||
			(phase & CORE_EVENT && __atomic_load_n(&entry->first, __ATOMIC_ACQUIRE))))
		rc = urccl_wait_cqe_timeout(core->ring, &cqe, ns < WAIT_NS ? ns : WAIT_NS);
	consumer_leave(core, 1);
	if (rc == -ETIME && ns > WAIT_NS)
		return -EINTR;
	return rc < 0 ? rc : 0;
}

void core_watch_all(struct core *core, struct core_entry *entry)
{
	core->everything = entry;
	if (!core->first)
		return;
	event_add(core->first, &entry->first, &entry->last);
	entry->last = core->last;
	core->first = core->last = NULL;
}

struct core_event *core_take_event(struct core_entry *entry)
{
	struct core_event *event = entry->first;

	if (event)
		__atomic_store_n(&entry->first, event->next, __ATOMIC_RELEASE);
	return event;
}
