/* SPDX-License-Identifier: Apache-2.0 */
/* Context: what it tells of itself. */
#include "module.h"

#include <stdio.h>

static const char *const transports[] = {"none", "sim",	   "shm", "tcp",  "ib",	 "efa",
					 "cxi",	 "fabric", "ipc", "nccl", "tcpx"};

static const char *transport_text(uint32_t transport)
{
	return transport < sizeof(transports) / sizeof(transports[0]) ? transports[transport] : "?";
}

PyObject *transports_text(uint32_t bits)
{
	PyObject *list = PyList_New(0), *name;
	uint32_t i;
	int rc = list ? 0 : -1;

	for (i = 0; i < 32 && !rc; i++) {
		name = bits >> i & 1 ? PyUnicode_FromString(transport_text(i)) : NULL;
		rc = PyErr_Occurred() || (name && PyList_Append(list, name)) ? -1 : 0;
		Py_XDECREF(name);
	}
	if (rc)
		Py_CLEAR(list);
	return list;
}

PyObject *context_metadata(PyObject *obj, void *closure)
{
	Context *self = (Context *)obj;
	uint8_t blob[URCCL_METADATA_MAX];
	struct urccl *ctx = context_enter(self);
	int len;

	(void)closure;
	if (!ctx)
		return NULL;
	Py_BEGIN_ALLOW_THREADS len = urccl_metadata(ctx, blob, sizeof(blob));
	Py_END_ALLOW_THREADS context_leave(self);
	if (len < 0)
		return set_last_error(self->m, len);
	return PyBytes_FromStringAndSize((const char *)blob, len);
}

PyObject *context_listening(PyObject *obj, void *closure)
{
	PyObject *list = PyList_New(0), *tuple, *text;
	Context *self = (Context *)obj;
	struct urccl *ctx = list ? context_enter(self) : NULL;
	char address[64];
	uint32_t i;

	(void)closure;
	for (i = 0; ctx && urccl_listening(ctx, i, address, sizeof(address)) >= 0; i++) {
		text = PyUnicode_FromString(address);
		if (!text || PyList_Append(list, text))
			PyErr_Clear();
		Py_XDECREF(text);
	}
	if (ctx)
		context_leave(self);
	tuple = ctx ? PyList_AsTuple(list) : NULL;
	Py_XDECREF(list);
	return tuple;
}

PyObject *context_peer_info(PyObject *obj, PyObject *arg)
{
	static const char *const states[] = {"?", "connecting", "up", "lost"};
	struct urccl_peer_info info = URCCL_INIT(urccl_peer_info);
	Context *self = (Context *)obj;
	struct urccl *ctx;
	uint64_t id;
	int rc;

	if (number_get(arg, UINT32_MAX, "peer", &id))
		return NULL;
	ctx = context_enter(self);
	if (!ctx)
		return NULL;
	Py_BEGIN_ALLOW_THREADS rc =
		urccl_get_peer_info(ctx, (struct urccl_peer){(uint32_t)id}, &info);
	Py_END_ALLOW_THREADS context_leave(self);
	if (rc)
		return set_last_error(self->m, rc);
	return Py_BuildValue("{sssKsssy#sssO}", "transport", transport_text(info.transport),
			     "incarnation", (unsigned long long)info.incarnation, "state",
			     states[info.state <= URCCL_PEER_LOST ? info.state : 0], "hello",
			     (const char *)info.hello, (Py_ssize_t)info.hello_len, "address",
			     info.address, "warm", info.warm ? Py_True : Py_False);
}

PyObject *context_stats(PyObject *obj, PyObject *unused)
{
	struct urccl_stats s = URCCL_INIT(urccl_stats);
	Context *self = (Context *)obj;
	struct urccl *ctx = context_enter(self);
	int rc;

	(void)unused;
	if (!ctx)
		return NULL;
	rc = urccl_get_stats(ctx, &s);
	context_leave(self);
	if (rc)
		return set_last_error(self->m, rc);
	return Py_BuildValue("{sKsKsKsKsKsKsKsKsKsKsKsKsKsKsK}", "submitted",
			     (unsigned long long)s.submitted, "completed",
			     (unsigned long long)s.completed, "failed",
			     (unsigned long long)s.failed, "cancelled",
			     (unsigned long long)s.cancelled, "timed_out",
			     (unsigned long long)s.timed_out, "bytes_read",
			     (unsigned long long)s.bytes_read, "bytes_written",
			     (unsigned long long)s.bytes_written, "chunks",
			     (unsigned long long)s.chunks, "merged", (unsigned long long)s.merged,
			     "notes_sent", (unsigned long long)s.notes_sent, "notes_received",
			     (unsigned long long)s.notes_received, "turns",
			     (unsigned long long)s.turns, "sleeps", (unsigned long long)s.sleeps,
			     "wakes", (unsigned long long)s.wakes, "slow_turns",
			     (unsigned long long)s.slow_turns);
}

