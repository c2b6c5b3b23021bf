/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of Ring that make entries which move data. */
#include "module.h"

/* ---- what all of them do ---- */

static int refuse_full(Ring *r)
{
	set_error(r->m, EAGAIN,
		  "the ring is full: as many entries as it has are unfinished; take "
		  "completions, or wait_room()");
	return -1;
}

int call_open(struct call *c, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names,
	      Py_ssize_t least, Py_ssize_t most, enum op_value value)
{
	Ring *r = (Ring *)self;

	if (n < least || n > most) {
		PyErr_Format(PyExc_TypeError,
			     "from %zd to %zd positional arguments are wanted, not %zd", least,
			     most, n);
		return -1;
	}
	if (ring_check(r))
		return -1;
	if (r->nflying >= r->entries && (ring_reap(r), r->nflying >= r->entries))
		return refuse_full(r);
	c->ring = r;
	c->op = op_new(r, value);
	if (!c->op)
		return -1;
	if (!options_get(c->op, &c->o, args + n, names))
		return 0;
	Py_CLEAR(c->op);
	return -1;
}

int call_begin(struct call *c)
{
	/* The arguments' own code may have closed or filled it. */
	if (ring_check(c->ring))
		return -1;
	c->sqe = core_begin(&c->ring->core);
	return c->sqe ? 0 : refuse_full(c->ring);
}

PyObject *call_end(struct call *c)
{
	Op *op = c->op;

	urccl_sqe_set_data(c->sqe, &op->entry);
	options_set(&c->o, c->ring->core.ring, c->sqe);
	op_fly(op);
	core_end(&c->ring->core, !c->ring->batches);
	return (PyObject *)op;
}

PyObject *call_fail(struct call *c)
{
	Py_CLEAR(c->op);
	return NULL;
}

/* Keeps it from being unimported while the entry is under way. */
static int call_remote(struct call *c, PyObject *obj, struct urccl_remote *remote)
{
	struct module *m = c->ring->m;

	if (!PyObject_TypeCheck(obj, m->remote_type)) {
		PyErr_Format(PyExc_TypeError, "a Remote is wanted, not %R",
			     (PyObject *)Py_TYPE(obj));
		return -1;
	}
	*remote = ((Remote *)obj)->remote;
	if (!remote->id)
		return set_error(m, ESTALE, "the remote has ended"), -1;
	c->op->remote = Py_NewRef(obj);
	return 0;
}

/* ---- READ, WRITE ---- */

static int call_buffer(struct call *c, PyObject *obj, int writable, struct span *span)
{
	PyObject *list;

	if (buffer_get(c->ring->m, obj, writable, &c->op->view, span))
		return -1;
	if (c->op->view.obj)
		return 0;
	list = op_keep_list(c->op);
	return list ? PyList_Append(list, obj) : -1;
}

static PyObject *prepare_move(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names,
			      int is_read)
{
	struct urccl_remote remote;
	struct span span;
	struct call c;

	if (call_open(&c, self, args, n, names, 2, 3, VALUE_COUNT))
		return NULL;
	if (call_remote(&c, args[0], &remote) || call_buffer(&c, args[1], is_read, &span) ||
	    (n > 2 && number_get(args[2], UINT64_MAX, "off", &c.o.off)) || call_begin(&c))
		return call_fail(&c);
	if (is_read)
		urccl_prep_read(c.sqe, remote, (void *)(uintptr_t)span.addr, span.len, c.o.off);
	else
		urccl_prep_write(c.sqe, remote, (const void *)(uintptr_t)span.addr, span.len,
				 c.o.off);
	return call_end(&c);
}

static PyObject *ring_write(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	return prepare_move(self, args, n, names, 0);
}

static PyObject *ring_read(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	return prepare_move(self, args, n, names, 1);
}

/* ---- READV, WRITEV ---- */

/* (remote, buffer, off) */
static int segment_get(struct call *c, PyObject *item, int is_read, PyObject *keep,
		       struct urccl_seg *seg)
{
	PyObject *remote, *buffer;
	unsigned long long off = 0;
	struct span span;

	if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "OO|K", &remote, &buffer, &off)) {
		if (!PyErr_Occurred())
			PyErr_SetString(PyExc_TypeError, "a segment is (remote, buffer, off)");
		return -1;
	}
	if (!PyObject_TypeCheck(remote, c->ring->m->remote_type)) {
		PyErr_SetString(PyExc_TypeError, "a segment begins with a Remote");
		return -1;
	}
	if (buffer_keep(c->ring->m, buffer, is_read, keep, &span) || PyList_Append(keep, remote))
		return -1;
	*seg = (struct urccl_seg){.addr = span.addr,
				  .len = span.len,
				  .off = off,
				  .remote = ((Remote *)remote)->remote.id};
	return 0;
}

