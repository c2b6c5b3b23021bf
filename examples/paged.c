/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves the pages of a request between two paged KV caches by one entry: 4 layers, K and V, and 64
 * pages of 4 KiB that lie anywhere in the pools of both sides.
 *
 * What to see: struct urccl_paged. Two nested strides and a table of page numbers on either side
 * stand for 512 copies; the entry has one completion.
 */
#include <liburccl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 4, PLANES = 2, POOL = 256, PAGE = 4096, PAGES = 64 };
enum { PLANE_BYTES = POOL * PAGE, LAYER_BYTES = PLANES * PLANE_BYTES };
enum { CACHE_BYTES = LAYERS * LAYER_BYTES };

/* One engine: its context, ring and cache. */
struct side {
	struct urccl *ctx;
	struct urccl_ring *ring;
	struct urccl_region region;
	uint8_t *cache;
	uint32_t pages[PAGES]; /* where this side keeps the request */
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "paged: %s: %s\n", what, urccl_errmsg());
	exit(1);
}

/* multiplier is odd, so the pages are all different. */
static void side_open(struct side *s, uint32_t multiplier, uint32_t rights)
{
	struct urccl_range range = {.len = CACHE_BYTES, .fd = -1};
	void *cache;
	uint32_t i;

	if (urccl_open(NULL, &s->ctx) || urccl_ring_open(s->ctx, NULL, &s->ring) ||
	    urccl_alloc(s->ctx, CACHE_BYTES, &cache))
		die("cannot open");
	s->cache = cache;
	range.addr = (uintptr_t)cache;
	if (urccl_register(s->ctx, &range, 1, rights, &s->region))
		die("cannot register");
	for (i = 0; i < PAGES; i++)
		s->pages[i] = (i * multiplier + 5) % POOL;
}

/* The next completion: exits if it failed. Returns its handle or bytes on the wire. */
static uint64_t take(struct side *s, const char *what)
{
	struct urccl_cqe *cqe;
	uint64_t handle;
	char why[256];

	if (urccl_wait(s->ring, &cqe, NULL) < 0)
		die(what);
	if (cqe->res < 0) {
		urccl_explain(s->ctx, cqe, why, sizeof(why));
		fprintf(stderr, "paged: %s: %s\n", what, why);
		exit(1);
	}
	printf("%s: %ld\n", what, (long)cqe->res);
	handle = cqe->handle;
	urccl_cqe_seen(s->ring, cqe);
	return handle;
}

/* The prefill side dials the decode side and gets the whole of its cache as one remote. */
static struct urccl_remote meet(struct side *prefill, struct side *decode)
{
	uint8_t metadata[URCCL_METADATA_MAX];
	struct urccl_advert advert;
	struct urccl_remote remote;
	struct urccl_peer peer;
	int len = urccl_metadata(decode->ctx, metadata, sizeof(metadata));

	if (len < 0 || urccl_advertise(decode->ctx, decode->region, 0, CACHE_BYTES,
				       URCCL_RIGHT_WRITE, 0, &advert))
		die("cannot advertise");
	urccl_prep_accept(urccl_get_sqe(decode->ring));
	urccl_submit(decode->ring);
	urccl_prep_connect(urccl_get_sqe(prefill->ring), metadata, (uint32_t)len);
	urccl_submit(prefill->ring);
	peer.id = (uint32_t)take(prefill, "connected");
	if (urccl_import(prefill->ctx, peer, &advert, 1, &remote))
		die("cannot import");
	return remote;
}

/* All of the request: for each layer, for K and V, for each of its pages. */
static void push(struct side *prefill, struct side *decode, struct urccl_remote remote)
{
	struct urccl_paged paged = {
		.size = sizeof(paged),
		.ndims = 3,
		.block = PAGE,
		.dim =
			{
				{LAYERS, LAYER_BYTES, LAYER_BYTES, 0, 0},
				{PLANES, PLANE_BYTES, PLANE_BYTES, 0, 0},
				{PAGES, PAGE, PAGE, (uintptr_t)prefill->pages,
				 (uintptr_t)decode->pages},
			},
	};
	struct urccl_sqe *sqe = urccl_get_sqe(prefill->ring);

	/* The descriptor and both tables stay as they are until the completion is there. */
	urccl_prep_write_paged(sqe, remote, prefill->region, &paged, 1);
	urccl_submit(prefill->ring);
	take(prefill, "bytes placed");
}

static int compare(const struct side *prefill, const struct side *decode)
{
	uint32_t plane, i;

	for (plane = 0; plane < LAYERS * PLANES; plane++)
		for (i = 0; i < PAGES; i++)
			if (memcmp(prefill->cache + plane * PLANE_BYTES + prefill->pages[i] * PAGE,
				   decode->cache + plane * PLANE_BYTES + decode->pages[i] * PAGE,
				   PAGE))
				return -1;
	return 0;
}

int main(void)
{
	struct side prefill, decode;
	struct urccl_remote remote;
	uint32_t i;

	side_open(&prefill, 3, 0);
	side_open(&decode, 7, URCCL_RIGHT_WRITE);
	for (i = 0; i < CACHE_BYTES; i++)
		prefill.cache[i] = (uint8_t)(i * 13 + i / PAGE);
	remote = meet(&prefill, &decode);
	push(&prefill, &decode, remote);
	if (compare(&prefill, &decode)) {
		fprintf(stderr, "paged: a page is wrong\n");
		return 1;
	}
	printf("%d pages are where they belong\n", LAYERS * PLANES * PAGES);
	urccl_close(prefill.ctx);
	urccl_close(decode.ctx);
	return 0;
}
