/* SPDX-License-Identifier: Apache-2.0 */
/* A shape into tensors, and one layer of a request into the descriptors of a paged entry. */
#include <string.h>
#include "pusher.h"

uint64_t shape_token_bytes(const struct shape *s)
{
	return (uint64_t)s->layers * s->planes * s->heads * s->dim * s->elt;
}

uint64_t shape_page_bytes(const struct shape *s)
{
	return s->page * shape_token_bytes(s);
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
	return a->layers == b->layers && a->planes == b->planes && a->heads == b->heads &&
	       a->dim == b->dim && a->elt == b->elt && a->page == b->page && a->hnd == b->hnd;
}

void shape_text(const struct shape *s, char *buf, size_t len)
{
	const char *order = s->hnd ? "hnd" : "nhd";

	if (s->planes == 1)
		snprintf(buf, len, "%u layers of MLA latents of %u x %u bytes, pages of %u tokens",
			 s->layers, s->dim, s->elt, s->page);
	else
		snprintf(buf, len,
			 "%u layers, %u KV heads of %u x %u bytes, pages of %u tokens (%s)",
			 s->layers, s->heads, s->dim, s->elt, s->page, order);
}

uint32_t side_heads(const struct side *s)
{
	return s->shape->heads / s->ranks;
}

static uint64_t row_bytes(const struct side *s)
{
	return (uint64_t)s->shape->dim * s->shape->elt;
}

uint64_t side_page_bytes(const struct side *s)
{
	return s->shape->page * side_heads(s) * row_bytes(s);
}

uint64_t side_plane_bytes(const struct side *s)
{
	return s->pages * side_page_bytes(s);
}

uint64_t side_tensor_bytes(const struct side *s)
{
	return s->shape->planes * side_plane_bytes(s);
}

uint64_t side_tensor(const struct side *s, uint32_t rank, uint32_t layer)
{
	return ((uint64_t)rank * s->shape->layers + layer) * side_tensor_bytes(s);
}

uint64_t side_bytes(const struct side *s)
{
	return (uint64_t)s->ranks * s->shape->layers * side_tensor_bytes(s);
}

uint64_t side_row(const struct side *s, uint32_t token, uint32_t head)
{
	if (s->shape->hnd)
		return ((uint64_t)head * s->shape->page + token) * row_bytes(s);
	return ((uint64_t)token * side_heads(s) + head) * row_bytes(s);
}

/* The heads [*from, *to) that rank l of the local side and rank r of the remote one both have. */
static bool shared_heads(const struct side *local, uint32_t l, const struct side *remote,
			 uint32_t r, uint32_t *from, uint32_t *to)
{
	uint32_t lh = side_heads(local), rh = side_heads(remote);

	*from = l * lh > r * rh ? l * lh : r * rh;
	*to = (l + 1) * lh < (r + 1) * rh ? (l + 1) * lh : (r + 1) * rh;
	return *from < *to;
}

uint32_t layer_descs(const struct side *local, const struct side *remote)
{
	uint32_t l, r, from, to, n = 0;

	for (l = 0; l < local->ranks; l++)
		for (r = 0; r < remote->ranks; r++)
			n += shared_heads(local, l, remote, r, &from, &to);
	return n;
}

static struct urccl_dim *add_dim(struct urccl_paged *d, uint64_t count, uint64_t local_stride,
				 uint64_t remote_stride)
{
	struct urccl_dim *dim = &d->dim[d->ndims++];

	dim->count = count;
	dim->local_stride = (int64_t)local_stride;
	dim->remote_stride = (int64_t)remote_stride;
	return dim;
}

/*
 * Dimensions, outermost first: K and V; the pages, each side's through its table; and, where the
 * heads of a token lie together (nhd) and a rank has others beside the shared ones, the tokens of a
 * page, whose rows are apart by another stride at each side. Where all a page's bytes, or all of a
 * head's (hnd), are shared they go as one run.
 */
static void pair_fill(struct urccl_paged *d, const struct side *local, const struct side *remote,
		      uint32_t heads, uint32_t n, const uint32_t *local_pages,
		      const uint32_t *remote_pages)
{
	const struct shape *s = local->shape;
	struct urccl_dim *pages;
	bool rows = !s->hnd && (heads < side_heads(local) || heads < side_heads(remote));

	d->block = heads * row_bytes(local) * (rows ? 1 : s->page);
	if (s->planes > 1)
		add_dim(d, s->planes, side_plane_bytes(local), side_plane_bytes(remote));
	pages = add_dim(d, n, side_page_bytes(local), side_page_bytes(remote));
	pages->local_index = (uint64_t)(uintptr_t)local_pages;
	pages->remote_index = (uint64_t)(uintptr_t)remote_pages;
	if (rows)
		add_dim(d, s->page, side_row(local, 1, 0), side_row(remote, 1, 0));
}

uint32_t layer_fill(const struct side *local, const struct side *remote, uint32_t layer, uint32_t n,
		    const uint32_t *local_pages, const uint32_t *remote_pages,
		    struct urccl_paged *descs)
{
	uint32_t l, r, from, to, count = 0;

	for (l = 0; l < local->ranks; l++) {
		for (r = 0; r < remote->ranks; r++) {
			struct urccl_paged *d = &descs[count];

			if (!shared_heads(local, l, remote, r, &from, &to))
				continue;
			memset(d, 0, sizeof(*d));
			d->size = sizeof(*d);
			d->local_off = side_tensor(local, l, layer) +
				       side_row(local, 0, from - l * side_heads(local));
			d->remote_off = side_tensor(remote, r, layer) +
					side_row(remote, 0, from - r * side_heads(remote));
			pair_fill(d, local, remote, to - from, n, local_pages, remote_pages);
			count++;
		}
	}
	return count;
}
