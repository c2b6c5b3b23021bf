/* SPDX-License-Identifier: Apache-2.0 */
/* The extension module liburccl._ep: the calls of <liburccl/ep.h> on addresses, and memory for a
 * window. liburccl.ep is its one user and checks tensors. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <errno.h>
#include <liburccl/ep.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct module {
	PyTypeObject *group_type;
	PyObject *make_error; /* (errno, text) -> liburccl.Error */
};

typedef struct {
	PyObject_HEAD struct module *m;
	struct urccl_ep *ep; /* NULL: closed */
	uint32_t local;	     /* experts of this rank */
	bool busy;	     /* a thread is in a call, without the GIL */
} Group;

/* Takes the reference to text. */
static PyObject *set_error_text(struct module *m, int err, PyObject *text)
{
	PyObject *error = PyObject_CallFunction(m->make_error, "iN", -err, text);

	if (error)
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_XDECREF(error);
	return NULL;
}

static PyObject *set_error(struct module *m, int err, const char *text)
{
	return set_error_text(m, err, PyUnicode_FromString(text));
}

static PyObject *set_last_error(struct module *m, int err)
{
	return set_error(m, err, urccl_ep_errmsg());
}

/* ---- keyword arguments into structs ---------------------------------------------------------- */

struct field {
	const char *name;
	size_t offset, size; /* size 4: uint32_t; 8: an address or uint64_t */
};

#define FIELD(type, member)                                                                \
	{                                                                                  \
#member, offsetof(struct type, member), sizeof(((struct type *)0)->member) \
	}

static const struct field attr_fields[] = {
	FIELD(urccl_ep_attr, rank),	     FIELD(urccl_ep_attr, ranks),
	FIELD(urccl_ep_attr, experts),	     FIELD(urccl_ep_attr, topk),
	FIELD(urccl_ep_attr, max_tokens),    FIELD(urccl_ep_attr, max_recv_tokens),
	FIELD(urccl_ep_attr, max_row_bytes), FIELD(urccl_ep_attr, max_scale_words),
	FIELD(urccl_ep_attr, ll_max_tokens), FIELD(urccl_ep_attr, ll_hidden),
	FIELD(urccl_ep_attr, timeout_ms),    {NULL, 0, 0},
};

static const struct field dispatch_fields[] = {
	FIELD(urccl_ep_dispatch, flags),
	FIELD(urccl_ep_dispatch, tokens),
	FIELD(urccl_ep_dispatch, topk),
	FIELD(urccl_ep_dispatch, row_bytes),
	FIELD(urccl_ep_dispatch, scale_words),
	FIELD(urccl_ep_dispatch, x),
	FIELD(urccl_ep_dispatch, scales),
	FIELD(urccl_ep_dispatch, scale_row_stride),
	FIELD(urccl_ep_dispatch, scale_word_stride),
	FIELD(urccl_ep_dispatch, topk_idx),
	FIELD(urccl_ep_dispatch, topk_weights),
	FIELD(urccl_ep_dispatch, in_rank),
	FIELD(urccl_ep_dispatch, per_expert),
	FIELD(urccl_ep_dispatch, expert_alignment),
	FIELD(urccl_ep_dispatch, worst_tokens),
	FIELD(urccl_ep_dispatch, sms),
	FIELD(urccl_ep_dispatch, rank_prefix),
	FIELD(urccl_ep_dispatch, recv_x),
	FIELD(urccl_ep_dispatch, recv_scales),
	FIELD(urccl_ep_dispatch, recv_topk_idx),
	FIELD(urccl_ep_dispatch, recv_topk_weights),
	FIELD(urccl_ep_dispatch, recv_src_idx),
	{NULL, 0, 0},
};

static const struct field combine_fields[] = {
	FIELD(urccl_ep_combine, hidden),
	FIELD(urccl_ep_combine, topk),
	FIELD(urccl_ep_combine, x),
	FIELD(urccl_ep_combine, topk_weights),
	{"bias_0", offsetof(struct urccl_ep_combine, bias), sizeof(void *)},
	{"bias_1", offsetof(struct urccl_ep_combine, bias) + sizeof(void *), sizeof(void *)},
	FIELD(urccl_ep_combine, out),
	FIELD(urccl_ep_combine, out_topk_weights),
	FIELD(urccl_ep_combine, sms),
	{NULL, 0, 0},
};

