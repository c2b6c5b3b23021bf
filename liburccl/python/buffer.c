/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of Python objects: buffer protocol, tensors, (address, bytes). */
#include "module.h"

#include <string.h>

static int is_address(PyObject *obj)
{
	return PyTuple_Check(obj) && PyTuple_Size(obj) == 2 &&
	       PyLong_Check(PyTuple_GetItem(obj, 0)) && PyLong_Check(PyTuple_GetItem(obj, 1));
}

int buffer_get(struct module *m, PyObject *obj, int writable, Py_buffer *view, struct span *span)
{
	view->obj = NULL;
	span->is_device = 0;
	if (PyObject_CheckBuffer(obj)) {
		if (!PyObject_GetBuffer(obj, view, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE)) {
			span->addr = (uint64_t)(uintptr_t)view->buf;
			span->len = (uint64_t)view->len;
			return 0;
		}
		if (!tensor_is_on_gpu(obj))
			return -1;
		PyErr_Clear();
		view->obj = NULL;
	}
	if (is_address(obj))
		return number_get(PyTuple_GetItem(obj, 0), UINT64_MAX, "address", &span->addr) ||
				       number_get(PyTuple_GetItem(obj, 1), INT64_MAX, "bytes",
						  &span->len)
			       ? -1
			       : 0;
	return tensor_get(m, obj, writable, view, span);
}

/* A memoryview holds the buffer until it is gone. */
int buffer_keep(struct module *m, PyObject *obj, int writable, PyObject *list, struct span *span)
{
	PyObject *keep = obj;
	Py_buffer view;
	int rc = buffer_get(m, obj, writable, &view, span);

	if (rc)
		return -1;
	if (view.obj == NULL)
		Py_INCREF(keep);
	else if (PyObject_CheckBuffer(view.obj))
		keep = PyMemoryView_FromObject(obj);
	else
		keep = Py_NewRef(view.obj);
	rc = keep ? PyList_Append(list, keep) : -1;
	Py_XDECREF(keep);
	if (view.obj)
		PyBuffer_Release(&view);
	return rc;
}

/* ---- arrays of the library ---- */

static int range_add(struct module *m, PyObject *obj, int writable, PyObject *list,
		     struct urccl_range *range)
{
	struct span span;
	Memory *memory;

	if (buffer_keep(m, obj, writable, list, &span))
		return -1;
	*range = (struct urccl_range){.addr = span.addr, .len = span.len, .fd = -1};
	memory = memory_find(m, span.addr, span.len);
	if (memory) {
		range->fd = memory->fd;
		range->fd_off = span.addr - (uint64_t)(uintptr_t)memory->addr;
	}
	return 0;
}

int ranges_get(struct module *m, PyObject *obj, uint32_t rights, PyObject *list,
	       struct urccl_range **ranges, uint32_t *n, uint64_t *len)
{
	int writable = (rights & (URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC)) != 0;
	int many = PyList_Check(obj) || (PyTuple_Check(obj) && !is_address(obj));
	Py_ssize_t i, count = many ? PySequence_Size(obj) : 1;
	int rc = 0;

	*len = 0;
	*n = (uint32_t)count;
	*ranges = PyMem_Malloc(((size_t)count + 1) * sizeof(**ranges));
	if (!*ranges) {
		PyErr_NoMemory();
		return -1;
	}
	for (i = 0; i < count && !rc; i++) {
		PyObject *item = many ? PySequence_GetItem(obj, i) : (Py_INCREF(obj), obj);

		rc = item ? range_add(m, item, writable, list, *ranges + i) : -1;
		Py_XDECREF(item);
		*len += rc ? 0 : (*ranges)[i].len;
	}
	if (rc)
		PyMem_Free(*ranges);
	return rc;
}

static int advert_add(PyObject *obj, struct urccl_advert *advert)
{
	Py_buffer view;
	int rc = PyObject_GetBuffer(obj, &view, PyBUF_SIMPLE);

	if (rc)
		return -1;
	if (view.len == sizeof(*advert))
		memcpy(advert, view.buf, sizeof(*advert));
	else
		PyErr_Format(PyExc_ValueError, "an advert has %zu bytes, not %zd", sizeof(*advert),
			     view.len);
	rc = view.len == sizeof(*advert) ? 0 : -1;
	PyBuffer_Release(&view);
	return rc;
}

int adverts_get(PyObject *obj, struct urccl_advert **adverts, uint32_t *n)
{
	int many = !PyObject_CheckBuffer(obj), rc = 0;
	Py_ssize_t i, count = many ? PySequence_Size(obj) : 1;

	if (count < 0)
		return -1;
	*n = (uint32_t)count;
	*adverts = PyMem_Malloc(((size_t)count + 1) * sizeof(**adverts));
	if (!*adverts) {
		PyErr_NoMemory();
		return -1;
	}
	for (i = 0; i < count && !rc; i++) {
		PyObject *item = many ? PySequence_GetItem(obj, i) : (Py_INCREF(obj), obj);

		rc = item ? advert_add(item, *adverts + i) : -1;
		Py_XDECREF(item);
	}
	if (rc)
		PyMem_Free(*adverts);
	return rc;
}

/* ---- plain arguments ---- */

int number_get(PyObject *obj, uint64_t most, const char *name, uint64_t *out)
{
	PyObject *number = PyNumber_Index(obj);

	if (!number)
		return -1;
	*out = PyLong_AsUnsignedLongLong(number);
	Py_DECREF(number);
	if (*out == UINT64_MAX && PyErr_Occurred())
		return -1;
	if (*out <= most)
		return 0;
	PyErr_Format(PyExc_OverflowError, "%s is above %llu", name, (unsigned long long)most);
	return -1;
}

int rights_get(PyObject *obj, uint32_t *out)
{
	Py_ssize_t i, len = PyUnicode_Check(obj) ? PyUnicode_GetLength(obj) : -1;

	*out = 0;
	for (i = 0; i < len; i++) {
		Py_UCS4 c = PyUnicode_ReadChar(obj, i);

		if (c == 'r')
			*out |= URCCL_RIGHT_READ;
		else if (c == 'w')
			*out |= URCCL_RIGHT_WRITE;
		else if (c == 'a')
			*out |= URCCL_RIGHT_ATOMIC;
		else
			break;
	}
	if (i == len)
		return 0;
	PyErr_Format(PyExc_ValueError,
		     "rights are letters of \"rwa\" (read, write, atomic), not %R", obj);
	return -1;
}

int timeout_get(PyObject *obj, uint64_t *ns)
{
	double seconds;

	*ns = UINT64_MAX;
	if (!obj || obj == Py_None)
		return 0;
	seconds = PyFloat_AsDouble(obj);
	if (seconds == -1.0 && PyErr_Occurred())
		return -1;
	if (!(seconds >= 0)) {
		PyErr_SetString(PyExc_ValueError, "a timeout is a number of seconds from 0 on");
		return -1;
	}
	if (seconds < 1e9)
		*ns = (uint64_t)(seconds * 1e9);
	return 0;
}
