/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that peers of this host can map: a sealed memfd. The object owns it and not a context, so
 * views of it outlive every context. */
#include "module.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u /* Linux 6.3 */
#endif

static int sealed_file(size_t len)
{
	int fd = memfd_create("liburccl", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	int err;

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("liburccl", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	/* Every page is there, or a peer that touches one would get SIGBUS. */
	err = posix_fallocate(fd, 0, (off_t)len);
	if (!err && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		err = errno;
	if (!err)
		return fd;
	close(fd);
	return -err;
}

static int memory_map(Memory *self, size_t len)
{
	int fd = sealed_file(len), err;
	void *addr;

	if (fd < 0)
		return fd;
	addr = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	err = -errno;
	if (addr == MAP_FAILED) {
		close(fd);
		return err;
	}
	self->addr = addr;
	self->fd = fd;
	self->len = len;
	return 0;
}

PyObject *memory_new(struct module *m, size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), rounded = (len + page - 1) / page * page;
	Memory *self;
	int err;

	if (!len || rounded < len) {
		PyErr_SetString(PyExc_ValueError, "memory has at least one byte");
		return NULL;
	}
	self = (Memory *)type_alloc(m->memory_type);
	if (!self)
		return NULL;
	self->m = m;
	self->fd = -1;
	link_init(&self->link);
	Py_BEGIN_ALLOW_THREADS err = memory_map(self, rounded);
	Py_END_ALLOW_THREADS if (err)
	{
		Py_DECREF((PyObject *)self);
		return set_error(m, err, "memory for peers of this host cannot be made");
	}
	self->len = len;
	link_add(&self->link, &m->memories);
	return (PyObject *)self;
}

Memory *memory_find(struct module *m, uint64_t addr, uint64_t len)
{
	struct link *l;

	for (l = m->memories.next; l != &m->memories; l = l->next) {
		Memory *memory = link_of(l, Memory, link);
		uint64_t off = addr - (uint64_t)(uintptr_t)memory->addr;

		if (off < memory->len && len <= memory->len - off)
			return memory;
	}
	return NULL;
}

static void memory_dealloc(PyObject *obj)
{
	PyTypeObject *type = Py_TYPE(obj);
	Memory *self = (Memory *)obj;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	link_del(&self->link);
	if (self->addr)
		munmap(self->addr, (self->len + page - 1) / page * page);
	if (self->fd >= 0)
		close(self->fd);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(obj);
	Py_DECREF(type);
}

static int memory_buffer(PyObject *obj, Py_buffer *view, int flags)
{
	Memory *self = (Memory *)obj;

	return PyBuffer_FillInfo(view, obj, self->addr, (Py_ssize_t)self->len, 0, flags);
}

static Py_ssize_t memory_length(PyObject *obj)
{
	return (Py_ssize_t)((Memory *)obj)->len;
}

static PyObject *memory_numpy(PyObject *obj, PyObject *args, PyObject *kw)
{
	static char *names[] = {"dtype", NULL};
	PyObject *dtype = NULL, *numpy, *array;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|O:numpy", names, &dtype))
		return NULL;
	numpy = PyImport_ImportModule("numpy");
	if (!numpy)
		return NULL;
	array = dtype ? PyObject_CallMethod(numpy, "frombuffer", "OO", obj, dtype)
		      : PyObject_CallMethod(numpy, "frombuffer", "Os", obj, "uint8");
	Py_DECREF(numpy);
	return array;
}

static PyObject *memory_address(PyObject *obj, void *closure)
{
	(void)closure;
	return PyLong_FromVoidPtr(((Memory *)obj)->addr);
}

static PyMethodDef memory_methods[] = {
	{"numpy", (PyCFunction)(void (*)(void))memory_numpy, METH_VARARGS | METH_KEYWORDS,
	 "numpy($self, /, dtype='uint8')\n--\n\nA one-dimensional NumPy array over the memory."},
	{0},
};

static PyGetSetDef memory_getset[] = {
	{"address", memory_address, NULL, "Where it lies, an int.", NULL},
	{0},
};

static PyType_Slot memory_slots[] = {
	{Py_tp_doc,
	 "Zeroed, page-aligned memory with the buffer protocol, made by Context.alloc().\n\n"
	 "Peers of this host map it once it is registered. It lives as long as the\n"
	 "object or a view of it does, also when the context is closed."},
	{Py_tp_dealloc, memory_dealloc},
	{Py_tp_methods, memory_methods},
	{Py_tp_getset, memory_getset},
	{Py_bf_getbuffer, memory_buffer},
	{Py_sq_length, memory_length},
	{0, NULL},
};

PyType_Spec memory_spec = {
	.name = "liburccl._urccl.Memory",
	.basicsize = sizeof(Memory),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
	.slots = memory_slots,
};
