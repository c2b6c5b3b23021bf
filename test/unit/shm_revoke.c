/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped memory that is withdrawn: who has it mapped lets go of it when asked, whatever was under
 * way, and then it is the owner's; who says nothing still has it, also when its ep was closed,
 * until the memory has moved; and a key that comes after it was withdrawn maps nothing. What was
 * moved is reached through the ring, by a copy that was under way too. */
#include <backend/shm.h>
#include "shm_rig.h"

#define LEN (16u << 20) /* more than what is copied between two looks at the link */

static struct shm_rig r;
static struct allocation *a;
static struct memory *m;
static struct exposure x[2];
static struct rkey rkey[2];
static uint8_t local[LEN], got[LEN];

static uint8_t *memory(void)
{
	return (uint8_t *)(uintptr_t)a->addr;
}

static int all(const uint8_t *p, uint8_t value)
{
	uint32_t i;

	for (i = 0; i < LEN; i++)
		if (p[i] != value)
			return 0;
	return 1;
}

static void under_way(void)
{
	struct chunk large = rig_chunk(CHUNK_WRITE, local, LEN, &rkey[0], 0);
	struct chunk small = rig_chunk(CHUNK_READ, local, 8, &rkey[0], 0);
	struct chunk other = rig_chunk(CHUNK_WRITE, local, 8, &rkey[1], LEN - 8);

	rig_post(&r, 0, &large);
	rig_poll(&r, 0);
	CHECK(!large.op && memory()[0] == 1 && memory()[LEN - 1] == 0);
	rig_post(&r, 0, &small);
	rig_post(&r, 0, &other);
	CHECK_EQ(backend_shm.unexpose(&x[0]), -EINPROGRESS);
	RIG_UNTIL(&r, !backend_shm.unexpose(&x[0]));
	memset(memory(), 2, LEN - 8);
	RIG_UNTIL(&r, large.op && other.op);
	CHECK_EQ(large.res, -EACCES);
	CHECK(large.flags & CHUNK_QUIET);
	/* Of the same memory, by another grant. */
	CHECK_EQ(other.res, 0);
	CHECK_EQ(memory()[LEN - 1], 1);
	memset(memory() + LEN - 8, 2, 8);
	CHECK(small.op);
	CHECK_EQ(rig_do(&r, 0, &large), -EACCES);
	CHECK_EQ(rig_do(&r, 0, &small), -EACCES);
	CHECK(all(memory(), 2));
	backend_shm.forget(r.ep[0], &rkey[0]);
}

/* The importer is not polled, as if it were stopped. */
static void silent(void)
{
	uint32_t i;

	for (i = 0; i < 1000; i++) {
		CHECK_EQ(backend_shm.unexpose(&x[0]), -EINPROGRESS);
		rig_poll(&r, 1);
	}
	/* It costs the owner nothing. */
	CHECK_EQ(backend_shm.arm(r.dev[1]), 0);
	backend_shm.ep_close(r.ep[1]);
	while (!r.closed[1])
		rig_poll(&r, 1);
	CHECK_EQ(backend_shm.unexpose(&x[0]), -EINPROGRESS);
	m->spans[0].extent->moving = EXTENT_MOVED;
	CHECK_EQ(backend_shm.unexpose(&x[0]), 0);
}

