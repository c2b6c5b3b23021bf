/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions. A key is a place in their table and how often that was used, in the low byte. */
#include <errno.h>
#include <sys/mman.h>
#include "cuda/view.h"
#include "double.h"

/* What is on its way, as it lands: oldest first, but what may come in any order overtakes all. */
static struct posted {
	struct posted *next;
	const struct region *region;
	uint8_t *to;
	uint32_t len;
	uint8_t bytes[];
} * posted, **posted_end = &posted;

static struct region *regions[MRS];
static uint8_t uses[MRS];
static uint32_t last;

/* The kernel pins pages that the process may read, or write to. */
static int is_there(uint64_t addr, uint64_t len, int writable)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long long from, to, at = addr;
	char line[512], how[8];

	MUST(maps);
	while (at < addr + len && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%llx %7s", &from, &to, how) != 3 || to <= at)
			continue;
		if (from > at || how[0] != 'r' || (writable && how[1] != 'w'))
			break;
		at = to;
	}
	fclose(maps);
	return at >= addr + len;
}

static struct ibv_mr *add(struct region *r)
{
	struct nic *n = context_nic(r->mr.context);
	uint32_t i;

	pthread_mutex_lock(&double_lock);
	if (n->nregions == double_regions) {
		pthread_mutex_unlock(&double_lock);
		free(r);
		errno = ENOMEM;
		return NULL;
	}
	n->nregions++;
	for (i = (last + 1) % MRS; regions[i]; i = (i + 1) % MRS)
		MUST(i != last);
	last = i;
	regions[i] = r;
	r->mr.lkey = r->mr.rkey = i << 8 | ++uses[i];
	pthread_mutex_unlock(&double_lock);
	return &r->mr;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access)
{
	unsigned int writes = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	uint8_t *view;
	struct region *r;

	if (access & IBV_ACCESS_REMOTE_WRITE && !(access & IBV_ACCESS_LOCAL_WRITE)) {
		errno = EINVAL;
		return NULL;
	}
	view = double_peermem ? cuda_view((uintptr_t)addr, length) : NULL;
	if (!view && !is_there((uintptr_t)addr, length, !!(access & writes))) {
		errno = EFAULT;
		return NULL;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->mr.context = pd->context;
	r->mr.pd = pd;
	r->mapped = view;
	r->mr.addr = view ? view : addr;
	r->mr.length = length;
	r->iova = iova;
	r->access = access;
	return add(r);
}

/* Of any file that can be mapped. */
EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
					uint64_t iova, int fd, int access)
{
	uint64_t in_page = offset % 4096;
	struct region *r = calloc(1, sizeof(*r));

	MUST(r);
	r->mapped_len = in_page + length;
	r->mapped = mmap(NULL, r->mapped_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			 (off_t)(offset - in_page));
	if (r->mapped == MAP_FAILED) {
		free(r);
		return NULL;
	}
	r->mr.context = pd->context;
	r->mr.pd = pd;
	r->mr.addr = (uint8_t *)r->mapped + in_page;
	r->mr.length = length;
	r->iova = iova;
	r->access = (unsigned int)access;
	return add(r);
}

static void land(const struct region *r, const struct ibv_pd *pd)
{
	struct posted **at, *p;

	for (at = &posted; (p = *at);) {
		if (p->region != r && (p->region->mapped || p->region->mr.pd != pd)) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		memcpy(p->to, p->bytes, p->len);
		free(p);
	}
	posted_end = at;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	const struct region *r = (const struct region *)(const void *)mr;

	pthread_mutex_lock(&double_lock);
	MUST(&regions[mr->lkey >> 8]->mr == mr);
	land(r, NULL);
	regions[mr->lkey >> 8] = NULL;
	context_nic(mr->context)->nregions--;
	pthread_mutex_unlock(&double_lock);
	if (r->mapped_len)
		munmap(r->mapped, r->mapped_len);
	free(mr);
	return 0;
}

uint8_t *region_at(const struct ibv_pd *pd, uint32_t key, uint64_t addr, uint64_t len,
		   unsigned int access)
{
	const struct region *r = key >> 8 < MRS ? regions[key >> 8] : NULL;

	if (!r || r->mr.lkey != key || r->mr.pd != pd || (r->access & access) != access)
		return NULL;
	if (addr < r->iova || addr - r->iova > r->mr.length ||
	    len > r->mr.length - (addr - r->iova))
		return NULL;
	return (uint8_t *)r->mr.addr + (addr - r->iova);
}

uint8_t *region_post(uint32_t key, uint8_t *at, uint32_t len)
{
	const struct region *r = regions[key >> 8];
	struct posted *p;

	if (double_posted < (r->mapped ? 1u : 2u))
		return at;
	p = malloc(sizeof(*p) + len);
	MUST(p);
	*p = (struct posted){.region = r, .to = at, .len = len};
	if (r->access & IBV_ACCESS_RELAXED_ORDERING && posted) {
		p->next = posted;
		posted = p;
		return p->bytes;
	}
	*posted_end = p;
	posted_end = &p->next;
	return p->bytes;
}

void region_push(uint32_t key)
{
	const struct region *r = regions[key >> 8];

	land(r, r->mapped ? NULL : r->mr.pd);
}

void regions_push(const struct ibv_pd *pd)
{
	uint32_t i;

	for (i = 0; i < MRS && posted; i++)
		if (regions[i] && regions[i]->mr.pd == pd)
			land(regions[i], pd);
}