static int segments_get(struct call *c, PyObject *list, int is_read, uint64_t *addr, uint64_t *n)
{
	Py_ssize_t i, count = PySequence_Size(list);
	PyObject *keep = op_keep_list(c->op);
	struct urccl_seg *segs;
	int rc = 0;

	if (count < 0 || !keep)
		return -1;
	segs = c->op->array = PyMem_Malloc(((size_t)count + 1) * sizeof(*segs));
	if (!segs)
		return PyErr_NoMemory(), -1;
	for (i = 0; i < count && !rc; i++) {
		PyObject *item = PySequence_GetItem(list, i);

		rc = item ? segment_get(c, item, is_read, keep, &segs[i]) : -1;
		Py_XDECREF(item);
	}
	*addr = (uint64_t)(uintptr_t)segs;
	*n = (uint64_t)count;
	return rc;
}

/* Records of a fixed size in a buffer, which is used where it lies. */
static int records_get(struct call *c, PyObject *obj, size_t size, const char *what, uint64_t *addr,
		       uint64_t *n)
{
	struct span span;

	if (call_buffer(c, obj, 0, &span) || span_host(&span, what))
		return -1;
	*addr = span.addr;
	*n = span.len / size;
	if (span.len == *n * size)
		return 0;
	PyErr_Format(PyExc_ValueError, "%s have %zu bytes each", what, size);
	return -1;
}

static PyObject *prepare_vector(PyObject *self, PyObject *const *args, Py_ssize_t n,
				PyObject *names, int is_read)
{
	struct urccl_peer peer;
	uint64_t addr, count;
	struct call c;
	int rc;

	if (call_open(&c, self, args, n, names, 2, 2, VALUE_COUNT))
		return NULL;
	rc = call_peer(args[0], &peer);
	if (!rc && PyObject_CheckBuffer(args[1]))
		rc = records_get(&c, args[1], sizeof(struct urccl_seg), "segments", &addr, &count);
	else if (!rc)
		rc = segments_get(&c, args[1], is_read, &addr, &count);
	if (rc || call_begin(&c))
		return call_fail(&c);
	(is_read ? urccl_prep_readv : urccl_prep_writev)(c.sqe, peer,
							 (const struct urccl_seg *)(uintptr_t)addr,
							 (uint32_t)count);
	return call_end(&c);
}

static PyObject *ring_writev(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	return prepare_vector(self, args, n, names, 0);
}

static PyObject *ring_readv(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	return prepare_vector(self, args, n, names, 1);
}

/* ---- one vector of rows ---- */

struct row {
	uint64_t addr, len, off;
};

static int rows_get(struct call *c, PyObject *obj, struct urccl_remote remote, uint32_t *n)
{
	struct urccl_seg *segs;
	const struct row *rows;
	struct span span;
	uint64_t i, count;

	if (call_buffer(c, obj, 0, &span) || span_host(&span, "rows"))
		return -1;
	count = span.len / sizeof(*rows);
	if (span.len != count * sizeof(*rows) || count > UINT32_MAX) {
		PyErr_SetString(PyExc_ValueError,
				"rows are three 64-bit numbers each: address, bytes, offset");
		return -1;
	}
	segs = c->op->array = PyMem_Malloc((size_t)(count + 1) * sizeof(*segs));
	if (!segs)
		return PyErr_NoMemory(), -1;
	rows = (const struct row *)(uintptr_t)span.addr;
	for (i = 0; i < count; i++)
		segs[i] = (struct urccl_seg){rows[i].addr, rows[i].len, rows[i].off, 0, remote.id};
	*n = (uint32_t)count;
	return 0;
}

static PyObject *ring_submit_many(PyObject *self, PyObject *const *args, Py_ssize_t n,
				  PyObject *names)
{
	struct urccl_remote remote;
	struct urccl_peer peer;
	int is_read = 0;
	uint32_t count;
	struct call c;

	if (call_open(&c, self, args, n, names, 2, 3, VALUE_COUNT))
		return NULL;
	if (n > 2)
		is_read = PyUnicode_Check(args[2]) &&
			  !PyUnicode_CompareWithASCIIString(args[2], "read");
	if (call_remote(&c, args[0], &remote) || rows_get(&c, args[1], remote, &count) ||
	    call_begin(&c))
		return call_fail(&c);
	peer = ((Remote *)args[0])->peer;
	(is_read ? urccl_prep_readv : urccl_prep_writev)(c.sqe, peer, c.op->array, count);
	return call_end(&c);
}

/* ---- pages, words ---- */

