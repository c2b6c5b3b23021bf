/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the ranges of a program into the memory of a region and the extents that devices know.
 * Ranges that touch are one extent. A range inside an extent of another region shares that extent,
 * so that ten thousand tensors of one pool cost one registration. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "region/private.h"

#define RIGHTS (ADVERT_RIGHTS | URCCL_REG_PREFAULT)
#define PAGE   4096u

/* ---- checks of a range ---- */

/* An entry may use any transport of the context, so each of them must accept dma-bufs. */
static uint64_t transports_without_dmabuf(const struct control *c)
{
	uint64_t bits = 0;
	uint32_t i;

	for (i = 0; i < c->config.ndevices; i++)
		if (!(c->config.devices[i]->caps & CAP_DMABUF))
			bits |= 1ull << c->config.devices[i]->ops->transport;
	return bits;
}

static int dmabuf_check(const struct control *c, const struct urccl_range *r, uint32_t i,
			uint64_t rights, struct control_error *t)
{
	uint64_t cannot = transports_without_dmabuf(c);

	if (cannot)
		return error_set(t, -EOPNOTSUPP, REASON_RANGE_FD, i, (uint64_t)r->fd, cannot);
	if (rights & (URCCL_RIGHT_ATOMIC | URCCL_REG_PREFAULT))
		return error_set(t, -EINVAL, REASON_RANGE_FD_RIGHTS, i, 0, 0);
	if ((r->addr ^ r->fd_off) % PAGE || r->len > UINT64_MAX - r->fd_off)
		return error_set(t, -EINVAL, REASON_RANGE_FD_PAGE, i, 0, 0);
	return 0;
}

static int range_check(const struct control *c, const struct urccl_range *r, uint32_t i,
		       uint64_t rights, struct control_error *t)
{
	if (r->reserved)
		return error_set(t, -EINVAL, REASON_RANGE_RESERVED, i, 0, 0);
	if (!r->addr)
		return error_set(t, -EINVAL, REASON_RANGE_ADDR, i, 0, 0);
	if (!r->len)
		return error_set(t, -EINVAL, REASON_RANGE_LEN, i, 0, 0);
	if (r->len > UINT64_MAX - r->addr)
		return error_set(t, -EFAULT, REASON_RANGE_WRAPS, i, 0, 0);
	if (r->fd >= 0 && !memory_file_is(r->fd))
		return dmabuf_check(c, r, i, rights, t);
	if (r->fd >= 0)
		return 0; /* files.c checks it */
	if (r->fd != -1 || r->fd_off)
		return error_set(t, -EINVAL, REASON_RANGE_FD_NONE, i, 0, 0);
	return 0;
}

int ranges_check(const struct control *c, const struct urccl_range *ranges, uint64_t n,
		 uint64_t rights, struct control_error *t)
{
	uint64_t total = 0;
	uint32_t i;

	if (!n || !ranges)
		return error_set(t, -EINVAL, REASON_ARRAY_NONE, 0, 0, 0);
	if (n > RANGES_MAX)
		return error_set(t, -E2BIG, REASON_RANGES, n, RANGES_MAX, 0);
	if (rights & URCCL_REG_ATOMIC_NATIVE)
		return error_set(t, -EOPNOTSUPP, REASON_ATOMIC_NATIVE, 0, 0, 0);
	if (rights & ~(uint64_t)RIGHTS)
		return error_set(t, -EOPNOTSUPP, REASON_RIGHTS, rights & ~(uint64_t)RIGHTS, 0, 0);
	for (i = 0; i < n; i++) {
		if (range_check(c, &ranges[i], i, rights, t))
			return t->res;
		if (ranges[i].len > UINT64_MAX - total)
			return error_set(t, -EINVAL, REASON_RANGES_SUM, 0, 0, 0);
		total += ranges[i].len;
	}
	return 0;
}

/* ---- by address ---- */

