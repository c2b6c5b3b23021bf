/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of a region that are to be there when it is registered are asked for by several threads at
 * a time, as many as there are CPUs for, up to four; each piece is asked for once. */
#include <sys/mman.h>

#include "control_rig.h"
#include "memory/memory.h"

#define PIECE	(8ull << 20)
#define PIECES	32u
#define LEN	(PIECES * PIECE)
#define THREADS 4u

int __wrap_memory_populate(uint64_t addr, uint64_t len);

static uint64_t from;
static uint32_t wanted, inside, asked[PIECES];

/* The first to come wait for the others. */
int __wrap_memory_populate(uint64_t addr, uint64_t len)
{
	uint64_t late = clock_ns() + RIG_NS;
	uint32_t now;

	CHECK(len <= PIECE && addr - from < LEN);
	__atomic_add_fetch(&asked[(addr - from) / PIECE], 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
	futex_wake(&inside);
	while ((now = load_acquire(&inside)) < wanted) {
		CHECK(!is_late(late));
		futex_wait(&inside, now, NSEC_PER_SEC);
	}
	return 0;
}

int main(void)
{
	struct urccl_range range = {.len = LEN, .fd = -1};
	struct urccl_params p = rig_params();
	struct urccl_region region;
	struct cpus cpus;
	struct side s;
	uint32_t i;
	void *at;

	thread_cpus(&cpus);
	wanted = cpus_count(&cpus) < THREADS ? cpus_count(&cpus) : THREADS;
	if (wanted < 2)
		SKIP("one CPU: there is nothing to do at a time");
	/* A whole number of pieces, that begins as one does. */
	at = mmap(NULL, LEN + PIECE, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(at != MAP_FAILED);
	from = ((uintptr_t)at | (PIECE - 1)) + 1;
	side_open(&s, &p);
	range.addr = from;
	CHECK_EQ(urccl_register(s.ctx, &range, 1, URCCL_REG_PREFAULT, &region), 0);
	for (i = 0; i < PIECES; i++)
		CHECK_EQ(asked[i], 1);
	side_close(&s);
	munmap(at, LEN + PIECE);
	return 0;
}
