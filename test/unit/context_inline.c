/* SPDX-License-Identifier: Apache-2.0 */
/* An INLINE context: one ring, and calls that need the engine only from the thread that drives it.
 */
#include <pthread.h>

#include <liburccl.h>
#include "test.h"

static struct urccl *ctx;
static char memory[4096];

static int register_one(struct urccl_region *region)
{
	struct urccl_range range = {.addr = (uint64_t)(uintptr_t)memory,
				    .len = sizeof(memory),
				    .fd = -1};

	return urccl_register(ctx, &range, 1, URCCL_RIGHT_READ, region);
}

static void *from_another(void *arg)
{
	struct urccl_region region = {0};
	struct urccl_stats st = {.size = sizeof(st)};
	char blob[URCCL_METADATA_MAX];

	(void)arg;
	CHECK_EQ(register_one(&region), -EBUSY);
	CHECK(*urccl_errmsg());
	/* What needs no engine does not mind. */
	CHECK_GE(urccl_metadata(ctx, blob, sizeof(blob)), 1);
	CHECK_EQ(urccl_stats(ctx, &st), 0);
	return NULL;
}

static void *with_its_own_ring(void *arg)
{
	struct urccl_region region;
	struct urccl_ring *ring;

	CHECK_EQ(urccl_ring_open(ctx, NULL, &ring), 0);
	CHECK_EQ(register_one(&region), 0);
	CHECK_EQ(urccl_unregister(ctx, region), 0);
	urccl_ring_close(ring);
	return arg;
}

static void in_thread(void *(*run)(void *))
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, run, NULL), 0);
	pthread_join(thread, NULL);
}

int main(void)
{
	struct urccl_params p = {.size = sizeof(p)};
	struct urccl_ring *ring, *second;
	struct urccl_region region;

	urccl_params_init(&p);
	p.flags = URCCL_OPEN_INLINE;
	CHECK_EQ(urccl_open(&p, &ctx), 0);
	/* Before there is a ring, any thread may. */
	CHECK_EQ(register_one(&region), 0);
	in_thread(with_its_own_ring);
	CHECK_EQ(urccl_ring_open(ctx, NULL, &ring), 0);
	CHECK_EQ(urccl_ring_open(ctx, NULL, &second), -EBUSY);
	in_thread(from_another);
	CHECK_EQ(urccl_unregister(ctx, region), 0);
	urccl_ring_close(ring);
	CHECK_EQ(urccl_ring_open(ctx, NULL, &ring), 0);
	urccl_close(ctx);
	return 0;
}
