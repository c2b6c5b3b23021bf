/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load: entries of one kind to one peer, so many in flight, walking over a span of memory at both
 * ends, for a time or a number of entries. It is driven by steps, so that an end can run two at
 * once and answer messages.
 */
#ifndef URCCL_PERF_LOAD_H
#define URCCL_PERF_LOAD_H

#include "../common/hist.h"
#include "end.h"

/* What a load moves between. */
struct target {
	struct urccl_peer peer;
	struct urccl_remote remote;
	uint64_t remote_off; /* where its span begins in the remote */
	struct urccl_region region;
	uint8_t *local;	      /* where its span begins here */
	struct memory memory; /* its kind */
	uint64_t local_off;   /* the same as an offset of the region */
	uint32_t ring;	      /* MSG_RING: where to */
};

/*
 * The places of a load: entry k of a pass over the span moves bytes between place k here and place
 * k there. The blocks of scattered entries are in tables that are never changed, so that many
 * entries may use them at once.
 */
struct places {
	uint64_t block;	 /* bytes of a block; of an entry that is not scattered */
	uint64_t step;	 /* from one to the next */
	uint32_t blocks; /* of a plane */
	uint32_t each;	 /* blocks of a plane in an entry */
	uint32_t planes;
	uint32_t entries;	   /* in a pass */
	uint32_t *local, *remote;  /* scattered: which block is the k-th; NULL: the k-th */
	struct urccl_seg *segs;	   /* vectors: `blocks` of them */
	struct urccl_paged *paged; /* pages: `entries` of them */
};

struct load {
	struct end *end;
	struct target target;
	struct places places;
	enum urccl_op op;
	enum tag tag;
	uint32_t flags; /* of each entry: its class */
	uint32_t depth;
	int lookup;
	int forgiving; /* a failed entry ends the load, not the program */

	uint32_t next; /* entry of the pass that comes next */
	uint32_t inflight;
	uint32_t path;		   /* of the last one that ended */
	uint64_t posted, ended;	   /* entries, since load_start() */
	uint64_t limit;		   /* entries to post */
	uint64_t bytes;		   /* of an entry */
	uint64_t started, stopped; /* ns */
	uint32_t sample;	   /* one of so many entries is timed; 0: none */
	uint32_t sample_in;
	struct hist *latency; /* submit to completion; NULL: not asked for */
	struct hist *submit;  /* of the call alone; NULL: not asked for */
};

/* Prepares a load of the options on the end; the target is set already. */
void load_open(struct load *l, struct end *e, const struct options *o, enum tag tag);
void load_close(struct load *l);

/* Begins to count; limit ~0: until load_stop(). */
void load_start(struct load *l, uint64_t limit);

/* Posts as much as may be in flight. Returns how many entries. */
uint32_t load_post(struct load *l);

/* A completion of this load; exits if the entry failed. */
void load_ended(struct load *l, const struct urccl_cqe *cqe);

/* Posts nothing more, and waits for what is in flight. */
void load_stop(struct load *l);

/* Runs for so many seconds, or, count not 0, for so many entries, and stops. */
void load_run(struct load *l, double seconds, uint64_t count);

/*
 * One pass of fresh bytes, then compares both ends. Returns how many bytes are right; exits if one
 * is not.
 */
uint64_t load_check(struct load *l);

void places_open(struct places *p, const struct options *o, const struct target *t);
void places_close(struct places *p);

/* Where the blocks of entry k are: the i-th of its `each * planes`, as an offset of the span. */
uint64_t places_local(const struct places *p, uint32_t k, uint32_t i);
uint64_t places_remote(const struct places *p, uint32_t k, uint32_t i);

#endif
