/* SPDX-License-Identifier: Apache-2.0 */
#include "register.h"
#include "end.h"
#include "result.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const uint64_t untouched_bytes = 64ull << 30;
static const uint64_t prefault_most = 1ull << 30;
static const uint64_t prefault_least = 2ull << 20;
static const uint64_t prefault_tensor = 128ull << 10; /* for each tensor, within these bounds */

struct bench {
	const struct options *o;
	struct urccl *ctx;
	struct end end;
	struct report report;
	uint8_t *pool;
	uint64_t len; /* of the pool */
	uint64_t prefault_bytes;
	struct urccl_range *ranges;
	struct urccl_region *regions;
};

/* ---- figures ---- */

static void figure(struct bench *b, double value, const char *unit, const char *name)
{
	if (b->o->json)
		report_metric(&b->report, value, unit, "%s", name);
	else
		printf("%-26s %12.3f %s\n", name, value, unit);
}

static void took(struct bench *b, uint64_t start, uint64_t times, const char *name)
{
	figure(b, (double)(bench_now() - start) * 1e-3 / (double)times, "us", name);
}

/* ---- calls ---- */

static struct urccl_region make(struct bench *b, const struct urccl_range *r, uint32_t n,
				uint32_t rights)
{
	struct urccl_region region;

	if (urccl_register(b->ctx, r, n, rights, &region) < 0)
		bench_die("cannot register: %s", urccl_errmsg());
	return region;
}

static void unmake(struct bench *b, struct urccl_region region)
{
	if (urccl_unregister(b->ctx, region) < 0)
		bench_die("cannot unregister: %s", urccl_errmsg());
}

static void check_shared(struct bench *b, struct urccl_region region, uint32_t shared)
{
	struct urccl_region_info info = {.size = sizeof(info)};

	if (urccl_get_region_info(b->ctx, region, &info) < 0)
		bench_die("cannot ask about a region: %s", urccl_errmsg());
	if (info.shared != shared || info.extents != 1)
		bench_die("%u extents, %u of them shared: not what is to be measured", info.extents,
			  info.shared);
}

static void pool(struct bench *b)
{
	struct urccl_range r = {.addr = (uintptr_t)b->pool, .len = b->len, .fd = -1};
	uint64_t start = bench_now();
	struct urccl_region region = make(b, &r, 1, URCCL_RIGHT_WRITE);

	took(b, start, 1, "pool");
	start = bench_now();
	unmake(b, region);
	took(b, start, 1, "pool.end");
}

static void one_region(struct bench *b)
{
	uint64_t start = bench_now();
	struct urccl_region region = make(b, b->ranges, b->o->tensors, URCCL_RIGHT_WRITE);

	took(b, start, 1, "one_region");
	check_shared(b, region, 0);
	start = bench_now();
	unmake(b, region);
	took(b, start, 1, "one_region.end");
}

static void region_each(struct bench *b, uint32_t shared, const char *name, const char *end)
{
	uint64_t start = bench_now();
	uint32_t i;

	for (i = 0; i < b->o->tensors; i++)
		b->regions[i] = make(b, &b->ranges[i], 1, URCCL_RIGHT_WRITE);
	took(b, start, b->o->tensors, name);
	check_shared(b, b->regions[b->o->tensors - 1], shared);
	start = bench_now();
	for (i = 0; i < b->o->tensors; i++)
		unmake(b, b->regions[i]);
	took(b, start, b->o->tensors, end);
}

/* ---- entries ---- */

static void entry_ended(struct end *e, const struct urccl_cqe *cqe)
{
	struct bench *b = e->owner;

	if (cqe->res < 0)
		end_fail(e, "an entry", cqe);
	if (cqe->handle)
		b->regions[cqe->user_data & ~TAG_MASK].id = (uint32_t)cqe->handle;
}

static void entries(struct bench *b, int registers, const char *name)
{
	uint64_t start = bench_now();
	uint32_t sent = 0, ended = 0, n = b->o->tensors;

	while (ended < n) {
		while (sent < n && urccl_sq_space_left(b->end.ring)) {
			struct urccl_sqe *sqe = end_sqe(&b->end);

			if (registers)
				urccl_prep_register(sqe, &b->ranges[sent], 1, URCCL_RIGHT_WRITE);
			else
				urccl_prep_unregister(sqe, b->regions[sent]);
			urccl_sqe_set_data64(sqe, (uint64_t)TAG_CONTROL << TAG_SHIFT | sent++);
		}
		urccl_submit(b->end.ring);
		end_idle(&b->end);
		ended += end_reap(&b->end);
	}
	took(b, start, n, name);
}

/* ---- pages ---- */

static void *addresses(uint64_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		bench_die("no addresses for %lu bytes", len);
	return p;
}

