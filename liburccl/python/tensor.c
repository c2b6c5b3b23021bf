/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of other packages, in memory of the host or of a GPU. None of the packages is imported: an
 * array is read by data_ptr() and its like (PyTorch), by __cuda_array_interface__ (CuPy, Numba) or
 * by DLPack (JAX). */
#include "module.h"

#include <stdlib.h>

/* DLPack's device types. */
enum {
	DLPACK_CPU = 1,
	DLPACK_CUDA = 2,
	DLPACK_CUDA_HOST = 3,
	DLPACK_ROCM_HOST = 11,
	DLPACK_CUDA_MANAGED = 13,
};

/* What a capsule named "dltensor" begins with. */
struct dlpack_tensor {
	uint64_t data;
	int32_t device_type, device_id;
	int32_t ndim;
	uint8_t code, bits;
	uint16_t lanes;
	const int64_t *shape;
	const int64_t *strides; /* of items; NULL: contiguous */
	uint64_t byte_offset;
};

static int refuse_strides(void)
{
	PyErr_SetString(PyExc_ValueError, "the tensor is not contiguous, and bytes are not copied "
					  "silently: call contiguous()");
	return -1;
}

/* ---- where it lies ---- */

static int has_attribute(PyObject *obj, const char *name)
{
	return PyObject_HasAttrString(obj, name);
}

/* By DLPack, or by the name of PyTorch's device. An object that says neither is of the host. */
static int device_type(PyObject *obj, long *type)
{
	PyObject *device = NULL, *name = NULL;

	*type = DLPACK_CPU;
	if (has_attribute(obj, "__dlpack_device__")) {
		device = PyObject_CallMethod(obj, "__dlpack_device__", NULL);
		name = device ? PySequence_GetItem(device, 0) : NULL;
		*type = name ? PyLong_AsLong(name) : -1;
	} else if (has_attribute(obj, "device")) {
		device = PyObject_GetAttrString(obj, "device");
		name = device && has_attribute(device, "type")
			       ? PyObject_GetAttrString(device, "type")
			       : NULL;
		if (name && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "cpu"))
			*type = PyUnicode_CompareWithASCIIString(name, "cuda") ? 0 : DLPACK_CUDA;
	}
	Py_XDECREF(name);
	Py_XDECREF(device);
	return PyErr_Occurred() ? -1 : 0;
}

/* Sets span->is_device, or refuses it. */
static int device_check(struct module *m, long type, struct span *span)
{
	span->is_device = type == DLPACK_CUDA;
	if (type == DLPACK_CPU || type == DLPACK_CUDA || type == DLPACK_CUDA_HOST ||
	    type == DLPACK_ROCM_HOST || type == DLPACK_CUDA_MANAGED)
		return 0;
	set_error(m, EOPNOTSUPP,
		  "the tensor is in memory of a device that is no NVIDIA GPU; copy it to host "
		  "memory first (tensor.cpu())");
	return -1;
}

/* Arrays of CuPy and JAX have the buffer protocol too, and refuse it there. */
int tensor_is_on_gpu(PyObject *obj)
{
	PyObject *type, *value, *trace;
	long device = DLPACK_CPU;

	PyErr_Fetch(&type, &value, &trace);
	if (device_type(obj, &device))
		PyErr_Clear();
	PyErr_Restore(type, value, trace);
	return device == DLPACK_CUDA;
}

int span_host(const struct span *span, const char *name)
{
	if (!span->is_device)
		return 0;
	PyErr_Format(PyExc_ValueError, "%s must be in memory of the host, and is on a GPU", name);
	return -1;
}

/* ---- PyTorch ---- */

static int call_number(PyObject *obj, const char *method, uint64_t *out)
{
	PyObject *value = PyObject_CallMethod(obj, method, NULL);

	if (!value)
		return -1;
	*out = PyLong_AsUnsignedLongLong(value);
	Py_DECREF(value);
	return *out == UINT64_MAX && PyErr_Occurred() ? -1 : 0;
}

static int by_data_ptr(struct module *m, PyObject *obj, struct span *span)
{
	uint64_t contiguous, items, bytes;
	long type;

	if (device_type(obj, &type) || device_check(m, type, span) ||
	    call_number(obj, "is_contiguous", &contiguous))
		return -1;
	if (!contiguous)
		return refuse_strides();
	if (call_number(obj, "data_ptr", &span->addr) || call_number(obj, "numel", &items) ||
	    call_number(obj, "element_size", &bytes))
		return -1;
	span->len = items * bytes;
	return 0;
}

/* ---- __cuda_array_interface__ ---- */

/* A new reference, or NULL with an exception. */
static PyObject *read_field(PyObject *array, const char *name)
{
	PyObject *key = PyUnicode_FromString(name),
		 *value = key ? PyObject_GetItem(array, key) : NULL;

	Py_XDECREF(key);
	return value;
}

