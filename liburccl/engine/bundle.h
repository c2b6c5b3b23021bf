/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bundles: scattered pieces of a paged or vectored entry in one chunk, for devices that take them
 * (CAP_GPU). Pieces are of one region and one key. Part of private.h.
 */
#ifndef BUNDLE_H
#define BUNDLE_H

#define BUNDLES 64u /* of an engine */

struct engine;
struct op;
struct piece;

struct bundles {
	struct chunk_piece *pieces; /* GPU_PIECES of each; NULL: no memory of a GPU is known yet */
	uint8_t free[BUNDLES];	    /* a stack */
	uint32_t nfree;
};

/* Called when a key of GPU memory is imported: allocates the pool. If that fails, there are no
 * bundles. */
void bundles_open(struct engine *e);
void bundles_close(struct engine *e);
/* The entry's next piece, or bundle, for a chunk on the rail. As cursor_next(); -EBUSY: the peer
 * has bundles and may not have more now. */
int bundle_next(struct engine *e, struct op *op, const struct rail *rail, uint64_t most,
		struct chunk *c, struct piece *out);
void bundle_free(struct engine *e, struct chunk *c); /* chunk_free() */

#endif