static void untouched(struct bench *b)
{
	void *p = addresses(untouched_bytes);
	struct urccl_range r = {.addr = (uintptr_t)p, .len = untouched_bytes, .fd = -1};
	uint64_t start = bench_now();
	struct urccl_region region = make(b, &r, 1, URCCL_RIGHT_WRITE);

	took(b, start, 1, "untouched_64g");
	start = bench_now();
	unmake(b, region);
	took(b, start, 1, "untouched_64g.end");
	munmap(p, untouched_bytes);
}

/* Memory without pages, of the kind that madvise() is asked for. */
static void *fresh(const struct bench *b, int pages)
{
	void *p = addresses(b->prefault_bytes);

	if (madvise(p, b->prefault_bytes, pages))
		bench_die("madvise: %s", strerror(errno));
	return p;
}

static void prefault(struct bench *b, int pages, const char *name)
{
	void *p = fresh(b, pages);
	struct urccl_range r = {.addr = (uintptr_t)p, .len = b->prefault_bytes, .fd = -1};
	uint64_t start = bench_now();
	struct urccl_region region = make(b, &r, 1, URCCL_RIGHT_WRITE | URCCL_REG_PREFAULT);
	double ns = (double)(bench_now() - start);

	figure(b, (double)b->prefault_bytes / ns, "GB/s", name);
	unmake(b, region);
	munmap(p, b->prefault_bytes);
}

/* The same by one thread's call, without the library, in GB/s: the floor. */
static double populate(const struct bench *b, int pages)
{
	void *p = fresh(b, pages);
	uint64_t start = bench_now();
	double ns;

	if (madvise(p, b->prefault_bytes, MADV_POPULATE_WRITE))
		bench_die("MADV_POPULATE_WRITE: %s", strerror(errno));
	ns = (double)(bench_now() - start);
	munmap(p, b->prefault_bytes);
	return (double)b->prefault_bytes / ns;
}

/* Memory that nobody used for a while a virtual machine has to get from its host first, at a tenth
 * of the rate: so all of it is had once before. */
static void pages(struct bench *b, int kind, const char *ours, const char *floor)
{
	populate(b, kind);
	prefault(b, kind, ours);
	figure(b, populate(b, kind), "GB/s", floor);
}

/* ---- all ---- */

/* The tensors of the pool in an order that is not that of their addresses. */
static void bench_open(struct bench *b)
{
	uint32_t n = b->o->tensors, i, at;
	uint64_t state = 88172645463325252ull;

	b->len = (uint64_t)n * b->o->size;
	b->prefault_bytes = n * prefault_tensor & ~(prefault_least - 1);
	if (b->prefault_bytes < prefault_least)
		b->prefault_bytes = prefault_least;
	if (b->prefault_bytes > prefault_most)
		b->prefault_bytes = prefault_most;
	b->pool = addresses(b->len);
	b->ranges = calloc(n, sizeof(*b->ranges));
	b->regions = calloc(n, sizeof(*b->regions));
	if (!b->ranges || !b->regions)
		bench_die("no memory for %u ranges", n);
	for (i = 0; i < n; i++)
		b->ranges[i] = (struct urccl_range){.addr = (uintptr_t)b->pool + i * b->o->size,
						    .len = b->o->size,
						    .fd = -1};
	for (i = n - 1; i; i--) {
		struct urccl_range swap = b->ranges[i];

		at = (uint32_t)(bench_random(&state) % (i + 1));
		b->ranges[i] = b->ranges[at];
		b->ranges[at] = swap;
	}
	b->ctx = end_context(b->o, OURS, "");
	end_open(&b->end, b->o, b->ctx, b->o->wait);
	b->end.owner = b;
	b->end.event = entry_ended;
}

void register_measure(const struct options *o)
{
	struct bench b = {.o = o};
	struct urccl_range all;
	struct urccl_region whole;

	bench_open(&b);
	if (o->json) {
		result_open(&b.report, o, 0);
		report_metric(&b.report, o->tensors, "tensors", "tensors");
	} else {
		printf("%u tensors of %lu bytes\n", o->tensors, o->size);
	}
	pool(&b);
	one_region(&b);
	region_each(&b, 0, "region_each", "region_each.end");
	all = (struct urccl_range){.addr = (uintptr_t)b.pool, .len = b.len, .fd = -1};
	whole = make(&b, &all, 1, URCCL_RIGHT_WRITE);
	region_each(&b, 1, "region_each_in_pool", "region_each_in_pool.end");
	entries(&b, 1, "entry_each_in_pool");
	entries(&b, 0, "entry_each_in_pool.end");
	unmake(&b, whole);
	untouched(&b);
	pages(&b, MADV_HUGEPAGE, "prefault.huge", "populate.huge");
	pages(&b, MADV_NOHUGEPAGE, "prefault.small", "populate.small");
	if (o->json)
		report_close(&b.report);
	end_close(&b.end);
	urccl_close(b.ctx);
	free(b.regions);
	free(b.ranges);
}
