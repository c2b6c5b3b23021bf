/* SPDX-License-Identifier: Apache-2.0 */
/* Regions: many ranges are one offset space, at the owner and here; entries name addresses of any
 * part of one, also where regions overlap; what cannot be registered is refused with a sentence. */
#include <sys/mman.h>
#include "pair.h"

#define RANGES 7u
#define LEN    5000u
#define TOTAL  ((uint64_t)RANGES * LEN)

static struct pair p;
static uint8_t *ranges_a[RANGES], *ranges_b[RANGES];

static struct urccl_region register_many(struct side *s, uint8_t **ranges)
{
	struct urccl_range r[RANGES];
	struct urccl_region region;
	struct urccl_region_info info = {.size = sizeof(info)};
	uint32_t i;

	for (i = 0; i < RANGES; i++) {
		ranges[i] = calloc(1, LEN);
		CHECK(ranges[i]);
		r[i] = (struct urccl_range){.addr = (uintptr_t)ranges[i], .len = LEN, .fd = -1};
	}
	CHECK_EQ(urccl_register(s->ctx, r, RANGES, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE, &region),
		 0);
	CHECK_EQ(urccl_get_region_info(s->ctx, region, &info), 0);
	CHECK_EQ(info.nranges, RANGES);
	CHECK_EQ(info.len, TOTAL);
	CHECK_EQ(info.rights, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	CHECK_EQ(info.mappable, 0);
	return region;
}

static struct urccl_remote import(struct urccl_region region)
{
	struct urccl_remote remote;
	struct urccl_advert advert;

	CHECK_EQ(urccl_advertise(p.b.ctx, region, 0, TOTAL, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE, 0,
				 &advert),
		 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &advert, 1, &remote), 0);
	return remote;
}

/* One run over all ranges of both sides, shifted, so that blocks cross borders here and there. */
static void one_space(struct urccl_region region, struct urccl_remote remote, int reads)
{
	struct urccl_paged d = {.size = sizeof(d), .ndims = 1, .local_off = 300, .block = 700};
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint8_t **from = reads ? ranges_b : ranges_a, **to = reads ? ranges_a : ranges_b;
	uint64_t i, n = (TOTAL - 300) / 700, shift = 300, off_from = reads ? 0 : shift;

	d.dim[0] = (struct urccl_dim){.count = n, .local_stride = 700, .remote_stride = 700};
	for (i = 0; i < RANGES; i++) {
		pattern_fill(from[i], LEN, i * LEN, 3 + (uint64_t)reads);
		memset(to[i], 0, LEN);
	}
	if (reads)
		urccl_prep_read_paged(sqe, remote, region, &d, 1);
	else
		urccl_prep_write_paged(sqe, remote, region, &d, 1);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, (int64_t)(n * 700));
	for (i = 0; i < n * 700; i++) {
		uint64_t source = off_from + i, there = reads ? shift + i : i;

		CHECK_EQ(to[there / LEN][there % LEN], from[source / LEN][source % LEN]);
	}
}

static int64_t write_from(const void *addr, uint64_t len, struct urccl_remote remote, uint64_t off)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, remote, addr, len, off);
	return pair_run(&p, &p.a, sqe).res;
}

/* Addresses inside one region, in two that overlap, in two that only touch. */
static void lookups(struct urccl_remote remote)
{
	uint8_t *m =
		mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct urccl_region low, high;

	CHECK(m != MAP_FAILED);
	pattern_fill(m, 1 << 16, 0, 9);
	CHECK_EQ(write_from(m, 10, remote, 0), -EFAULT);
	low = side_register(&p.a, m, 20000, 0);
	high = side_register(&p.a, m + 10000, 20000, 0);
	CHECK_EQ(write_from(m + 9000, 4000, remote, 0), 4000);
	CHECK(pattern_holds(ranges_b[0], 4000, 9000, 9));
	CHECK_EQ(write_from(m + 25000, 4000, remote, 500), 4000);
	CHECK(pattern_holds(ranges_b[0] + 500, 4000, 25000, 9));
	CHECK_EQ(write_from(m + 10000, 20000, remote, 0), 20000);
	CHECK(pattern_holds(ranges_b[3], 4999, 25000, 9));
	CHECK_EQ(write_from(m + 29999, 2, remote, 0), -EFAULT);
	CHECK_EQ(urccl_unregister(p.a.ctx, low), 0);
	CHECK_EQ(write_from(m + 12000, 100, remote, 0), 100);
	CHECK_EQ(write_from(m + 9999, 2, remote, 0), -EFAULT);
	CHECK_EQ(urccl_unregister(p.a.ctx, high), 0);
	CHECK_EQ(write_from(m + 12000, 100, remote, 0), -EFAULT);
	CHECK_EQ(urccl_unregister(p.a.ctx, high), -ESTALE);
	munmap(m, 1 << 16);
}