static int by_addr(const void *a, const void *b, void *arg)
{
	const struct span *x = (const struct span *)arg + *(const uint32_t *)a;
	const struct span *y = (const struct span *)arg + *(const uint32_t *)b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Fills by_addr, unless the spans are sorted already. 0 or -ENOMEM. */
static int spans_sort(struct memory *m)
{
	uint32_t i = 1;

	while (i < m->nspans && m->spans[i].addr >= m->spans[i - 1].addr)
		i++;
	if (i == m->nspans)
		return 0;
	m->by_addr = malloc(m->nspans * sizeof(m->by_addr[0]));
	if (!m->by_addr)
		return -ENOMEM;
	for (i = 0; i < m->nspans; i++)
		m->by_addr[i] = i;
	qsort_r(m->by_addr, m->nspans, sizeof(m->by_addr[0]), by_addr, m->spans);
	return 0;
}

/* The run of spans that begins with the k-th by address: memory without a gap, of one file, or of
 * none. *end: its end. Returns the first span after it. */
static uint32_t run_end(struct memory *m, uint32_t k, uint64_t *end)
{
	const struct span *first = ranges_span(m, k), *s;

	*end = first->addr + first->len;
	while (++k < m->nspans) {
		s = ranges_span(m, k);
		if (s->addr > *end || s->fd != first->fd || s->kind != first->kind ||
		    s->gpu_index != first->gpu_index || s->gpu_id != first->gpu_id ||
		    (s->fd >= 0 && s->fd_off - first->fd_off != s->addr - first->addr))
			break;
		if (s->addr + s->len > *end)
			*end = s->addr + s->len;
	}
	return k;
}

uint32_t ranges_run(struct memory *m, uint32_t k, uint64_t *addr, uint64_t *len)
{
	uint64_t end;
	uint32_t next;

	*addr = ranges_span(m, k)->addr;
	next = run_end(m, k, &end);
	*len = end - *addr;
	return next;
}

/* Fills in an extent for the run that begins with span k, with one user. Returns the first span
 * after the run. */
static uint32_t run_extent(struct memory *m, uint32_t k, struct extent *like)
{
	const struct span *s = ranges_span(m, k);

	*like = (struct extent){.fd = s->fd,
				.fd_off = s->fd_off,
				.is_dmabuf = s->is_dmabuf,
				.kind = s->kind,
				.gpu_index = s->gpu_index,
				.gpu_id = s->gpu_id,
				.rights = m->rights,
				.users = 1};
	return ranges_run(m, k, &like->addr, &like->len);
}

/* An extent of another region that contains this one and has all of its rights, or NULL. dma-bufs
 * are never shared: two descriptors do not tell whether they name one dma-buf. */
static struct extent *extent_find(struct control *c, const struct extent *like)
{
	struct memory *m = memory_map_find(c->map, like->addr, like->len);
	struct extent *a;

	if (!m || like->is_dmabuf)
		return NULL;
	a = memory_span(m, memory_offset(m, like->addr, 1))->extent;
	if (a->addr > like->addr || a->addr + a->len < like->addr + like->len ||
	    like->rights & ~a->rights || a->kind != like->kind || a->gpu_id != like->gpu_id ||
	    (a->kind != GPU_MEMORY_DEVICE && a->fd != like->fd))
		return NULL;
	return a;
}

/* ---- is the memory mapped ---- */

/* Asks the kernel whether all of the range is mapped. It is better to refuse it here than to fail
 * in a copy. */
static int is_mapped(struct control *c, uint64_t addr, uint64_t len)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = addr & ~(page - 1), at;

	if (ranges_can_ask(c))
		return !mappings_allow(&c->mappings, addr, len, PROT_NONE, &at);
	/* MS_ASYNC only checks the mapping, though valgrind reports it as a read. */
	return !msync((void *)(uintptr_t)from, addr + len - from, MS_ASYNC);
}

/* The first span, in the program's order, that is not mapped. */
static int unmapped(struct control *c, const struct memory *m, struct control_error *t)
{
	uint32_t i = 0;

	while (i + 1 < m->nspans &&
	       (!span_is_host(&m->spans[i]) || is_mapped(c, m->spans[i].addr, m->spans[i].len)))
		i++;
	return error_set(t, -EFAULT, REASON_RANGE_UNMAPPED, i, m->spans[i].len, m->spans[i].addr);
}