static PyObject *prepare_paged(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names,
			       int is_read)
{
	struct urccl_remote remote;
	PyObject *region, *keep;
	uint64_t addr, count;
	struct call c;

	if (call_open(&c, self, args, n, names, 3, 4, VALUE_COUNT))
		return NULL;
	region = args[1];
	keep = op_keep_list(c.op);
	if (!PyObject_TypeCheck(region, c.ring->m->region_type))
		PyErr_SetString(PyExc_TypeError, "the second argument is a Region");
	if (PyErr_Occurred() || !keep || PyList_Append(keep, region) ||
	    (n > 3 && PyList_Append(keep, args[3])) || call_remote(&c, args[0], &remote) ||
	    records_get(&c, args[2], sizeof(struct urccl_paged), "descriptors", &addr, &count) ||
	    call_begin(&c))
		return call_fail(&c);
	(is_read ? urccl_prep_read_paged
		 : urccl_prep_write_paged)(c.sqe, remote, ((Region *)region)->region,
					   (const struct urccl_paged *)(uintptr_t)addr,
					   (uint32_t)count);
	return call_end(&c);
}

static PyObject *ring_write_paged(PyObject *self, PyObject *const *args, Py_ssize_t n,
				  PyObject *names)
{
	return prepare_paged(self, args, n, names, 0);
}

static PyObject *ring_read_paged(PyObject *self, PyObject *const *args, Py_ssize_t n,
				 PyObject *names)
{
	return prepare_paged(self, args, n, names, 1);
}

static PyObject *atomic(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names,
			Py_ssize_t operands)
{
	struct urccl_remote remote;
	uint64_t off, a, b = 0;
	struct call c;

	if (call_open(&c, self, args, n, names, 2 + operands, 2 + operands, VALUE_OLD))
		return NULL;
	if (call_remote(&c, args[0], &remote) || number_get(args[1], UINT64_MAX, "off", &off) ||
	    number_get(args[2], UINT64_MAX, "operand", &a) ||
	    (operands > 1 && number_get(args[3], UINT64_MAX, "desired", &b)) || call_begin(&c))
		return call_fail(&c);
	if (operands > 1)
		urccl_prep_cmp_swap(c.sqe, remote, off, a, b);
	else
		urccl_prep_fetch_add(c.sqe, remote, off, a);
	return call_end(&c);
}

static PyObject *ring_fetch_add(PyObject *self, PyObject *const *args, Py_ssize_t n,
				PyObject *names)
{
	return atomic(self, args, n, names, 1);
}

static PyObject *ring_cmp_swap(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	return atomic(self, args, n, names, 2);
}

#define METHOD(name, function, doc)                                    \
	{                                                              \
		name, (PyCFunction)(void (*)(void))(fastcall)function, \
			METH_FASTCALL | METH_KEYWORDS, doc             \
	}

PyMethodDef prepare_methods[] = {
	METHOD("write", ring_write,
	       "write($self, remote, buffer, off=0, /, **options)\n--\n\n"
	       "Writes all of a registered buffer to off of the remote. Result: bytes."),
	METHOD("read", ring_read,
	       "read($self, remote, buffer, off=0, /, **options)\n--\n\n"
	       "Fills a registered, writable buffer from off of the remote. Result: bytes."),
	METHOD("writev", ring_writev,
	       "writev($self, peer, segments, /, **options)\n--\n\n"
	       "Writes segments of one peer as one entry: a list of (remote, buffer, off), or a buffer\n"
	       "of SEG records. Result: bytes; Error.segment is the first not known to be placed."),
	METHOD("readv", ring_readv,
	       "readv($self, peer, segments, /, **options)\n--\n\nThe other way; see writev()."),
	METHOD("submit_many", ring_submit_many,
	       "submit_many($self, remote, rows, op='write', /, **options)\n--\n\n"
	       "One entry for many pieces: rows is a C-contiguous buffer of 64-bit rows (address, bytes,\n"
	       "offset in the remote). The memory must be registered and stay. Result: bytes;\n"
	       "Error.segment is the first row not known to be placed."),
	METHOD("_write_paged", ring_write_paged, NULL),
	METHOD("_read_paged", ring_read_paged, NULL),
	METHOD("fetch_add", ring_fetch_add,
	       "fetch_add($self, remote, off, addend, /, **options)\n--\n\n"
	       "Adds to the 64-bit word at off, atomically. Result: the word before."),
	METHOD("cmp_swap", ring_cmp_swap,
	       "cmp_swap($self, remote, off, expected, desired, /, **options)\n--\n\n"
	       "Makes the word desired where it is expected. Result: the word before."),
	{0},
};
