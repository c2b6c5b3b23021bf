/* SPDX-License-Identifier: Apache-2.0 */
/* Ring: its life, taking completions, waiting. */
#include "module.h"

#include <time.h>

/* ---- opening and closing ---- */

int ring_check(Ring *r)
{
	if (r->context && !context_get(r->context))
		return -1;
	if (r->is_open)
		return 0;
	set_error(r->m, ESTALE, "the ring is closed");
	return -1;
}

static int ring_init(PyObject *obj, PyObject *args, PyObject *kw)
{
	static char *names[] = {"context", "entries", "event_slots", NULL};
	struct urccl_ring_params p = URCCL_INIT(urccl_ring_params);
	Ring *self = (Ring *)obj;
	PyObject *context;
	struct urccl *ctx;
	int rc;

	p.entries = 256;
	if (!PyArg_ParseTupleAndKeywords(args, kw, "O!|II:Ring", names, self->m->context_type,
					 &context, &p.entries, &p.event_slots))
		return -1;
	if (self->context)
		return set_error(self->m, EBUSY, "the ring is open already"), -1;
	if (p.entries < 1 || p.entries > 16384 || p.entries & (p.entries - 1))
		return set_error(self->m, EINVAL, "entries is a power of two up to 16,384"), -1;
	self->entries = p.entries;
	p.entries *= 2; /* room for a CANCEL of each */
	ctx = context_enter((Context *)context);
	if (!ctx)
		return -1;
	Py_BEGIN_ALLOW_THREADS rc = core_open(&self->core, ctx, &p);
	Py_END_ALLOW_THREADS context_leave((Context *)context);
	if (rc)
		return set_last_error(self->m, rc), -1;
	self->context = (Context *)Py_NewRef(context);
	self->is_open = 1;
	link_add(&self->child.link, &self->context->children);
	return 0;
}

static PyObject *ring_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
	Ring *self = (Ring *)type_alloc(type);

	(void)args;
	(void)kw;
	if (!self)
		return NULL;
	link_init(&self->child.link);
	link_init(&self->flying);
	self->child.kind = CHILD_RING;
	self->m = module_state(type);
	if (!self->m)
		Py_CLEAR(self);
	return (PyObject *)self;
}

/* Calls a method of the Python class, which looks after asyncio's loops. */
static void loops_call(Ring *r, const char *method)
{
	PyObject *done = r->attached ? PyObject_CallMethod((PyObject *)r, method, NULL) : NULL;

	if (r->attached && !done)
		PyErr_WriteUnraisable((PyObject *)r);
	Py_XDECREF(done);
}

void ring_end(Ring *r)
{
	PyObject *wake = NULL;

	if (!r->is_open || r->context->forked)
		return;
	r->is_open = 0;
	loops_call(r, "_detach"); /* a loop must not look at a descriptor that is closed */
	Py_BEGIN_ALLOW_THREADS pthread_rwlock_rdlock(&r->context->lock);
	core_close(&r->core);
	pthread_rwlock_unlock(&r->context->lock);
	Py_END_ALLOW_THREADS link_del(&r->child.link);
	while (!link_alone(&r->flying))
		op_abandon(link_of(r->flying.next, Op, link), ESHUTDOWN, &wake);
	wake_futures(r->m, wake);
}

static PyObject *ring_close(PyObject *obj, PyObject *unused)
{
	Ring *self = (Ring *)obj;

	(void)unused;
	if (self->context)
		ring_end(self);
	Py_RETURN_NONE;
}

static void ring_finalize(PyObject *obj)
{
	PyObject *type, *value, *trace;
	Ring *self = (Ring *)obj;

	PyErr_Fetch(&type, &value, &trace);
	if (self->context)
		ring_end(self);
	PyErr_Restore(type, value, trace);
}

static int ring_traverse(PyObject *obj, visitproc visit, void *arg)
{
	Ring *self = (Ring *)obj;
	struct link *l;

	Py_VISIT(Py_TYPE(obj));
	Py_VISIT((PyObject *)self->context);
	for (l = self->flying.next; l && l != &self->flying; l = l->next)
		Py_VISIT((PyObject *)link_of(l, Op, link));
	return 0;
}

static void ring_dealloc(PyObject *obj)
{
	PyTypeObject *type = Py_TYPE(obj);
	Ring *self = (Ring *)obj;

	PyObject_GC_UnTrack(obj);
	if (self->context)
		ring_end(self);
	link_del(&self->child.link);
	Py_CLEAR(self->context);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(obj);
	Py_DECREF(type);
}

/* ---- taking completions ---- */

static Op *entry_op(struct core_entry *entry)
{
	return link_of(entry, Op, entry);
}

