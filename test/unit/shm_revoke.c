/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped memory that is withdrawn: an importer lets go of it when asked, whatever was under way,
 * and then it is the owner's. One that says nothing still has it, also when its ep was closed,
 * until it has closed its own. A key that comes after it was withdrawn maps nothing. */
#include <poll.h>
#include <unistd.h>
#include <backend/shm/shm.h>
#include "shm_rig.h"

#define LEN (16u << 20) /* more than what is copied between two looks at the link */

static struct shm_rig r;
static struct allocation *a;
static struct memory *m;
static struct exposure x[2];
static struct rkey rkey[2];
static uint8_t local[LEN];

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
	struct pollfd importer = {.events = POLLRDHUP};
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
	importer.fd = backend_shm.importer(r.ep[1]);
	CHECK_EQ(poll(&importer, 1, 0), 0);
	RIG_UNTIL(&r, r.down[0]);
	CHECK_EQ(poll(&importer, 1, 0), 1);
	CHECK(importer.revents & POLLRDHUP);
	close(importer.fd);
	CHECK_EQ(backend_shm.importer(r.ep[1]), -1);
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

int case_shm_revoke(void)
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
	rig_expose(&r, 1, m, m->rights, &x[0], &rkey[0]);
	silent();
	backend_shm.forget(r.ep[0], &rkey[0]);
	backend_shm.ep_free(r.ep[1]);
	rig_memory_free(&r, 1, m);
	memory_free(a);
	backend_shm.close(r.dev[1]);
	rig_end(&r, 0);
	return 0;
}
