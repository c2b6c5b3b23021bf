/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A range of memory as memory regions of libfabric, one for each piece of memory, with the range's
 * rights and a random key. All importers of the range share them (struct pin). Engine threads
 * neither make nor close them, since both take longer for more memory. With FI_MR_ENDPOINT, regions
 * belong to one export instead.
 */
#include <stdlib.h>
#include "backend/fabric/key.h"

struct fabric_pinned {
	uint32_t pieces, n; /* n: regions; used by the helper thread once a JOB_KEY closes them */
	uint8_t *parts;	    /* for peers */
	struct fid_mr *mr[];
};

static uint64_t access_of(uint32_t rights)
{
	return (rights & URCCL_RIGHT_READ ? FI_REMOTE_READ : 0) |
	       (rights & URCCL_RIGHT_WRITE ? FI_REMOTE_WRITE : 0);
}

uint32_t fabric_range_pieces(const struct pin *p)
{
	uint64_t off = p->off, end = p->off + p->len, run;
	uint32_t n;

	if (!access_of(p->rights))
		return 0;
	for (n = 0; off < end; n++) {
		memory_at(p->memory, off, &run);
		off += run;
	}
	return n;
}

static const struct extent *extent_at(const struct pin *p, uint64_t off)
{
	return memory_span(p->memory, off)->extent;
}

/* The piece at off; *run: its bytes that are in the range. */
static void *piece_at(const struct pin *p, uint64_t off, uint64_t *run)
{
	uint64_t left = p->off + p->len - off;
	void *at = memory_at(p->memory, off, run);

	if (*run > left)
		*run = left;
	return at;
}

int fabric_range_open(struct fabric_device *d, struct fabric_endpoint *endpoint,
		      const struct pin *p, struct fid_mr **mr, uint32_t *n, uint32_t most)
{
	uint64_t off, run;
	uint32_t i = 0;
	int err;

	for (off = p->off; *n < most; off += run, i++) {
		void *at = piece_at(p, off, &run);

		if (i < *n)
			continue;
		err = fabric_memory_open(d, endpoint, extent_at(p, off), at, run,
					 access_of(p->rights), &mr[*n]);
		if (err)
			return err;
		++*n;
	}
	return 0;
}

int fabric_range_parts(const struct fabric_device *d, const struct pin *p, struct fid_mr **mr,
		       uint32_t first, uint32_t n, uint8_t *to)
{
	uint64_t off, run;
	uint32_t i = 0;
	int err = 0;

	for (off = p->off; i < first + n && !err; off += run, i++) {
		void *at = piece_at(p, off, &run);

		if (i < first)
			continue;
		err = fabric_part_put(d, mr ? mr[i] : NULL, at, run, to);
		to += fabric_part_bytes(d);
	}
	return err;
}

int fabric_range_close(struct fid_mr **mr, uint32_t *n)
{
	for (; *n; --*n)
		if (fabric_fid_close(&mr[*n - 1]->fid))
			return -FI_EBUSY;
	return 0;
}

/* ---- pins ---- */

uint32_t fabric_pin_pieces(const struct fabric_pinned *p)
{
	return p->pieces;
}

const uint8_t *fabric_pin_parts(const struct fabric_pinned *p)
{
	return p->parts;
}

int fabric_pin_close(struct fabric_pinned *p)
{
	return fabric_range_close(p->mr, &p->n);
}

static struct fabric_pinned *pinned_new(const struct fabric_device *d, uint32_t pieces)
{
	struct fabric_pinned *made = malloc(
		sizeof(*made) + (size_t)pieces * (sizeof(made->mr[0]) + fabric_part_bytes(d)));

	if (!made)
		return NULL;
	made->pieces = pieces;
	made->n = 0;
	made->parts = (uint8_t *)&made->mr[pieces];
	return made;
}

static int pinned_free(struct fabric_device *d, struct fabric_pinned *made)
{
	for (; made->n; made->n--)
		if (fabric_fid_end(d, &made->mr[made->n - 1]->fid))
			return -EBUSY;
	free(made);
	return 0;
}

int fabric_pin(struct device *dev, struct pin *p)
{
	struct fabric_device *d = fabric_device(dev);
	uint32_t pieces = fabric_range_pieces(p);
	struct fabric_pinned *made;
	int err = 0;

	if (pieces > fabric_key_pieces(d))
		return -E2BIG;
	made = pinned_new(d, pieces);
	if (!made)
		return -ENOMEM;
	fabric_domain_lock(d);
	if (pieces)
		err = fabric_range_open(d, NULL, p, made->mr, &made->n, pieces);
	if (!err)
		err = fabric_range_parts(d, p, made->mr, 0, pieces, made->parts);
	if (!err)
		p->mr = made;
	else
		pinned_free(d, made); /* no peer has these keys */
	fabric_domain_unlock(d);
	return err;
}

int fabric_unpin(struct device *dev, struct pin *p)
{
	struct fabric_device *d = fabric_device(dev);
	int err;

	fabric_domain_lock(d);
	err = pinned_free(d, p->mr);
	fabric_domain_unlock(d);
	if (!err)
		p->mr = NULL;
	return err;
}