static int spans_mapped(struct control *c, struct memory *m, struct control_error *t)
{
	uint64_t end, addr;
	uint32_t k, next;

	for (k = 0; k < m->nspans; k = next) {
		const struct span *s = ranges_span(m, k);

		addr = s->addr;
		next = run_end(m, k, &end);
		if (span_is_host(s) && !is_mapped(c, addr, end - addr))
			return unmapped(c, m, t);
	}
	return 0;
}

/* ---- is the access allowed ---- */

/* The access that our threads need for these rights: a write to read-only memory would fault. */
static int prot_wanted(uint32_t rights)
{
	return rights & (URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC) ? PROT_READ | PROT_WRITE
								 : PROT_READ;
}

/* The index of the first range of the program that holds the address. */
static uint32_t span_of(const struct memory *m, uint64_t addr)
{
	uint32_t i = 0;

	while (i + 1 < m->nspans &&
	       (addr < m->spans[i].addr || addr - m->spans[i].addr >= m->spans[i].len))
		i++;
	return i;
}

static int run_allowed(struct mappings *maps, const struct memory *m, const struct extent *run,
		       struct control_error *t)
{
	uint64_t at;
	int rc = mappings_allow(maps, run->addr, run->len, prot_wanted(m->rights), &at);
	uint32_t i = rc ? span_of(m, at) : 0;

	if (rc == -EFAULT)
		return error_set(t, rc, REASON_RANGE_UNMAPPED, i, m->spans[i].len,
				 m->spans[i].addr);
	if (rc)
		return error_set(t, rc,
				 maps->prot & PROT_READ ? REASON_RANGE_READ_ONLY
							: REASON_RANGE_UNREADABLE,
				 i, at, 0);
	return 0;
}

/* Memory inside an extent with the same rights was checked when that extent was made. */
static int spans_allowed(struct control *c, struct memory *m, struct control_error *t)
{
	struct extent run;
	uint32_t k = 0, looked = 0;
	int rc = 0;

	while (m->rights && k < m->nspans && !rc) {
		k = run_extent(m, k, &run);
		if (run.is_dmabuf || run.kind == GPU_MEMORY_DEVICE || extent_find(c, &run))
			continue;
		if (!looked++)
			rc = ranges_list(c, t);
		if (rc)
			return rc < 0 ? rc : 0;
		rc = run_allowed(&c->mappings, m, &run, t);
	}
	return rc;
}

/* ---- memory ---- */

/* Spans inside an allocation are views of its file. Neighbours are often in the same allocation. */
static void spans_find_files(struct control *c, struct memory *m)
{
	struct allocation *a = NULL;
	uint32_t i;

	for (i = 0; i < m->nspans; i++) {
		struct span *s = &m->spans[i];

		if (!span_is_host(s))
			continue;
		s->fd = -1;
		s->fd_off = 0;
		if (list_empty(&c->allocations))
			continue;
		if (!a || s->addr < a->addr || s->addr - a->addr > a->len ||
		    s->len > a->len - (s->addr - a->addr))
			a = memory_allocation(&c->allocations, s->addr, s->len);
		if (!a)
			continue;
		files_hold(s, a);
		s->fd = a->fd;
		s->fd_off = a->fd_off + (s->addr - a->addr);
	}
}

void ranges_free(struct control *c, struct memory *m)
{
	if (!m)
		return;
	files_drop(c, m);
	free(m->by_addr);
	free(m);
}

static struct memory *memory_new(const struct urccl_range *ranges, uint32_t n, uint32_t rights)
{
	struct memory *m = calloc(1, sizeof(*m) + n * sizeof(m->spans[0]));
	uint32_t i;

	if (!m)
		return NULL;
	m->rights = rights & ADVERT_RIGHTS;
	m->nspans = n;
	for (i = 0; i < n; i++) {
		m->spans[i].start = m->len;
		m->spans[i].len = ranges[i].len;
		m->spans[i].addr = ranges[i].addr;
		m->spans[i].fd = ranges[i].fd;
		m->spans[i].fd_off = ranges[i].fd_off;
		m->spans[i].is_dmabuf = ranges[i].fd >= 0 && !memory_file_is(ranges[i].fd);
		m->len += ranges[i].len;
	}
	return m;
}

