/* SPDX-License-Identifier: Apache-2.0 */
/* The module: its types, its hooks into Python, errors. */
#include "module.h"

/* ---- errors ---- */

static PyObject *set_exception(struct module *m, int err, const char *text, PyObject *why,
			       long segment, uint32_t path, uint32_t flags)
{
	PyObject *error;

	err = err < 0 ? -err : err;
	if (!m->error_hook)
		return PyErr_Format(PyExc_OSError, "[Errno %d] %s", err, text);
	if (why)
		error = PyObject_CallFunction(m->error_hook, "iOlII", err, why, segment, path,
					      flags);
	else
		error = PyObject_CallFunction(m->error_hook, "islII", err, text, segment, path,
					      flags);
	if (error)
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_XDECREF(error);
	return NULL;
}

PyObject *set_error(struct module *m, int err, const char *text)
{
	return set_exception(m, err, text, NULL, -1, 0, 0);
}

PyObject *set_last_error(struct module *m, int err)
{
	return set_error(m, err, urccl_errmsg());
}

PyObject *set_cqe_error(struct module *m, const struct urccl_cqe *cqe, PyObject *why)
{
	long segment = cqe->fail.segment == ~0u ? -1 : (long)cqe->fail.segment;

	return set_exception(m, (int)cqe->res, "the entry failed", why, segment, cqe->path,
			     cqe->flags);
}

/* ---- types ---- */

PyObject *type_alloc(PyTypeObject *type)
{
	return ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

struct module *module_state(PyTypeObject *type)
{
	for (; type; type = PyType_GetSlot(type, Py_tp_base)) {
		struct module *m = PyType_GetModuleState(type);

		if (m)
			return m;
		PyErr_Clear();
	}
	PyErr_SetString(PyExc_TypeError, "the type has no base of liburccl");
	return NULL;
}

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **type)
{
	*type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
	return *type ? PyModule_AddType(module, *type) : -1;
}

/* Ring's methods stand in three files. */
static int add_methods(PyTypeObject *type, PyMethodDef *methods)
{
	PyObject *descr;
	int rc = 0;

	for (; methods->ml_name && !rc; methods++) {
		descr = PyDescr_NewMethod(type, methods);
		rc = descr ? PyObject_SetAttrString((PyObject *)type, methods->ml_name, descr) : -1;
		Py_XDECREF(descr);
	}
	return rc;
}

/* ---- functions ---- */

static PyObject *set_hook(PyObject **hook, PyObject *value)
{
	Py_INCREF(value);
	Py_XDECREF(*hook);
	*hook = value;
	Py_RETURN_NONE;
}

static PyObject *module_set_hooks(PyObject *module, PyObject *args)
{
	struct module *m = PyModule_GetState(module);
	PyObject *error, *await, *wake, *done;

	if (!PyArg_ParseTuple(args, "OOO", &error, &await, &wake))
		return NULL;
	done = set_hook(&m->error_hook, error);
	Py_DECREF(done);
	done = set_hook(&m->await_hook, await);
	Py_DECREF(done);
	return set_hook(&m->wake_hook, wake);
}

static PyObject *module_forked(PyObject *module, PyObject *unused)
{
	(void)unused;
	module_after_fork(PyModule_GetState(module));
	Py_RETURN_NONE;
}

static PyObject *module_close_all(PyObject *module, PyObject *unused)
{
	struct module *m = PyModule_GetState(module);

	(void)unused;
	while (!link_alone(&m->contexts)) {
		Context *c = link_of(m->contexts.next, Context, link);

		if (c->forked) {
			link_del(&c->link);
			continue;
		}
		Py_INCREF((PyObject *)c);
		context_end(c);
		Py_DECREF((PyObject *)c);
	}
	Py_RETURN_NONE;
}

static PyObject *module_address_of(PyObject *module, PyObject *obj)
{
	struct span span;
	Py_buffer view;

	if (buffer_get(PyModule_GetState(module), obj, 0, &view, &span))
		return NULL;
	if (view.obj)
		PyBuffer_Release(&view);
	return Py_BuildValue("(KK)", (unsigned long long)span.addr, (unsigned long long)span.len);
}

static PyObject *module_version(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	return PyUnicode_FromString(urccl_version());
}

static PyMethodDef module_methods[] = {
	{"_set_hooks", module_set_hooks, METH_VARARGS, NULL},
	{"_forked", module_forked, METH_NOARGS, NULL},
	{"_close_all", module_close_all, METH_NOARGS, NULL},
	{"address_of", module_address_of, METH_O,
	 "address_of($module, buffer, /)\n--\n\n"
	 "(address, bytes) of a buffer or tensor. It must be kept alive while they are used."},
	{"version", module_version, METH_NOARGS,
	 "version($module, /)\n--\n\nThe version of the library that is linked in."},
	{0},
};

/* ---- the module itself ---- */

static int module_exec(PyObject *module)
{
	struct module *m = PyModule_GetState(module);

	link_init(&m->contexts);
	link_init(&m->memories);
	if (add_type(module, &context_spec, &m->context_type) ||
	    add_type(module, &ring_spec, &m->ring_type) ||
	    add_type(module, &op_spec, &m->op_type) ||
	    add_type(module, &region_spec, &m->region_type) ||
	    add_type(module, &remote_spec, &m->remote_type) ||
	    add_type(module, &memory_spec, &m->memory_type))
		return -1;
	return PyModule_AddFunctions(module, codec_methods) ||
			       add_methods(m->ring_type, prepare_methods) ||
			       add_methods(m->ring_type, prepare_peer_methods)
		       ? -1
		       : 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct module *m = PyModule_GetState(module);

	Py_VISIT((PyObject *)m->context_type);
	Py_VISIT((PyObject *)m->ring_type);
	Py_VISIT((PyObject *)m->op_type);
	Py_VISIT((PyObject *)m->region_type);
	Py_VISIT((PyObject *)m->remote_type);
	Py_VISIT((PyObject *)m->memory_type);
	Py_VISIT(m->error_hook);
	Py_VISIT(m->await_hook);
	Py_VISIT(m->wake_hook);
	return 0;
}

static int module_clear(PyObject *module)
{
	struct module *m = PyModule_GetState(module);

	Py_CLEAR(m->context_type);
	Py_CLEAR(m->ring_type);
	Py_CLEAR(m->op_type);
	Py_CLEAR(m->region_type);
	Py_CLEAR(m->remote_type);
	Py_CLEAR(m->memory_type);
	Py_CLEAR(m->error_hook);
	Py_CLEAR(m->await_hook);
	Py_CLEAR(m->wake_hook);
	return 0;
}

static struct PyModuleDef_Slot module_slots[] = {
	{Py_mod_exec, module_exec},
	{0, NULL},
};

static struct PyModuleDef module_def = {
	PyModuleDef_HEAD_INIT,
	.m_name = "liburccl._urccl",
	.m_doc = "The library's calls; use the package liburccl.",
	.m_size = sizeof(struct module),
	.m_methods = module_methods,
	.m_slots = module_slots,
	.m_traverse = module_traverse,
	.m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__urccl(void);

__attribute__((visibility("default"))) PyMODINIT_FUNC PyInit__urccl(void)
{
	return PyModuleDef_Init(&module_def);
}
