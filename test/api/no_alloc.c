/* SPDX-License-Identifier: Apache-2.0 */
/* From its submission to its CQE an entry like one that was run before allocates nothing and frees
 * nothing, in any thread of either side: WRITE, READ, WRITEV, a WRITE_PAGED of 20,000 blocks,
 * NOTIFY. Not over sim, whose network may allocate for what is under way, nor over libfabric. */
#include <errno.h>
#include <stddef.h>
#include "pair.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_MALLOC 0
#else
#define OWN_MALLOC 1
#endif

static uint64_t calls; /* of any thread */

#if OWN_MALLOC
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *p);

static void count(void)
{
	__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
}

void *malloc(size_t size)
{
	count();
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	count();
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	count();
	return __libc_realloc(p, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	count();
	return __libc_memalign(alignment, size);
}

int posix_memalign(void **p, size_t alignment, size_t size)
{
	count();
	*p = __libc_memalign(alignment, size);
	return *p ? 0 : ENOMEM;
}

void free(void *p)
{
	if (p)
		count();
	__libc_free(p);
}
#endif

#define LEN    (1u << 20)
#define BLOCKS 20000u
#define BLOCK  192u
#define STRIDE 256u /* no two are neighbours */
#define POOL   ((uint64_t)BLOCKS * STRIDE)
#define SEGS   64u
#define ROUNDS 6u

enum kind { WRITES, SMALL, READS, VECTORS, PAGES, NOTES, NOTED, KINDS };

static struct pair p;
static struct target t;
static uint8_t *local;
static struct urccl_region region;
static struct urccl_seg segs[SEGS];
static struct urccl_paged pages;

static void arrays(void)
{
	uint32_t i;

	for (i = 0; i < SEGS; i++)
		segs[i] = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)local + 3ull * i * 4096,
					     .len = 4096,
					     .off = 5ull * i * 4096,
					     .region = region.id,
					     .remote = t.remote.id};
	pages = (struct urccl_paged){.size = sizeof(pages), .ndims = 1, .block = BLOCK};
	pages.dim[0] = (struct urccl_dim){.count = BLOCKS,
					  .local_stride = STRIDE,
					  .remote_stride = STRIDE};
}

static int64_t prepare(struct urccl_sqe *sqe, enum kind kind)
{
	switch (kind) {
	case WRITES:
		urccl_prep_write(sqe, t.remote, local, LEN, 0);
		return LEN;
	case SMALL:
		urccl_prep_write(sqe, t.remote, local, 8, 0);
		return 8;
	case READS:
		urccl_prep_read(sqe, t.remote, local, LEN, 0);
		return LEN;
	case VECTORS:
		urccl_prep_writev(sqe, p.a.peer, segs, SEGS);
		return (int64_t)SEGS * 4096;
	case PAGES:
		urccl_prep_write_paged(sqe, t.remote, region, &pages, 1);
		return (int64_t)BLOCKS * BLOCK;
	case NOTED:
		urccl_prep_write(sqe, t.remote, local, LEN, 0);
		urccl_sqe_set_notify(p.a.ring, sqe, kind, NULL, 0);
		return LEN;
	default:
		urccl_prep_notify(sqe, p.a.peer, kind, local, URCCL_NOTE_MAX);
		return 0;
	}
}

/* Also what the receiver of a notification does until it has it. */
static uint64_t run(enum kind kind)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	int64_t len = prepare(sqe, kind);
	uint64_t before = __atomic_load_n(&calls, __ATOMIC_RELAXED);
	struct urccl_cqe cqe;

	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(pair_end(&p, &p.a, 0).res, len);
	if (kind == NOTES || kind == NOTED) {
		side_take(&p.b, &p.a, &cqe, NULL);
		CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_NOTE);
		CHECK_EQ(cqe.tag, kind);
	}
	return __atomic_load_n(&calls, __ATOMIC_RELAXED) - before;
}

int main(int argc, char **argv)
{
	uint64_t before;
	uint32_t kind, i;

	if (!OWN_MALLOC)
		SKIP("a sanitizer has the allocations");
	pair_begin(&p, argc, argv);
	target_open(&p, &t, POOL, 0);
	local = calloc(1, POOL);
	CHECK(local);
	before = calls;
	region = side_register(&p.a, local, POOL, 0);
	CHECK_NE(calls, before); /* the library's are counted */
	arrays();
	for (kind = 0; kind < KINDS; kind++)
		run(kind);
	for (i = 0; i < ROUNDS; i++)
		for (kind = 0; kind < KINDS; kind++)
			CHECK_EQ(run(kind), 0);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
