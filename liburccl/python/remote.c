/* SPDX-License-Identifier: Apache-2.0 */
/* Imported memory of a peer. */
#include "module.h"

PyObject *remote_new(Context *c, struct urccl_peer peer, struct urccl_remote remote)
{
	Remote *self = (Remote *)type_alloc(c->m->remote_type);

	if (!self)
		return NULL;
	self->m = c->m;
	self->context = (Context *)Py_NewRef((PyObject *)c);
	self->remote = remote;
	self->peer = peer;
	self->child.kind = CHILD_REMOTE;
	link_init(&self->child.link);
	link_add(&self->child.link, &c->children);
	return (PyObject *)self;
}

void remote_void(Remote *self)
{
	self->remote.id = 0;
	link_del(&self->child.link);
}

PyObject *context_import(PyObject *obj, PyObject *args)
{
	Context *self = (Context *)obj;
	struct urccl_remote remote = {0};
	struct urccl_advert *adverts;
	PyObject *list, *result = NULL;
	struct urccl_peer peer;
	struct urccl *ctx;
	uint32_t n;
	int rc;

	if (!PyArg_ParseTuple(args, "IO:import_", &peer.id, &list) ||
	    adverts_get(list, &adverts, &n))
		return NULL;
	ctx = context_enter(self);
	if (ctx) {
		Py_BEGIN_ALLOW_THREADS rc = urccl_import(ctx, peer, adverts, n, &remote);
		Py_END_ALLOW_THREADS context_leave(self);
		result = rc ? set_last_error(self->m, rc) : remote_new(self, peer, remote);
	}
	PyMem_Free(adverts);
	return result;
}

/* 0 or -errno. */
static int remote_end(Remote *self)
{
	struct urccl_remote remote = self->remote;
	struct urccl *ctx = remote.id ? context_enter(self->context) : NULL;
	int rc;

	if (!ctx) {
		PyErr_Clear();
		return 0;
	}
	remote_void(self);
	Py_BEGIN_ALLOW_THREADS rc = urccl_unimport(ctx, remote);
	Py_END_ALLOW_THREADS context_leave(self->context);
	return rc == -ESTALE ? 0 : rc;
}

static PyObject *remote_unimport(PyObject *obj, PyObject *unused)
{
	Remote *self = (Remote *)obj;
	int rc = remote_end(self);

	(void)unused;
	if (rc)
		return set_last_error(self->m, rc);
	Py_RETURN_NONE;
}

static void remote_drop(Remote *self)
{
	PyObject *type, *value, *trace;

	if (!self->remote.id || self->context->forked)
		return;
	PyErr_Fetch(&type, &value, &trace);
	remote_end(self);
	PyErr_Restore(type, value, trace);
}

static void remote_finalize(PyObject *obj)
{
	remote_drop((Remote *)obj);
}

static PyObject *remote_map(PyObject *obj, PyObject *unused)
{
	Remote *self = (Remote *)obj;
	struct urccl *ctx = context_enter(self->context);
	uint64_t addr;
	int rc;

	(void)unused;
	if (!ctx)
		return NULL;
	Py_BEGIN_ALLOW_THREADS rc = urccl_remote_map(ctx, self->remote, &addr);
	Py_END_ALLOW_THREADS context_leave(self->context);
	return rc ? set_last_error(self->m, rc) : PyLong_FromUnsignedLongLong(addr);
}

static PyObject *remote_unmap(PyObject *obj, PyObject *unused)
{
	Remote *self = (Remote *)obj;
	struct urccl *ctx = context_enter(self->context);
	int rc;

	(void)unused;
	if (!ctx)
		return NULL;
	Py_BEGIN_ALLOW_THREADS rc = urccl_remote_unmap(ctx, self->remote);
	Py_END_ALLOW_THREADS context_leave(self->context);
	if (rc)
		return set_last_error(self->m, rc);
	Py_RETURN_NONE;
}

