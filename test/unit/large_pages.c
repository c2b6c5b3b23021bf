/* SPDX-License-Identifier: Apache-2.0 */
/* Large pages are asked for where the machine gives them to who asks, and not where the program
 * said that it wants none. */
#include <sys/mman.h>
#include <sys/prctl.h>

#include "memory/memory.h"
#include "test.h"

#define LEN (16ull << 20)

/* Whether the mapping at addr has the flag, by its two letters in smaps. */
static int has_flag(const void *addr, const char *flag)
{
	uint64_t at = (uintptr_t)addr, start, end;
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[4096];
	int here = 0, has = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = start <= at && at < end;
		else if (here && !strncmp(line, "VmFlags:", 8))
			has = strstr(line, flag) != NULL;
	}
	fclose(f);
	return has;
}

static uint8_t *map(void)
{
	uint8_t *m = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(m != MAP_FAILED);
	return m;
}

static void prefault(struct urccl *ctx, void *addr)
{
	struct urccl_range r = {.addr = (uintptr_t)addr, .len = LEN, .fd = -1};
	struct urccl_region region;
	int res = urccl_register(ctx, &r, 1, URCCL_RIGHT_READ | URCCL_REG_PREFAULT, &region);

	if (res == -EOPNOTSUPP)
		SKIP("this kernel cannot be asked for pages");
	CHECK_EQ(res, 0);
	CHECK_EQ(urccl_unregister(ctx, region), 0);
}

/* Its second half is not to have any. */
static void halves(struct urccl *ctx)
{
	uint8_t *m = map(), *half = m + LEN / 2;

	CHECK_EQ(madvise(half, LEN / 2, MADV_NOHUGEPAGE), 0);
	prefault(ctx, m);
	CHECK_EQ(has_flag(m + (4u << 20), " hg"), 1);
	CHECK(!has_flag(half, " hg"));
	CHECK(has_flag(half, " nh"));
	munmap(m, LEN);
}

static void allocates(struct urccl *ctx, int wants)
{
	void *m;

	CHECK_EQ(urccl_alloc(ctx, LEN, &m), 0);
	CHECK_EQ(has_flag((uint8_t *)m + (4u << 20), " hg"), wants);
	CHECK_EQ(urccl_free(ctx, m), 0);
}

int case_large_pages(void)
{
	struct urccl_params p = {.size = sizeof(p)};
	uint8_t *m = map();
	struct urccl *ctx;

	if (madvise(m, LEN, MADV_HUGEPAGE) || !has_flag(m, " hg"))
		SKIP("no transparent huge pages here");
	munmap(m, LEN);
	urccl_params_init(&p);
	p.transport = "tcp";
	CHECK_EQ(urccl_open(&p, &ctx), 0);
	halves(ctx);
	allocates(ctx, 1);
	CHECK_EQ(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
	m = map();
	prefault(ctx, m);
	CHECK(!has_flag(m, " hg"));
	allocates(ctx, 0);
	urccl_close(ctx);
	return 0;
}
