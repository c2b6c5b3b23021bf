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
 * (gpu.h), which the engine looks at each turn while some are out. Part of private.h.
 */
#ifndef STAGE_H
#define STAGE_H

struct slot;
struct op;
struct engine;

struct stage {
	const struct memory *memory; /* of the slots; NULL: no memory of a GPU was registered yet */
	struct slot *slots;
	struct slot **free; /* a stack */
	uint32_t nfree, nslots;
	uint32_t njobs;			       /* slots whose job is out */
	struct chunk *waiting, **waiting_tail; /* that have no slot */
	struct list ops; /* entries that have a chunk in `waiting` and bytes that are not cut yet */
};

void stage_init(struct stage *s);
int stage_open(struct engine *e, const struct memory *m); /* 0 or -ENOMEM */
void stage_close(struct stage *s);

/* For each chunk that was cut, after its entry was put back into its list: stages the chunk if the
 * device cannot reach its local memory. 1: post the chunk now. 0: the stage has it, or ended it. */
int stage_chunk(struct engine *e, struct chunk *c);
/* The most bytes of the entry's next chunk: more where a GPU moves them. */
uint64_t stage_chunk_bytes(const struct op *op, uint64_t most);
/* A chunk came out with res 0. 1: it is a staged READ, and the stage copies its bytes from the slot
 * to the GPU before it ends the chunk. */
int stage_in(struct engine *e, struct chunk *c);
/* The entry was stopped: ends its staged chunks, but for those whose copy may have begun. */
void stage_drop(struct op *op);
void stage_free(struct engine *e, struct chunk *c); /* chunk_free(): its slot */
/* The memory that its entry named, of a chunk with a slot. */
const struct memory *stage_memory(const struct engine *e, const struct chunk *c);

/* Looks at the jobs and gives slots to those that wait: how many. */
uint32_t stage_look(struct engine *e);

static inline int stage_has(const struct stage *s, const struct chunk *c)
{
	return s->memory && c->memory == s->memory;
}

#endif
