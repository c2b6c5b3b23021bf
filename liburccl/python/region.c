/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory of this process and imported memory of a peer. */
#include "module.h"

/* ---- Region ---- */

PyObject *region_new(Context *c, struct urccl_region region, PyObject *keep, uint64_t len)
{
	Region *self = (Region *)type_alloc(c->m->region_type);

	if (!self)
		return NULL;
	self->m = c->m;
	self->context = (Context *)Py_NewRef((PyObject *)c);
	self->region = region;
	self->keep = Py_XNewRef(keep);
	self->len = len;
	self->child.kind = CHILD_REGION;
	link_init(&self->child.link);
	link_add(&self->child.link, &c->children);
	return (PyObject *)self;
}

void region_void(Region *self)
{
	self->region.id = 0;
	link_del(&self->child.link);
	Py_CLEAR(self->keep);
}

PyObject *context_register(PyObject *obj, PyObject *args, PyObject *kw)
{
	static char *names[] = {"buffers", "rights", "prefault", NULL};
	PyObject *buffers, *rights_text = NULL, *keep, *result = NULL;
	Context *self = (Context *)obj;
	uint32_t rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE, n;
	struct urccl_region region = {0};
	struct urccl_range *ranges;
	struct urccl *ctx;
	int prefault = 0, rc;
	uint64_t len;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "O|Op:register", names, &buffers, &rights_text,
					 &prefault) ||
	    (rights_text && rights_get(rights_text, &rights)))
		return NULL;
	keep = PyList_New(0);
	if (!keep)
		return NULL;
	if (ranges_get(self->m, buffers, rights, keep, &ranges, &n, &len)) {
		Py_DECREF(keep);
		return NULL;
	}
	rights |= prefault ? URCCL_REG_PREFAULT : 0;
	ctx = context_enter(self);
	if (ctx) {
		Py_BEGIN_ALLOW_THREADS rc = urccl_register(ctx, ranges, n, rights, &region);
		Py_END_ALLOW_THREADS context_leave(self);
		result = rc ? set_last_error(self->m, rc) : region_new(self, region, keep, len);
	}
	PyMem_Free(ranges);
	Py_DECREF(keep);
	return result;
}

/* 0 or -errno; -ESTALE where there is nothing to do. */
static int region_end(Region *self)
{
	struct urccl_region region = self->region;
	struct urccl *ctx;
	int rc;

	if (!region.id)
		return -ESTALE;
	ctx = context_enter(self->context);
	if (!ctx) {
		PyErr_Clear();
		return -ESTALE;
	}
	self->region.id = 0;
	Py_BEGIN_ALLOW_THREADS rc = urccl_unregister(ctx, region);
	Py_END_ALLOW_THREADS context_leave(self->context);
	if (!rc || rc == -ESTALE)
		region_void(self);
	else
		self->region = region;
	return rc;
}

static PyObject *region_unregister(PyObject *obj, PyObject *unused)
{
	Region *self = (Region *)obj;
	int rc = region_end(self);

	(void)unused;
	if (rc && rc != -ESTALE)
		return set_last_error(self->m, rc);
	Py_RETURN_NONE;
}

/* Memory that the library may still touch stays alive until the context ends. */
static void region_drop(Region *self)
{
	PyObject *type, *value, *trace;

	if (!self->region.id || self->context->forked)
		return;
	PyErr_Fetch(&type, &value, &trace);
	region_end(self);
	if (self->region.id && PyList_Append(self->context->orphans, self->keep))
		Py_INCREF(self->keep);
	self->region.id = 0;
	PyErr_Restore(type, value, trace);
}

static void region_finalize(PyObject *obj)
{
	region_drop((Region *)obj);
}

static PyObject *region_revoke(PyObject *obj, PyObject *unused)
{
	Region *self = (Region *)obj;
	struct urccl *ctx = context_enter(self->context);
	int rc;

	(void)unused;
	if (!ctx)
		return NULL;
	Py_BEGIN_ALLOW_THREADS rc = urccl_revoke(ctx, self->region);
	Py_END_ALLOW_THREADS context_leave(self->context);
	if (rc)
		return set_last_error(self->m, rc);
	Py_RETURN_NONE;
}

static PyObject *region_advertise(PyObject *obj, PyObject *args, PyObject *kw)
{
	static char *names[] = {"off", "len", "rights", "ttl", NULL};
	PyObject *len_obj = Py_None, *rights_obj = NULL, *ttl_obj = Py_None;
	unsigned long long off = 0;
	Region *self = (Region *)obj;
	struct urccl_advert advert;
	uint32_t rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;
	uint64_t len, ttl = 0;
	struct urccl *ctx;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|KOOO:advertise", names, &off, &len_obj,
					 &rights_obj, &ttl_obj) ||
	    (rights_obj && rights_get(rights_obj, &rights)))
		return NULL;
	len = off < self->len ? self->len - off : 0;
	if (len_obj != Py_None && number_get(len_obj, UINT64_MAX, "len", &len))
		return NULL;
	if (ttl_obj != Py_None && timeout_get(ttl_obj, &ttl))
		return NULL;
	ctx = context_enter(self->context);
	if (!ctx)
		return NULL;
	Py_BEGIN_ALLOW_THREADS rc = urccl_advertise(ctx, self->region, off, len, rights,
						    (ttl + 999999) / 1000000, &advert);
	Py_END_ALLOW_THREADS context_leave(self->context);
	if (rc)
		return set_last_error(self->m, rc);
	return PyBytes_FromStringAndSize((const char *)&advert, sizeof(advert));
}

