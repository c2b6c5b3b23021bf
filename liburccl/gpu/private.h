/* SPDX-License-Identifier: Apache-2.0 */
/* The room's own: contexts, GPUs, lanes. */
#ifndef GPU_PRIVATE_H
#define GPU_PRIVATE_H

#include "gpu/gpu_api.h"

#define GPU_OPS	      256u		       /* operations of a lane that are issued, words too */
#define GPU_WORK_NS   (5 * NSEC_PER_MSEC)      /* work of a lane that is issued */
#define GPU_OP_NS     (2 * NSEC_PER_USEC)      /* of it, for each operation */
#define GPU_RATE      10000u		       /* MB/s of a lane before it is measured */
#define GPU_MARK_LEN  (4u << 20)	       /* a word after so many bytes */
#define GPU_MARK_OPS  16u		       /* or operations */
#define GPU_LOOK_NS   (50 * NSEC_PER_USEC)     /* shortest sleep while jobs are out */
#define GPU_LATE_NS   (20 * NSEC_PER_MSEC)     /* without a word: ask the stream for an error */
#define GPU_QUIET_NS  (100 * NSEC_PER_MSEC)    /* from a reported error to the end of its jobs */
#define GPU_CLOSE_NS  NSEC_PER_SEC
#define GPU_STUCK_NS  NSEC_PER_SEC
#define GPU_DRAIN_NS  (900 * NSEC_PER_MSEC)    /* of it, for issued jobs */

/* A job as the copy thread sees it. */
struct gpu_slot {
	uint32_t state;			/* enum gpu_state */
	int32_t	 code;			/* FAILED */
	uint64_t seq, src, dst;
	uint32_t len;
	uint32_t kind;			/* enum gpu_kind */
};

/* Issued operations that end with a word. */
struct gpu_batch {
	uint64_t seq;			/* value of the word: the last job */
	uint64_t bytes;
	uint32_t ops;			/* with the word */
};

struct gpu_lane_state {
	/* engine */
	uint64_t tail __attribute__((aligned(64))); /* last job submitted */
	uint64_t jobs;			/* submitted and not ended; any thread reads it */
	uint64_t word_looked, moved_ns;	/* by gpu_sleep_ns(): the word, and when it saw it first; 0:
					 * not since the lane was empty */
	/* copy thread */
	uint64_t head __attribute__((aligned(64))); /* last job taken from the slots */
	uint64_t tail_seen;		/* tail at the last look */
	uint64_t word_seen;
	void	*stream;
	const uint64_t *word;		/* last job that has ended; the GPU writes it */
	struct gpu_batch batch;		/* issued, without a word yet */
	struct gpu_batch out[GPU_OPS];	/* oldest first, from out_first on */
	uint32_t out_first, out_n;
	uint32_t ops;			/* in batch and out */
	uint64_t bytes;			/* likewise */
	uint64_t rate;			/* measured: MB/s, without GPU_OP_NS per operation */
	uint64_t measured_ns;		/* measuring since */
	uint64_t measured_bytes, measured_ops;
	uint64_t asked_ns;		/* the last word, issue or query */
	uint64_t failed_ns;		/* when the stream reported an error; 0: it has not */
	uint64_t eta_ns;		/* predicted next word; 0: none */
	struct gpu_slot slots[GPU_SLOTS]; /* seq modulo GPU_SLOTS */
};

enum gpu_ended {
	NOT_ENDED,
	ENDED_FREED,
	ENDED_IN_USE,			/* the GPU may still use memory of jobs */
};

struct gpu_dev {
	const struct gpu_api *api;
	void	*lib, *ctx;
	struct gpu_about about;
	struct mailbox box;		/* imports; its announcement covers the lanes too */
	struct msg close;
	pthread_t thread;
	int	 has_thread;
	uint64_t spin_ns;
	uint64_t *words;		/* pinned: 64 bytes per lane, */
	struct gpu_table *tables;	/* and behind them one of words and one of events */
	uint32_t imports;		/* begun or ended, and not done: who asks adds, the copy
					 * thread subtracts */
	int	 code;			/* copy thread: the error that broke it */
	int	 is_late;		/* gpu_step() alone: it waited in vain */
	uint64_t closing_ns;		/* copy thread: when the close came; 0: not yet */
	uint32_t ended;			/* enum gpu_ended; copy thread */
	struct gpu_lane_state lanes[GPU_LANES];
};

struct gpu {
	struct gpu_config config;
	const struct gpu_api *api;
	pthread_mutex_t lock;		/* of loading and opening */
	void	*lib;			/* NULL: not found yet; stored with release */
	struct gpu_dev *devs[GPUS_MAX];	/* likewise */
};

enum gpu_msg { GPU_MSG_CLOSE, GPU_MSG_IMPORT, GPU_MSG_UNIMPORT };

/* No call on the GPU will succeed any more, because of that error. */
void dev_break(struct gpu_dev *dev, int code);

/* ---- lane.c: copy thread, entered ---- */

/* 0, or the vendor's error. */
int lanes_open(struct gpu_dev *dev);
/* Frees streams and words. */
void lanes_close(struct gpu_dev *dev);
/* Ends and issues jobs, looks for errors. 1: it took a job. */
int lane_turn(struct gpu_dev *dev, struct gpu_lane_state *l, uint64_t now);

/* ---- copy_thread.c ---- */

int copy_thread_start(struct gpu_dev *dev, const struct gpu_config *config);

/* By hand: the work of the thread. */
/* Before turns; leave() ends it. 0: it failed and broke the GPU, there is nothing to leave. */
int copy_enter(struct gpu_dev *dev);
/* One look at mailbox and lanes. 1: it did something. */
int copy_turn(struct gpu_dev *dev, uint64_t now);
/* 1: a job is queued or issued. */
int copy_busy(const struct gpu_dev *dev);
/* After the message of the close: waits for issued jobs, frees everything. */
void copy_finish(struct gpu_dev *dev);

#endif