static PyObject *remote_info(PyObject *obj, PyObject *unused)
{
	static const char *const enforced[] = {"unknown", "owner", "importer"};
	struct urccl_remote_info info = URCCL_INIT(urccl_remote_info);
	Remote *self = (Remote *)obj;
	struct urccl *ctx = context_enter(self->context);
	int rc;

	(void)unused;
	if (!ctx)
		return NULL;
	Py_BEGIN_ALLOW_THREADS rc = urccl_get_remote_info(ctx, self->remote, &info);
	Py_END_ALLOW_THREADS context_leave(self->context);
	if (rc)
		return set_last_error(self->m, rc);
	return Py_BuildValue("{sIsKsIsIss}", "nadverts", info.nadverts, "len",
			     (unsigned long long)info.len, "peer", info.peer.id, "rights",
			     info.rights, "enforced",
			     info.enforced < 3 ? enforced[info.enforced] : "unknown");
}

static PyObject *remote_enter(PyObject *obj, PyObject *unused)
{
	(void)unused;
	return Py_NewRef(obj);
}

static PyObject *remote_exit(PyObject *obj, PyObject *unused)
{
	(void)unused;
	return remote_unimport(obj, NULL);
}

static int remote_traverse(PyObject *obj, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(obj));
	Py_VISIT((PyObject *)((Remote *)obj)->context);
	return 0;
}

static void remote_dealloc(PyObject *obj)
{
	PyTypeObject *type = Py_TYPE(obj);
	Remote *self = (Remote *)obj;

	PyObject_GC_UnTrack(obj);
	remote_drop(self);
	link_del(&self->child.link);
	Py_CLEAR(self->context);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(obj);
	Py_DECREF(type);
}

static PyObject *remote_get_id(PyObject *obj, void *closure)
{
	(void)closure;
	return PyLong_FromUnsignedLong(((Remote *)obj)->remote.id);
}

static PyObject *remote_get_peer(PyObject *obj, void *closure)
{
	(void)closure;
	return PyLong_FromUnsignedLong(((Remote *)obj)->peer.id);
}

static PyMethodDef remote_methods[] = {
	{"unimport", remote_unimport, METH_NOARGS,
	 "unimport($self, /)\n--\n\nEnds the remote; entries on it that are unfinished are cancelled."},
	{"map", remote_map, METH_NOARGS,
	 "map($self, /)\n--\n\nThe address at which kernels reach memory of a GPU of this host, until "
	 "unmap().\nring.warm(peer) comes before it; see urccl_remote_map(3)."},
	{"unmap", remote_unmap, METH_NOARGS,
	 "unmap($self, /)\n--\n\nEnds map(); no kernel uses the address any more."},
	{"info", remote_info, METH_NOARGS,
	 "info($self, /)\n--\n\nA dict: nadverts, len in bytes, peer, rights, enforced."},
	{"__enter__", remote_enter, METH_NOARGS, NULL},
	{"__exit__", remote_exit, METH_VARARGS, NULL},
	{0},
};

static PyGetSetDef remote_getset[] = {
	{"id", remote_get_id, NULL, "The handle, 0 once ended.", NULL},
	{"peer", remote_get_peer, NULL, "The peer's handle.", NULL},
	{0},
};

static PyType_Slot remote_slots[] = {
	{Py_tp_doc,
	 "Memory of a peer, made by Context.import_() or Ring.import_(): one offset space\n"
	 "over its adverts. It ends by unimport(), the end of `with`, or with the object."},
	{Py_tp_dealloc, remote_dealloc},
	{Py_tp_finalize, remote_finalize},
	{Py_tp_traverse, remote_traverse},
	{Py_tp_methods, remote_methods},
	{Py_tp_getset, remote_getset},
	{0, NULL},
};

PyType_Spec remote_spec = {
	.name = "liburccl._urccl.Remote",
	.basicsize = sizeof(Remote),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
	.slots = remote_slots,
};