PyObject *context_devices(PyObject *obj, PyObject *unused)
{
	static const char *const states[] = {"?", "open", "failed", "not asked", "not carried"};
	Context *self = (Context *)obj;
	struct urccl *ctx = context_enter(self);
	PyObject *list = ctx ? PyList_New(0) : NULL, *entry;
	struct urccl_device d = URCCL_INIT(urccl_device);
	uint32_t i;

	(void)unused;
	for (i = 0; list && !urccl_devices(ctx, i, &d); i++) {
		entry = Py_BuildValue("{sssssssiss}", "name", d.name, "transport",
				      transport_text(d.transport), "state",
				      states[d.state <= URCCL_DEVICE_NOT_CARRIED ? d.state : 0],
				      "error", d.error, "reason", d.reason);
		if (!entry || PyList_Append(list, entry))
			Py_CLEAR(list);
		Py_XDECREF(entry);
	}
	if (ctx)
		context_leave(self);
	return list;
}

PyObject *context_plan(PyObject *obj, PyObject *args)
{
	Context *self = (Context *)obj;
	struct urccl_peer peer = {0};
	char text[8192];
	struct urccl *ctx;
	int len;

	if (!PyArg_ParseTuple(args, "|I:plan", &peer.id))
		return NULL;
	ctx = context_enter(self);
	if (!ctx)
		return NULL;
	Py_BEGIN_ALLOW_THREADS len =
		urccl_plan(ctx, peer, (struct urccl_region){0}, text, sizeof(text));
	Py_END_ALLOW_THREADS context_leave(self);
	return len < 0 ? set_last_error(self->m, len) : PyUnicode_FromString(text);
}

PyObject *context_measure(PyObject *obj, PyObject *arg)
{
	struct urccl_measurement m = URCCL_INIT(urccl_measurement);
	Context *self = (Context *)obj;
	struct urccl *ctx;
	uint64_t id;
	int rc;

	if (number_get(arg, UINT32_MAX, "peer", &id))
		return NULL;
	ctx = context_enter(self);
	if (!ctx)
		return NULL;
	Py_BEGIN_ALLOW_THREADS rc = urccl_measure(ctx, (struct urccl_peer){(uint32_t)id}, NULL, &m);
	Py_END_ALLOW_THREADS context_leave(self);
	if (rc)
		return set_last_error(self->m, rc);
	return Py_BuildValue("{sssOsIsKsKsKsKsKsK}", "transport",
			     transport_text(m.path & URCCL_PATH_TRANSPORT), "mapped",
			     m.mapped ? Py_True : Py_False, "exchanges", m.exchanges, "rtt_min_ns",
			     (unsigned long long)m.rtt_min_ns, "rtt_median_ns",
			     (unsigned long long)m.rtt_median_ns, "written",
			     (unsigned long long)m.written, "write_ns",
			     (unsigned long long)m.write_ns, "read", (unsigned long long)m.read,
			     "read_ns", (unsigned long long)m.read_ns);
}

PyObject *context_dump(PyObject *obj, PyObject *arg)
{
	Context *self = (Context *)obj;
	int fd = PyObject_AsFileDescriptor(arg), rc;
	struct urccl *ctx = fd < 0 ? NULL : context_enter(self);

	if (!ctx)
		return NULL;
	Py_BEGIN_ALLOW_THREADS rc = urccl_dump(ctx, fd);
	Py_END_ALLOW_THREADS context_leave(self);
	if (rc)
		return set_last_error(self->m, rc);
	Py_RETURN_NONE;
}