static const struct field ll_dispatch_fields[] = {
	FIELD(urccl_ep_ll_dispatch, flags),
	FIELD(urccl_ep_ll_dispatch, tokens),
	FIELD(urccl_ep_ll_dispatch, topk),
	FIELD(urccl_ep_ll_dispatch, hidden),
	FIELD(urccl_ep_ll_dispatch, x),
	FIELD(urccl_ep_ll_dispatch, topk_idx),
	FIELD(urccl_ep_ll_dispatch, recv_x),
	FIELD(urccl_ep_ll_dispatch, recv_scales),
	FIELD(urccl_ep_ll_dispatch, recv_count),
	FIELD(urccl_ep_ll_dispatch, src_idx),
	FIELD(urccl_ep_ll_dispatch, layout_range),
	{NULL, 0, 0},
};

static const struct field ll_combine_fields[] = {
	FIELD(urccl_ep_ll_combine, flags), FIELD(urccl_ep_ll_combine, tokens),
	FIELD(urccl_ep_ll_combine, topk),  FIELD(urccl_ep_ll_combine, hidden),
	FIELD(urccl_ep_ll_combine, x),	   FIELD(urccl_ep_ll_combine, topk_weights),
	FIELD(urccl_ep_ll_combine, out),   {NULL, 0, 0},
};

/* The field of that name: from "first" on, else from the start. NULL: there is none. */
static const struct field *field_find(const struct field *fields, const struct field *first,
				      PyObject *name)
{
	for (const struct field *f = first; f->name; f++)
		if (!PyUnicode_CompareWithASCIIString(name, f->name))
			return f;
	return first == fields ? NULL : field_find(fields, fields, name);
}

/* Returns 0, or -1 with an exception. The struct has been zeroed. */
static int struct_fill(void *base, const struct field *fields, PyObject *kwargs)
{
	const struct field *f, *next = fields;
	PyObject *key, *value;
	Py_ssize_t at = 0;

	while (kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
		unsigned long long number;

		f = field_find(fields, next, key);
		if (!f) {
			PyErr_Format(PyExc_TypeError, "unexpected argument %R", key);
			return -1;
		}
		number = PyLong_AsUnsignedLongLong(value);
		if (PyErr_Occurred())
			return -1;
		if (f->size == sizeof(uint32_t) && number > UINT32_MAX) {
			PyErr_Format(PyExc_OverflowError, "%s has 32 bits", f->name);
			return -1;
		}
		if (f->size == sizeof(uint32_t))
			*(uint32_t *)((char *)base + f->offset) = (uint32_t)number;
		else
			*(uint64_t *)((char *)base + f->offset) = number;
		next = f + 1;
	}
	return 0;
}

static void *pointer(unsigned long long address)
{
	return (void *)(uintptr_t)address;
}

/* ---- Group ----------------------------------------------------------------------------------- */

/* Takes the group for a call; false with an exception: closed, or another thread is in a call. */
static bool group_enter(Group *g)
{
	if (g->ep && !g->busy)
		return g->busy = true;
	set_error(g->m, g->ep ? -EBUSY : -ESHUTDOWN,
		  g->ep ? "another thread uses the group" : "the group is closed");
	return false;
}

static PyObject *group_leave(Group *g, int err)
{
	g->busy = false;
	if (err)
		return set_last_error(g->m, err);
	Py_RETURN_NONE;
}

static int read_windows(PyObject *list, struct urccl_ep_attr *attr, void **windows)
{
	if (!PyList_Check(list) || PyList_Size(list) != (Py_ssize_t)attr->ranks ||
	    attr->ranks > URCCL_EP_MAX_RANKS) {
		PyErr_SetString(PyExc_ValueError, "windows is no list of an address for each rank");
		return -1;
	}
	for (uint32_t r = 0; r < attr->ranks; r++) {
		windows[r] = pointer(PyLong_AsUnsignedLongLong(PyList_GetItem(list, r)));
		if (PyErr_Occurred())
			return -1;
	}
	attr->windows = windows;
	return 0;
}

static PyObject *group_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct urccl_ep_attr attr = {.size = sizeof(attr)};
	void *windows[URCCL_EP_MAX_RANKS];
	struct module *m = PyType_GetModuleState(type);
	PyObject *list;
	Group *g;
	int err;

	if (!m || !PyArg_ParseTuple(args, "O", &list) || struct_fill(&attr, attr_fields, kwargs) ||
	    read_windows(list, &attr, windows))
		return NULL;
	g = (Group *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
	if (!g)
		return NULL;
	g->m = m;
	g->local = attr.ranks ? attr.experts / attr.ranks : 0;
	Py_BEGIN_ALLOW_THREADS err = urccl_ep_create(&attr, &g->ep);
	Py_END_ALLOW_THREADS if (err)
	{
		set_last_error(m, err);
		Py_DECREF((PyObject *)g);
		return NULL;
	}
	return (PyObject *)g;
}

