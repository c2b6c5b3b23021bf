/* SPDX-License-Identifier: Apache-2.0 */
/* Regions, by their keys: numbers of the user's or of ours, or bytes. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "cuda/view.h"
#include "prov.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE 4096u

struct mapped { /* a peer's raw key, and the number that stands for it */
	struct list link;
	uint64_t key;
	uint8_t raw[RAW_BYTES];
};

static struct region *region_of(struct fid *fid)
{
	return container_of(fid, struct region, fid.fid);
}

/* ---- who may touch what ---- */

uint8_t *memory_local(const struct prov_ep *ep, const void *desc, void *buf, size_t len,
		      uint64_t access)
{
	struct prov_domain *d = ep->domain;
	uint8_t *from = buf;
	struct list *pos;
	uint32_t i;

	if (!(words()->mr_mode & FI_MR_LOCAL) || !len)
		return from;
	for (i = 0; i < KEY_LISTS; i++)
		list_for_each(pos, &d->keys[i]) {
			struct region *r = list_entry(pos, struct region, link);

			if (r != desc)
				continue;
			if (from < r->buf || from + len > r->buf + r->len)
				DIE("%zu bytes at %p are not in the region of their descriptor",
				    len, buf);
			if (access & ~r->access)
				DIE("the descriptor's region is not for access %llx",
				    (unsigned long long)access);
			if (r->view != r->buf && !(ep->no_cuda && ep->p2p))
				DIE("memory of a GPU, and the endpoint may copy it by CUDA");
			return r->view + (from - r->buf);
		}
	DIE("FI_MR_LOCAL: descriptor %p of %zu bytes is no region's", desc, len);
}

static struct region *region_find(struct prov_ep *ep, uint64_t key, const uint8_t *raw)
{
	struct list *head = &ep->domain->keys[key % KEY_LISTS], *pos;

	list_for_each(pos, head) {
		struct region *r = list_entry(pos, struct region, link);

		if (r->key != key || !r->enabled || (r->ep && r->ep != ep))
			continue;
		if (!(words()->mr_mode & FI_MR_RAW) || !memcmp(r->raw, raw, RAW_BYTES))
			return r;
	}
	return NULL;
}

uint8_t *memory_remote(struct prov_ep *ep, uint64_t key, const uint8_t *raw, uint64_t addr,
		       size_t len, uint64_t access, int *err)
{
	const struct region *r = region_find(ep, key, raw);
	uint64_t base;

	*err = (int)words()->reject;
	if (!r)
		return NULL;
	*err = FI_EACCES;
	base = words()->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)r->buf : 0;
	if (!(r->access & access) || addr < base || addr - base > r->len ||
	    len > r->len - (addr - base))
		return NULL;
	*err = 0;
	return r->view + (addr - base);
}

/* ---- raw keys ---- */

static void raw_make(struct prov_domain *d, struct region *r)
{
	uint32_t i;

	memcpy(r->raw, &r->key, sizeof(r->key));
	for (i = sizeof(r->key); i < RAW_BYTES; i++)
		r->raw[i] = (uint8_t)domain_random(d, 256);
}

static int raw_get(const struct region *r, struct fi_mr_raw_attr *attr)
{
	size_t room = *attr->key_size;

	*attr->key_size = RAW_BYTES;
	if (room < RAW_BYTES)
		return -FI_ETOOSMALL;
	memcpy(attr->raw_key, r->raw, RAW_BYTES);
	*attr->base_addr = words()->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)r->buf : 0;
	return 0;
}

static struct mapped *mapped_find(struct prov_domain *d, uint64_t key)
{
	struct list *pos;

	list_for_each(pos, &d->mapped)
		if (list_entry(pos, struct mapped, link)->key == key)
			return list_entry(pos, struct mapped, link);
	return NULL;
}

int memory_map(struct prov_domain *d, struct fi_mr_map_raw *map)
{
	struct mapped *m;

	if (map->key_size != RAW_BYTES)
		return -FI_EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -FI_ENOMEM;
	memcpy(m->raw, map->raw_key, RAW_BYTES);
	do
		m->key = domain_random(d, UINT32_MAX);
	while (mapped_find(d, m->key));
	list_add_tail(&m->link, &d->mapped);
	d->objects++;
	*map->key = m->key;
	return 0;
}

