/* SPDX-License-Identifier: Apache-2.0 */
/* The codec, as liburccl/codec.py calls it. */
#include "module.h"

#include <errno.h>
#include <liburccl/codec.h>

#define CAPSULE "liburccl.codec.Gpu"

/* A source and a destination, held during a call. */
struct buffers {
	Py_buffer src_view, dst_view;
	struct span src, dst;
};

static int buffers_get(PyObject *module, PyObject *src, PyObject *dst, struct buffers *b)
{
	struct module *m = PyModule_GetState(module);

	if (buffer_get(m, src, 0, &b->src_view, &b->src))
		return -1;
	if (!buffer_get(m, dst, 1, &b->dst_view, &b->dst))
		return 0;
	if (b->src_view.obj)
		PyBuffer_Release(&b->src_view);
	return -1;
}

static void buffers_put(struct buffers *b)
{
	if (b->src_view.obj)
		PyBuffer_Release(&b->src_view);
	if (b->dst_view.obj)
		PyBuffer_Release(&b->dst_view);
}

static void *pointer(const struct span *span)
{
	return (void *)(uintptr_t)span->addr;
}

/* The number, or an exception. */
static PyObject *codec_answer(PyObject *module, int64_t res)
{
	const char *why = "codec, dtype or number of bytes is not supported";

	if (res >= 0)
		return PyLong_FromLongLong(res);
	if (res == -ENOSPC)
		why = "the destination is too small";
	else if (res == -EBADMSG)
		why = "the bytes are no chunk of the codec, not all of one, or were changed";
	else if (res == -EOPNOTSUPP)
		why = "chunks of a GPU have no CRC32C: crc=False";
	return set_error(PyModule_GetState(module), (int)res, why);
}

static PyObject *codec_bound(PyObject *module, PyObject *args)
{
	Py_ssize_t n;
	int dtype;

	(void)module;
	if (!PyArg_ParseTuple(args, "in", &dtype, &n))
		return NULL;
	return PyLong_FromSize_t(n < 0 ? 0 : urccl_codec_bound(dtype, (size_t)n));
}

static PyObject *codec_encode(PyObject *module, PyObject *args)
{
	PyObject *src, *dst;
	struct buffers b;
	int codec, dtype;
	int64_t res = 0;

	if (!PyArg_ParseTuple(args, "iiOO", &codec, &dtype, &src, &dst) ||
	    buffers_get(module, src, dst, &b))
		return NULL;
	if (!span_host(&b.src, "the data") && !span_host(&b.dst, "the destination")) {
		Py_BEGIN_ALLOW_THREADS res =
			urccl_codec_encode(codec, dtype, pointer(&b.src), b.src.len,
					   pointer(&b.dst), b.dst.len);
		Py_END_ALLOW_THREADS
	}
	buffers_put(&b);
	return PyErr_Occurred() ? NULL : codec_answer(module, res);
}

static PyObject *codec_decode(PyObject *module, PyObject *args)
{
	PyObject *src, *dst;
	struct buffers b;
	int64_t res = 0;

	if (!PyArg_ParseTuple(args, "OO", &src, &dst) || buffers_get(module, src, dst, &b))
		return NULL;
	if (!span_host(&b.src, "the chunk") && !span_host(&b.dst, "the destination")) {
		Py_BEGIN_ALLOW_THREADS res =
			urccl_codec_decode(pointer(&b.src), b.src.len, pointer(&b.dst), b.dst.len);
		Py_END_ALLOW_THREADS
	}
	buffers_put(&b);
	return PyErr_Occurred() ? NULL : codec_answer(module, res);
}

