/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory regions of libfabric, and their description for a peer: a part consists of address u64,
 * bytes u64 and the key. The key is a u64 or, with FI_MR_RAW, as many bytes as the provider's keys
 * have; the peer's provider turns those into a number.
 */
#include <endian.h>
#include "backend/fabric/key.h"

/* In a region's context: a READ cannot write into it. */
#define READ_ONLY ((void *)1)
/* Likewise: it is memory of a GPU. */
#define OF_GPU ((void *)2)

/* ---- regions ---- */

/* With FI_MR_ENDPOINT a region belongs to one endpoint. */
static int region_enable(struct fid_mr **mr, struct fabric_endpoint *endpoint)
{
	int err = fi_mr_bind(*mr, &endpoint->ep->fid, 0);

	if (!err)
		err = fi_mr_enable(*mr);
	if (!err)
		return 0;
	fi_close(&(*mr)->fid);
	*mr = NULL;
	return err;
}

static int region_ask(struct fabric_device *d, const struct extent *x, void *addr, uint64_t len,
		      uint64_t access, uint64_t key, struct fid_mr **mr)
{
	const struct iovec iov = {addr, len};
	const struct fi_mr_attr attr = {.mr_iov = &iov,
					.iov_count = 1,
					.access = access,
					.requested_key = key,
					.iface = FI_HMEM_CUDA,
					.device.cuda = x ? (int)x->gpu_index : 0};

	if (x && x->kind == GPU_MEMORY_DEVICE)
		return fi_mr_regattr(d->domain, &attr, 0, mr);
	return fi_mr_reg(d->domain, addr, len, access, 0, key, 0, mr, NULL);
}

int fabric_memory_open(struct fabric_device *d, struct fabric_endpoint *endpoint,
		       const struct extent *x, void *addr, uint64_t len, uint64_t access,
		       struct fid_mr **mr)
{
	uint64_t key;
	int err, tries;

	/* A random key is hardly ever in use, unless the provider's keys are short. */
	for (tries = 0; tries < 8; tries++) {
		err = random_bytes(&key, sizeof(key));
		if (!err)
			err = region_ask(d, x, addr, len, access, key & d->key_mask, mr);
		if (err != -FI_ENOKEY)
			break;
	}
	return err || !(d->mr_mode & FI_MR_ENDPOINT) ? err : region_enable(mr, endpoint);
}

int fabric_region_open(struct fabric_device *d, struct fabric_endpoint *endpoint, void *addr,
		       uint64_t len, uint64_t access, struct fid_mr **mr)
{
	return fabric_memory_open(d, endpoint, NULL, addr, len, access, mr);
}

int fabric_reg(struct device *dev, struct extent *extent)
{
	struct fabric_device *d = fabric_device(dev);
	void *addr = (void *)(uintptr_t)extent->addr;
	struct fid_mr *mr = NULL;
	int err;

	if (!(d->mr_mode & FI_MR_LOCAL))
		return 0;
	fabric_domain_lock(d);
	err = fabric_memory_open(d, NULL, extent, addr, extent->len, FI_READ | FI_WRITE, &mr);
	if (!err && extent->kind == GPU_MEMORY_DEVICE)
		mr->fid.context = OF_GPU;
	/* The memory may be read-only for this process: it can still be sent. */
	if (err == -FI_EFAULT && extent->kind != GPU_MEMORY_DEVICE) {
		err = fabric_region_open(d, NULL, addr, extent->len, FI_WRITE, &mr);
		if (!err)
			mr->fid.context = READ_ONLY;
	}
	fabric_domain_unlock(d);
	extent->mr[dev->index] = mr;
	return err ? fail(err, "libfabric: fi_mr_reg: %s", d->lib.strerror(-err)) : 0;
}

int fabric_unreg(struct device *dev, struct extent *extent)
{
	struct fabric_device *d = fabric_device(dev);
	struct fid_mr *mr = extent->mr[dev->index];
	int err;

	fabric_domain_lock(d);
	err = mr ? fabric_fid_end(d, &mr->fid) : 0;
	fabric_domain_unlock(d);
	if (!err)
		extent->mr[dev->index] = NULL;
	return err;
}

/* The region of the chunk's memory at offset `at`; NULL: none is needed. */
static struct fid_mr *region_of(const struct fabric_device *d, const struct chunk *c, uint64_t at)
{
	uint64_t off;

	if (!(d->mr_mode & FI_MR_LOCAL))
		return NULL;
	off = memory_offset(c->memory, (uint64_t)(uintptr_t)c->local + at, 1);
	return memory_span(c->memory, off)->extent->mr[d->dev.index];
}

void *fabric_desc(const struct fabric_device *d, const struct chunk *c)
{
	struct fid_mr *mr = c->kind == CHUNK_FLUSH ? d->proof_mr : region_of(d, c, c->scratch[0]);

	return mr ? fi_mr_desc(mr) : NULL;
}

int fabric_writable(const struct fabric_device *d, const struct chunk *c)
{
	const struct fid_mr *mr = c->len ? region_of(d, c, 0) : NULL;

	return !mr || mr->fid.context != READ_ONLY;
}

int fabric_reaches_gpu(const struct fabric_device *d, const struct chunk *c)
{
	const struct fid_mr *mr;

	if (c->kind == CHUNK_WRITE)
		return (int)fabric_key_of(c)->device;
	mr = d->hmem && c->kind == CHUNK_READ && c->len ? region_of(d, c, 0) : NULL;
	return mr && mr->fid.context == OF_GPU;
}

int fabric_is_of_gpu(const struct fabric_device *d, const struct chunk *c)
{
	const struct fid_mr *mr;

	if (!d->hmem || c->kind == CHUNK_FLUSH)
		return 0;
	mr = region_of(d, c, c->scratch[0]);
	return mr && mr->fid.context == OF_GPU;
}

/* ---- parts ---- */

uint32_t fabric_part_bytes(const struct fabric_device *d)
{
	return 2 * (uint32_t)sizeof(uint64_t) + (d->raw ? d->raw : (uint32_t)sizeof(uint64_t));
}

int fabric_part_put(const struct fabric_device *d, struct fid_mr *mr, const void *at, uint64_t len,
		    uint8_t *to)
{
	uint64_t base = d->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)at : 0;
	uint64_t words[3] = {0, htole64(len), htole64(mr ? fi_mr_key(mr) : 0)};
	size_t room = d->raw;
	int err = 0;

	if (d->raw)
		err = fi_mr_raw_attr(mr, &base, to + 2 * sizeof(words[0]), &room, 0);
	words[0] = htole64(base);
	memcpy(to, words, (d->raw ? 2 : 3) * sizeof(words[0]));
	return err || room == d->raw ? err : -EINVAL;
}

void fabric_part_read(const uint8_t *from, struct fabric_part *p)
{
	memcpy(p, from, sizeof(*p));
	p->addr = le64toh(p->addr);
	p->len = le64toh(p->len);
	p->key = le64toh(p->key);
}

const uint8_t *fabric_part_raw(const uint8_t *from)
{
	return from + 2 * sizeof(uint64_t);
}

int fabric_part_map(const struct fabric_device *d, const uint8_t *raw, struct fabric_part *p)
{
	uint8_t copy[FABRIC_RAW];

	if (!d->raw)
		return 0;
	memcpy(copy, raw, d->raw);
	return fi_mr_map_raw(d->domain, p->addr, copy, d->raw, &p->key, 0);
}

void fabric_part_free(const struct fabric_device *d, const struct fabric_part *p)
{
	if (d->raw)
		fi_mr_unmap_key(d->domain, p->key);
}
