/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of GPUs: the kind of a pointer, copies, pinned host memory, handles for other processes.
 * The vendor's library (CUDA) is behind gpu_api.h.
 *
 * A context has one struct gpu. Each GPU in use has a struct gpu_dev with a copy thread, which
 * makes the calls of the data path: such a call may block for as long as the program blocks in
 * CUDA. So no engine thread calls CUDA; it submits jobs and looks at words in host memory.
 * Functions marked "helper" call CUDA themselves and may block: they are for helper threads.
 *
 * The library never starts CUDA. It finds the driver only if the program has loaded it, and uses
 * primary contexts that the program has made. Functions return 0 or -errno. The vendor's number of
 * an error (CUresult) is beside it: gpu_code_name() gives its name.
 */
#ifndef GPU_H
#define GPU_H

#include "base/base.h"

#define GPUS_MAX     32u		/* per process: bits of gpu_about.peers */
#define GPU_COPY_MAX (64u << 20)	/* bytes per job: 1.2 ms from host to device */
#define GPU_SLOTS    1024u		/* jobs of a lane that have not ended, a power of two */
#define GPU_GATHER_MAX (16u << 20)	/* bytes of a GATHER job */
#define GPU_PIECES   1024u		/* and pieces */
#define GPU_UNIT     4096u		/* bytes that a warp of the gather kernel moves at a time */
#define GPU_LARGE    (1u << 20)		/* pieces from this length on go by the copy engine */

struct gpu;
struct gpu_dev;

/* ---- open and close: any thread ---- */

struct gpu_config {
	const char *so;			/* setting cuda_so */
	int32_t	 sms;			/* setting gpu_sms */
	uint32_t by_hand;		/* 1: no copy threads, gpu_step() does their work */
	uint64_t spin_ns;		/* setting spin_us; copy threads spin for 1 ms at most */
	const char *thread_name;	/* settings of that name */
	const char *cpus;		/* control_cpus */
	int	 nice;			/* control_nice */
	const struct log *log;		/* gpu_close() alone uses it; NULL: none */
};

/* Copies the config but for its strings and log, which must live until gpu_close(). Does not look
 * for CUDA. 0 or -ENOMEM. */
int gpu_open(const struct gpu_config *config, struct gpu **out);
/* Cancels queued jobs, waits for issued ones and frees everything. Takes at most 1 s, even if CUDA
 * blocks. No other call may run beside or after it. 0: no GPU touches memory of a job any more.
 * -EBUSY: one still may. Then its gpu_dev stays allocated, a log line says so, and memory that
 * jobs name, or that is host-registered, must stay mapped. g may be NULL. */
int gpu_close(struct gpu *g);

/* 1: the program has loaded CUDA. Looks for it anew each time. Any thread. */
int gpu_is_loaded(const char *so);

/* ---- the kind of a pointer: helper ---- */

enum gpu_memory {
	GPU_MEMORY_HOST,		/* also managed memory, and all if CUDA is not loaded */
	GPU_MEMORY_PINNED,		/* host memory that CUDA has registered or allocated */
	GPU_MEMORY_DEVICE,
};

struct gpu_pointer {
	uint32_t kind;			/* enum gpu_memory */
	uint32_t index;			/* DEVICE, PINNED: the GPU, for gpu_dev_get(); else 0 */
	uint64_t base;			/* of the allocation, or VMM mapping; HOST: addr */
	uint64_t end;			/* at most addr + len: what is before it has this kind
					 * and GPU and belongs to one allocation, or, of VMM memory,
					 * to mappings that touch */
	uint64_t id;			/* of the allocation, never used again; 0: HOST */
	uint32_t is_vmm;		/* cuMemMap() */
	uint32_t is_primary;		/* of the primary context; VMM: the GPU has that one */
	uint32_t is_legacy_ipc;		/* gpu_export() can make a legacy handle */
	int	 code;			/* CUresult if the call failed */
};

/* The kind of the memory at addr, where len > 0 bytes are wanted. For a range of several kinds call
 * it again at out->end. g may be NULL: all is memory of the host. 0, or -EIO: CUDA reports an error
 * of the device. */
int gpu_pointer_info(struct gpu *g, uint64_t addr, uint64_t len, struct gpu_pointer *out);

/* ---- GPUs ---- */

