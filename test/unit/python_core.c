/* SPDX-License-Identifier: Apache-2.0 */
/* The Python package's ring, without Python: 16 threads submit, poll and wait on one ring, each
 * entry ends once, and a close sends away the threads that wait. */
#include <liburccl.h>
#include <pthread.h>

#include "python/core.h"
#include "test.h"

enum { THREADS = 16, ENTRIES = 500 };

struct item {
	struct core_entry entry; /* first: an entry's address is its item's */
	uint32_t taken;		 /* its owner may go on */
};

static struct core core;
static uint32_t ended; /* entries, by the chains of all threads */

static void take(void)
{
	struct core_entry *chain, *entry;
	uint32_t n = 0;

	core_reap(&core, &chain);
	for (entry = chain; entry; entry = chain) {
		chain = entry->next;
		CHECK_EQ(core_phase(entry), CORE_ENDED);
		n++;
		__atomic_store_n(&((struct item *)entry)->taken, 1, __ATOMIC_RELEASE);
	}
	__atomic_fetch_add(&ended, n, __ATOMIC_RELAXED);
}

static void submit(struct item *item)
{
	struct urccl_sqe *sqe;

	memset(item, 0, sizeof(*item));
	while (!(sqe = core_begin(&core)))
		take();
	urccl_prep_nop(sqe);
	urccl_sqe_set_data(sqe, &item->entry);
	core_end(&core, 1);
}

static void *worker(void *arg)
{
	struct item item;
	int i, rc;

	for (i = 0; i < ENTRIES; i++) {
		submit(&item);
		while (!__atomic_load_n(&item.taken, __ATOMIC_ACQUIRE)) {
			take();
			if (arg && core_phase(&item.entry) == CORE_FLYING) {
				rc = core_wait(&core, &item.entry, CORE_FLYING, ~0ull);
				CHECK(!rc || rc == -EINTR);
			}
		}
		CHECK_EQ(item.entry.cqe.res, 0);
	}
	return NULL;
}

static void *waiter(void *arg)
{
	int rc;

	(void)arg;
	do
		rc = core_wait(&core, NULL, 0, ~0ull);
	while (rc == -EINTR || !rc);
	CHECK_EQ(rc, -ESTALE);
	return NULL;
}

static void all(pthread_t *threads, void *(*work)(void *), int n)
{
	int i;

	for (i = 0; i < n; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, work, i % 2 ? &core : NULL), 0);
}

int main(void)
{
	struct urccl_ring_params p = URCCL_INIT(urccl_ring_params);
	pthread_t threads[THREADS];
	struct urccl *ctx;
	int i;

	p.entries = 64;
	CHECK_EQ(urccl_open(NULL, &ctx), 0);
	CHECK_EQ(core_open(&core, ctx, &p), 0);
	all(threads, worker, THREADS);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQ(ended, THREADS * ENTRIES);
	all(threads, waiter, 4);
	core_close(&core);
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	urccl_close(ctx);
	return 0;
}
