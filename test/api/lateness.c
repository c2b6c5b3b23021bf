/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include "../waited.h"
#include "lateness.h"
#include "pair.h"

#define TAKEN_NS    2000000000ull
#define EMULATED_NS 250000000ull

static struct singer {
	uint64_t worst; /* what it was late since the reset; written by both */
	uint64_t notes; /* written by it */
	int cpu;
} singers[CPU_SETSIZE];
static uint32_t nsingers;
static uint64_t waited; /* by all threads until the reset */

static const struct timespec ms = {0, 1000000};

static void *sing(void *arg)
{
	struct singer *s = arg;
	uint64_t before, late;
	cpu_set_t on;

	CPU_ZERO(&on);
	CPU_SET(s->cpu, &on);
	CHECK_EQ(pthread_setaffinity_np(pthread_self(), sizeof(on), &on), 0);
	for (;;) {
		before = now_ns();
		nanosleep(&ms, NULL);
		late = now_ns() - before - 1000000;
		if (late > __atomic_load_n(&s->worst, __ATOMIC_RELAXED))
			__atomic_store_n(&s->worst, late, __ATOMIC_RELAXED);
		__atomic_add_fetch(&s->notes, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

void canary_start(void)
{
	pthread_t thread;
	cpu_set_t on;
	int cpu;

	CHECK_EQ(sched_getaffinity(0, sizeof(on), &on), 0);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		struct singer *s = &singers[nsingers];

		if (!CPU_ISSET(cpu, &on))
			continue;
		nsingers++;
		s->cpu = cpu;
		CHECK_EQ(pthread_create(&thread, NULL, sing, s), 0);
		pthread_detach(thread);
	}
}

void canary_reset(void)
{
	uint32_t i;

	for (i = 0; i < nsingers; i++)
		__atomic_store_n(&singers[i].worst, 0, __ATOMIC_RELAXED);
	waited = waited_ns();
}

uint64_t canary_ns(void)
{
	uint64_t worst = waited_since(waited), late, notes;
	uint32_t i;

	/* What one is late for right now counts, too. */
	for (i = 0; i < nsingers; i++) {
		notes = __atomic_load_n(&singers[i].notes, __ATOMIC_ACQUIRE);
		while (__atomic_load_n(&singers[i].notes, __ATOMIC_ACQUIRE) == notes)
			nanosleep(&ms, NULL);
		late = __atomic_load_n(&singers[i].worst, __ATOMIC_RELAXED);
		worst = late > worst ? late : worst;
	}
	return worst;
}

uint64_t emulated_ns(void)
{
	return getenv("VM_GUEST") ? EMULATED_NS : 0;
}

void check_took(uint64_t took, uint64_t ns, uint64_t late)
{
	if (took <= ns)
		return;
	fprintf(stderr, "%llu ms, where %llu are promised\n", (unsigned long long)took / 1000000,
		(unsigned long long)ns / 1000000);
	CHECK_GE(late, CANARY_LATE_NS);
	CHECK_LE(took, 2 * ns + 4 * late); /* it may have been away more than once */
}

uint64_t check_within(uint64_t start, uint64_t ns)
{
	uint64_t took = now_ns() - start;

	if (took > ns)
		check_took(took, ns, canary_ns());
	return took;
}

uint64_t check_taken_back(int (*call)(struct urccl *, struct urccl_region), struct urccl *ctx,
			  struct urccl_region region)
{
	uint64_t start = now_ns();
	int res;

	canary_reset();
	for (;;) {
		res = call(ctx, region);
		if (res != -ETIMEDOUT)
			break;
		CHECK_GE(canary_ns(), CANARY_LATE_NS);
		check_within(start, TAKEN_NS);
	}
	if (res)
		fprintf(stderr, "%s\n", urccl_errmsg());
	CHECK_EQ(res, 0);
	return check_within(start, TAKEN_NS);
}
