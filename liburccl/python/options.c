/* SPDX-License-Identifier: Apache-2.0 */
/* The keyword arguments of every entry: deadline, notification, order, class, start and signal. */
#include "module.h"

#include <string.h>

static int deadline_get(PyObject *value, struct options *o)
{
	uint64_t ns;

	if (timeout_get(value, &ns))
		return -1;
	if (ns == UINT64_MAX)
		return 0; /* None: the context's */
	if (ns / 1000 > UINT32_MAX) {
		PyErr_SetString(PyExc_OverflowError, "a deadline is at most 4,294 seconds");
		return -1;
	}
	o->deadline_us = ns < 1000 ? 1 : (uint32_t)(ns / 1000);
	return 0;
}

static int flag_get(PyObject *value, struct options *o, uint32_t flag)
{
	int is = PyObject_IsTrue(value);

	o->flags |= is > 0 ? flag : 0;
	return is < 0 ? -1 : 0;
}

int payload_get(Op *op, PyObject *obj, struct span *span)
{
	PyObject *list = op_keep_list(op);

	if (!list || buffer_keep(op->m, obj, 0, list, span) || span_host(span, "a payload"))
		return -1;
	if (span->len <= URCCL_NOTE_MAX)
		return 0;
	PyErr_Format(PyExc_ValueError, "a payload has at most %u bytes, not %llu", URCCL_NOTE_MAX,
		     (unsigned long long)span->len);
	return -1;
}

/* tag, or (tag, payload) */
static int notify_get(Op *op, PyObject *value, struct options *o)
{
	int pair = PyTuple_Check(value) && PyTuple_Size(value) == 2;

	if (value == Py_None)
		return 0;
	o->flags |= URCCL_SQE_NOTIFY;
	if (number_get(pair ? PyTuple_GetItem(value, 0) : value, UINT64_MAX, "tag", &o->tag))
		return -1;
	return pair ? payload_get(op, PyTuple_GetItem(value, 1), &o->payload) : 0;
}

/* (word, value): word is a buffer of 8 bytes, or its address. */
static int sync_get(Op *op, PyObject *value, const char *name, uint64_t *word, uint64_t *number)
{
	PyObject *list, *first;
	struct span span;

	if (value == Py_None)
		return 0;
	if (!PyTuple_Check(value) || PyTuple_Size(value) != 2) {
		PyErr_Format(PyExc_TypeError, "%s is (word, value)", name);
		return -1;
	}
	if (number_get(PyTuple_GetItem(value, 1), UINT64_MAX, name, number))
		return -1;
	first = PyTuple_GetItem(value, 0);
	if (PyLong_Check(first))
		return number_get(first, UINT64_MAX, name, word);
	list = op_keep_list(op);
	if (!list || buffer_keep(op->m, first, 1, list, &span))
		return -1;
	if (span.len != 8) {
		PyErr_Format(PyExc_ValueError, "the word of %s has 8 bytes, not %llu", name,
			     (unsigned long long)span.len);
		return -1;
	}
	*word = span.addr;
	return 0;
}

/* A CUevent: a number, or what PyTorch's, CuPy's and CUDA Python's events have. */
static int event_number(PyObject *event, uint64_t *out)
{
	static const char *const names[] = {"cuda_event", "ptr", "handle"};
	PyObject *handle = NULL, *number;
	size_t i;

	for (i = 0; i < 3 && !handle && !PyLong_Check(event); i++)
		if (PyObject_HasAttrString(event, names[i]))
			handle = PyObject_GetAttrString(event, names[i]);
	number = PyErr_Occurred() ? NULL : PyNumber_Long(handle ? handle : event);
	Py_XDECREF(handle);
	*out = number ? PyLong_AsUnsignedLongLong(number) : 0;
	Py_XDECREF(number);
	if (!*out && !PyErr_Occurred())
		PyErr_SetString(PyExc_ValueError, "the event was never recorded");
	return PyErr_Occurred() ? -1 : 0;
}

static int event_get(Op *op, PyObject *event, struct options *o)
{
	PyObject *list = event == Py_None ? NULL : op_keep_list(op);

	if (event == Py_None)
		return 0;
	return !list || PyList_Append(list, event) || event_number(event, &o->event) ? -1 : 0;
}