static PyObject *region_info(PyObject *obj, PyObject *unused)
{
	struct urccl_region_info info = URCCL_INIT(urccl_region_info);
	Region *self = (Region *)obj;
	struct urccl *ctx = context_enter(self->context);
	PyObject *device;
	int rc;

	(void)unused;
	if (!ctx)
		return NULL;
	Py_BEGIN_ALLOW_THREADS rc = urccl_get_region_info(ctx, self->region, &info);
	Py_END_ALLOW_THREADS context_leave(self->context);
	if (rc)
		return set_last_error(self->m, rc);
	device = info.device ? PyLong_FromLong((long)info.device - 1) : Py_NewRef(Py_None);
	return Py_BuildValue("{sIsKsIsOsNsN}", "nranges", info.nranges, "len",
			     (unsigned long long)info.len, "rights", info.rights, "mappable",
			     info.mappable ? Py_True : Py_False, "device", device, "staged",
			     transports_text(info.staged));
}

static PyObject *region_enter(PyObject *obj, PyObject *unused)
{
	(void)unused;
	return Py_NewRef(obj);
}

static PyObject *region_exit(PyObject *obj, PyObject *unused)
{
	(void)unused;
	return region_unregister(obj, NULL);
}

static int region_traverse(PyObject *obj, visitproc visit, void *arg)
{
	Region *self = (Region *)obj;

	Py_VISIT(Py_TYPE(obj));
	Py_VISIT((PyObject *)self->context);
	Py_VISIT(self->keep);
	return 0;
}

static void region_dealloc(PyObject *obj)
{
	Region *self = (Region *)obj;
	PyTypeObject *type = Py_TYPE(obj);

	PyObject_GC_UnTrack(obj);
	region_drop(self);
	link_del(&self->child.link);
	if (!self->context->forked)
		Py_CLEAR(self->keep);
	Py_CLEAR(self->context);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(obj);
	Py_DECREF(type);
}

static PyObject *region_get_id(PyObject *obj, void *closure)
{
	(void)closure;
	return PyLong_FromUnsignedLong(((Region *)obj)->region.id);
}

static Py_ssize_t region_length(PyObject *obj)
{
	return (Py_ssize_t)((Region *)obj)->len;
}

static PyMethodDef region_methods[] = {
	{"advertise", (PyCFunction)(void (*)(void))region_advertise, METH_VARARGS | METH_KEYWORDS,
	 "advertise($self, /, off=0, len=None, rights='rw', ttl=None)\n--\n\n"
	 "64 bytes that let a peer use len bytes at off (None: to the end) with these rights, for ttl\n"
	 "seconds (None: for as long as the region lives)."},
	{"revoke", region_revoke, METH_NOARGS,
	 "revoke($self, /)\n--\n\n"
	 "Ends every advert of the region. Waits at most 2 s for transfers (TimeoutError)."},
	{"unregister", region_unregister, METH_NOARGS,
	 "unregister($self, /)\n--\n\n"
	 "Takes the memory back. Waits at most 2 s for transfers (TimeoutError: still registered)."},
	{"info", region_info, METH_NOARGS,
	 "info($self, /)\n--\n\n"
	 "A dict: nranges, len in bytes, rights, mappable (peers of this host write without our CPU),\n"
	 "device (the number of the GPU that has its first range, or None) and staged (a list of the\n"
	 "transports whose entries on it go through pinned memory of the library)."},
	{"__enter__", region_enter, METH_NOARGS, NULL},
	{"__exit__", region_exit, METH_VARARGS, NULL},
	{0},
};

static PyGetSetDef region_getset[] = {
	{"id", region_get_id, NULL, "The handle, 0 once unregistered.", NULL},
	{0},
};

static PyType_Slot region_slots[] = {
	{Py_tp_doc,
	 "Registered memory, made by Context.register() or Ring.register().\n\n"
	 "It pins its buffers until unregister(), the end of `with`, or the context's end."},
	{Py_tp_dealloc, region_dealloc},
	{Py_tp_finalize, region_finalize},
	{Py_tp_traverse, region_traverse},
	{Py_tp_methods, region_methods},
	{Py_tp_getset, region_getset},
	{Py_mp_length, region_length},
	{0, NULL},
};

PyType_Spec region_spec = {
	.name = "liburccl._urccl.Region",
	.basicsize = sizeof(Region),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
	.slots = region_slots,
};
