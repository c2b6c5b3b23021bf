/* SPDX-License-Identifier: Apache-2.0 */
/* The extension module liburccl._urccl: its objects, and what its files share. Every function here
 * needs the GIL. */
#ifndef MODULE_H
#define MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <liburccl.h>
#include <liburccl/inspect.h>

#include "core.h"

/* An intrusive list; a link that is in none points to itself. */
struct link {
	struct link *next, *prev;
};

struct module {
	PyTypeObject *context_type, *ring_type, *op_type, *region_type, *remote_type, *memory_type;
	PyObject *error_hook;		/* (errno, text, segment, path, flags) -> exception */
	PyObject *await_hook;		/* (op) -> iterator for await */
	PyObject *wake_hook;		/* (list of asyncio futures) */
	struct link contexts;		/* Context.link */
	struct link memories;		/* Memory.link */
};

/* A context's children are in one list; each holds a reference to it. */
enum child_kind { CHILD_RING, CHILD_REGION, CHILD_REMOTE };

struct child {
	struct link link;
	enum child_kind kind;
};

struct log;

typedef struct {
	PyObject_HEAD
	struct module *m;
	struct link link;
	struct link children;
	struct urccl *ctx;		/* NULL: closed */
	int forked;			/* this is a child of the process that opened it */
	pthread_rwlock_t lock;		/* calls without the GIL read, the end writes */
	PyObject *orphans;		/* list: memory of regions that could not be unregistered */
	struct log *log;
	PyObject *log_callable;		/* or NULL */
	uint32_t spin_us;		/* as urccl_open() was told */
} Context;

typedef struct {
	PyObject_HEAD
	struct module *m;
	struct child child;
	Context *context;
	struct core core;
	int is_open;
	uint32_t entries;		/* ops unfinished at a time */
	uint32_t nflying;
	uint32_t batches;		/* `with ring.batch()` under way */
	uint32_t ncancels;		/* ops that wait for room for their CANCEL */
	struct link flying;		/* Op.link: each holds a reference */
	int attached;			/* asyncio's loops look at the fd: _detach(), _poke() */
	uint32_t spun;			/* awaits in a row that needed no loop */
	uint32_t missed;		/* awaits in a row that spun in vain */
	uint32_t skip;			/* awaits to come that do not spin */
} Ring;

enum op_value {			/* what the result of an Op is */
	VALUE_COUNT,			/* res */
	VALUE_PEER,			/* the handle */
	VALUE_REGION, VALUE_REMOTE,	/* an object */
	VALUE_OLD,			/* the word before */
	VALUE_TIMER,			/* whether the time passed */
	VALUE_CANCEL,			/* how many ended; 0 where none matched */
};

typedef struct {
	PyObject_HEAD
	struct module *m;
	struct core_entry entry;
	Ring *ring;
	struct link link;
	uint32_t phase;			/* enum core_phase, as Python sees it */
	enum op_value value;
	uint64_t object;		/* IMPORT: the peer; REGISTER: bytes */
	int cancel;			/* 1: wanted, 2: handed over */
	Py_buffer view;			/* view.obj NULL: none */
	PyObject *remote;		/* Remote or Region that the entry names, or NULL */
	PyObject *keep;			/* list of what is alive until the end, or NULL */
	void *array;			/* likewise, from PyMem_Malloc() */
	PyObject *result;		/* Region or Remote */
	PyObject *futures;		/* list, or NULL */
	PyObject *why;			/* of a failure: its sentence */
} Op;

typedef struct {
	PyObject_HEAD
	struct module *m;
	struct child child;
	Context *context;
	struct urccl_region region;	/* id 0: unregistered */
	PyObject *keep;			/* list of memoryviews and objects */
	uint64_t len;
} Region;

typedef struct {
	PyObject_HEAD
	struct module *m;
	struct child child;
	Context *context;
	struct urccl_remote remote;	/* id 0: ended */
	struct urccl_peer peer;
} Remote;

typedef struct {
	PyObject_HEAD
	struct module *m;
	struct link link;
	void *addr;
	size_t len;
	int fd;
} Memory;

static inline void link_init(struct link *l)
{
	l->next = l->prev = l;
}

