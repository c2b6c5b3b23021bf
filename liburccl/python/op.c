/* SPDX-License-Identifier: Apache-2.0 */
/* Op: one entry, from its submission to its result. */
#include "module.h"

#include <stdlib.h>
#include <string.h>

#define WHY_MAX	    1024
#define SPIN_MAX_US 20u /* about two rounds of a loop */
#define SPIN_ROW    16u /* a task that never waits lets others run so often */
#define SPIN_MISSED 8u

/* ---- life ---- */

Op *op_new(Ring *r, enum op_value value)
{
	Op *op = (Op *)type_alloc(r->m->op_type);

	if (!op)
		return NULL;
	op->m = r->m;
	op->value = value;
	op->ring = (Ring *)Py_NewRef((PyObject *)r);
	link_init(&op->link);
	return op;
}

PyObject *op_keep_list(Op *op)
{
	if (!op->keep)
		op->keep = PyList_New(0);
	return op->keep;
}

void op_fly(Op *op)
{
	Py_INCREF((PyObject *)op);
	link_add(&op->link, &op->ring->flying);
	op->ring->nflying++;
}

/* Gives back what the entry pointed to: its CQE without MORE was taken. */
static void op_unpin(Op *op)
{
	PyMem_Free(op->array);
	op->array = NULL;
	if (op->view.obj)
		PyBuffer_Release(&op->view);
	Py_CLEAR(op->keep);
	Py_CLEAR(op->remote);
}

static void op_land(Op *op)
{
	link_del(&op->link);
	op->ring->nflying--;
	op->ring->ncancels -= op->cancel == 1;
	op->cancel = 2;
	op_unpin(op);
	Py_DECREF((PyObject *)op);
}

