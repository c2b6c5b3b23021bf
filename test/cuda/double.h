/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcuda.so.1 without a GPU. It is strict: calls that a correct program does not make print a
 * sentence and abort. Where the driver documents an error code, the code is returned.
 *
 *	words.c		the faults of URCCL_TEST_CUDA; the count of calls; the checks of every call
 *	device.c	start, devices
 *	context.c	contexts, peer access
 *	span.c		physical memory, addresses that the program was given
 *	memory.c	device memory
 *	host.c		pinned and managed memory, the attributes of pointers
 *	vmm.c		memory that is created, reserved and mapped apart; descriptors
 *	share.c		legacy handles between processes, dma-buf
 *	stream.c	streams
 *	event.c		events
 *	copy.c		copies, sets, words
 *	module.c	modules and kernels, which are C functions
 *
 * Device memory is a memfd. The program's pointer leads to pages without access; the stand-in
 * reads and writes by a mapping of its own, the view. A stream is a thread.
 */
#ifndef DOUBLE_H
#define DOUBLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include "abi.h"

#define EXPORT	    __attribute__((visibility("default")))
#define GPUS_MAX    8
#define QUEUE_MAX   1021u /* operations of a stream; the next call waits, as with the driver */
#define GRANULARITY (2ull << 20)
#define PAGE	    4096ull

enum call_class {
	CLASS_NONE,
	CLASS_MEMCPY,
	CLASS_ALLOC,
	CLASS_HOST,
	CLASS_VMM,
	CLASS_IPC,
	CLASS_STREAM,
	CLASS_LAUNCH,
	CLASSES
};

struct words {
	int gpus, driver;
	uint64_t memory; /* bytes of a GPU */
	unsigned delay_us, late_us, kernel_us;
	unsigned block_us[CLASSES];
	bool hold[CLASSES]; /* calls wait until this is cleared */
	unsigned fail_at, fail_code;
	unsigned hang; /* number of the stream, from 1 */
	bool nopeer, nokernels, novmm, nolegacy, nodmabuf, reuse, stale, capture, touch;
};

struct context {
	int gpu;
	bool primary;
	int refs; /* of a primary context: retains */
	int sticky;
	bool peers[GPUS_MAX]; /* whose memory its kernels may access */
	struct stream *null_stream;
	struct context *next; /* of those that are there, or of those that were destroyed */
};

/* Physical memory: of cuMemAlloc, cuMemCreate, or of another process. */
struct block {
	int fd, gpu, handle_types;
	uint64_t id, len;
	uint8_t *view;
	int refs; /* handles, mappings, spans */
	bool imported;
};

#define SYNC_MEMOPS (1u << 16) /* of span.flags: calls on it that may return early wait */

enum span_kind {
	SPAN_ALLOC,
	SPAN_POOL,
	SPAN_MAPPING,
	SPAN_OPENED,
	SPAN_HOST,
	SPAN_REGISTERED,
	SPAN_MANAGED,
	SPAN_FREED
};

/* Addresses that the program was given; a freed one stays, so that its use is seen. */
struct span {
	struct span *next;
	enum span_kind kind;
	uint64_t addr, len;
	uint64_t reserved, reserved_len; /* the pages without access around it */
	uint8_t *view;
	struct block *block;
	uint64_t block_off;
	struct context *context; /* NULL: memory that is created or from a pool */
	int gpu;
	uint64_t id;
	unsigned flags, uses; /* uses: operations under way */
	unsigned opens;
	uint8_t access[GPUS_MAX]; /* of mappings: CU_MEM_ACCESS_FLAGS */
};

struct event {
	struct event *next; /* of those that were destroyed */
	uint64_t recorded, done;
	double at_ms; /* when it was done last */
	struct context *context;
};

struct piece {
	uint64_t dst, src, len;
};

enum op_kind { OP_COPY, OP_SET, OP_WRITE, OP_WAIT, OP_RECORD, OP_WAIT_EVENT, OP_LAUNCH };

struct op {
	struct op *next;
	enum op_kind kind;
	struct piece *pieces; /* what it touches; src 0: nothing is read */
	size_t npieces;
	struct piece one;
	void *staged; /* its source, which it frees; the call has returned */
	uint64_t value;
	unsigned flags;
	struct event *event;
	const struct kernel *kernel;
	unsigned grid[3], block[3];
	uint64_t args[16];
	int fails; /* error that it makes, or 0 */
};