/* The rest waits if the ring is full of CANCELs. */
static void cancels_submit(Ring *r)
{
	struct link *l;

	for (l = r->flying.next; l != &r->flying && r->ncancels; l = l->next) {
		Op *op = link_of(l, Op, link);
		struct urccl_sqe *sqe = op->cancel == 1 ? core_begin(&r->core) : NULL;

		if (!sqe)
			continue;
		urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, (uint64_t)(uintptr_t)&op->entry);
		urccl_sqe_add_flags(sqe, URCCL_SQE_SKIP_SUCCESS);
		core_end(&r->core, 1);
		op->cancel = 2;
		r->ncancels--;
	}
}

void ring_cancel(Ring *r, Op *op)
{
	if (op->cancel)
		return;
	op->cancel = 1;
	r->ncancels++;
	cancels_submit(r);
}

uint32_t ring_reap(Ring *r)
{
	struct core_entry *chain, *entry;
	PyObject *wake = NULL;
	uint32_t n = core_reap(&r->core, &chain);

	if (!n)
		return 0;
	Py_INCREF((PyObject *)r);
	/* A callback of a step may close the ring, which lets go of its ops. */
	for (entry = chain; entry; entry = entry->next)
		Py_INCREF((PyObject *)entry_op(entry));
	while ((entry = core_unchain(&chain))) {
		op_step(entry_op(entry), &wake);
		Py_DECREF((PyObject *)entry_op(entry));
	}
	if (r->ncancels && r->is_open)
		cancels_submit(r);
	wake_futures(r->m, wake);
	Py_DECREF((PyObject *)r);
	return n;
}

static PyObject *ring_poll(PyObject *obj, PyObject *unused)
{
	Ring *self = (Ring *)obj;

	(void)unused;
	if (ring_check(self))
		return NULL;
	return PyLong_FromUnsignedLong(ring_reap(self));
}

static PyObject *ring_reap_arm(PyObject *obj, PyObject *unused)
{
	Ring *self = (Ring *)obj;
	unsigned long n = 0;

	(void)unused;
	if (ring_check(self))
		return NULL;
	do
		n += ring_reap(self);
	while (self->is_open && core_arm(&self->core));
	return PyLong_FromUnsignedLong(n);
}

/* ---- waiting ---- */

uint64_t ring_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

int ring_wait(Ring *r, Op *op, uint32_t phase, uint64_t deadline_ns)
{
	uint64_t now = deadline_ns == UINT64_MAX ? 0 : ring_clock(), ns;
	int rc;

	if (now >= deadline_ns)
		return 0;
	ns = deadline_ns == UINT64_MAX ? deadline_ns : deadline_ns - now;
	if (r->batches)
		core_submit(&r->core);
	Py_INCREF((PyObject *)r);
	Py_BEGIN_ALLOW_THREADS rc = core_wait(&r->core, op ? &op->entry : NULL, phase, ns);
	Py_END_ALLOW_THREADS if (r->is_open)
		loops_call(r, "_poke"); /* this thread had their wake-up */
	Py_DECREF((PyObject *)r);
	if (rc == -ETIME)
		return 0;
	if (!rc || (rc == -EINTR && !PyErr_CheckSignals()))
		return 1;
	if (rc != -EINTR)
		set_error(r->m, rc, rc == -ESTALE ? "the ring was closed" : "cannot wait");
	return -1;
}

static PyObject *ring_wait_n(PyObject *obj, PyObject *args, PyObject *kw)
{
	static char *names[] = {"n", "timeout", NULL};
	Ring *self = (Ring *)obj;
	PyObject *timeout = NULL;
	unsigned int n = 1, got = 0;
	uint64_t ns, deadline;
	int rc = 1;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|IO:wait", names, &n, &timeout) ||
	    timeout_get(timeout, &ns))
		return NULL;
	deadline = ns == UINT64_MAX ? ns : ring_clock() + ns;
	while (rc > 0) {
		if (ring_check(self))
			return NULL;
		got += ring_reap(self);
		if (got >= n)
			break;
		rc = ring_wait(self, NULL, 0, deadline);
	}
	return rc < 0 ? NULL : PyLong_FromUnsignedLong(got);
}

