/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of Ring that make entries about peers, memory and the ring itself. */
#include "module.h"

int call_peer(PyObject *obj, struct urccl_peer *peer)
{
	uint64_t id;

	if (number_get(obj, UINT32_MAX, "peer", &id))
		return -1;
	peer->id = (uint32_t)id;
	return 0;
}

/* to: a metadata blob, or "host:port" */
static PyObject *ring_connect(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	PyObject *list, *to;
	struct span span, hello = {0};
	struct call c;
	int rc;

	if (call_open(&c, self, args, n, names, 1, 2, VALUE_PEER))
		return NULL;
	list = op_keep_list(c.op);
	to = PyUnicode_Check(args[0]) ? PyUnicode_AsUTF8String(args[0]) : Py_NewRef(args[0]);
	rc = !list || !to || buffer_keep(c.ring->m, to, 0, list, &span) ||
	     span_host(&span, "metadata") || (n > 1 && payload_get(c.op, args[1], &hello));
	Py_XDECREF(to);
	if (rc || call_begin(&c))
		return call_fail(&c);
	urccl_prep_connect(c.sqe, (const void *)(uintptr_t)span.addr, (uint32_t)span.len);
	if (hello.len)
		urccl_sqe_set_hello(c.ring->core.ring, c.sqe, (const void *)(uintptr_t)hello.addr,
				    (uint32_t)hello.len);
	return call_end(&c);
}

static PyObject *ring_accept(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	struct call c;

	if (call_open(&c, self, args, n, names, 0, 0, VALUE_COUNT))
		return NULL;
	if (call_begin(&c))
		return call_fail(&c);
	urccl_prep_accept(c.sqe);
	return call_end(&c);
}

static PyObject *ring_watch(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	struct urccl_peer peer;
	struct call c;

	if (call_open(&c, self, args, n, names, 1, 1, VALUE_COUNT))
		return NULL;
	if (call_peer(args[0], &peer) || call_begin(&c))
		return call_fail(&c);
	urccl_prep_watch(c.sqe, peer);
	if (!peer.id)
		core_watch_all(&c.ring->core, &c.op->entry);
	return call_end(&c);
}

static PyObject *ring_notify(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	struct span payload = {0};
	struct urccl_peer peer;
	struct call c;
	uint64_t tag;

	if (call_open(&c, self, args, n, names, 2, 3, VALUE_COUNT))
		return NULL;
	if (call_peer(args[0], &peer) || number_get(args[1], UINT64_MAX, "tag", &tag) ||
	    (n > 2 && payload_get(c.op, args[2], &payload)) || call_begin(&c))
		return call_fail(&c);
	urccl_prep_notify(c.sqe, peer, tag, (const void *)(uintptr_t)payload.addr,
			  (uint32_t)payload.len);
	return call_end(&c);
}

static PyObject *of_peer(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names,
			 void (*prep)(struct urccl_sqe *, struct urccl_peer))
{
	struct urccl_peer peer;
	struct call c;

	if (call_open(&c, self, args, n, names, 1, 1, VALUE_COUNT))
		return NULL;
	if (call_peer(args[0], &peer) || call_begin(&c))
		return call_fail(&c);
	prep(c.sqe, peer);
	return call_end(&c);
}

static PyObject *ring_warm(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	return of_peer(self, args, n, names, urccl_prep_warm);
}

static PyObject *ring_close_peer(PyObject *self, PyObject *const *args, Py_ssize_t n,
				 PyObject *names)
{
	return of_peer(self, args, n, names, urccl_prep_close);
}

static PyObject *ring_register(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	uint32_t rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE, count;
	struct urccl_range *ranges;
	PyObject *list;
	struct call c;

	if (call_open(&c, self, args, n, names, 1, 3, VALUE_REGION))
		return NULL;
	list = op_keep_list(c.op);
	if (!list || (n > 1 && rights_get(args[1], &rights)) ||
	    ranges_get(c.ring->m, args[0], rights, list, &ranges, &count, &c.op->object))
		return call_fail(&c);
	c.op->array = ranges;
	rights |= n > 2 && PyObject_IsTrue(args[2]) > 0 ? URCCL_REG_PREFAULT : 0;
	if (call_begin(&c))
		return call_fail(&c);
	urccl_prep_register(c.sqe, ranges, count, rights);
	return call_end(&c);
}

static PyObject *ring_import(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	struct urccl_advert *adverts;
	struct urccl_peer peer;
	struct call c;
	uint32_t count;

	if (call_open(&c, self, args, n, names, 2, 2, VALUE_REMOTE))
		return NULL;
	if (call_peer(args[0], &peer) || adverts_get(args[1], &adverts, &count))
		return call_fail(&c);
	c.op->array = adverts;
	c.op->object = peer.id;
	if (call_begin(&c))
		return call_fail(&c);
	urccl_prep_import(c.sqe, peer, adverts, count);
	return call_end(&c);
}