struct memory *ranges_memory(struct control *c, const struct urccl_range *ranges, uint32_t n,
			     uint32_t rights, struct control_error *t)
{
	struct memory *m = memory_new(ranges, n, rights);

	error_set(t, -ENOMEM, REASON_NO_MEMORY, sizeof(*m) + n * sizeof(m->spans[0]), 0, 0);
	if (!m)
		return NULL;
	if (!spans_sort(m) && !spans_kinds(c, m, t) && !files_find(c, m, t)) {
		spans_find_files(c, m);
		if (!spans_mapped(c, m, t) && !spans_allowed(c, m, t))
			return m;
	}
	ranges_free(c, m);
	return NULL;
}

/* ---- extents ---- */

/* Counts a user of each allocation that overlaps the extent, so that it is not freed. Files of the
 * program are held by the spans inside them instead. */
static void extent_hold(struct control *c, const struct extent *a, int on)
{
	struct allocation *b;

	list_for_each_entry(b, &c->allocations, link) {
		if (a->is_dmabuf || b->kind != ALLOCATION_OURS || a->addr >= b->addr + b->len ||
		    a->addr + a->len <= b->addr)
			continue;
		if (on)
			b->users++;
		else
			b->users--;
	}
}

/* Memory of a GPU is staged for devices that do not register it. */
static int device_takes(const struct device *dev, const struct extent *a)
{
	return a->kind != GPU_MEMORY_DEVICE || dev->caps & CAP_GPU || a->direct >> dev->index & 1;
}

/* Bit per device that may access memory of GPUs itself. */
static uint32_t devices_direct(const struct control *c)
{
	uint32_t i, bits = 0;

	for (i = 0; i < c->config.ndevices; i++)
		if (c->config.devices[i]->caps & CAP_GPU_DIRECT)
			bits |= 1u << i;
	return bits;
}

/* Unregisters it at the first n devices. 0, or the first -errno. */
static int extent_unreg(const struct control *c, struct extent *a, uint32_t n)
{
	int err = 0, rc;

	while (n) {
		struct device *dev = c->config.devices[--n];

		rc = device_takes(dev, a) ? dev->ops->unreg(dev, a) : 0;
		err = err ? err : rc;
	}
	return err;
}

/* The kernel limits pinned pages, and reports ENOMEM if the limit is passed. */
static int reg_refused(struct device *dev, const struct extent *a, int rc, struct control_error *t)
{
	uint32_t most, mrs = device_mrs(dev, &most);
	struct rlimit limit;

	if (a->is_dmabuf)
		return error_set(t, rc, REASON_REG_DMABUF, 1ull << dev->ops->transport,
				 (uint64_t)-rc, 0);
	if (rc == -ENOMEM && dev->caps & CAP_BY_PAGES && (!most || mrs < most) &&
	    !getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY)
		return error_set(t, rc, REASON_REG_MEMLOCK, 1ull << dev->ops->transport, a->len,
				 (uint64_t)limit.rlim_cur / 1024);
	if (rc == -ENOMEM && most)
		return error_set(t, rc, REASON_REG_REGIONS, 1ull << dev->ops->transport, most, mrs);
	return error_set(t, rc, REASON_REG_DEVICE, (uint64_t)-rc, 0, 0);
}

static int extent_reg(struct control *c, struct extent *a, struct control_error *t)
{
	uint32_t i;
	int rc;

	a->direct = a->kind == GPU_MEMORY_DEVICE ? devices_direct(c) : UINT32_MAX;
	if (a->kind != GPU_MEMORY_HOST && extent_gpu(c, a, t))
		return t->res;
	for (i = 0; i < c->config.ndevices; i++) {
		struct device *dev = c->config.devices[i];

		rc = device_takes(dev, a) ? dev->ops->reg(dev, a) : 0;
		if (rc && a->kind == GPU_MEMORY_DEVICE && dev->caps & CAP_GPU_DIRECT) {
			a->direct &= ~(1u << i);
		} else if (rc) {
			(void)extent_unreg(c, a, i);
			return reg_refused(dev, a, rc, t);
		}
	}
	a->known = 1;
	return 0;
}

static int devices_slow(const struct control *c)
{
	uint32_t i;

	for (i = 0; i < c->config.ndevices; i++)
		if (c->config.devices[i]->caps & CAP_SLOW_REG)
			return 1;
	return 0;
}