static PyObject *ring_wait_room(PyObject *obj, PyObject *args, PyObject *kw)
{
	static char *names[] = {"n", "timeout", NULL};
	Ring *self = (Ring *)obj;
	PyObject *timeout = NULL;
	unsigned int n = 1;
	uint64_t ns, deadline;
	int rc = 1;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|IO:wait_room", names, &n, &timeout) ||
	    timeout_get(timeout, &ns))
		return NULL;
	if (n > self->entries)
		return set_error(self->m, EINVAL, "n is above the entries of the ring");
	deadline = ns == UINT64_MAX ? ns : ring_clock() + ns;
	while (rc > 0) {
		if (ring_check(self))
			return NULL;
		if (!ring_reap(self) && self->entries - self->nflying < n)
			rc = ring_wait(self, NULL, 0, deadline);
		else if (self->entries - self->nflying >= n)
			break;
	}
	return rc < 0 ? NULL : PyBool_FromLong(rc);
}

static PyObject *ring_hold(PyObject *obj, PyObject *unused)
{
	(void)unused;
	((Ring *)obj)->batches++;
	Py_RETURN_NONE;
}

static PyObject *ring_release(PyObject *obj, PyObject *unused)
{
	Ring *self = (Ring *)obj;

	(void)unused;
	if (!self->batches)
		return set_error(self->m, EINVAL, "no batch is open");
	if (!--self->batches && !ring_check(self))
		core_submit(&self->core);
	if (PyErr_Occurred())
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *ring_fileno(PyObject *obj, PyObject *unused)
{
	Ring *self = (Ring *)obj;

	(void)unused;
	if (ring_check(self))
		return NULL;
	return PyLong_FromLong(urccl_ring_fd(self->core.ring));
}

static PyObject *ring_set_attached(PyObject *obj, PyObject *value)
{
	((Ring *)obj)->attached = PyObject_IsTrue(value) > 0;
	Py_RETURN_NONE;
}

static PyObject *ring_get(PyObject *obj, void *closure)
{
	Ring *self = (Ring *)obj;

	switch ((uintptr_t)closure) {
	case 0:
		return PyLong_FromUnsignedLong(self->core.ring ? urccl_ring_id(self->core.ring)
							       : 0);
	case 1:
		return PyLong_FromUnsignedLong(self->entries);
	case 2:
		return PyLong_FromUnsignedLong(self->nflying);
	case 3:
		return PyBool_FromLong(!self->is_open);
	default:
		return self->context ? Py_NewRef((PyObject *)self->context) : Py_NewRef(Py_None);
	}
}

static PyMethodDef ring_methods[] = {
	{"close", ring_close, METH_NOARGS,
	 "close($self, /)\n--\n\n"
	 "Cancels what is unfinished and waits, at most 2 s, until its buffers are quiet."},
	{"poll", ring_poll, METH_NOARGS,
	 "poll($self, /)\n--\n\n"
	 "Takes the completions that are there, on this thread, and does not wait. How many."},
	{"reap", ring_reap_arm, METH_NOARGS,
	 "reap($self, /)\n--\n\n"
	 "As poll(); then fileno() is readable once when there is another. For trio and other loops."},
	{"wait", (PyCFunction)(void (*)(void))ring_wait_n, METH_VARARGS | METH_KEYWORDS,
	 "wait($self, /, n=1, timeout=None)\n--\n\n"
	 "Waits for n completions, at most timeout seconds. How many it took."},
	{"wait_room", (PyCFunction)(void (*)(void))ring_wait_room, METH_VARARGS | METH_KEYWORDS,
	 "wait_room($self, /, n=1, timeout=None)\n--\n\n"
	 "Waits until n entries can be submitted. False: timeout seconds passed."},
	{"fileno", ring_fileno, METH_NOARGS,
	 "fileno($self, /)\n--\n\nA descriptor for select() and its like; see reap()."},
	{"_hold", ring_hold, METH_NOARGS, NULL},
	{"_release", ring_release, METH_NOARGS, NULL},
	{"_set_attached", ring_set_attached, METH_O, NULL},
	{0},
};

static PyGetSetDef ring_getset[] = {
	{"id", ring_get, NULL, "For msg_ring().", (void *)0},
	{"entries", ring_get, NULL, "Entries that may be unfinished at a time.", (void *)1},
	{"unfinished", ring_get, NULL, "Entries that are.", (void *)2},
	{"closed", ring_get, NULL, "True once close() began.", (void *)3},
	{"context", ring_get, NULL, "The Context.", (void *)4},
	{0},
};

static PyType_Slot ring_slots[] = {
	{Py_tp_new, ring_new},		 {Py_tp_init, ring_init},
	{Py_tp_dealloc, ring_dealloc},	 {Py_tp_finalize, ring_finalize},
	{Py_tp_traverse, ring_traverse}, {Py_tp_methods, ring_methods},
	{Py_tp_getset, ring_getset},	 {0, NULL},
};

PyType_Spec ring_spec = {
	.name = "liburccl._urccl.Ring",
	.basicsize = sizeof(Ring),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
	.slots = ring_slots,
};
