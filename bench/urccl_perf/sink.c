/* SPDX-License-Identifier: Apache-2.0 */
#include "sink.h"

#include <pthread.h>
#include <stdlib.h>

#define MARK ((uint64_t)TAG_MESSAGE << TAG_SHIFT | 1)

struct sink {
	struct end end;
	pthread_t thread;
	int stop;	     /* the opener's */
	uint64_t marks;	     /* the thread's: taken so far */
	struct hist latency; /* the thread's */
	struct hist told;    /* the thread's until it counts the mark */
};

/* A message's tag is the low bits of the clock when it was submitted. */
static void took(struct end *e, const struct urccl_cqe *cqe)
{
	struct sink *s = e->owner;

	if (cqe->user_data == MARK) {
		s->told = s->latency;
		hist_clear(&s->latency);
		__atomic_store_n(&s->marks, s->marks + 1, __ATOMIC_RELEASE);
	} else if (cqe->tag) {
		hist_add(&s->latency, (bench_now() & ~TAG_MASK) - cqe->tag);
	}
}

static void *take_all(void *arg)
{
	struct sink *s = arg;

	while (!__atomic_load_n(&s->stop, __ATOMIC_ACQUIRE))
		if (!end_reap(&s->end))
			end_idle(&s->end);
	return NULL;
}

struct sink *sink_open(const struct options *o, struct urccl *ctx)
{
	struct sink *s = calloc(1, sizeof(*s));

	if (!s)
		bench_die("out of memory");
	end_open(&s->end, o, ctx, o->wait == WAIT_EPOLL ? WAIT_EPOLL : WAIT_CALL);
	s->end.owner = s;
	s->end.event = took;
	if (pthread_create(&s->thread, NULL, take_all, s))
		bench_die("cannot start a thread");
	return s;
}

/* It wakes at the latest when its sleep is over. */
void sink_close(struct sink *s)
{
	__atomic_store_n(&s->stop, 1, __ATOMIC_RELEASE);
	pthread_join(s->thread, NULL);
	end_close(&s->end);
	free(s);
}

const struct urccl_ring *sink_ring(const struct sink *s)
{
	return s->end.ring;
}

/* Messages to a ring come in order, so all that were sent before the mark are taken before it. */
const struct hist *sink_mark(struct sink *s, struct end *e)
{
	uint64_t marks = __atomic_load_n(&s->marks, __ATOMIC_ACQUIRE);
	struct urccl_sqe *sqe = end_sqe(e);

	urccl_prep_msg_ring(sqe, urccl_ring_id(s->end.ring), MARK, 0, 0);
	end_submit_wait(e, sqe);
	while (__atomic_load_n(&s->marks, __ATOMIC_ACQUIRE) == marks)
		bench_relax();
	return &s->told;
}