int extents_reg(struct control *c, struct region *r, struct control_error *t)
{
	uint32_t i;

	for (i = 0; i < r->nextents; i++) {
		if (!r->extents[i]->known && extent_reg(c, r->extents[i], t))
			return t->res;
		r->memory->staged |= ~r->extents[i]->direct;
		r->memory->pageable |= r->extents[i]->kind == GPU_MEMORY_HOST;
		if (r->extents[i]->kind == GPU_MEMORY_DEVICE)
			r->memory->gpus |= 1u << r->extents[i]->gpu_index;
	}
	return 0;
}

int extents_slow(const struct control *c, const struct region *r)
{
	uint32_t i, new = 0, gpu = 0;

	for (i = 0; i < r->nextents; i++) {
		new |= !r->extents[i]->known;
		gpu |= r->extents[i]->kind != GPU_MEMORY_HOST;
	}
	return (new &&devices_slow(c)) || gpu;
}

/* Duplicates the descriptor, since the program may close its own. */
static struct extent *extent_new(const struct extent *like, struct control_error *t)
{
	struct extent *a = malloc(sizeof(*a));

	error_set(t, -ENOMEM, REASON_NO_MEMORY, sizeof(*a), 0, 0);
	if (!a)
		return NULL;
	*a = *like;
	if (!a->is_dmabuf)
		return a;
	a->fd = fcntl(like->fd, F_DUPFD_CLOEXEC, 0);
	if (a->fd >= 0)
		return a;
	error_set(t, -errno, REASON_RANGE_FD_DUP, (uint64_t)like->fd, (uint64_t)errno, 0);
	free(a);
	return NULL;
}

static struct extent *extent_get(struct control *c, struct region *r, const struct extent *like,
				 struct control_error *t)
{
	struct extent *a = extent_find(c, like);

	if (a) {
		r->nshared++;
		a->users++;
		return a;
	}
	a = extent_new(like, t);
	if (a)
		extent_hold(c, a, 1);
	return a;
}

/* Keeps in r->extents those that no other region uses. No lookup finds them: r is in no map. */
int extents_leave(struct control *c, struct region *r)
{
	uint32_t i, left = 0, known = 0;

	for (i = 0; i < r->nextents; i++) {
		struct extent *a = r->extents[i];

		if (a->users && --a->users)
			continue;
		known |= a->known;
		r->extents[left++] = a;
	}
	r->nextents = left;
	return known && devices_slow(c);
}

int extents_unreg(const struct control *c, struct region *r)
{
	int err = 0, rc;
	uint32_t i;

	for (i = 0; i < r->nextents; i++) {
		rc = r->extents[i]->known ? extent_unreg(c, r->extents[i], c->config.ndevices) : 0;
		err = err ? err : rc;
	}
	return err;
}

void extents_free(struct control *c, struct region *r)
{
	while (r->nextents) {
		struct extent *a = r->extents[--r->nextents];

		extent_hold(c, a, 0);
		if (extent_has_dmabuf(a))
			close(a->fd);
		free(a);
	}
	free(r->extents);
	r->extents = NULL;
}

/* An upper bound of the number of extents. */
static uint32_t extents_count(struct memory *m)
{
	uint64_t end;
	uint32_t k, n = 0;

	for (k = 0; k < m->nspans; k = run_end(m, k, &end))
		n++;
	return n;
}

int extents_get(struct control *c, struct region *r, struct control_error *t)
{
	struct memory *m = r->memory;
	uint32_t n = extents_count(m), k, next;

	error_set(t, -ENOMEM, REASON_NO_MEMORY, n * sizeof(r->extents[0]), 0, 0);
	r->extents = calloc(n, sizeof(r->extents[0]));
	if (!r->extents)
		return t->res;
	for (k = 0; k < m->nspans;) {
		struct extent *a, like;

		next = run_extent(m, k, &like);
		if (run_check(c, m, k, &like, extent_find(c, &like), t))
			return t->res;
		a = extent_get(c, r, &like, t);
		if (!a)
			return t->res;
		r->extents[r->nextents++] = a;
		for (; k < next; k++)
			ranges_span(m, k)->extent = a;
	}
	return 0;
}