static inline int link_alone(const struct link *l)
{
	return l->next == l;
}

static inline void link_add(struct link *l, struct link *head)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static inline void link_del(struct link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	link_init(l);
}

#define link_of(l, type, member) ((type *)(void *)((char *)(l) - offsetof(type, member)))

/* ---- module.c ---- */

/* The state of the module that a type, or a base of it, comes from; NULL with an exception. */
struct module *module_state(PyTypeObject *type);
/* Raises Error with the sentence; returns NULL. err is positive or negative. */
PyObject *set_error(struct module *m, int err, const char *text);
/* Raises it with the sentence of the library's last failed call. */
PyObject *set_last_error(struct module *m, int err);
/* The exception of an Op that failed. */
PyObject *set_cqe_error(struct module *m, const struct urccl_cqe *cqe, PyObject *why);
/* tp_new of what only the library makes. */
PyObject *type_alloc(PyTypeObject *type);

/* ---- arguments ---- */

/* A whole number in [0, most]: 0, or -1 with an exception that names it. */
int number_get(PyObject *obj, uint64_t most, const char *name, uint64_t *out);
/* "rwa" in any order: enum urccl_rights, or -1. */
int rights_get(PyObject *obj, uint32_t *out);
/* Seconds, or None for ever (UINT64_MAX), as nanoseconds; 0, or -1. */
int timeout_get(PyObject *obj, uint64_t *ns);

/* ---- buffer.c ---- */

struct span {
	uint64_t addr, len;
	int is_device;			/* memory of a GPU; 0 for an address, of which nothing is
					 * known */
};

/* The memory of an object. The view is filled in (view->obj not NULL) if it keeps the memory alive;
 * else the caller keeps the object itself alive. 0, or -1. */
int buffer_get(struct module *m, PyObject *obj, int writable, Py_buffer *view, struct span *span);
/* The same, with what must stay alive added to the list. */
int buffer_keep(struct module *m, PyObject *obj, int writable, PyObject *list, struct span *span);
/* The ranges of a REGISTER, from an object or a sequence of them; *ranges is PyMem_Malloc()'s. */
int ranges_get(struct module *m, PyObject *obj, uint32_t rights, PyObject *list,
	       struct urccl_range **ranges, uint32_t *n, uint64_t *len);
/* 0, or -1 with an exception: memory of a GPU, which this thread is to read. */
int span_host(const struct span *span, const char *name);
/* 64 bytes each, of an object or a sequence of them; *adverts is PyMem_Malloc()'s. */
int adverts_get(PyObject *obj, struct urccl_advert **adverts, uint32_t *n);

/* ---- tensor.c ---- */

/* As buffer_get(), for an object without the buffer protocol. */
int tensor_get(struct module *m, PyObject *obj, int writable, Py_buffer *view, struct span *span);
/* Keeps an exception. */
int tensor_is_on_gpu(PyObject *obj);

/* ---- codec.c ---- */

extern PyMethodDef codec_methods[];

/* ---- context.c ---- */

/* The context, for calls; NULL: closed or forked, with an exception. */
struct urccl *context_get(Context *c);
/* Around a call without the GIL: the context is not closed under it. */
struct urccl *context_enter(Context *c);
void context_leave(Context *c);
/* Ends all; waits at most 2 s, without the GIL. */
void context_end(Context *c);
extern PyType_Spec context_spec;
void module_after_fork(struct module *m);

/* ---- inspect.c ---- */

/* A list of names, of bits by enum urccl_transport. */
PyObject *transports_text(uint32_t bits);
PyObject *context_metadata(PyObject *obj, void *closure);
PyObject *context_listening(PyObject *obj, void *closure);
PyObject *context_peer_info(PyObject *obj, PyObject *arg);
PyObject *context_stats(PyObject *obj, PyObject *unused);
PyObject *context_devices(PyObject *obj, PyObject *unused);
PyObject *context_plan(PyObject *obj, PyObject *args);
PyObject *context_measure(PyObject *obj, PyObject *arg);
PyObject *context_dump(PyObject *obj, PyObject *arg);

/* ---- region.c, remote.c ---- */