static void bad_range(struct urccl_range r, uint32_t n, uint32_t rights, int res, const char *why)
{
	struct urccl_region region = {0};

	CHECK_EQ(urccl_register(p.a.ctx, &r, n, rights, &region), res);
	CHECK_SAYS(urccl_errmsg(), why);
	CHECK(!region.id);
}

static void refused(void)
{
	static uint8_t b[16];
	uint64_t at = (uintptr_t)b;
	struct urccl_region_info info = {.size = sizeof(info)};

	bad_range((struct urccl_range){.addr = at, .len = 16, .fd = -1}, 0, 0, -EINVAL, "range");
	bad_range((struct urccl_range){.addr = at, .fd = -1}, 1, 0, -EINVAL, "length");
	bad_range((struct urccl_range){.len = 16, .fd = -1}, 1, 0, -EINVAL, "address");
	bad_range((struct urccl_range){.addr = at, .len = UINT64_MAX, .fd = -1}, 1, 0, -EFAULT,
		  "end of memory");
	bad_range((struct urccl_range){.addr = 4096, .len = 16, .fd = -1}, 1, 0, -EFAULT, "mapped");
	/* Of whatever it is, it is no dma-buf. */
	bad_range((struct urccl_range){.addr = at, .len = 16, .fd = 0, .fd_off = at % 4096}, 1, 0,
		  -EOPNOTSUPP, "fd");
	bad_range((struct urccl_range){.addr = at, .len = 16, .fd = -1, .reserved = 1}, 1, 0,
		  -EINVAL, "reserved");
	bad_range((struct urccl_range){.addr = at, .len = 16, .fd = -1}, 1, 1u << 7, -EOPNOTSUPP,
		  "rights");
	CHECK_EQ(urccl_get_region_info(p.a.ctx, (struct urccl_region){NO_REGION}, &info), -ESTALE);
}

/* Memory of ours that peers can map. */
static void allocated(void)
{
	struct urccl_region_info info = {.size = sizeof(info)};
	struct urccl_region region;
	void *addr;

	CHECK_EQ(urccl_alloc(p.b.ctx, 0, &addr), -EINVAL);
	CHECK_EQ(urccl_alloc(p.b.ctx, 1ull << 60, &addr), -ENOMEM);
	CHECK(strstr(urccl_errmsg(), "bytes"));
	CHECK_EQ(urccl_alloc(p.b.ctx, 10000, &addr), 0);
	CHECK_EQ((uintptr_t)addr % 4096, 0);
	CHECK(!((uint8_t *)addr)[9999]);
	region = side_register(&p.b, (uint8_t *)addr + 100, 5000, URCCL_RIGHT_READ);
	CHECK_EQ(urccl_get_region_info(p.b.ctx, region, &info), 0);
	CHECK_EQ(info.mappable, 1);
	CHECK_EQ(urccl_free(p.b.ctx, addr), -EBUSY);
	CHECK_EQ(urccl_free(p.b.ctx, (uint8_t *)addr + 4096), -EINVAL);
	CHECK_EQ(urccl_unregister(p.b.ctx, region), 0);
	CHECK_EQ(urccl_free(p.b.ctx, addr), 0);
	CHECK_EQ(urccl_free(p.b.ctx, addr), -EINVAL);
}

int main(int argc, char **argv)
{
	struct urccl_region here;
	struct urccl_remote there;

	pair_begin(&p, argc, argv);
	here = register_many(&p.a, ranges_a);
	there = import(register_many(&p.b, ranges_b));
	one_space(here, there, 0);
	one_space(here, there, 1);
	lookups(there);
	refused();
	allocated();
	pair_close(&p);
	return 0;
}