struct gpu_about {
	uint32_t index;			/* CUDA's number of it in this process */
	uint32_t driver;		/* CUDA version of the driver: 13000 */
	char	 name[64];		/* "NVIDIA H200" */
	char	 pci[16];		/* "0000:1b:00.0" */
	uint8_t	 uuid[16];
	uint32_t major, minor;		/* compute capability */
	uint32_t multiprocessors;
	uint32_t peers;			/* bit per GPU whose memory it can reach */
	uint32_t fds;			/* 1: VMM memory can be shared by descriptor */
	uint32_t dmabufs;		/* 1: memory can be given to a NIC as dma-buf */
	uint32_t flushes;		/* 1: GPUs see what a NIC wrote only after a FLUSH */
};

/* Helper. Opens the GPU if this is its first use: retains the primary context, which must exist,
 * makes the lanes and starts the copy thread. -ENODEV: CUDA is not loaded, or has no such GPU, or
 * its primary context does not exist. -EIO: CUDA failed, *code says how. Never changes the current
 * context of the calling thread. */
int gpu_dev_get(struct gpu *g, uint32_t index, struct gpu_dev **out, int *code);
/* Any thread, while the context closes, which began at that time of the clock. 1: a job is out a
 * second later. */
int gpu_is_stuck(struct gpu *g, uint64_t since);
/* The GPU if gpu_dev_get() has opened it, else NULL. Any thread. */
struct gpu_dev *gpu_dev_find(struct gpu *g, uint32_t index);
/* One that is open, and not broken if there is such a one, or NULL. g may be NULL. Any thread. */
struct gpu_dev *gpu_dev_any(struct gpu *g);
/* Never changes. Any thread. */
const struct gpu_about *gpu_about(const struct gpu_dev *dev);
/* CUresult of the error that broke the GPU for this process, or 0. All its jobs end with -EIO from
 * then on. Any thread. */
int gpu_dev_code(const struct gpu_dev *dev);
/* "CUDA_ERROR_ILLEGAL_ADDRESS"; never NULL. Does not block. */
const char *gpu_code_name(const struct gpu *g, int code);

/* ---- jobs: the engine's thread alone ---- */

enum gpu_kind {
	GPU_COPY,			/* len bytes from src to dst */
	GPU_GATHER,			/* scattered pieces. ENCODE and DECODE come later */
	GPU_WRITE_WORD,			/* the value src to the 8 bytes at dst; len is 8 */
	GPU_READ_WORDS,			/* the first len words of the table for this kind */
	GPU_QUERY_EVENTS,		/* likewise, events: the GPU itself does nothing */
	GPU_FLUSH,			/* all GPUs see what devices of RDMA have written to its
					 * memory; len is 1 */
};

#define GPU_LOOKS 64u			/* words, or events, of one job */

/* A GPU has one for READ_WORDS and one for QUERY_EVENTS: a context has one job of each out at a
 * time. Pinned memory that the engine leaves alone while the job is out. */
struct gpu_table {
	uint64_t at[GPU_LOOKS];		/* addresses of words, or of CUevents */
	uint64_t value[GPU_LOOKS];	/* ended: the word; of an event 1, it is done, or 0 */
	int32_t	 res[GPU_LOOKS];	/* ended: 0, or -errno of this one alone, */
	int32_t	 code[GPU_LOOKS];	/* with the CUresult */
};

/* A piece as the kernel reads it. */
struct gpu_piece {
	uint64_t src, dst;
	uint32_t len;
	uint32_t first;			/* number of its first unit; 0 if it is LARGE */
};

/* Of one GATHER job. The engine's, from gpu_pieces_get() on; the copy thread reads it until the job
 * has ended. */
struct gpu_pieces {
	struct gpu_piece *rows;		/* pinned: small pieces from the first on, LARGE ones from
					 * the last on, backwards */
	uint32_t n, nlarge;
	uint32_t units;			/* of small pieces */
	uint32_t each;			/* units of every small piece, where the last may have
					 * fewer; 0: they differ */
	uint32_t last;			/* units of the last one */
	uint64_t len, small;		/* bytes of all pieces, of small ones */
	uint64_t since_ns;		/* submitted */
};

/* How small pieces are moved. */
enum gpu_method { GPU_METHOD_COPIES, GPU_METHOD_KERNEL, GPU_METHOD_BATCH, GPU_METHODS };

/* A lane is a stream that never waits for the program. Jobs of one lane are done in order, lanes
 * side by side; a GATHER job's pieces in any order. A lane has at most 256 operations and about
 * 5 ms of work issued. */
enum gpu_lane {
	GPU_OUT,
	GPU_IN,
	GPU_PEER,
	GPU_PEER_TOO,			/* another: one copies while the other has a word between
					 * two copies */
	GPU_KERNEL,
	GPU_CONTROL,
	GPU_LANES,
};