int memory_unmap(struct prov_domain *d, uint64_t key)
{
	struct mapped *m = mapped_find(d, key);

	if (!m)
		DIE("key %llx was not mapped", (unsigned long long)key);
	list_del(&m->link);
	d->objects--;
	free(m);
	return 0;
}

void memory_raw(struct prov_domain *d, uint64_t key, uint8_t raw[RAW_BYTES])
{
	const struct mapped *m;

	memset(raw, 0, RAW_BYTES);
	if (!(words()->mr_mode & FI_MR_RAW)) {
		memcpy(raw, &key, sizeof(key));
		return;
	}
	m = mapped_find(d, key);
	if (!m)
		DIE("FI_MR_RAW: key %llx was not mapped", (unsigned long long)key);
	memcpy(raw, m->raw, RAW_BYTES);
}

/* ---- regions ---- */

static int uses(const struct op *op, const struct region *r)
{
	uint32_t i;

	for (i = 0; op->type && i < op->n; i++)
		if (op->ranges[i].desc == r)
			return 1;
	return 0;
}

/* Nothing of ours is under way there. */
static void check_unused(const struct region *r)
{
	struct list *pos, *at;
	uint32_t i;

	list_for_each(pos, &r->domain->eps) {
		struct prov_ep *ep = list_entry(pos, struct prov_ep, link);

		for (i = 0; i < TX_SIZE; i++)
			if (uses(&ep->ops[i], r))
				DIE("an operation under way uses the region that is closed");
		list_for_each(at, &ep->receives)
			if (list_entry(at, struct receive, link)->desc == r)
				DIE("a posted receive uses the region that is closed");
	}
}

static int region_close(struct fid *fid)
{
	struct region *r = region_of(fid);
	struct prov_domain *d = r->domain;
	struct list *pos;

	domain_enter(d);
	if (r->refused < words()->busy + words()->mr_busy) {
		r->refused++;
		domain_leave(d);
		return -FI_EBUSY;
	}
	check_unused(r);
	list_for_each(pos, &d->eps)
		wire_place(list_entry(pos, struct prov_ep, link));
	list_del(&r->link);
	if (r->ep)
		r->ep->regions--;
	d->objects--;
	domain_leave(d);
	free(r);
	return 0;
}

static int region_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct region *r = region_of(fid);

	(void)flags;
	if (other->fclass != FI_CLASS_EP)
		return -FI_EINVAL;
	domain_enter(r->domain);
	if (r->ep || r->enabled)
		DIE("the region is bound or enabled already");
	r->ep = container_of(other, struct prov_ep, fid.fid);
	r->ep->regions++;
	domain_leave(r->domain);
	return 0;
}

static int region_control(struct fid *fid, int command, void *arg)
{
	struct region *r = region_of(fid);
	int res = -FI_ENOSYS;

	domain_enter(r->domain);
	if (command == FI_ENABLE) {
		if (words()->mr_mode & FI_MR_ENDPOINT && (!r->ep || !r->ep->enabled))
			DIE("FI_MR_ENDPOINT: enabled without an endpoint that is enabled");
		r->enabled = 1;
		res = 0;
	} else if (command == FI_GET_RAW_MR) {
		res = raw_get(r, arg);
	}
	domain_leave(r->domain);
	return res;
}

static struct fi_ops region_ops = {
	.size = sizeof(struct fi_ops),
	.close = region_close,
	.bind = region_bind,
	.control = region_control,
};

static int key_taken(struct prov_domain *d, uint64_t key)
{
	struct list *head = &d->keys[key % KEY_LISTS], *pos;

	list_for_each(pos, head)
		if (list_entry(pos, struct region, link)->key == key)
			return 1;
	return 0;
}

/* 0, or -errno: the user's key will not do. */
static int key_choose(struct prov_domain *d, struct region *r, uint64_t asked)
{
	uint32_t bytes = words()->key_bytes;
	uint64_t mask = bytes < 8 ? (1ull << 8 * bytes) - 1 : UINT64_MAX;

	r->key = asked;
	if (words()->mr_mode & (FI_MR_PROV_KEY | FI_MR_RAW)) {
		do
			r->key = (domain_random(d, UINT32_MAX) << 32 ^
				  domain_random(d, UINT32_MAX)) &
				 mask;
		while (key_taken(d, r->key));
	} else if (asked & ~mask) {
		return -FI_EKEYREJECTED;
	} else if (key_taken(d, asked)) {
		return -FI_ENOKEY;
	}
	raw_make(d, r);
	return 0;
}

