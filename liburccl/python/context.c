/* SPDX-License-Identifier: Apache-2.0 */
/* Context: its life, and the calls that every thread may make. */
#include "module.h"
#include "log.h"

#include <string.h>

/* ---- calls without the GIL ---- */

struct urccl *context_get(Context *c)
{
	if (c->forked)
		return set_error(c->m, EPERM,
				 "the context belongs to the parent process: open one in the "
				 "forked child"),
		       NULL;
	if (!c->ctx)
		return set_error(c->m, ESTALE, "the context is closed"), NULL;
	return c->ctx;
}

struct urccl *context_enter(Context *c)
{
	struct urccl *ctx = context_get(c);

	if (!ctx)
		return NULL;
	if (pthread_rwlock_tryrdlock(&c->lock))
		return set_error(c->m, ESTALE, "the context is just closing"), NULL;
	return ctx;
}

void context_leave(Context *c)
{
	pthread_rwlock_unlock(&c->lock);
}

/* ---- opening ---- */

/* Texts that the params point to are kept alive in the list. */
static int set_text(Context *self, struct urccl_params *p, const char *name, PyObject *value,
		    PyObject *texts)
{
	PyObject *text;
	const char *utf8;
	int rc;

	if (value == Py_None)
		return 0;
	if (PyBool_Check(value))
		text = PyUnicode_FromString(value == Py_True ? "yes" : "no");
	else
		text = PyObject_Str(value);
	utf8 = text && !PyList_Append(texts, text) ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
	Py_XDECREF(text);
	if (!utf8)
		return -1;
	rc = urccl_params_set(p, name, utf8);
	if (rc)
		set_last_error(self->m, rc);
	return rc;
}

static int set_bytes(PyObject *value, const char *name, const void **at, uint32_t *len)
{
	char *bytes;
	Py_ssize_t size;

	if (PyBytes_AsStringAndSize(value, &bytes, &size))
		return -1;
	if (size > UINT16_MAX) {
		PyErr_Format(PyExc_ValueError, "%s is too long", name);
		return -1;
	}
	*at = bytes;
	*len = (uint32_t)size;
	return 0;
}

static int set_one(Context *self, struct urccl_params *p, PyObject *key, PyObject *value,
		   PyObject *texts)
{
	const char *name = PyUnicode_AsUTF8AndSize(key, NULL);

	if (!name)
		return -1;
	if (!strcmp(name, "hello"))
		return set_bytes(value, name, &p->hello, &p->hello_len);
	if (!strcmp(name, "secret"))
		return value == Py_None ? 0 : set_bytes(value, name, &p->secret, &p->secret_len);
	if (!strcmp(name, "log")) {
		self->log_callable = value == Py_None ? NULL : Py_NewRef(value);
		return 0;
	}
	return !strcmp(name, "env") ? 0 : set_text(self, p, name, value, texts);
}

static int set_all(Context *self, struct urccl_params *p, PyObject *kw, PyObject *texts)
{
	PyObject *env = kw ? PyDict_GetItemString(kw, "env") : NULL, *key, *value;
	Py_ssize_t at = 0;
	int rc = env ? PyObject_IsTrue(env) : 0;

	if (rc > 0) {
		rc = urccl_params_from_env(p);
		if (rc)
			set_last_error(self->m, rc);
	}
	while (!rc && kw && PyDict_Next(kw, &at, &key, &value))
		rc = set_one(self, p, key, value, texts);
	return rc;
}

static int open_with(Context *self, struct urccl_params *p)
{
	struct urccl *ctx;
	int rc;

	if (self->log_callable) {
		self->log = log_new();
		if (!self->log)
			return PyErr_NoMemory(), -1;
		log_set_callable(self->log, self->log_callable);
		p->log = log_line;
		p->log_arg = self->log;
	}
	Py_BEGIN_ALLOW_THREADS rc = urccl_open(p, &ctx);
	Py_END_ALLOW_THREADS if (rc) return set_last_error(self->m, rc), -1;
	self->ctx = ctx;
	self->spin_us = p->spin_us;
	link_add(&self->link, &self->m->contexts);
	return 0;
}

