/* SPDX-License-Identifier: Apache-2.0 */
/* The ten thousandth region costs about what the first did, and so does its end. */
#include <time.h>

#include "base/base.h"
#include "test.h"

#define REGIONS 10000u
#define SOME	1000u
#define PARTS	10u

#ifdef __SANITIZE_THREAD__ /* to which each word of a map that is copied is a call */
#define END_MAX 200u
#else
#define END_MAX 30u
#endif

static char memory[REGIONS][64];
static struct urccl_region regions[REGIONS];
static struct urccl *ctx;

/* What this process has computed: others on the machine are not counted. */
static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* In an order that is not that of the addresses. */
static void registers(uint32_t from, uint32_t n)
{
	uint32_t i;

	for (i = from; i < from + n; i++) {
		struct urccl_range r = {.addr = (uint64_t)(uintptr_t)memory[i * 7919 % REGIONS],
					.len = sizeof(memory[0]),
					.fd = -1};

		CHECK_EQ(urccl_register(ctx, &r, 1, URCCL_RIGHT_READ, &regions[i]), 0);
	}
}

static void unregisters(uint32_t from, uint32_t n)
{
	uint32_t i;

	for (i = from; i < from + n; i++)
		CHECK_EQ(urccl_unregister(ctx, regions[i]), 0);
}

/* Of SOME, by the cheapest of their parts: a busy machine makes some dear. */
static uint64_t cost(void (*does)(uint32_t from, uint32_t n), uint32_t from)
{
	uint64_t least = UINT64_MAX;
	uint32_t i;

	for (i = 0; i < PARTS; i++) {
		uint64_t start = cpu_ns(), took;

		does(from + i * (SOME / PARTS), SOME / PARTS);
		took = cpu_ns() - start;
		least = took < least ? took : least;
	}
	return least * PARTS;
}

int case_region_many(void)
{
	struct urccl_params p = {.size = sizeof(p)};
	uint64_t first, last, gone;

	urccl_params_init(&p);
	p.transport = "tcp";
	CHECK_EQ(urccl_open(&p, &ctx), 0);
	first = cost(registers, 0);
	registers(SOME, REGIONS - 2 * SOME);
	last = cost(registers, REGIONS - SOME);
	gone = cost(unregisters, 2 * SOME);
	printf("ms for %u: first %.1f, last %.1f, end %.1f\n", SOME, (double)first / 1e6,
	       (double)last / 1e6, (double)gone / 1e6);
	CHECK_LE(last, 8 * first + 100 * NSEC_PER_MSEC);
	CHECK_LE(gone, END_MAX * first + 300 * NSEC_PER_MSEC);
	urccl_close(ctx);
	return 0;
}