/* Of the GPU's slot for the job. The engine alone leaves FREE. */
enum gpu_state {
	GPU_FREE,
	GPU_QUEUED,			/* nothing has touched the memory */
	GPU_BEGUN,			/* GATHER: cannot be cancelled, and the copy thread still
					 * uses slot and pieces, though its word may be there */
	GPU_ISSUED,			/* cannot be cancelled */
	GPU_ENDED,			/* by the copy thread, without the GPU */
	GPU_FAILED,			/* has ended with an error */
	GPU_CANCELLED,
};

/* Embedded in its owner. The copy thread has its own copy: the owner may use the struct again, and
 * the memory, once gpu_job_done() or gpu_cancel() returned 1. */
struct gpu_job {
	struct gpu_dev *dev;		/* NULL: not submitted, or ended */
	uint8_t	 kind;			/* enum gpu_kind */
	uint8_t	 lane;			/* enum gpu_lane */
	uint8_t	 foreign;		/* GATHER: pieces of another GPU are in it, which the
					 * kernel does not reach */
	uint8_t	 method;		/* GATHER, ended: enum gpu_method */
	int32_t	 res;			/* ended: 0 or -errno */
	int32_t	 code;			/* ended with -EIO: the CUresult */
	uint64_t src, dst;		/* addresses of this process, host or device */
	uint64_t len;			/* 1 to GPU_COPY_MAX; of a table's job 1 to GPU_LOOKS;
					 * GATHER: set by gpu_submit() */
	struct gpu_pieces *pieces;	/* GATHER: goes back when the job ends; NULL then */
	uint64_t seq;			/* in its lane; set by gpu_submit() */
};

/* No pieces yet, for one GATHER job, whose end gives them back. NULL: none is free. */
struct gpu_pieces *gpu_pieces_get(struct gpu_dev *dev);
/* Gives them back where the job was not submitted. */
void gpu_pieces_put(struct gpu_dev *dev, struct gpu_pieces *p);
static inline int gpu_pieces_full(const struct gpu_pieces *p)
{
	return p->n + p->nlarge == GPU_PIECES;
}
/* n small pieces of len bytes are in the next rows. */
static inline void gpu_pieces_count(struct gpu_pieces *p, uint32_t n, uint32_t len)
{
	uint32_t units = (len + GPU_UNIT - 1) / GPU_UNIT;
	int fits = n == 1 ? units <= p->each : units == p->each;

	p->each = !p->n ? units : p->last == p->each && fits ? p->each : 0;
	p->n += n;
	p->last = units;
	p->units += n * units;
	p->len += (uint64_t)n * len;
	p->small += (uint64_t)n * len;
}
/* They are not full; len is not 0, the sum GPU_GATHER_MAX at most. */
static inline void gpu_pieces_add(struct gpu_pieces *p, uint64_t src, uint64_t dst, uint32_t len)
{
	if (len >= GPU_LARGE) {
		p->rows[GPU_PIECES - ++p->nlarge] = (struct gpu_piece){src, dst, len, 0};
		p->len += len;
		return;
	}
	p->rows[p->n] = (struct gpu_piece){src, dst, len, p->units};
	gpu_pieces_count(p, 1, len);
}

/* 1: taken; job->dev is dev, and its pieces end with it. 0: the lane has no free slot; try again
 * after a job of it has ended. Each taken job must be asked for by gpu_job_done() or gpu_cancel()
 * until one returns 1. Wakes the copy thread if it sleeps; never blocks. Host memory that is not
 * pinned makes the copy thread block. */
int gpu_submit(struct gpu_dev *dev, struct gpu_job *job);
/* 1: it has ended, res and code say how; its bytes are where they belong. 0: not yet. One load of
 * the lane's word, and of the slot. */
int gpu_job_done(struct gpu_job *job);
/* 1: it has ended, with -ECANCELED if it was not issued; nothing will ever touch its memory for it.
 * 0: it is issued: ask gpu_job_done(). */
int gpu_cancel(struct gpu_job *job);
/* How long an engine whose jobs are out should sleep: 20 us, and longer while no job ends, up to
 * 20 ms. NEVER_NS: no job and no import is out, or g is NULL. */
uint64_t gpu_sleep_ns(struct gpu *g, uint64_t now);
/* For jobs of that kind. Never changes. Any thread. */
struct gpu_table *gpu_table(const struct gpu_dev *dev, enum gpu_kind kind);
/* Contexts with by_hand alone, in the engine's turn: issues all queued jobs and waits for them, for
 * at most 1 s; does imports. 1: it did something. */