static int context_init(PyObject *obj, PyObject *args, PyObject *kw)
{
	struct urccl_params p = URCCL_INIT(urccl_params);
	Context *self = (Context *)obj;
	PyObject *texts;
	int rc;

	if (PyTuple_Size(args)) {
		PyErr_SetString(PyExc_TypeError, "settings are keyword arguments");
		return -1;
	}
	if (self->ctx || self->log_callable) {
		PyErr_SetString(PyExc_RuntimeError, "the context is open already");
		return -1;
	}
	texts = PyList_New(0);
	if (!texts)
		return -1;
	urccl_params_init(&p);
	rc = set_all(self, &p, kw, texts) ? -1 : open_with(self, &p);
	Py_DECREF(texts);
	return rc;
}

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	Context *self = (Context *)type_alloc(type);

	(void)args;
	(void)kw;
	if (!self)
		return NULL;
	link_init(&self->link);
	link_init(&self->children);
	pthread_rwlock_init(&self->lock, NULL);
	self->m = module_state(type);
	self->orphans = PyList_New(0);
	if (!self->m || !self->orphans) {
		Py_DECREF((PyObject *)self);
		return NULL;
	}
	return (PyObject *)self;
}

/* ---- closing ---- */

static Ring *some_ring(Context *c)
{
	struct link *l;

	for (l = c->children.next; l != &c->children; l = l->next)
		if (link_of(l, struct child, link)->kind == CHILD_RING)
			return link_of(l, Ring, child.link);
	return NULL;
}

/* The handles of what is left mean nothing any more; ends what they keep alive if quiet. */
static void children_void(Context *c)
{
	while (!link_alone(&c->children)) {
		struct child *child = link_of(c->children.next, struct child, link);

		if (child->kind == CHILD_REGION)
			region_void(link_of(child, Region, child));
		else
			remote_void(link_of(child, Remote, child));
	}
}

void context_end(Context *c)
{
	struct urccl *ctx;
	Ring *ring;

	if (c->forked)
		return;
	while ((ring = some_ring(c))) {
		Py_INCREF((PyObject *)ring);
		ring_end(ring);
		Py_DECREF((PyObject *)ring);
	}
	ctx = c->ctx;
	c->ctx = NULL;
	link_del(&c->link);
	if (!ctx)
		return;
	Py_BEGIN_ALLOW_THREADS pthread_rwlock_wrlock(&c->lock);
	urccl_close(ctx);
	pthread_rwlock_unlock(&c->lock);
	Py_END_ALLOW_THREADS children_void(c);
	PyList_SetSlice(c->orphans, 0, PyList_Size(c->orphans), NULL);
}

void module_after_fork(struct module *m)
{
	struct link *l, *r;

	for (l = m->contexts.next; l != &m->contexts; l = l->next) {
		Context *c = link_of(l, Context, link);

		c->forked = 1;
		for (r = c->children.next; r != &c->children; r = r->next)
			if (link_of(r, struct child, link)->kind == CHILD_RING)
				core_forget(&link_of(r, Ring, child.link)->core);
	}
}

static PyObject *context_close(PyObject *obj, PyObject *unused)
{
	Context *self = (Context *)obj;

	(void)unused;
	context_end(self);
	if (self->log && !self->forked)
		log_drain(self->log, self->log_callable);
	Py_RETURN_NONE;
}

static void context_finalize(PyObject *obj)
{
	PyObject *type, *value, *trace;
	Context *self = (Context *)obj;

	if (!self->ctx || self->forked)
		return;
	PyErr_Fetch(&type, &value, &trace);
	if (self->log)
		log_set_callable(self->log, NULL);
	if (PyErr_ResourceWarning(obj, 1, "unclosed %R: call close(), or use it with `with`", obj))
		PyErr_WriteUnraisable(obj);
	context_end(self);
	PyErr_Restore(type, value, trace);
}

static int context_traverse(PyObject *obj, visitproc visit, void *arg)
{
	Context *self = (Context *)obj;

	Py_VISIT(Py_TYPE(obj));
	Py_VISIT(self->log_callable);
	Py_VISIT(self->orphans);
	return 0;
}

static int context_clear(PyObject *obj)
{
	Context *self = (Context *)obj;

	if (self->log)
		log_set_callable(self->log, NULL);
	Py_CLEAR(self->log_callable);
	return 0;
}