/* Bytes of an item: the number behind "<f" and its like. */
static uint64_t item_bytes(PyObject *array)
{
	PyObject *typestr = read_field(array, "typestr");
	const char *text = typestr ? PyUnicode_AsUTF8AndSize(typestr, NULL) : NULL;
	uint64_t bytes = text && text[0] && text[1] ? strtoull(text + 2, NULL, 10) : 0;

	Py_XDECREF(typestr);
	if (!bytes && !PyErr_Occurred())
		PyErr_SetString(PyExc_ValueError,
				"__cuda_array_interface__ has an unknown typestr");
	return bytes;
}

static long long number_at(PyObject *tuple, Py_ssize_t i)
{
	PyObject *item = PySequence_GetItem(tuple, i);
	long long number = item ? PyLong_AsLongLong(item) : -1;

	Py_XDECREF(item);
	return number;
}

/* The innermost dimension first; one of a single item may have any stride. */
static int array_len(PyObject *shape, PyObject *strides, uint64_t item, uint64_t *len)
{
	Py_ssize_t i = PySequence_Size(shape);
	long long count, stride;

	*len = item;
	while (i-- > 0) {
		count = number_at(shape, i);
		stride = strides != Py_None ? number_at(strides, i) : (long long)*len;
		if (PyErr_Occurred())
			return -1;
		if (count > 1 && stride != (long long)*len)
			return refuse_strides();
		*len *= (uint64_t)count;
	}
	return PyErr_Occurred() ? -1 : 0;
}

static int array_strides(PyObject *array, PyObject *shape, uint64_t *len)
{
	uint64_t item = item_bytes(array);
	PyObject *strides;
	int rc;

	if (!item)
		return -1;
	strides = PyMapping_HasKeyString(array, "strides") ? read_field(array, "strides")
							   : Py_NewRef(Py_None);
	rc = strides ? array_len(shape, strides, item, len) : -1;
	Py_XDECREF(strides);
	return rc;
}

static int array_read(PyObject *array, int writable, struct span *span)
{
	PyObject *data = read_field(array, "data"),
		 *shape = data ? read_field(array, "shape") : NULL;
	int is_const = 0, rc = -1;
	unsigned long long addr;

	if (shape && PyArg_ParseTuple(data, "Kp:data", &addr, &is_const) &&
	    !array_strides(array, shape, &span->len)) {
		span->addr = addr;
		rc = writable && is_const ? -1 : 0;
		if (rc)
			PyErr_SetString(PyExc_BufferError, "the array is read-only");
	}
	Py_XDECREF(shape);
	Py_XDECREF(data);
	return rc;
}

static int by_cuda_array(PyObject *obj, int writable, struct span *span)
{
	PyObject *array = PyObject_GetAttrString(obj, "__cuda_array_interface__");
	int rc = array ? array_read(array, writable, span) : -1;

	span->is_device = 1;
	Py_XDECREF(array);
	return rc;
}

/* ---- DLPack ---- */

static int dlpack_read(const struct dlpack_tensor *t, struct span *span)
{
	uint64_t items = 1;
	int32_t i;

	for (i = t->ndim - 1; i >= 0; i--) {
		if (t->strides && t->shape[i] > 1 && t->strides[i] != (int64_t)items)
			return refuse_strides();
		items *= (uint64_t)t->shape[i];
	}
	span->addr = t->data + t->byte_offset;
	span->len = (items * t->bits * t->lanes + 7) / 8;
	return 0;
}

/* The capsule owns the memory: it becomes the object of the view. */
static int by_dlpack(struct module *m, PyObject *obj, Py_buffer *view, struct span *span)
{
	const struct dlpack_tensor *tensor;
	PyObject *capsule;
	long type;
	int rc;

	if (device_type(obj, &type) || device_check(m, type, span))
		return -1;
	/* -1: the producer lets no stream wait. */
	capsule = span->is_device ? PyObject_CallMethod(obj, "__dlpack__", "i", -1)
				  : PyObject_CallMethod(obj, "__dlpack__", NULL);
	tensor = capsule ? PyCapsule_GetPointer(capsule, "dltensor") : NULL;
	rc = tensor ? dlpack_read(tensor, span) : -1;
	if (!rc)
		rc = PyBuffer_FillInfo(view, capsule, (void *)(uintptr_t)span->addr,
				       (Py_ssize_t)span->len, 0, PyBUF_SIMPLE);
	Py_XDECREF(capsule);
	return rc;
}

int tensor_get(struct module *m, PyObject *obj, int writable, Py_buffer *view, struct span *span)
{
	if (has_attribute(obj, "data_ptr"))
		return by_data_ptr(m, obj, span);
	if (has_attribute(obj, "__cuda_array_interface__"))
		return by_cuda_array(obj, writable, span);
	if (has_attribute(obj, "__dlpack__"))
		return by_dlpack(m, obj, view, span);
	PyErr_Format(PyExc_TypeError, "a buffer, a tensor or (address, bytes) is wanted, not %R",
		     (PyObject *)Py_TYPE(obj));
	return -1;
}
