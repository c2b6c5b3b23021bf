/* SPDX-License-Identifier: Apache-2.0 */
/* An owner gives a peer up that has its memory mapped and is stopped: the memory may get other
 * pages from then on, so that a copy which the peer makes when it goes on is not taken for placed,
 * although it has not heard of the end. */
#include "memory/memory.h"
#include "shm_rig.h"

#define LEN (1u << 16)

int main(void)
{
	static uint8_t local[LEN];
	struct shm_rig r;
	struct exposure x;
	struct allocation *a;
	struct memory *m;
	struct rkey rkey;
	struct chunk c = rig_chunk(CHUNK_WRITE, local, LEN, &rkey, 0);
	uint64_t end = rig_ns() + 10000000000u;

	rig_open(&r, NULL);
	rig_connect(&r);
	CHECK_EQ(memory_alloc(LEN, &a), 0);
	m = rig_memory(&r, 1, (void *)(uintptr_t)a->addr, LEN, a->fd);
	rig_expose(&r, 1, m, m->rights, &x, &rkey);
	CHECK(rkey.mapped);
	CHECK_EQ(rig_do(&r, 0, &c), 0);
	rig_post(&r, 0, &c);
	backend_shm.ep_close(r.ep[1]);
	while (!r.closed[1]) {
		rig_poll(&r, 1);
		CHECK(rig_ns() < end);
	}
	CHECK_EQ(backend_shm.unexpose(&x), -EINPROGRESS);
	while (!c.op) {
		rig_poll(&r, 0);
		CHECK(rig_ns() < end);
	}
	CHECK_EQ(c.res, -ECONNRESET);
	backend_shm.forget(r.ep[0], &rkey);
	rig_end(&r, 0);
	rig_memory_free(&r, 1, m);
	memory_free(a);
	backend_shm.ep_free(r.ep[1]);
	backend_shm.close(r.dev[1]);
	return 0;
}
