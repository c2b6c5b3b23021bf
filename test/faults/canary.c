/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that wants to run every millisecond: what it could not, nobody could. */
#include <pthread.h>
#include <time.h>
#include "faults.h"

static uint64_t worst;

static void *sing(void *arg)
{
	struct timespec ms = {0, 1000000};
	uint64_t before, late;

	(void)arg;
	for (;;) {
		before = now_ns();
		nanosleep(&ms, NULL);
		late = now_ns() - before - 1000000;
		if (late > __atomic_load_n(&worst, __ATOMIC_RELAXED))
			__atomic_store_n(&worst, late, __ATOMIC_RELAXED);
	}
	return NULL;
}

void canary_start(void)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, sing, NULL), 0);
	pthread_detach(thread);
}

void canary_reset(void)
{
	__atomic_store_n(&worst, 0, __ATOMIC_RELAXED);
}

uint64_t canary_ns(void)
{
	return __atomic_load_n(&worst, __ATOMIC_RELAXED);
}