/* The memory moves while the importer is in the middle of one copy and at the begin of another. */
static void moved(void)
{
	struct chunk large = rig_chunk(CHUNK_WRITE, local, LEN, &rkey[0], 0);
	struct chunk read = rig_chunk(CHUNK_READ, got, LEN, &rkey[0], 0);
	struct chunk late = rig_chunk(CHUNK_WRITE, local, 8, &rkey[0], 0);

	rig_expose(&r, 1, m, m->rights, &x[0], &rkey[0]);
	memset(local, 3, LEN);
	rig_post(&r, 0, &large);
	rig_poll(&r, 0);
	CHECK(!large.op && memory()[0] == 3 && memory()[LEN - 1] == 2);
	m->spans[0].extent->moving = EXTENT_MOVING;
	backend_shm.unmap(&x[0]);
	CHECK_EQ(memory_move(a), 0);
	CHECK(memory()[0] == 3 && memory()[LEN - 1] == 2);
	memset(memory(), 4, LEN);
	CHECK_EQ(memory_move(a), 0); /* again, as after half of it: what was stored since stays */
	CHECK(all(memory(), 4));
	rig_poll(&r, 0);
	CHECK(!large.op && all(memory(), 4));
	RIG_UNTIL(&r, large.op);
	CHECK_EQ(large.res, 0);
	CHECK(large.path & URCCL_PATH_BOUNCE_REMOTE);
	CHECK(all(memory(), 3));
	CHECK_EQ(rig_do(&r, 0, &read), 0);
	CHECK(all(got, 3));
	/* The importer is not heard of, and need not be. */
	CHECK_EQ(backend_shm.unexpose(&x[0]), -EINPROGRESS);
	m->spans[0].extent->moving = EXTENT_MOVED;
	CHECK_EQ(backend_shm.unexpose(&x[0]), 0);
	CHECK_EQ(rig_do(&r, 0, &late), -EACCES);
	backend_shm.forget(r.ep[0], &rkey[0]);
	/* From now on nobody is shown it. */
	rkey[0].mapped = 0;
	rig_expose(&r, 1, m, m->rights, &x[0], &rkey[0]);
	CHECK(!rkey[0].mapped);
	CHECK_EQ(backend_shm.unexpose(&x[0]), 0);
	backend_shm.forget(r.ep[0], &rkey[0]);
}

/* Other memory, with its own file. */
static void memory_new(void)
{
	rig_memory_free(&r, 1, m);
	memory_free(a);
	CHECK_EQ(memory_alloc(LEN, &a), 0);
	m = rig_memory(&r, 1, memory(), LEN, a->fd);
	memset(memory(), 2, LEN);
}

/* The key goes another way than the link, so it may be overtaken. */
static void late_key(void)
{
	uint8_t key[KEY_MAX];
	struct chunk c = rig_chunk(CHUNK_WRITE, local, LEN, &rkey[0], 0);
	int n;

	x[0] = (struct exposure){.ep = r.ep[1], .memory = m, .len = LEN, .rights = m->rights};
	x[0].expires_ns = NEVER_NS;
	n = backend_shm.expose(&x[0], key, sizeof(key));
	CHECK(n > 0);
	RIG_UNTIL(&r, !backend_shm.unexpose(&x[0]));
	CHECK_EQ(backend_shm.import(r.ep[0], key, (uint32_t)n, LEN, &rkey[0]), 0);
	CHECK_EQ(rig_do(&r, 0, &c), -EACCES);
	CHECK(all(memory(), 2));
	backend_shm.forget(r.ep[0], &rkey[0]);
	backend_shm.forget(r.ep[0], &rkey[1]);
	RIG_UNTIL(&r, !backend_shm.unexpose(&x[1]));
}

int main(void)
{
	uint32_t i;

	rig_open(&r, NULL);
	rig_connect(&r);
	CHECK_EQ(memory_alloc(LEN, &a), 0);
	m = rig_memory(&r, 1, memory(), LEN, a->fd);
	memset(memory(), 0, LEN);
	memset(local, 1, LEN);
	for (i = 0; i < 2; i++)
		rig_expose(&r, 1, m, m->rights, &x[i], &rkey[i]);
	under_way();
	late_key();
	moved();
	memory_new();
	rig_expose(&r, 1, m, m->rights, &x[0], &rkey[0]);
	silent();
	RIG_UNTIL(&r, r.closed[1] && r.down[0]);
	backend_shm.forget(r.ep[0], &rkey[0]);
	backend_shm.ep_free(r.ep[1]);
	rig_memory_free(&r, 1, m);
	memory_free(a);
	backend_shm.close(r.dev[1]);
	rig_end(&r, 0);
	return 0;
}
