/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of GPUs that the device of a rail does not reach: its bytes go through slots of pinned
 * memory of the library.
 *
 *	WRITE	[waits for a slot] -> copied out of the GPU -> held -> posted from the slot -> out
 *	READ	[waits for a slot] -> held or posted with the slot -> out -> copied into the GPU
 *
 * chunk.local and chunk.memory are the slot's for as long as the chunk has one; the slot keeps the
 * entry's. A chunk counts in op.inflight throughout. The copies are jobs of the GPU's copy thread
 * (gpu.h), which the engine looks at each iteration while some are out. Part of private.h.
 */
#ifndef STAGE_H
#define STAGE_H

#define SLOT_BYTES (1u << 20) /* no transport has larger chunks */

struct slot;
struct op;
struct engine;

/* A copy between a region, with memory of any kind, and pinned memory of the library. */
struct copy {
	struct gpu_job job;	   /* copies the part in one allocation; one job follows the
				    * other */
	struct gpu_dev *waits_for; /* the job waits for room in a lane of this one; or NULL */
	const struct memory *memory;
	uint8_t *local; /* address of the region's bytes, if they are contiguous; NULL: `off` finds
			 * them */
	uint64_t off;	/* in the memory */
	uint8_t *bytes; /* in pinned memory of the library */
	uint32_t len;
	uint32_t copied; /* of len */
	uint8_t in;	 /* 1: into the memory; 0: out of it */
};

struct stage {
	const struct memory *memory; /* of the slots; NULL: there are none yet */
	struct slot *slots;
	struct slot **free; /* a stack */
	uint32_t nfree, nslots;
	uint32_t njobs;		    /* slots whose job is out */
	struct chunk_queue waiting; /* that have no slot */
	struct list ops; /* entries that have a chunk in `waiting` and bytes that are not cut yet */
};

void stage_init(struct stage *s);
int stage_open(struct engine *e, const struct memory *m); /* 0 or -ENOMEM */
void stage_close(struct stage *s);

/* Copies what is left. 1: all of it is done. 0: the copy is out: ask copy_done(). */
int copy_run(struct copy *c);
/* For a copy that is out. 1: its job has ended: call copy_step(). 0: not yet. */
int copy_done(struct copy *c);
/* 1: all is done, or job.res says why not. 0: the next job is out. */
int copy_step(struct copy *c);
/* Cancels a copy that is out. 1: no GPU will touch its memory for it any more. 0: ask
 * copy_done(). */
int copy_cancel(struct copy *c);
static inline int copy_is_out(const struct copy *c)
{
	return c->job.dev || c->waits_for;
}

/* For each chunk that was cut, after its entry was put back into its list: stages the chunk if the
 * device cannot reach its local memory, or relays it. 1: post the chunk now. 0: the stage or the
 * relay has it, or ended it. */
int stage_chunk(struct engine *e, struct chunk *c);
/* A chunk came out with res 0. 1: it is a staged READ, and the stage copies its bytes from the slot
 * to the GPU before it ends the chunk. */
int stage_in(struct engine *e, struct chunk *c);
/* The entry was stopped: ends its staged chunks, but for those whose copy may have begun. */
void stage_drop(struct op *op);
void stage_free(struct engine *e, struct chunk *c); /* chunk_free(): its slots, if it has some */
/* It ends without having moved: op_returned() follows. */
void chunk_drop(struct engine *e, struct chunk *c);
/* The chunk waits for a slot in q, and its entry in ops if it has bytes that are not cut yet. */
void chunk_wait(struct chunk_queue *q, struct list *ops, struct chunk *c);
void ops_to_lanes(struct list *ops); /* entries that waited go back to their lanes */
/* Takes the chunks of the entry out of the queue and drops them. */
void chunks_drop(struct engine *e, struct chunk_queue *q, const struct op *op);
void chunk_free(struct engine *e, struct chunk *c);
/* Its bytes are in place, or res says why not. */
void chunk_done(struct engine *e, struct chunk *c);
/* The memory that its entry named, of a chunk with a slot. */
const struct memory *stage_memory(const struct engine *e, const struct chunk *c);

/* Looks at the jobs and gives slots to those that wait: how many. */
uint32_t stage_look(struct engine *e);

static inline int stage_has(const struct stage *s, const struct chunk *c)
{
	return s->memory && c->memory == s->memory;
}

#endif