static PyObject *sentence(Op *op, const struct urccl_cqe *cqe)
{
	struct urccl *ctx = op->ring->context->ctx;
	char text[WHY_MAX];

	if (!ctx || urccl_explain(ctx, cqe, text, sizeof(text)) < 0)
		return NULL;
	return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static void op_object(Op *op)
{
	Context *c = op->ring->context;
	const struct urccl_cqe *cqe = &op->entry.cqe;
	struct urccl_peer peer = {(uint32_t)op->object};

	if (op->value == VALUE_REGION)
		op->result = region_new(c, urccl_cqe_region(cqe), op->keep, op->object);
	else if (op->value == VALUE_REMOTE)
		op->result = remote_new(c, peer, urccl_cqe_remote(cqe));
	if (!op->result)
		PyErr_Clear();
}

static void take_futures(Op *op, PyObject **wake)
{
	if (!op->futures)
		return;
	if (!*wake)
		*wake = PyList_New(0);
	if (*wake && PyList_SetSlice(*wake, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX, op->futures))
		PyErr_Clear();
	Py_CLEAR(op->futures);
}

void op_step(Op *op, PyObject **wake)
{
	uint32_t phase = core_phase(&op->entry);

	if (op->phase == CORE_ENDED)
		return;
	take_futures(op, wake);
	if (phase == op->phase)
		return;
	if (op->phase == CORE_FLYING && op->entry.cqe.res < 0) {
		op->why = sentence(op, &op->entry.cqe);
		if (!op->why)
			PyErr_Clear();
	} else if (phase == CORE_ENDED && op->entry.cqe.res >= 0) {
		op_object(op);
	}
	op->phase = phase;
	if (phase == CORE_ENDED)
		op_land(op);
}

void op_abandon(Op *op, int err, PyObject **wake)
{
	if (op->phase == CORE_FLYING) {
		op->entry.cqe = (struct urccl_cqe){.res = -err};
		op->why = PyUnicode_FromString("the ring was closed");
	}
	take_futures(op, wake);
	op->phase = CORE_ENDED;
	op_land(op);
}

void wake_futures(struct module *m, PyObject *wake)
{
	PyObject *type, *value, *trace, *done;

	if (!wake)
		return;
	PyErr_Fetch(&type, &value, &trace);
	done = m->wake_hook ? PyObject_CallFunction(m->wake_hook, "O", wake) : Py_NewRef(Py_None);
	if (!done)
		PyErr_WriteUnraisable(m->wake_hook);
	Py_XDECREF(done);
	Py_DECREF(wake);
	PyErr_Restore(type, value, trace);
}

/* ---- what it gives ---- */

static PyObject *op_value(Op *op)
{
	const struct urccl_cqe *cqe = &op->entry.cqe;

	if (op->value == VALUE_TIMER && (cqe->res == -ETIME || !cqe->res))
		return PyBool_FromLong(cqe->res == -ETIME);
	if (op->value == VALUE_CANCEL && (cqe->res == -ENOENT || cqe->res == -EALREADY))
		return PyLong_FromLong(0);
	if (cqe->res < 0)
		return set_cqe_error(op->m, cqe, op->why);
	switch (op->value) {
	case VALUE_PEER:
		return PyLong_FromUnsignedLong(urccl_cqe_peer(cqe).id);
	case VALUE_REGION:
	case VALUE_REMOTE:
		return op->result ? Py_NewRef(op->result) : PyErr_NoMemory();
	case VALUE_OLD:
		return PyLong_FromUnsignedLongLong(cqe->old);
	default:
		return PyLong_FromLongLong(cqe->res);
	}
}

/* 1: it has an outcome (or, quiet: its end); 0: the timeout passed; -1: an exception. */
static int op_wait(Op *op, uint32_t wanted, uint64_t ns)
{
	uint64_t deadline = ns == UINT64_MAX ? ns : ring_clock() + ns;
	int rc = 1;

	while (rc > 0 && op->phase < wanted) {
		if (ring_check(op->ring))
			return -1;
		if (ring_reap(op->ring))
			continue;
		rc = op->phase < wanted ? ring_wait(op->ring, op, op->phase, deadline) : 1;
	}
	return rc < 0 || op->phase < wanted ? rc : 1;
}

static PyObject *op_result(PyObject *obj, PyObject *args, PyObject *kw)
{
	static char *names[] = {"timeout", NULL};
	PyObject *timeout = NULL;
	Op *op = (Op *)obj;
	uint64_t ns;
	int rc;

	if (!PyArg_ParseTupleAndKeywords(args, kw, "|O:result", names, &timeout) ||
	    timeout_get(timeout, &ns))
		return NULL;
	rc = op_wait(op, CORE_KNOWN, ns);
	if (rc < 0)
		return NULL;
	return rc ? op_value(op)
		  : set_error(op->m, ETIMEDOUT,
			      "the entry is unfinished after the timeout of "
			      "result(); it goes on");
}

static PyObject *op_wait_quiet(PyObject *obj, PyObject *args)
{
	PyObject *timeout = NULL;
	uint64_t ns;
	int rc;

	if (!PyArg_ParseTuple(args, "|O:wait_quiet", &timeout) || timeout_get(timeout, &ns))
		return NULL;
	rc = op_wait((Op *)obj, CORE_ENDED, ns);
	return rc < 0 ? NULL : PyBool_FromLong(rc);
}

static PyObject *op_done(PyObject *obj, PyObject *unused)
{
	Op *op = (Op *)obj;

	(void)unused;
	if (op->phase == CORE_FLYING && op->ring->is_open && !op->ring->context->forked)
		ring_reap(op->ring);
	return PyBool_FromLong(op->phase != CORE_FLYING);
}

static PyObject *op_cancel(PyObject *obj, PyObject *unused)
{
	Op *op = (Op *)obj;

	(void)unused;
	if (op->phase == CORE_ENDED)
		Py_RETURN_FALSE;
	if (ring_check(op->ring))
		return NULL;
	ring_cancel(op->ring, op);
	Py_RETURN_TRUE;
}

/* Those of waits that were cancelled would stay until the entry's next completion. */
static int futures_prune(PyObject *futures)
{
	Py_ssize_t i = PyList_Size(futures);
	PyObject *done;
	int is_done;

	if (i < 16 || i & (i - 1))
		return 0;
	while (i-- > 0) {
		done = PyObject_CallMethod(PyList_GetItem(futures, i), "done", NULL);
		is_done = done ? PyObject_IsTrue(done) : -1;
		Py_XDECREF(done);
		if (is_done < 0 || (is_done && PyList_SetSlice(futures, i, i + 1, NULL)))
			return -1;
	}
	return 0;
}

static PyObject *op_add_future(PyObject *obj, PyObject *future)
{
	Op *op = (Op *)obj;

	if (op->futures && futures_prune(op->futures))
		return NULL;
	if (!op->futures)
		op->futures = PyList_New(0);
	if (!op->futures || PyList_Append(op->futures, future))
		return NULL;
	if (op->ring->batches && op->ring->is_open && !op->ring->context->forked)
		core_submit(&op->ring->core);
	Py_RETURN_NONE;
}

static PyObject *event_tuple(Op *op, const struct core_event *event)
{
	const struct urccl_cqe *cqe = &event->cqe;
	PyObject *why = cqe->res < 0 ? sentence(op, cqe) : NULL, *tuple;

	PyErr_Clear();
	tuple = Py_BuildValue("(IILKKy#O)", urccl_cqe_kind(cqe), cqe->peer, (long long)cqe->res,
			      (unsigned long long)cqe->tag, (unsigned long long)cqe->user_data,
			      (const char *)event->payload, (Py_ssize_t)event->len,
			      why ? why : Py_None);
	Py_XDECREF(why);
	return tuple;
}

static PyObject *op_take_event(PyObject *obj, PyObject *unused)
{
	Op *op = (Op *)obj;
	struct core_event *event = core_take_event(&op->entry);
	PyObject *tuple;

	(void)unused;
	if (!event)
		Py_RETURN_NONE;
	tuple = event_tuple(op, event);
	free(event);
	return tuple;
}

/* True: an event is there; False: the entry ended without one; None: the timeout passed. */
static PyObject *op_wait_event(PyObject *obj, PyObject *args)
{
	PyObject *timeout = NULL;
	Op *op = (Op *)obj;
	uint64_t ns, deadline;
	int rc = 1;

	if (!PyArg_ParseTuple(args, "|O:_wait_event", &timeout) || timeout_get(timeout, &ns))
		return NULL;
	deadline = ns == UINT64_MAX ? ns : ring_clock() + ns;
	while (rc > 0 && !op->entry.first && op->phase == CORE_FLYING) {
		if (ring_check(op->ring))
			return NULL;
		if (!ring_reap(op->ring))
			rc = ring_wait(op->ring, op, op->phase | CORE_EVENT, deadline);
	}
	if (rc < 0)
		return NULL;
	if (!rc)
		Py_RETURN_NONE;
	return PyBool_FromLong(op->entry.first != NULL);
}

/* 1: the outcome came within spin_us. Takes completions meanwhile, which may close the ring. */
static int await_spin(Op *op, Ring *r)
{
	uint64_t us = r->context->spin_us < SPIN_MAX_US ? r->context->spin_us : SPIN_MAX_US;
	uint64_t until = ring_clock() + us * 1000;

	do {
		ring_reap(r);
		if (op->phase != CORE_FLYING)
			return 1;
	} while (r->is_open && ring_clock() < until);
	return 0;
}

/* Saves two rounds of a loop where the outcome comes at once. Where the peer is far or the engine
 * sleeps, 2^n - 1 awaits do not spin after n that did so in vain. True: the loop should run. */
static PyObject *op_spin(PyObject *obj, PyObject *unused)
{
	Op *op = (Op *)obj;
	Ring *r = op->ring;

	(void)unused;
	if (op->phase != CORE_FLYING || !r->is_open || r->context->forked || !r->context->spin_us)
		Py_RETURN_FALSE;
	if (r->skip) {
		r->skip--;
		Py_RETURN_FALSE;
	}
	if (r->batches)
		core_submit(&r->core);
	if (await_spin(op, r)) {
		r->missed = 0;
		return PyBool_FromLong(++r->spun % SPIN_ROW == 0);
	}
	r->missed += r->missed < SPIN_MISSED;
	r->skip = (1u << r->missed) - 1;
	Py_RETURN_FALSE;
}

static PyObject *op_await(PyObject *obj)
{
	Op *op = (Op *)obj;

	return PyObject_CallFunction(op->m->await_hook, "O", op);
}

/* ---- attributes ---- */

static PyObject *op_get_res(PyObject *obj, void *closure)
{
	Op *op = (Op *)obj;

	(void)closure;
	if (op->phase == CORE_FLYING)
		Py_RETURN_NONE;
	return PyLong_FromLongLong(op->entry.cqe.res);
}

static PyObject *op_get_path(PyObject *obj, void *closure)
{
	Op *op = (Op *)obj;

	(void)closure;
	return PyLong_FromUnsignedLong(op->phase == CORE_FLYING ? 0 : op->entry.cqe.path);
}

static PyObject *op_get_flag(PyObject *obj, void *closure)
{
	Op *op = (Op *)obj;

	return PyBool_FromLong(op->phase != CORE_FLYING &&
			       (op->entry.cqe.flags & (uint32_t)(uintptr_t)closure));
}

static PyObject *op_get_quiet(PyObject *obj, void *closure)
{
	(void)closure;
	return PyBool_FromLong(((Op *)obj)->phase == CORE_ENDED);
}

static PyObject *op_get_known(PyObject *obj, void *closure)
{
	(void)closure;
	return PyBool_FromLong(((Op *)obj)->phase != CORE_FLYING);
}

static PyObject *op_get_ring(PyObject *obj, void *closure)
{
	(void)closure;
	return Py_NewRef((PyObject *)((Op *)obj)->ring);
}

static int op_traverse(PyObject *obj, visitproc visit, void *arg)
{
	Op *op = (Op *)obj;

	Py_VISIT(Py_TYPE(obj));
	Py_VISIT((PyObject *)op->ring);
	Py_VISIT(op->view.obj);
	Py_VISIT(op->remote);
	Py_VISIT(op->keep);
	Py_VISIT(op->result);
	Py_VISIT(op->futures);
	return 0;
}

/* One under way is the ring's, whose end abandons it. */
static int op_clear(PyObject *obj)
{
	Op *op = (Op *)obj;

	Py_CLEAR(op->futures);
	Py_CLEAR(op->result);
	return 0;
}

static void op_dealloc(PyObject *obj)
{
	PyTypeObject *type = Py_TYPE(obj);
	struct core_event *event;
	Op *op = (Op *)obj;

	PyObject_GC_UnTrack(obj);
	op_clear(obj);
	op_unpin(op);
	Py_CLEAR(op->why);
	while ((event = core_take_event(&op->entry)))
		free(event);
	Py_CLEAR(op->ring);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(obj);
	Py_DECREF(type);
}

static PyMethodDef op_methods[] = {
	{"done", op_done, METH_NOARGS,
	 "done($self, /)\n--\n\n"
	 "Whether the outcome is known. Takes completions on this thread; does not wait."},
	{"result", (PyCFunction)(void (*)(void))op_result, METH_VARARGS | METH_KEYWORDS,
	 "result($self, /, timeout=None)\n--\n\n"
	 "The outcome: bytes moved, or what the method that made the entry says. Waits for it, at most\n"
	 "timeout seconds (TimeoutError: it goes on). Raises Error if the entry failed."},
	{"wait_quiet", op_wait_quiet, METH_VARARGS,
	 "wait_quiet($self, timeout=None, /)\n--\n\n"
	 "Waits until the library is done with the buffer. False: the timeout passed."},
	{"cancel", op_cancel, METH_NOARGS,
	 "cancel($self, /)\n--\n\n"
	 "Asks for its end, which result() then tells (Cancelled). False: it had ended."},
	{"_spin", op_spin, METH_NOARGS, NULL},
	{"_add_future", op_add_future, METH_O, NULL},
	{"_take_event", op_take_event, METH_NOARGS, NULL},
	{"_wait_event", op_wait_event, METH_VARARGS, NULL},
	{0},
};

static PyGetSetDef op_getset[] = {
	{"res", op_get_res, NULL, "Bytes or a negative errno; None while it is unfinished.", NULL},
	{"path", op_get_path, NULL, "Which path the data took: URCCL_PATH bits of abi.h.", NULL},
	{"remote_quiet", op_get_flag, NULL,
	 "True: proved that nothing of a failed entry lands at the peer any more.",
	 (void *)URCCL_CQE_REMOTE_QUIET},
	{"unknown", op_get_flag, NULL, "True: it failed, and may have happened all the same.",
	 (void *)URCCL_CQE_UNKNOWN},
	{"not_flushed", op_get_flag, NULL,
	 "True: bytes went to memory of a device; a kernel launched now may not see them.",
	 (void *)URCCL_CQE_NOT_FLUSHED},
	{"quiet", op_get_quiet, NULL, "True: the library is done with the buffer.", NULL},
	{"ring", op_get_ring, NULL, "The Ring.", NULL},
	{"_known", op_get_known, NULL, NULL, NULL},
	{0},
};

static PyType_Slot op_slots[] = {
	{Py_tp_doc, "An entry of a ring: what Ring.write() and its like return. Await it, or call\n"
		    "result(). It pins its buffers until the library is done with them."},
	{Py_tp_dealloc, op_dealloc},
	{Py_tp_traverse, op_traverse},
	{Py_tp_clear, op_clear},
	{Py_tp_methods, op_methods},
	{Py_tp_getset, op_getset},
	{Py_am_await, op_await},
	{0, NULL},
};

PyType_Spec op_spec = {
	.name = "liburccl._urccl.Op",
	.basicsize = sizeof(Op),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
	.slots = op_slots,
};