static PyObject *group_close(Group *g, PyObject *unused)
{
	struct urccl_ep *ep = g->ep;

	(void)unused;
	if (!ep)
		Py_RETURN_NONE;
	if (!group_enter(g))
		return NULL;
	g->ep = NULL;
	g->busy = false;
	Py_BEGIN_ALLOW_THREADS urccl_ep_destroy(ep);
	Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static void group_dealloc(Group *g)
{
	PyTypeObject *type = Py_TYPE((PyObject *)g);

	urccl_ep_destroy(g->ep);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(g);
	Py_DECREF((PyObject *)type);
}

static PyObject *group_layout(Group *g, PyObject *args)
{
	unsigned long long idx, per_rank, per_expert, in_rank, stream;
	unsigned tokens, topk, flags;
	int err;

	if (!PyArg_ParseTuple(args, "KIIIKKKK", &idx, &tokens, &topk, &flags, &per_rank,
			      &per_expert, &in_rank, &stream) ||
	    !group_enter(g))
		return NULL;
	Py_BEGIN_ALLOW_THREADS err =
		urccl_ep_layout(g->ep, pointer(idx), tokens, topk, flags, pointer(per_rank),
				pointer(per_expert), pointer(in_rank), pointer(stream));
	Py_END_ALLOW_THREADS return group_leave(g, err);
}

static PyObject *group_dispatch(Group *g, PyObject *args, PyObject *kwargs)
{
	struct urccl_ep_dispatch a = {.size = sizeof(a)};
	struct urccl_ep_handle handle = {.size = sizeof(handle)};
	unsigned long long stream;
	int err;

	if (!PyArg_ParseTuple(args, "KK", &handle.memory, &stream) ||
	    struct_fill(&a, dispatch_fields, kwargs) || !group_enter(g))
		return NULL;
	handle.tokens = a.tokens;
	Py_BEGIN_ALLOW_THREADS err = urccl_ep_dispatch(g->ep, &a, &handle, pointer(stream));
	Py_END_ALLOW_THREADS if (err) return group_leave(g, err);
	g->busy = false;
	return PyLong_FromUnsignedLong(handle.call);
}

static PyObject *group_copy_results(Group *g, PyObject *args, PyObject *kwargs)
{
	struct urccl_ep_dispatch a = {.size = sizeof(a)};
	struct urccl_ep_handle handle = {.size = sizeof(handle)};
	unsigned long long stream;
	int err;

	if (!PyArg_ParseTuple(args, "KK", &handle.memory, &stream) ||
	    struct_fill(&a, dispatch_fields, kwargs) || !group_enter(g))
		return NULL;
	Py_BEGIN_ALLOW_THREADS err = urccl_ep_copy_results(g->ep, &a, &handle, pointer(stream));
	Py_END_ALLOW_THREADS return group_leave(g, err);
}

static PyObject *group_combine(Group *g, PyObject *args, PyObject *kwargs)
{
	struct urccl_ep_combine a = {.size = sizeof(a)};
	struct urccl_ep_handle handle = {.size = sizeof(handle)};
	unsigned long long stream;
	int err;

	if (!PyArg_ParseTuple(args, "KIK", &handle.memory, &handle.tokens, &stream) ||
	    struct_fill(&a, combine_fields, kwargs) || !group_enter(g))
		return NULL;
	Py_BEGIN_ALLOW_THREADS err = urccl_ep_combine(g->ep, &a, &handle, pointer(stream));
	Py_END_ALLOW_THREADS return group_leave(g, err);
}

static PyObject *group_ll_dispatch(Group *g, PyObject *args, PyObject *kwargs)
{
	struct urccl_ep_ll_dispatch a = {.size = sizeof(a)};
	struct urccl_ep_ll_handle handle = {.size = sizeof(handle)};
	unsigned long long stream;
	int err;

	if (!PyArg_ParseTuple(args, "KK", &handle.memory, &stream) ||
	    struct_fill(&a, ll_dispatch_fields, kwargs) || !group_enter(g))
		return NULL;
	Py_BEGIN_ALLOW_THREADS err = urccl_ep_ll_dispatch(g->ep, &a, &handle, pointer(stream));
	Py_END_ALLOW_THREADS return group_leave(g, err);
}

static PyObject *group_ll_combine(Group *g, PyObject *args, PyObject *kwargs)
{
	struct urccl_ep_ll_combine a = {.size = sizeof(a)};
	struct urccl_ep_ll_handle handle = {.size = sizeof(handle)};
	unsigned long long stream;
	int err;

	if (!PyArg_ParseTuple(args, "KK", &handle.memory, &stream) ||
	    struct_fill(&a, ll_combine_fields, kwargs) || !group_enter(g))
		return NULL;
	Py_BEGIN_ALLOW_THREADS err = urccl_ep_ll_combine(g->ep, &a, &handle, pointer(stream));
	Py_END_ALLOW_THREADS return group_leave(g, err);
}

/* (call, timeout_ms) -> (rows, [counts]), or None: not there yet. */
static PyObject *group_counts(Group *g, PyObject *args)
{
	struct urccl_ep_handle handle = {.size = sizeof(handle)};
	int32_t per_expert[URCCL_EP_MAX_EXPERTS];
	struct urccl_ep_counts counts = {.size = sizeof(counts),
					 .experts = URCCL_EP_MAX_EXPERTS,
					 .per_expert = per_expert};
	unsigned timeout_ms;
	PyObject *list;
	int err;

	if (!PyArg_ParseTuple(args, "II", &handle.call, &timeout_ms) || !group_enter(g))
		return NULL;
	Py_BEGIN_ALLOW_THREADS err = urccl_ep_query_counts(g->ep, &handle, &counts, timeout_ms);
	Py_END_ALLOW_THREADS if (err) return group_leave(g, err == -EAGAIN ? 0 : err);
	g->busy = false;
	list = PyList_New(0);
	for (uint32_t l = 0; list && l < g->local; l++) {
		PyObject *n = PyLong_FromLong(per_expert[l]);

		if (!n || PyList_Append(list, n))
			Py_CLEAR(list);
		Py_XDECREF(n);
	}
	return list ? Py_BuildValue("IN", counts.recv_tokens, list) : NULL;
}

static PyObject *group_status(Group *g, PyObject *unused)
{
	struct urccl_ep_status status = {.size = sizeof(status)};
	int err;

	(void)unused;
	if (!group_enter(g))
		return NULL;
	err = urccl_ep_query_status(g->ep, &status);
	if (err)
		return group_leave(g, err);
	g->busy = false;
	return Py_BuildValue("iII", status.res, status.rank, status.dead);
}

static PyObject *group_set_dead(Group *g, PyObject *args)
{
	unsigned long long stream;
	unsigned dead;

	if (!PyArg_ParseTuple(args, "IK", &dead, &stream) || !group_enter(g))
		return NULL;
	return group_leave(g, urccl_ep_set_dead(g->ep, dead, pointer(stream)));
}

/* -> addresses of x, scales, topk_idx, topk_weights, src_idx, combine_x, combine_weights, then the
 * bytes of a handle and of a low-latency handle. */
static PyObject *group_parts(Group *g, PyObject *unused)
{
	struct urccl_ep_parts p = {.size = sizeof(p)};
	int err;

	(void)unused;
	if (!group_enter(g))
		return NULL;
	err = urccl_ep_window_parts(g->ep, &p);
	if (err)
		return group_leave(g, err);
	g->busy = false;
	return Py_BuildValue("KKKKKKKKK", p.x, p.scales, p.topk_idx, p.topk_weights, p.src_idx,
			     p.combine_x, p.combine_weights, urccl_ep_handle_bytes(g->ep),
			     urccl_ep_ll_handle_bytes(g->ep));
}

#define METHOD(name, flags)                                                   \
	{                                                                     \
#name, (PyCFunction)(void (*)(void))group_##name, flags, NULL \
	}

static PyMethodDef group_methods[] = {
	METHOD(close, METH_NOARGS),
	METHOD(layout, METH_VARARGS),
	METHOD(dispatch, METH_VARARGS | METH_KEYWORDS),
	METHOD(copy_results, METH_VARARGS | METH_KEYWORDS),
	METHOD(combine, METH_VARARGS | METH_KEYWORDS),
	METHOD(ll_dispatch, METH_VARARGS | METH_KEYWORDS),
	METHOD(ll_combine, METH_VARARGS | METH_KEYWORDS),
	METHOD(counts, METH_VARARGS),
	METHOD(status, METH_NOARGS),
	METHOD(set_dead, METH_VARARGS),
	METHOD(parts, METH_NOARGS),
	{0},
};

static PyType_Slot group_slots[] = {
	{Py_tp_new, group_new},
	{Py_tp_dealloc, group_dealloc},
	{Py_tp_methods, group_methods},
	{Py_tp_doc, (void *)"A rank's end of a group: struct urccl_ep."},
	{0, NULL},
};

static PyType_Spec group_spec = {
	.name = "liburccl._ep.Group",
	.basicsize = sizeof(Group),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = group_slots,
};

/* ---- windows --------------------------------------------------------------------------------- */

/* The CUDA driver's functions; each returns a CUresult. */
struct cuda {
	int (*cuMemAlloc)(uint64_t *address, size_t bytes);
	int (*cuMemFree)(uint64_t address);
};

/* 0, or -1 with an exception. The driver stays loaded: PyTorch has it loaded already. */
static int load_cuda(struct module *m, struct cuda *cuda)
{
	static const char *const names[] = {"cuMemAlloc_v2", "cuMemFree_v2"};
	void *so = dlopen("libcuda.so.1", RTLD_NOW), *function;

	for (size_t i = 0; so && i < sizeof(names) / sizeof(*names); i++) {
		function = dlsym(so, names[i]);
		if (!function)
			so = NULL;
		memcpy((char *)cuda + i * sizeof(function), &function, sizeof(function));
	}
	if (so)
		return 0;
	set_error(m, -ENODEV, "there is no CUDA driver: libcuda.so.1 cannot be loaded");
	return -1;
}

static PyObject *window_bytes(PyObject *module, PyObject *args, PyObject *kwargs)
{
	struct urccl_ep_attr attr = {.size = sizeof(attr)};
	uint64_t bytes;
	int err;

	(void)args;
	if (struct_fill(&attr, attr_fields, kwargs))
		return NULL;
	err = urccl_ep_window_bytes(&attr, &bytes);
	if (err)
		return set_last_error(PyModule_GetState(module), err);
	return PyLong_FromUnsignedLongLong(bytes);
}

/* bytes -> address. PyTorch's own memory may lie in several mappings, which peers cannot map. */
static PyObject *window_alloc(PyObject *module, PyObject *bytes)
{
	struct module *m = PyModule_GetState(module);
	const size_t n = PyLong_AsSize_t(bytes);
	struct cuda cuda;
	uint64_t address;
	int error;

	if (PyErr_Occurred() || load_cuda(m, &cuda))
		return NULL;
	error = cuda.cuMemAlloc(&address, n);
	if (!error)
		return PyLong_FromUnsignedLongLong(address);
	return set_error_text(m, error == 2 ? -ENOMEM : -EIO,
			      PyUnicode_FromFormat("cannot allocate a window of %zu bytes: CUDA "
						   "error %d",
						   n, error));
}

static PyObject *window_free(PyObject *module, PyObject *address)
{
	const unsigned long long number = PyLong_AsUnsignedLongLong(address);
	struct cuda cuda;

	if (PyErr_Occurred() || load_cuda(PyModule_GetState(module), &cuda))
		return NULL;
	return PyLong_FromLong(cuda.cuMemFree(number));
}

/* ---- the module itself ----------------------------------------------------------------------- */

static PyMethodDef module_methods[] = {
	{"window_bytes", (PyCFunction)(void (*)(void))window_bytes, METH_VARARGS | METH_KEYWORDS,
	 NULL},
	{"window_alloc", window_alloc, METH_O, NULL},
	{"window_free", window_free, METH_O, NULL},
	{0},
};

static int module_exec(PyObject *module)
{
	struct module *m = PyModule_GetState(module);
	PyObject *errors = PyImport_ImportModule("liburccl._errors");

	m->make_error = errors ? PyObject_GetAttrString(errors, "make") : NULL;
	Py_XDECREF(errors);
	m->group_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &group_spec, NULL);
	if (!m->make_error || !m->group_type)
		return -1;
	return PyModule_AddType(module, m->group_type);
}

static int module_clear(PyObject *module)
{
	struct module *m = PyModule_GetState(module);

	Py_CLEAR(m->group_type);
	Py_CLEAR(m->make_error);
	return 0;
}

static struct PyModuleDef_Slot module_slots[] = {
	{Py_mod_exec, module_exec},
	{0, NULL},
};

static struct PyModuleDef module_def = {
	PyModuleDef_HEAD_INIT,
	.m_name = "liburccl._ep",
	.m_doc = "The calls of liburccl-ep on addresses; use liburccl.ep.",
	.m_size = sizeof(struct module),
	.m_methods = module_methods,
	.m_slots = module_slots,
	.m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__ep(void);

__attribute__((visibility("default"))) PyMODINIT_FUNC PyInit__ep(void)
{
	return PyModuleDef_Init(&module_def);
}
