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
	struct list ops; /* entries with a chunk among them that are not cut to their end */
};

void stage_init(struct stage *s);
int stage_open(struct engine *e, const struct memory *m); /* 0 or -ENOMEM */
void stage_close(struct stage *s);

/* Stages one that was just cut, if its device does not reach its memory, once its entry is where it
 * belongs. 1: it may be posted now. 0: the stage has it, or has ended it. */
int stage_chunk(struct engine *e, struct chunk *c);
/* The most bytes of the entry's next chunk: more where a GPU moves them. */
uint64_t stage_chunk_bytes(const struct op *op, uint64_t most);
/* A chunk came out well. 1: it is a staged READ, and the stage has it until its bytes are in the
 * GPU. */
int stage_in(struct engine *e, struct chunk *c);
/* The entry was stopped: ends its chunks that are here, but those with a job that is issued. */
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