/* What the stream does until now: an event of its own package, recorded in it. */
static int stream_get(Op *op, PyObject *stream, struct options *o)
{
	const char *record =
		PyObject_HasAttrString(stream, "record_event") ? "record_event" : "record";
	PyObject *event;
	int rc;

	if (stream == Py_None)
		return 0;
	if (!PyObject_HasAttrString(stream, record)) {
		PyErr_Format(PyExc_TypeError,
			     "a stream with record_event() or record() is wanted, not %R; record "
			     "an event in it and give that",
			     (PyObject *)Py_TYPE(stream));
		return -1;
	}
	event = PyObject_CallMethod(stream, record, NULL);
	rc = event ? event_get(op, event, o) : -1;
	Py_XDECREF(event);
	return rc;
}

static int ready_get(PyObject *value, struct options *o)
{
	o->is_ready = PyObject_IsTrue(value);
	return o->is_ready < 0 ? -1 : 0;
}

static int class_get(PyObject *value, struct options *o)
{
	static const char *const names[] = {"bulk", "latency", "control"};
	int i;

	for (i = 0; i < 3; i++)
		if (PyUnicode_Check(value) && !PyUnicode_CompareWithASCIIString(value, names[i])) {
			o->cls = (enum urccl_class)i;
			return 0;
		}
	PyErr_Format(PyExc_ValueError, "cls is \"bulk\", \"latency\" or \"control\", not %R",
		     value);
	return -1;
}

static int option_get(Op *op, struct options *o, PyObject *name, PyObject *value)
{
	static const struct {
		const char *name;
		uint32_t flag;
	} flags[] = {
		{"link", URCCL_SQE_LINK},   {"drain", URCCL_SQE_DRAIN},
		{"fence", URCCL_SQE_FENCE}, {"checksum", URCCL_SQE_CHECKSUM},
		{"acked", URCCL_SQE_ACKED}, {"no_replay", URCCL_SQE_NO_REPLAY},
	};
	const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
	uint64_t group;
	size_t i;

	if (!text)
		return -1;
	if (!strcmp(text, "timeout"))
		return deadline_get(value, o);
	if (!strcmp(text, "notify"))
		return notify_get(op, value, o);
	if (!strcmp(text, "off"))
		return number_get(value, UINT64_MAX, text, &o->off);
	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (!strcmp(text, flags[i].name))
			return flag_get(value, o, flags[i].flag);
	if (!strcmp(text, "cls"))
		return class_get(value, o);
	if (!strcmp(text, "wait"))
		return sync_get(op, value, text, &o->wait, &o->wait_value);
	if (!strcmp(text, "signal"))
		return sync_get(op, value, text, &o->signal, &o->signal_value);
	if (!strcmp(text, "event"))
		return event_get(op, value, o);
	if (!strcmp(text, "stream"))
		return stream_get(op, value, o);
	if (!strcmp(text, "ready"))
		return ready_get(value, o);
	if (!strcmp(text, "group")) {
		if (number_get(value, UINT32_MAX, text, &group))
			return -1;
		o->group = (uint32_t)group;
		return 0;
	}
	PyErr_Format(PyExc_TypeError, "%R is no keyword argument of an entry", name);
	return -1;
}

int options_get(Op *op, struct options *o, PyObject *const *values, PyObject *names)
{
	Py_ssize_t i, n = names ? PyTuple_Size(names) : 0;
	int rc = 0;

	memset(o, 0, sizeof(*o));
	for (i = 0; i < n && !rc; i++)
		rc = option_get(op, o, PyTuple_GetItem(names, i), values[i]);
	if (!rc && !!o->wait + !!o->event + o->is_ready > 1) {
		PyErr_SetString(PyExc_ValueError,
				"an entry has one of wait, event or stream, and ready");
		rc = -1;
	}
	return rc;
}

void options_set(const struct options *o, struct urccl_ring *ring, struct urccl_sqe *sqe)
{
	urccl_sqe_add_flags(sqe, o->flags & ~(uint32_t)URCCL_SQE_NOTIFY);
	urccl_sqe_set_deadline_us(sqe, o->deadline_us);
	urccl_sqe_set_group(sqe, o->group);
	urccl_sqe_set_class(sqe, o->cls);
	if (o->flags & URCCL_SQE_NOTIFY)
		urccl_sqe_set_notify(ring, sqe, o->tag, (const void *)(uintptr_t)o->payload.addr,
				     (uint32_t)o->payload.len);
	if (o->wait)
		urccl_sqe_set_wait(ring, sqe, (const uint64_t *)(uintptr_t)o->wait, o->wait_value);
	if (o->event)
		urccl_sqe_set_wait_event(ring, sqe, (void *)(uintptr_t)o->event);
	if (o->is_ready)
		urccl_sqe_set_ready(ring, sqe);
	if (o->signal)
		urccl_sqe_set_signal(ring, sqe, (uint64_t *)(uintptr_t)o->signal, o->signal_value);
}
