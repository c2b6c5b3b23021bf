/* SPDX-License-Identifier: Apache-2.0 */
/* Events, which are recorded in streams. */
#include "double.h"

static struct event **events, *ended_events;
static size_t nevents;

static struct event *event_of(void *handle)
{
	size_t i;

	for (i = 0; i < nevents; i++)
		if (handle && events[i] == handle)
			return handle;
	die("%p is no event, or was destroyed", handle);
}

EXPORT int cuEventCreate(void **to, unsigned flags)
{
	struct event *e;

	ENTER(CLASS_STREAM, NEEDS_INIT | NEEDS_CONTEXT);
	if (flags > 7)
		return CUDA_ERROR_INVALID_VALUE;
	e = calloc(1, sizeof(*e));
	if (!e)
		die("no memory");
	lock();
	events = realloc(events, (nevents + 1) * sizeof(struct event *));
	if (!events)
		die("no memory");
	events[nevents++] = e;
	e->context = current();
	unlock();
	*to = e;
	return 0;
}

/* Operations that are queued may still use it, so that its memory stays. */
EXPORT int cuEventDestroy_v2(void *event)
{
	struct event *e;
	size_t i;

	ENTER(CLASS_STREAM, NEEDS_INIT | NEEDS_CONTEXT | PASSES_STICKY);
	lock();
	e = event_of(event);
	for (i = 0; events[i] != e; i++)
		;
	events[i] = events[--nevents];
	e->next = ended_events;
	ended_events = e;
	unlock();
	return 0;
}

static int event_op(void *event, void *stream, enum op_kind kind, const char *by)
{
	struct op op = {.kind = kind};
	struct event *e;
	struct stream *s;
	int res;

	lock();
	s = stream_of(stream);
	e = event_of(event);
	if (kind == OP_RECORD && e->context != s->context) {
		unlock();
		return CUDA_ERROR_INVALID_HANDLE;
	}
	op.event = e;
	op.value = kind == OP_RECORD ? ++e->recorded : e->recorded;
	res = stream_add(s, &op, by);
	unlock();
	return res;
}

EXPORT int cuEventRecord(void *event, void *stream)
{
	ENTER(CLASS_STREAM, NEEDS_INIT | NEEDS_CONTEXT);
	return event_op(event, stream, OP_RECORD, __func__);
}

EXPORT int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
	ENTER(CLASS_STREAM, NEEDS_INIT | NEEDS_CONTEXT);
	(void)flags;
	return event_op(event, stream, OP_WAIT_EVENT, __func__);
}

/* One that was never recorded is done. */
EXPORT int cuEventQuery(void *event)
{
	struct event *e;
	int res;

	ENTER(CLASS_STREAM, NEEDS_INIT | NEEDS_CONTEXT | PASSES_STICKY);
	lock();
	e = event_of(event);
	res = e->context->sticky       ? e->context->sticky
	      : e->done == e->recorded ? 0
				       : CUDA_ERROR_NOT_READY;
	unlock();
	return res;
}

/* Both are done. */
EXPORT int cuEventElapsedTime(float *ms, void *from, void *to)
{
	struct event *a, *b;
	int res;

	ENTER(CLASS_STREAM, NEEDS_INIT | NEEDS_CONTEXT);
	lock();
	a = event_of(from);
	b = event_of(to);
	res = !a->recorded || !b->recorded		       ? CUDA_ERROR_INVALID_HANDLE
	      : a->done < a->recorded || b->done < b->recorded ? CUDA_ERROR_NOT_READY
							       : 0;
	*ms = (float)(b->at_ms - a->at_ms);
	unlock();
	return res;
}

EXPORT int cuEventSynchronize(void *event)
{
	struct event *e;
	int res;

	ENTER(CLASS_STREAM, NEEDS_INIT | NEEDS_CONTEXT | PASSES_STICKY);
	lock();
	e = event_of(event);
	while (e->done < e->recorded && !e->context->sticky)
		wait_moved();
	res = e->context->sticky;
	unlock();
	return res;
}
