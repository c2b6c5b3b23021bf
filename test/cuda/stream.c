/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, which are threads. */
#include <signal.h>
#include "double.h"

static struct stream *streams; /* destroyed ones are not in it, but may still run */
static unsigned nstreams, nops;

/* ---- the thread ---- */

static void op_free(struct op *op)
{
	if (op->pieces != &op->one)
		free(op->pieces);
	free(op);
}

static bool word_is_there(const struct op *op)
{
	uint64_t n, at;
	uint8_t *word = span_view(op->pieces->dst, 8, &n);

	at = __atomic_load_n((uint64_t *)(void *)word, __ATOMIC_ACQUIRE);
	switch (op->flags) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return (int64_t)(at - op->value) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return at == op->value;
	case CU_STREAM_WAIT_VALUE_AND:
		return at & op->value;
	default:
		return ~(at | op->value);
	}
}

/* With the lock, which is free meanwhile. 0, or the error that breaks the context. */
static int op_run(struct stream *s, struct op *op)
{
	int res = op->fails;

	if (res)
		return res;
	switch (op->kind) {
	case OP_WAIT:
		while (!word_is_there(op) && !s->context->sticky) {
			unlock();
			nap_us(20);
			lock();
		}
		break;
	case OP_WAIT_EVENT:
		while (op->event->done < op->value && !s->context->sticky)
			wait_moved();
		break;
	case OP_RECORD:
		op->event->done = op->value;
		op->event->at_ms = now_ms();
		break;
	case OP_LAUNCH:
		unlock();
		res = launch_run(s, op);
		lock();
		break;
	default:
		unlock();
		copy_run(op);
		lock();
	}
	return res;
}

static void op_drop(struct op *op)
{
	size_t i;

	for (i = 0; i < op->npieces; i++) {
		span_drop(op->pieces[i].dst, op->pieces[i].len);
		if (op->pieces[i].src)
			span_drop(op->pieces[i].src, op->pieces[i].len);
	}
	free(op->staged);
}

static bool hangs(const struct stream *s)
{
	return s->number && s->number == double_words.hang;
}

/* Behind an error nothing is carried out any more. */
static void *stream_main(void *arg)
{
	struct stream *s = arg;
	struct op *op;
	int res;

	lock();
	for (;;) {
		while (hangs(s) || !s->head) {
			if (!s->head && s->destroyed)
				break;
			wait_moved();
		}
		op = s->head;
		if (!op)
			break;
		if (!s->context->sticky) {
			res = op_run(s, op);
			if (res)
				context_break(s->context, res);
		}
		op_drop(op);
		s->head = op->next;
		if (!s->head)
			s->tail = &s->head;
		s->queued--;
		op_free(op);
		pthread_cond_broadcast(&double_moved);
	}
	unlock();
	free(s);
	return NULL;
}

/* ---- what other files ask for ---- */

static struct stream *stream_new(struct context *c, unsigned flags, int priority)
{
	struct stream *s = calloc(1, sizeof(*s));
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;

	if (!s)
		die("no memory");
	*s = (struct stream){.next = streams,
			     .context = c,
			     .tail = &s->head,
			     .flags = flags,
			     .priority = priority};
	streams = s;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&thread, &attr, stream_main, s))
		die("no thread for a stream");
	pthread_setname_np(thread, "cuda-stream");
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return s;
}

struct stream *stream_of(void *handle)
{
	struct stream *s;

	if ((uintptr_t)handle <= 1) { /* the legacy stream */
		struct context *c = context_of(current());

		if (!c->null_stream)
			c->null_stream = stream_new(c, 0, 0);
		return c->null_stream;
	}
	for (s = streams; s && s != handle; s = s->next)
		;
	if (!s)
		die("%p is no stream, or was destroyed", handle);
	return s;
}

void stream_wait(struct stream *s)
{
	while (s->queued)
		wait_moved();
}