static PyObject *ring_timeout(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	uint64_t ns, count = 0;
	struct call c;

	if (call_open(&c, self, args, n, names, 1, 2, VALUE_TIMER))
		return NULL;
	if (timeout_get(args[0], &ns) ||
	    (n > 1 && number_get(args[1], UINT64_MAX, "count", &count)) || call_begin(&c))
		return call_fail(&c);
	urccl_prep_timeout(c.sqe, ns, count, URCCL_TIMEOUT_ETIME_SUCCESS);
	return call_end(&c);
}

static PyObject *ring_nop(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	struct call c;

	if (call_open(&c, self, args, n, names, 0, 0, VALUE_COUNT))
		return NULL;
	if (call_begin(&c))
		return call_fail(&c);
	urccl_prep_nop(c.sqe);
	return call_end(&c);
}

static PyObject *ring_msg_ring(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	uint64_t id, res, tag = 0;
	struct call c;

	if (call_open(&c, self, args, n, names, 2, 3, VALUE_COUNT))
		return NULL;
	if (number_get(args[0], UINT32_MAX, "ring", &id) ||
	    number_get(args[1], INT64_MAX, "res", &res) ||
	    (n > 2 && number_get(args[2], UINT64_MAX, "tag", &tag)) || call_begin(&c))
		return call_fail(&c);
	urccl_prep_msg_ring(c.sqe, (uint32_t)id, 0, (int64_t)res, tag);
	return call_end(&c);
}

/* The id of a peer, or of a Region or Remote, and which of them it is. */
static int cancel_key(struct module *m, PyObject *obj, enum urccl_cancel_by *by, uint64_t *key)
{
	if (obj == Py_None) {
		*by = URCCL_CANCEL_BY_ALL;
		*key = 0;
	} else if (PyObject_TypeCheck(obj, m->region_type)) {
		*by = URCCL_CANCEL_BY_REGION;
		*key = ((Region *)obj)->region.id;
	} else if (PyObject_TypeCheck(obj, m->remote_type)) {
		*by = URCCL_CANCEL_BY_REMOTE;
		*key = ((Remote *)obj)->remote.id;
	} else {
		*by = URCCL_CANCEL_BY_PEER;
		return number_get(obj, UINT32_MAX, "peer", key);
	}
	return 0;
}

static PyObject *ring_cancel_matching(PyObject *self, PyObject *const *args, Py_ssize_t n,
				      PyObject *names)
{
	enum urccl_cancel_by by = URCCL_CANCEL_BY_ALL;
	uint64_t key = 0;
	struct call c;

	if (call_open(&c, self, args, n, names, 0, 1, VALUE_CANCEL))
		return NULL;
	if ((n && cancel_key(c.ring->m, args[0], &by, &key)) || call_begin(&c))
		return call_fail(&c);
	urccl_prep_cancel(c.sqe, by, key);
	return call_end(&c);
}

#define METHOD(name, function, doc)                                    \
	{                                                              \
		name, (PyCFunction)(void (*)(void))(fastcall)function, \
			METH_FASTCALL | METH_KEYWORDS, doc             \
	}

PyMethodDef prepare_peer_methods[] = {
	METHOD("connect", ring_connect,
	       "connect($self, to, hello=b'', /, **options)\n--\n\n"
	       "Dials a context: its metadata, or \"host:port\". hello: up to 256 bytes that its Peer\n"
	       "event brings. Result: the peer's handle, an int."),
	METHOD("_accept", ring_accept, NULL),
	METHOD("_watch", ring_watch, NULL),
	METHOD("notify", ring_notify,
	       "notify($self, peer, tag, payload=b'', /, **options)\n--\n\n"
	       "Sends a Note event: a 64-bit tag and up to 256 bytes. Result: 0, once the peer has it."),
	METHOD("warm", ring_warm,
	       "warm($self, peer, /, **options)\n--\n\n"
	       "Ends when first entries to the peer need not wait for keys and mappings."),
	METHOD("close_peer", ring_close_peer,
	       "close_peer($self, peer, /, **options)\n--\n\n"
	       "Gives back one reference to the peer; the last one ends the connection."),
	METHOD("register", ring_register,
	       "register($self, buffers, rights='rw', prefault=False, /, **options)\n--\n\n"
	       "As Context.register(), without waiting. Result: a Region."),
	METHOD("import_", ring_import,
	       "import_($self, peer, adverts, /, **options)\n--\n\n"
	       "As Context.import_(), without waiting. Result: a Remote."),
	METHOD("timeout", ring_timeout,
	       "timeout($self, seconds, count=0, /, **options)\n--\n\n"
	       "Ends after seconds, or after count more completions (0: by time alone). Result: whether\n"
	       "the time passed."),
	METHOD("nop", ring_nop, "nop($self, /, **options)\n--\n\nDoes nothing. Result: 0."),
	METHOD("msg_ring", ring_msg_ring,
	       "msg_ring($self, ring, res, tag=0, /, **options)\n--\n\n"
	       "Sends a Msg event to another ring of the context, by its id."),
	METHOD("cancel", ring_cancel_matching,
	       "cancel($self, what=None, /, **options)\n--\n\n"
	       "Ends the entries of this ring that name a peer, Region or Remote; None: all. Result: how\n"
	       "many."),
	{0},
};