/* (version, dtype, codec, checksum, raw_bytes, coded_bytes) */
static PyObject *codec_info(PyObject *module, PyObject *src)
{
	struct urccl_codec_info info = {.size = sizeof(info)};
	Py_buffer view;
	struct span span;
	int err = 0;

	if (buffer_get(PyModule_GetState(module), src, 0, &view, &span))
		return NULL;
	if (!span_host(&span, "the chunk"))
		err = urccl_codec_info(pointer(&span), span.len, &info);
	if (view.obj)
		PyBuffer_Release(&view);
	if (PyErr_Occurred())
		return NULL;
	if (err)
		return codec_answer(module, err);
	return Py_BuildValue("(iiiNKK)", info.version, info.dtype, info.codec,
			     PyBool_FromLong(info.checksum), (unsigned long long)info.raw_bytes,
			     (unsigned long long)info.coded_bytes);
}

/* ---- on a GPU ---- */

static void gpu_free(PyObject *capsule)
{
	urccl_codec_gpu_close(PyCapsule_GetPointer(capsule, CAPSULE));
}

static PyObject *codec_gpu_open(PyObject *module, PyObject *args)
{
	struct urccl_codec_gpu *gpu = NULL;
	unsigned int device, sms;
	PyObject *capsule;
	int err;

	if (!PyArg_ParseTuple(args, "II", &device, &sms))
		return NULL;
	Py_BEGIN_ALLOW_THREADS err = urccl_codec_gpu_open(device, sms, &gpu);
	Py_END_ALLOW_THREADS if (err) return set_last_error(PyModule_GetState(module), err);
	capsule = PyCapsule_New(gpu, CAPSULE, gpu_free);
	if (!capsule)
		urccl_codec_gpu_close(gpu);
	return capsule;
}

/* After a launch, which may have failed for reasons that the library says. */
static PyObject *launched(PyObject *module, int err)
{
	if (!err)
		Py_RETURN_NONE;
	if (err == -EIO)
		return set_last_error(PyModule_GetState(module), err);
	return codec_answer(module, err);
}

/* The 8 bytes for the result, which the caller keeps. */
static int result_get(PyObject *module, PyObject *obj, uint64_t **result)
{
	Py_buffer view;
	struct span span;

	if (buffer_get(PyModule_GetState(module), obj, 1, &view, &span))
		return -1;
	if (view.obj)
		PyBuffer_Release(&view);
	*result = pointer(&span);
	if (span.len >= sizeof(**result))
		return 0;
	PyErr_SetString(PyExc_ValueError, "result has fewer than 8 bytes");
	return -1;
}

/* (gpu, codec or -1: decode, dtype, src, dst, stream, result) */
static PyObject *codec_gpu_launch(PyObject *module, PyObject *args)
{
	PyObject *capsule, *src, *dst, *out;
	struct urccl_codec_gpu *gpu;
	unsigned long long stream;
	uint64_t *result = NULL;
	struct buffers b;
	int codec, dtype, err;

	if (!PyArg_ParseTuple(args, "OiiOOKO", &capsule, &codec, &dtype, &src, &dst, &stream, &out))
		return NULL;
	gpu = PyCapsule_GetPointer(capsule, CAPSULE);
	if (!gpu || result_get(module, out, &result) || buffers_get(module, src, dst, &b))
		return NULL;
	if (codec < 0)
		err = urccl_codec_decode_gpu(gpu, dtype, pointer(&b.src), b.src.len,
					     pointer(&b.dst), b.dst.len, (void *)(uintptr_t)stream,
					     result);
	else
		err = urccl_codec_encode_gpu(gpu, codec, dtype, pointer(&b.src), b.src.len,
					     pointer(&b.dst), b.dst.len, (void *)(uintptr_t)stream,
					     result);
	buffers_put(&b);
	return launched(module, err);
}

PyMethodDef codec_methods[] = {
	{"_codec_bound", codec_bound, METH_VARARGS, NULL},
	{"_codec_encode", codec_encode, METH_VARARGS, NULL},
	{"_codec_decode", codec_decode, METH_VARARGS, NULL},
	{"_codec_info", codec_info, METH_O, NULL},
	{"_codec_gpu_open", codec_gpu_open, METH_VARARGS, NULL},
	{"_codec_gpu_launch", codec_gpu_launch, METH_VARARGS, NULL},
	{0},
};