void streams_wait(const struct context *c, bool blocking_only)
{
	struct stream *s;

again:
	for (s = streams; s; s = s->next) {
		if (s->context == c && s->queued &&
		    !(blocking_only && s->flags & CU_STREAM_NON_BLOCKING)) {
			wait_moved();
			goto again;
		}
	}
}

static void stream_end(struct stream *s)
{
	struct stream **at;

	for (at = &streams; *at != s; at = &(*at)->next)
		;
	*at = s->next;
	s->destroyed = true;
	pthread_cond_broadcast(&double_moved);
}

void context_streams_end(const struct context *c)
{
	struct stream *s, *next;

	for (s = streams; s; s = next) {
		next = s->next;
		if (s->context == c) {
			while (s->queued && !hangs(s))
				wait_moved();
			stream_end(s);
			next = streams;
		}
	}
}

int stream_add(struct stream *s, const struct op *op, const char *by)
{
	struct op *copy = malloc(sizeof(*copy));
	bool is_null = s == s->context->null_stream;
	size_t i;

	if (!copy)
		die("no memory");
	*copy = *op;
	if (op->pieces == &op->one)
		copy->pieces = &copy->one;
	for (i = 0; i < op->npieces; i++) {
		const struct piece *p = &op->pieces[i];

		span_hold(p->dst, p->len, s->context->gpu, op->kind != OP_WAIT, by);
		if (p->src)
			span_hold(p->src, p->len, s->context->gpu, false, by);
	}
	if (double_words.fail_at && ++nops == double_words.fail_at) {
		int code = (int)double_words.fail_code;

		double_words.fail_at = nops = 0;
		copy->fails = code;
		if (code < 700 || code > 799) {
			op_drop(copy);
			op_free(copy);
			return code;
		}
	}
	if (is_null)
		streams_wait(s->context, true);
	while (s->queued >= QUEUE_MAX)
		wait_moved();
	*s->tail = copy;
	s->tail = &copy->next;
	copy->next = NULL;
	s->queued++;
	pthread_cond_broadcast(&double_moved);
	return 0;
}

/* ---- streams ---- */

EXPORT int cuStreamCreateWithPriority(void **to, unsigned flags, int priority)
{
	struct stream *s;

	ENTER(CLASS_STREAM, NEEDS_INIT | NEEDS_CONTEXT);
	if (flags > CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	lock();
	s = stream_new(current(), flags, priority);
	s->number = ++nstreams;
	*to = s;
	unlock();
	return 0;
}

EXPORT int cuStreamCreate(void **to, unsigned flags)
{
	return cuStreamCreateWithPriority(to, flags, 0);
}

EXPORT int cuStreamDestroy_v2(void *stream)
{
	int res;

	ENTER(CLASS_STREAM, NEEDS_INIT | NEEDS_CONTEXT | PASSES_STICKY);
	if ((uintptr_t)stream <= 2)
		return CUDA_ERROR_INVALID_HANDLE;
	lock();
	res = stream_of(stream)->context->sticky;
	stream_end(stream);
	unlock();
	return res;
}

EXPORT int cuStreamQuery(void *stream)
{
	struct stream *s;
	int res;

	ENTER(CLASS_STREAM, NEEDS_INIT | NEEDS_CONTEXT | PASSES_STICKY);
	lock();
	s = stream_of(stream);
	res = s->context->sticky ? s->context->sticky : s->queued ? CUDA_ERROR_NOT_READY : 0;
	unlock();
	return res;
}

EXPORT int cuStreamSynchronize(void *stream)
{
	struct stream *s;
	int res;

	ENTER(CLASS_STREAM, NEEDS_INIT | NEEDS_CONTEXT | PASSES_STICKY);
	lock();
	s = stream_of(stream);
	if (s == s->context->null_stream)
		streams_wait(s->context, true);
	stream_wait(s);
	res = s->context->sticky;
	unlock();
	return res;
}
