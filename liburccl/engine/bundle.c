/* SPDX-License-Identifier: Apache-2.0 */
/* The pool of bundles, and how many each peer has. */
#include <stdlib.h>
#include "engine/op.h"
#include "engine/peer.h"

#define BUNDLE_FIRST 256u /* pieces: one for each warp of the kernel, by 8 multiprocessors */

void bundles_open(struct engine *e)
{
	struct bundles *b = &e->bundles;
	uint32_t i;

	if (b->pieces)
		return;
	b->pieces = calloc((size_t)BUNDLES * GPU_PIECES, sizeof(*b->pieces));
	for (i = 0; b->pieces && i < BUNDLES; i++)
		b->free[b->nfree++] = (uint8_t)(BUNDLES - 1 - i);
}

void bundles_close(struct engine *e)
{
	free(e->bundles.pieces);
}

/* As chunk_may(): a peer may have as many as are free. */
static int bundle_may(const struct engine *e, const struct engine_peer *p)
{
	return p->bundles < e->bundles.nfree;
}

static int takes_bundles(const struct engine *e, const struct op *op, const struct rail *rail)
{
	return rail->ep->dev->caps & CAP_GPU && e->bundles.pieces && !(op->bits & OP_IS_RANGE) &&
	       !(op->sqe.flags & URCCL_SQE_CHECKSUM);
}

static int bundle_fill(struct engine *e, struct op *op, const struct rail *rail, struct chunk *c,
		       struct piece *out)
{
	struct bundles *b = &e->bundles;
	struct chunk_piece *pieces;
	uint8_t number;
	uint64_t done = op->cursor.elements;
	uint32_t n, most = GPU_PIECES;
	int res = cursor_next(op, GPU_GATHER_MAX, rail->number, out);

	if (res != 1)
		return res;
	number = b->free[--b->nfree];
	pieces = b->pieces + (size_t)number * GPU_PIECES;
	/* The first bundles are small, so that the GPU begins while later ones are filled. */
	most = done >= most ? most : done < BUNDLE_FIRST ? BUNDLE_FIRST : (uint32_t)done;
	n = cursor_fill_bundle(op, out, pieces, most, &out->len);
	if (n == 1) {
		b->free[b->nfree++] = number;
		return 1;
	}
	op->peer->bundles++;
	c->pieces = pieces;
	c->npieces = n;
	return 1;
}

/* The largest piece. It is larger if GPUs of this side copy all bytes of the entry. */
static uint64_t piece_bytes(const struct op *op, uint64_t most)
{
	const struct engine_remote *r = op->remote;

	if (r && r->gpu && !r->host && op->memory && !op->memory->pageable)
		return GPU_COPY_MAX;
	return most;
}

int bundle_next(struct engine *e, struct op *op, const struct rail *rail, uint64_t most,
		struct chunk *c, struct piece *out)
{
	const struct piece *cur;
	int n;

	if (!takes_bundles(e, op, rail))
		return cursor_next(op, piece_bytes(op, most), rail->number, out);
	n = cursor_peek(op, &cur);
	if (n <= 0 || !(cur->remote->parts[cur->part].rails >> rail->number & 1) ||
	    !cur->remote->rail_keys[rail->number][cur->part].key.gpu || cur->memory->pageable)
		return n < 0 ? n : cursor_next(op, most, rail->number, out);
	if (cur->len < GPU_LARGE && bundle_may(e, op->peer))
		return bundle_fill(e, op, rail, c, out);
	if (cur->len < GPU_LARGE && op->peer->bundles)
		return -EBUSY;
	return cursor_next(op, GPU_COPY_MAX, rail->number, out);
}

void bundle_free(struct engine *e, struct chunk *c)
{
	struct bundles *b = &e->bundles;

	b->free[b->nfree++] = (uint8_t)((size_t)(c->pieces - b->pieces) / GPU_PIECES);
	((struct op *)c->op)->peer->bundles--;
	c->pieces = NULL;
	c->npieces = 0;
}
