/* SPDX-License-Identifier: Apache-2.0 */
/* The data of an entry, piece by piece. */
#ifndef CURSOR_H
#define CURSOR_H

#include "engine/engine.h"

struct op;

struct piece {
	uint8_t *local;
	const struct memory *memory;
	const struct engine_remote *remote;
	uint32_t part; /* index in the remote */
	uint32_t seg;  /* segment or block in which it begins */
	uint64_t off;  /* offset in the part */
	uint64_t len;
};

__extension__ typedef __int128 int128; /* wide enough for any sum of strides */

/* A contiguous element of the entry (its range, a segment, or a block), and how much of it was cut
 * into pieces. */
struct element {
	const struct memory *memory;
	const struct engine_remote *remote;
	uint64_t local; /* address; for a block: offset in the region */
	uint64_t off;	/* offset in the remote */
	uint64_t len, pos;
};

struct cursor {
	struct piece cur; /* cut and not used yet; len 0: none */
	struct element element;
	uint64_t elements; /* reached so far, including this one */
	uint32_t desc;	   /* paged: index of the descriptor */
	uint32_t fresh;	   /* paged: the first block of the descriptor is next */
	uint64_t index[URCCL_DIMS_MAX];
	int128 local_sum[URCCL_DIMS_MAX],
		remote_sum[URCCL_DIMS_MAX]; /* up to and including each dimension */
};

/* ---- cursor.c ---- */

int cursor_open(struct op *op);	  /* checks the entry's arrays; -errno with op_fail() done */
int cursor_lookup(struct op *op); /* the same for OP_LOOKUP */
/* 1 with *out; 0 at the end; -errno with op_fail() done; -EAGAIN: the rail of this number has no
 * key. */
int cursor_next(struct op *op, uint64_t max, uint32_t rail, struct piece *out);
/* The next piece, not yet joined with its neighbours: 1 and *cur; or as cursor_next(). */
int cursor_peek(struct op *op, const struct piece **cur);
/* Fills a bundle with the first piece and those after it that have the same memory and part.
 * Returns their number; *len: their bytes. */
uint32_t cursor_fill_bundle(struct op *op, const struct piece *first, struct chunk_piece *pieces,
			    uint32_t max, uint64_t *len);
uint64_t cursor_left(const struct op *op); /* bytes left, approximately */
void cursor_rewind(struct op *op);	   /* restarts at the begin */
int cursor_in_remote(struct op *op, const struct engine_remote *r, uint64_t off, uint64_t len);
uint32_t cursor_part(const struct engine_remote *r, uint64_t off); /* index of the part at off */

#endif