struct stream {
	struct stream *next;
	struct context *context;
	struct op *head, **tail;
	unsigned queued, number, flags;
	int priority;
	bool destroyed;
};

/* A kernel's arguments, in order, 8 bytes each. */
struct launch {
	const struct stream *stream;
	const uint64_t *args;
	const unsigned *grid, *block;
};

struct kernel {
	const char *name;
	const char *sizes; /* a character for each parameter: '0' + its bytes */
	/* 0, or the error of an illegal access. */
	int (*run)(const struct launch *l);
};

enum {
	NEEDS_INIT = 1,	   /* or else CUDA_ERROR_NOT_INITIALIZED */
	NEEDS_CONTEXT = 2, /* or else abort(); an error that stuck to it is returned */
	PASSES_STICKY = 4, /* is carried out in spite of it */
};

extern pthread_mutex_t double_lock; /* of all tables */
extern pthread_cond_t double_moved; /* an operation ended, or a word changed */
extern struct words double_words;   /* with the lock */
extern struct span *double_spans;
extern bool double_started;	  /* by cuInit() */
extern __thread int capture_mode; /* CU_STREAM_CAPTURE_MODE_* */

/* words.c */
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);
/* Begins each call: counts it, waits as the words say, checks. 0 or the call's error. */
int enter(const char *function, enum call_class class, unsigned needs);
#define ENTER(class, needs)                                      \
	do {                                                     \
		int enter_error = enter(__func__, class, needs); \
		if (enter_error)                                 \
			return enter_error;                      \
	} while (0)
#define ENTER_DEVICE(device)                                      \
	do {                                                      \
		ENTER(CLASS_NONE, NEEDS_INIT);                    \
		if ((device) < 0 || (device) >= words_now().gpus) \
			return CUDA_ERROR_INVALID_DEVICE;         \
	} while (0)
struct words words_now(void);
void lock(void);
void unlock(void);
void wait_moved(void); /* with the lock */
void nap_us(unsigned us);
double now_ms(void);

/* context.c */
struct context *current(void); /* NULL: none */
/* Aborts unless it is one. With the lock. */
struct context *context_of(void *handle);
void context_break(struct context *c, int error);

/* span.c */
uint64_t round_up(uint64_t n, uint64_t to);
struct block *block_new(int gpu, uint64_t len, int handle_types);
struct block *block_of_fd(int fd); /* takes a copy of fd; NULL: it is none */
void block_put(struct block *b);
/* Reserves pages without access; 0: there are none. */
uint64_t reserve(uint64_t len, uint64_t align);
struct span *span_new(enum span_kind kind, uint64_t addr, uint64_t len);
struct span *span_at(uint64_t addr); /* or NULL */
void span_free(struct span *s);
/* Both abort where [addr, addr+len) is no span's or overruns one. Host memory is no span's.
 * `by` names the call. */
void span_hold(uint64_t addr, uint64_t len, int by_gpu, bool writes, const char *by);
void span_drop(uint64_t addr, uint64_t len);
/* Where addr can be accessed, and for how many of len bytes. */
uint8_t *span_view(uint64_t addr, uint64_t len, uint64_t *n);
bool is_device(const struct span *s);
static inline bool is_synchronous(const struct span *s)
{
	return s->flags & SYNC_MEMOPS;
}
void context_frees(const struct context *c);
/* A freed place of that length, to be given again; 0: there is none. */
uint64_t freed_place(uint64_t len);

/* vmm.c */
/* 1: addr is reserved; start and len are of the whole reservation. Otherwise they stay. */
int reservation_attribute(uint64_t addr, uint64_t *start, uint64_t *len);

/* stream.c */
struct stream *stream_of(void *handle); /* with the lock; aborts unless it is one */
/* Queues a copy of op. Unlocks, locks. 0 or an error. */
int stream_add(struct stream *s, const struct op *op, const char *by);
void stream_wait(struct stream *s);
void streams_wait(const struct context *c, bool blocking_only);
/* Ends them when their operations are done, but for those that hang. */
void context_streams_end(const struct context *c);

/* copy.c, module.c */
void copy_run(const struct op *op);
int launch_run(const struct stream *s, const struct op *op);
/* Where the kernel may access addr, and for how many of len bytes; NULL: it may not. With the
 * lock. */
uint8_t *launch_reach(const struct launch *l, uint64_t addr, uint64_t len, uint64_t *n);

/* codec.c */
int codec_encode_tiles(const struct launch *l);
int codec_decode_tiles(const struct launch *l);

#endif