static void check_allocated(const void *buf, size_t len)
{
	uintptr_t at = (uintptr_t)buf & ~(uintptr_t)(PAGE - 1);
	unsigned char in[64];

	for (; at < (uintptr_t)buf + len; at += sizeof(in) * PAGE) {
		size_t n = (uintptr_t)buf + len - at;

		if (mincore((void *)at, n < sizeof(in) * PAGE ? n : sizeof(in) * PAGE, in))
			DIE("FI_MR_ALLOCATED: no memory at %p", (void *)at);
	}
}

/* What is read to is pinned to be written to. Of what has no page to read either, as of kernels
 * before 5.14, which do not look, nothing is said. */
static int is_read_only(const void *buf)
{
	void *page = (void *)((uintptr_t)buf & ~(uintptr_t)(PAGE - 1));

	return !madvise(page, PAGE, MADV_POPULATE_READ) && madvise(page, PAGE, MADV_POPULATE_WRITE);
}

/* For a test to look up: how many there were; and how many of who asks. */
#define EXPORT __attribute__((visibility("default")))
EXPORT extern uint32_t urccl_test_regions;
EXPORT uint32_t urccl_test_own_regions(void);
uint32_t urccl_test_regions;

static _Thread_local uint32_t own_regions;

uint32_t urccl_test_own_regions(void)
{
	return own_regions;
}

/* view: the bytes of memory of a GPU; NULL: it is the host's. */
static int region_make(struct prov_domain *d, const void *buf, uint8_t *view, size_t len,
		       uint64_t access, uint64_t key, struct fid_mr **mr, void *context)
{
	struct region *r;
	int err;

	domain_makes(d, "a region");
	if (words()->mr_mode & FI_MR_ALLOCATED && !view)
		check_allocated(buf, len);
	if (words()->mr_mode & FI_MR_LOCAL && access & (FI_READ | FI_RECV) && !view &&
	    is_read_only(buf))
		return -FI_EFAULT;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -FI_ENOMEM;
	r->fid.fid = (struct fid){.fclass = FI_CLASS_MR, .context = context, .ops = &region_ops};
	r->fid.mem_desc = r;
	r->domain = d;
	r->buf = (uint8_t *)(uintptr_t)buf;
	r->view = view ? view : r->buf;
	r->len = len;
	r->access = access;
	r->enabled = !(words()->mr_mode & FI_MR_ENDPOINT);
	usleep(words()->mr_slow);
	domain_enter(d);
	err = d->refused < words()->mr_again ? -FI_EAGAIN : key_choose(d, r, key);
	if (err == -FI_EAGAIN)
		d->refused++;
	if (!err) {
		list_add_tail(&r->link, &d->keys[r->key % KEY_LISTS]);
		d->objects++;
	}
	domain_leave(d);
	if (err) {
		free(r);
		return err;
	}
	r->fid.key = words()->mr_mode & FI_MR_RAW ? FI_KEY_NOTAVAIL : r->key;
	__atomic_add_fetch(&urccl_test_regions, 1, __ATOMIC_RELAXED);
	own_regions++;
	*mr = &r->fid;
	return 0;
}

static int region_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
		      uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr,
		      void *context)
{
	struct prov_domain *d = container_of(fid, struct prov_domain, fid.fid);

	if (offset || flags)
		return -FI_EBADFLAGS;
	return region_make(d, buf, NULL, len, access, key, mr, context);
}

static int region_regattr(struct fid *fid, const struct fi_mr_attr *a, uint64_t flags,
			  struct fid_mr **mr)
{
	struct prov_domain *d = container_of(fid, struct prov_domain, fid.fid);
	const struct iovec *iov = a->mr_iov;
	uint8_t *view;

	if (a->offset || flags || a->iov_count != 1)
		return -FI_EBADFLAGS;
	if (a->iface != FI_HMEM_CUDA || !words()->hmem)
		return -FI_EOPNOTSUPP;
	view = cuda_view((uintptr_t)iov->iov_base, iov->iov_len);
	if (!view)
		return -FI_EFAULT;
	return region_make(d, iov->iov_base, view, iov->iov_len, a->access, a->requested_key, mr,
			   a->context);
}

struct fi_ops_mr memory_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = region_reg,
	.regattr = region_regattr,
};