int gpu_step(struct gpu *g);

/* ---- pinned host memory: helper ---- */

/* Page-aligned memory that all GPUs of the process can then reach by the same address. May take 1 s
 * per 10 GiB, and blocks the program's CUDA calls meanwhile. -EIO: *code. */
int gpu_host_register(struct gpu_dev *dev, uint64_t addr, uint64_t len, int *code);
int gpu_host_unregister(struct gpu_dev *dev, uint64_t addr, int *code);

/* ---- kernels on streams of the program ---- */

struct gpu_module;

struct gpu_launch {
	uint32_t kernel;		/* number of its name */
	uint32_t blocks, threads;
	uint32_t shared;		/* bytes of memory of a block */
	void	*args;			/* the kernel's one parameter */
};

/* Loads the image, of kernels with these n names, for a GPU of which the program has made the
 * primary context. Waits for kernels that run. A failure leaves a sentence for urccl_errmsg().
 * -ENODEV: CUDA is not loaded, or has no such GPU or context. */
int gpu_module_open(uint32_t index, const void *image, const char *const *names, uint32_t n,
		    struct gpu_module **out);
/* After the last launch has ended. */
void gpu_module_close(struct gpu_module *m);
/* Multiprocessors of the GPU. */
uint32_t gpu_module_sms(const struct gpu_module *m);
/* Any thread. Launches n kernels, one after the other, on a stream of the GPU's primary context;
 * neither allocates nor waits. -EIO and the like: a sentence is left, and those before it run. */
int gpu_module_launch(const struct gpu_module *m, const struct gpu_launch *launches, uint32_t n,
		      void *stream);

/* ---- memory of other processes ---- */

enum gpu_share_how {
	GPU_SHARE_LEGACY = 1,
	GPU_SHARE_FD,
	GPU_SHARE_SELF,			/* of imports alone: base is an address of this process */
};

struct gpu_share {
	uint32_t how;			/* enum gpu_share_how */
	int	 fd;			/* SHARE_FD: of the caller to close; else -1 */
	uint64_t base, len;		/* whole allocation, or mapping, in the exporter */
	uint8_t	 uuid[16];		/* of the exporter's GPU */
	uint8_t	 handle[64];		/* SHARE_LEGACY */
};

/* Helper. A handle of the allocation that holds addr; 0.7 to 1 ms. -EOPNOTSUPP: it cannot be
 * shared (for example cudaMallocAsync() memory). */
int gpu_export(struct gpu_dev *dev, uint64_t addr, struct gpu_share *out, int *code);

/* Helper. A dma-buf of whole pages of its memory, for devices of RDMA; the caller closes it. 0, or
 * -errno: CUDA, or the kernel's driver, has none. */
int gpu_dmabuf(struct gpu_dev *dev, uint64_t addr, uint64_t len, int *fd);

/* Memory of malloc(). The owner leaves it alone until gpu_import_done(). */
struct gpu_import {
	struct msg msg, end;		/* the copy thread's */
	struct gpu_share share;		/* fd: the copy thread closes it */
	uint64_t addr;			/* of the allocation's first byte here, for dev's jobs */
	int32_t	 res;			/* ended: 0 or -errno */
	int32_t	 code;			/* -EIO: the CUresult */
	uint32_t done;			/* the copy thread: 1, with release */
	uint32_t users;			/* gpu_import_hold(); it goes with the last */
};

/* Engine. Maps it for dev's GPU, on the copy thread: 10 ms per GiB. No peer access: -EOPNOTSUPP. */
void gpu_import(struct gpu_dev *dev, struct gpu_import *imp);
/* Any thread. One user more: it takes another gpu_unimport(). */
static inline void gpu_import_hold(struct gpu_import *imp)
{
	__atomic_fetch_add(&imp->users, 1, __ATOMIC_RELAXED);
}
/* Any thread. With the last user unmaps it, if it was mapped, and frees imp, which need not be done
 * yet; all jobs that name the memory must have ended. */
void gpu_unimport(struct gpu_dev *dev, struct gpu_import *imp);
/* Any thread. 1: an import for dev is being mapped or unmapped. */
int gpu_imports_busy(const struct gpu_dev *dev);
static inline int gpu_import_done(const struct gpu_import *imp)
{
	return (int)load_acquire(&imp->done);
}

/* An import as the program sees it: urccl_remote_map(). */
struct gpu_mapping {
	uint64_t addr;
	struct gpu_dev *dev;		/* it is mapped for */
	struct gpu_import *import;	/* held; NULL: nothing is mapped */
};

#endif