PyObject *region_new(Context *c, struct urccl_region region, PyObject *keep, uint64_t len);
PyObject *remote_new(Context *c, struct urccl_peer peer, struct urccl_remote remote);
/* The context ended: the handle is void. */
void region_void(Region *r);
void remote_void(Remote *r);
PyObject *context_register(PyObject *self, PyObject *args, PyObject *kw);
PyObject *context_import(PyObject *self, PyObject *args);
extern PyType_Spec region_spec, remote_spec;

/* ---- memory.c ---- */

PyObject *memory_new(struct module *m, size_t len);
/* The Memory that holds all of the span, or NULL. */
Memory *memory_find(struct module *m, uint64_t addr, uint64_t len);
extern PyType_Spec memory_spec;

/* ---- ring.c ---- */

/* 0, or -1 with an exception: closed or forked. */
int ring_check(Ring *r);
/* Takes what is there and ends ops. Returns how many CQEs it took. */
uint32_t ring_reap(Ring *r);
/* Hands over a CANCEL of the op, at the next reap where the ring has no room for it. */
void ring_cancel(Ring *r, Op *op);
/* Waits with the GIL released until a CQE is there or the op is in a later phase. 1: look again;
 * 0: the deadline passed; -1: an exception. deadline_ns is of ring_clock(). */
int ring_wait(Ring *r, Op *op, uint32_t phase, uint64_t deadline_ns);
uint64_t ring_clock(void);
/* Closes it; ops that are under way end with -ESHUTDOWN. */
void ring_end(Ring *r);
extern PyType_Spec ring_spec;

/* ---- op.c ---- */

Op *op_new(Ring *r, enum op_value value);
/* The list of what the op keeps alive besides its view; NULL with an exception. */
PyObject *op_keep_list(Op *op);
/* Calls the hook with the futures, takes the reference. NULL is fine. */
void wake_futures(struct module *m, PyObject *wake);
/* Its entry was handed over: the ring holds it. */
void op_fly(Op *op);
/* The core says that something happened to it: adds its futures to *wake. */
void op_step(Op *op, PyObject **wake);
/* It ended without a CQE: the ring is gone. */
void op_abandon(Op *op, int err, PyObject **wake);
extern PyType_Spec op_spec;

/* ---- options.c ---- */

/* The keyword arguments of every entry. */
struct options {
	uint32_t deadline_us;		/* 0: the context's */
	uint32_t flags;			/* enum urccl_sqe_flags */
	uint32_t group;
	enum urccl_class cls;
	uint64_t off;
	uint64_t tag;
	struct span payload;		/* of the notification */
	uint64_t wait, wait_value;	/* 0: none */
	uint64_t event;			/* CUevent; 0: none */
	int is_ready;			/* the program has synchronised */
	uint64_t signal, signal_value;
};

/* Reads them into *o; buffers are kept by the op. 0, or -1. */
int options_get(Op *op, struct options *o, PyObject *const *values, PyObject *names);
/* Sets them in a prepared entry. */
void options_set(const struct options *o, struct urccl_ring *ring, struct urccl_sqe *sqe);
/* A payload of at most URCCL_NOTE_MAX bytes, kept by the op. 0, or -1. */
int payload_get(Op *op, PyObject *obj, struct span *span);

/* ---- prepare.c, prepare_peer.c ---- */

/* An entry on its way from the arguments of a method to the ring. */
struct call {
	Ring *ring;
	Op *op;
	struct options o;
	struct urccl_sqe *sqe;
};

typedef PyObject *(*fastcall)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

/* Checks the ring and the number of positional arguments, makes the op, reads the options. 0, or -1
 * with nothing to undo. */
int call_open(struct call *c, PyObject *self, PyObject *const *args, Py_ssize_t n,
	      PyObject *names, Py_ssize_t least, Py_ssize_t most, enum op_value value);
/* Takes an entry of the ring, to be prepared; call_end() comes next. 0, or -1. */
int call_begin(struct call *c);
PyObject *call_end(struct call *c);
/* Drops the op; returns NULL. */
PyObject *call_fail(struct call *c);
int call_peer(PyObject *obj, struct urccl_peer *peer);

extern PyMethodDef prepare_methods[], prepare_peer_methods[];

#endif