static void context_dealloc(PyObject *obj)
{
	Context *self = (Context *)obj;
	PyTypeObject *type = Py_TYPE(obj);

	PyObject_GC_UnTrack(obj);
	context_end(self); /* nothing to do for a subclass: its tp_finalize was called */
	link_del(&self->link);
	context_clear(obj);
	if (!self->forked) {
		log_free(self->log);
		Py_CLEAR(self->orphans);
		pthread_rwlock_destroy(&self->lock);
	}
	((freefunc)PyType_GetSlot(type, Py_tp_free))(obj);
	Py_DECREF(type);
}

/* ---- metadata and inspection: inspect.c has the rest ---- */

static PyObject *context_get_closed(PyObject *obj, void *closure)
{
	(void)closure;
	return PyBool_FromLong(!((Context *)obj)->ctx);
}

static PyObject *context_alloc(PyObject *obj, PyObject *arg)
{
	uint64_t len;

	if (number_get(arg, PY_SSIZE_T_MAX, "bytes", &len) || !context_get((Context *)obj))
		return NULL;
	return memory_new(((Context *)obj)->m, (size_t)len);
}

static PyMethodDef context_methods[] = {
	{"close", context_close, METH_NOARGS,
	 "close($self, /)\n--\n\n"
	 "Ends all rings, regions and remotes, and the connections. Waits at most 2 s."},
	{"alloc", context_alloc, METH_O,
	 "alloc($self, bytes, /)\n--\n\n"
	 "Memory that peers of this host can map, zeroed; register() it before it is used."},
	{"register", (PyCFunction)(void (*)(void))context_register, METH_VARARGS | METH_KEYWORDS,
	 "register($self, /, buffers, rights='rw', prefault=False)\n--\n\n"
	 "A Region of one buffer or a list of them: one offset space in their order. rights: letters\n"
	 "of \"rwa\" (read, write, atomic) that adverts may give; \"\": none. Entries move registered\n"
	 "memory only. A buffer is an object with the buffer protocol, a tensor in host memory, or\n"
	 "(address, bytes)."},
	{"import_", context_import, METH_VARARGS,
	 "import_($self, peer, adverts, /)\n--\n\n"
	 "A Remote of one advert (64 bytes) of the peer, or of a sequence of them."},
	{"get_peer_info", context_peer_info, METH_O,
	 "get_peer_info($self, peer, /)\n--\n\n"
	 "A dict: transport, incarnation, state, hello, address, warm."},
	{"stats", context_stats, METH_NOARGS,
	 "stats($self, /)\n--\n\nA dict of counters since the context was opened."},
	{"devices", context_devices, METH_NOARGS,
	 "devices($self, /)\n--\n\n"
	 "A list of dicts: name, transport, state, error, reason. Those in use come first."},
	{"plan", context_plan, METH_VARARGS,
	 "plan($self, peer=0, /)\n--\n\nA text: which route data takes to the peer (0: to any)."},
	{"measure", context_measure, METH_O,
	 "measure($self, peer, /)\n--\n\n"
	 "Measures round trips and bandwidth to a connected peer. A dict: times in ns, bytes."},
	{"dump", context_dump, METH_O,
	 "dump($self, file, /)\n--\n\n"
	 "Writes the state of engines, rings and peers to a file or descriptor as text."},
	{0},
};

static PyGetSetDef context_getset[] = {
	{"metadata", context_metadata, NULL, "Bytes that say how to dial this context.", NULL},
	{"listening", context_listening, NULL,
	 "A tuple of the addresses that it listens on: \"10.0.0.1:7777\".", NULL},
	{"closed", context_get_closed, NULL, "True once close() began.", NULL},
	{0},
};

static PyType_Slot context_slots[] = {
	{Py_tp_new, context_new},
	{Py_tp_init, context_init},
	{Py_tp_dealloc, context_dealloc},
	{Py_tp_finalize, context_finalize},
	{Py_tp_traverse, context_traverse},
	{Py_tp_clear, context_clear},
	{Py_tp_methods, context_methods},
	{Py_tp_getset, context_getset},
	{0, NULL},
};

PyType_Spec context_spec = {
	.name = "liburccl._urccl.Context",
	.basicsize = sizeof(Context),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
	.slots = context_slots,
};
