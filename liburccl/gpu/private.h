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
#define GPU_LOOK_NS   (20 * NSEC_PER_USEC)     /* shortest sleep while jobs are out */
#define GPU_LATE_NS   (20 * NSEC_PER_MSEC)     /* without a word: ask the stream for an error */
#define GPU_QUIET_NS  (100 * NSEC_PER_MSEC)    /* from a reported error to the end of its jobs */
#define GPU_CLOSE_NS  NSEC_PER_SEC
#define GPU_STUCK_NS  NSEC_PER_SEC
#define GPU_DRAIN_NS  (900 * NSEC_PER_MSEC)    /* of it, for issued jobs */

#define GPU_SMS	      8u		       /* multiprocessors where the setting is auto */
#define GPU_PARTS     2048u		       /* a lane's word counts so many for each job */
#define GPU_RATE_NS   NSEC_PER_SEC	       /* after so long a rate is measured anew */
#define GPU_LENGTHS   5u		       /* of pieces, each with rates of its own */
#define GPU_TRIAL     100u		       /* trials take one part of so many of the time */
#define GPU_CALL_NS   (5 * NSEC_PER_USEC)      /* for a piece, by a method without a rate */

/* A job as the copy thread sees it. */
struct gpu_slot {
	uint32_t state;			/* enum gpu_state */
	int32_t	 code;			/* FAILED, or of a piece while others are issued */
	uint64_t seq;
	union {
		struct {
			uint64_t src, dst;
		};
		struct {
			const struct gpu_pieces *pieces; /* GATHER */
			uint32_t method;	/* enum gpu_method; the copy thread changes it
						 * before it issues */
		};
	};
	uint32_t len;
	uint32_t kind;			/* enum gpu_kind */
};

/* Issued operations that end with a word. */
struct gpu_batch {
	uint64_t word;			/* its value */
	uint64_t bytes;
	uint32_t ops;			/* with the word */
	uint32_t is_fed;		/* a bundle that kernels take from the feed */
};

struct gpu_lane_state {
	/* engine */
	uint64_t tail __attribute__((aligned(64))); /* last job submitted */
	uint64_t jobs;			/* submitted and not ended; any thread reads it */
	uint32_t is_full;		/* gpu_submit() was refused, and would be still */
	uint64_t word_looked, moved_ns;	/* by gpu_sleep_ns(): the word, and when it saw it first; 0:
					 * not since the lane was empty */
	/* copy thread */
	uint64_t head __attribute__((aligned(64))); /* last job that was issued whole */
	uint32_t at;			/* pieces of the next one that are issued */
	uint8_t	 is_begun;		/* the next one was taken from the slots */
	uint8_t	 is_due;		/* a job that failed waits for a word behind what was issued
					 * of it */
	uint8_t	 is_unsure;		/* kernels may or may not take the next one, whose launch
					 * failed */
	struct gpu_slot *cut;		/* a job of a broken GPU, some of whose pieces were issued:
					 * it fails when no operation is out. Or NULL */
	uint64_t tail_seen;		/* tail at the last look */
	uint64_t word_seen;
	void	*stream;
	const uint64_t *word;		/* GPU_PARTS times the last job that has ended, and more
					 * for pieces of the next one; the GPU writes it */
	struct gpu_batch batch;		/* issued, without a word yet */
	struct gpu_batch out[GPU_OPS];	/* oldest first, from out_first on */
	uint32_t out_first, out_n;
	uint32_t ops;			/* in batch and out, */
	uint32_t fed_ops;		/* of which so many are bundles of the feed */
	uint64_t bytes;			/* likewise */
	uint64_t rate;			/* measured: MB/s, without GPU_OP_NS per operation */
	uint64_t measured_ns;		/* measuring since */
	uint64_t measured_bytes, measured_ops;
	uint64_t asked_ns;		/* the last word, issue or query */
	uint64_t failed_ns;		/* when the stream reported an error; 0: it has not */
	uint64_t eta_ns;		/* predicted next word; 0: none */
	struct gpu_slot slots[GPU_SLOTS]; /* seq modulo GPU_SLOTS */
};

/* Bytes of GATHER jobs that one method moved, over the time for which some were out. */
struct gpu_method_rate {
	uint64_t bytes, ns;
	uint64_t last_ns;		/* of the clock */
};

/* The engine's. */
struct gpu_gather {
	struct gpu_pieces all[GPU_GATHERS];
	uint16_t free[GPU_GATHERS];	/* a stack */
	uint32_t nfree;
	uint64_t word;			/* of the last look that saw some end, */
	uint64_t from_ns, seen_ns;	/* since when they were out, and when that look was */
	uint64_t bytes;			/* their bytes, */
	struct gpu_method_rate *rate;	/* and their rate; NULL: they have several */
	uint64_t busy_ns;		/* time measured since the last trial */
	struct gpu_method_rate rates[GPU_METHODS][GPU_LENGTHS];
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
	struct gpu_feed *feed;		/* pinned, */
	uint64_t *words;		/* and behind it 64 bytes per lane, */
	struct gpu_table *tables;	/* and one of words and one of events */
	uint32_t sms;			/* of kernels; 0: there are none */
	uint64_t fed, launched;		/* copy thread: bundles posted, kernels launched */
	uint32_t methods;		/* bit per enum gpu_method; the copy thread changes it */
	struct gpu_gather gather;
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

/* ---- gather.c: engine ---- */

void gather_open(struct gpu_dev *dev);
/* How the small pieces of the job are to be moved. */
enum gpu_method gather_method(struct gpu_dev *dev, const struct gpu_job *job);
/* The job has ended; word: its lane's. Its pieces are free again. */
void gather_end(struct gpu_job *job, uint64_t word);

/* ---- lane.c: copy thread, entered ---- */

/* 0, or the vendor's error. */
int lanes_open(struct gpu_dev *dev);
/* Without kernels, or if they cannot be loaded, copy engines do their work. */
void kernels_open(struct gpu_dev *dev);
/* Frees streams and words. */
void lanes_close(struct gpu_dev *dev);
/* Ends and issues jobs, looks for errors. 1: it took a job. */
int lane_turn(struct gpu_dev *dev, struct gpu_lane_state *l, uint64_t now);

/* 1: for so many operations more, which move so many bytes. */
int lane_has_room(const struct gpu_lane_state *l, uint32_t ops, uint64_t bytes);
/* The call that begins ops operations returned code. 1: they are issued. */
int lane_count(struct gpu_dev *dev, struct gpu_lane_state *l, uint32_t ops, uint64_t bytes,
	       int code);
/* What is issued ends with that word. */
void lane_out(struct gpu_lane_state *l, uint64_t word, uint32_t is_fed, uint64_t now);
/* Has the GPU store the lane's word behind what is issued. */
void lane_mark(struct gpu_dev *dev, struct gpu_lane_state *l, uint64_t now);

/* ---- lane_gather.c: likewise ---- */

/* A kernel for the bundles that are posted. */
int feed_launch(struct gpu_dev *dev, struct gpu_lane_state *l);

/* Issues the pieces of the lane's next job from l->at on. 1: all of them, or it has failed. 0: the
 * lane has no room for the rest. */
int gather_issue(struct gpu_dev *dev, struct gpu_lane_state *l, struct gpu_slot *slot,
		 uint64_t now);

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
