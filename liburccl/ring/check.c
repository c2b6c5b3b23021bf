/* SPDX-License-Identifier: Apache-2.0 */
/* Reports misuse of a ring to its log, in a program with URCCL_CHECK. */
#include "ring/ring.h"

enum misuse { TWO_PRODUCERS, SEEN_TWICE, WAITS_UNSUBMITTED, CLOSES_UNSUBMITTED };

/* 1: the first time, and there is a log. */
static int is_new(struct ring *r, enum misuse what)
{
	uint32_t bit = 1u << what;

	return r->log && !(__atomic_fetch_or(&r->check.announced, bit, __ATOMIC_RELAXED) & bit);
}

/* A thread is the producer from its first entry until it has submitted all. */
static void check_producer(struct ring *r, const char *call)
{
	uintptr_t before = load_relaxed(&r->check.producer), self = (uintptr_t)pthread_self();
	uint32_t n = ring_unsubmitted(r);

	if (n && before && before != self && is_new(r, TWO_PRODUCERS))
		log_text(r->log, URCCL_LOG_ERROR,
			 "ring %u has two producers: a thread calls %s while another has taken %u "
			 "entries and not submitted them. Give each thread a ring, or hold a lock "
			 "from urccl_get_sqe() to urccl_submit()",
			 r->pub.id, call, n);
	store_relaxed(&r->check.producer, self);
}

static void check_seen(struct ring *r, uint32_t n)
{
	uint32_t ready = urccl_cq_ready(&r->pub);

	if (n <= ready || !is_new(r, SEEN_TWICE))
		return;
	if (n == UINT32_MAX)
		log_text(r->log, URCCL_LOG_ERROR,
			 "ring %u: urccl_cqe_seen() got a CQE that is not the first of the %u that "
			 "are there: it was seen before, or out of turn, and is not taken. Call it "
			 "once for each CQE, in their order",
			 r->pub.id, ready);
	else
		log_text(r->log, URCCL_LOG_ERROR,
			 "ring %u: %u CQEs were to be taken, and %u are there: some were seen "
			 "before. Take each once, by urccl_cqe_seen() or by urccl_cq_advance()",
			 r->pub.id, n, ready);
}

void __urccl_ring_check(struct urccl_ring *ring, enum __urccl_doing what, uint32_t n)
{
	struct ring *r = container_of(ring, struct ring, pub);

	if (what == __URCCL_SEES)
		check_seen(r, n);
	else
		check_producer(r, what == __URCCL_TAKES ? "urccl_get_sqe()" : "urccl_submit()");
}

void ring_check_wait(struct ring *r)
{
	uint32_t n;

	if (load_relaxed(&r->check.producer) != (uintptr_t)pthread_self())
		return;
	n = ring_unsubmitted(r);
	if (n && is_new(r, WAITS_UNSUBMITTED))
		log_text(r->log, URCCL_LOG_WARN,
			 "ring %u: a wait begins, and its thread has taken %u entries and not "
			 "submitted them: call urccl_submit() before it",
			 r->pub.id, n);
}

void ring_check_close(struct ring *r)
{
	uint32_t n = ring_unsubmitted(r);

	if (load_relaxed(&r->check.producer) && n && is_new(r, CLOSES_UNSUBMITTED))
		log_text(r->log, URCCL_LOG_WARN,
			 "ring %u is closed, and %u of its entries were taken and never submitted: "
			 "call urccl_submit()",
			 r->pub.id, n);
}
