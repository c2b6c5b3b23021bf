/* SPDX-License-Identifier: Apache-2.0 */
/* While urgent chunks are recent one poll moves little bulk through the ring, even if much more is
 * there: the program's next urgent entry waits for the end of the poll. */
#include "shm_rig.h"

#define LEN  (3u << 20)
#define MOST (32u << 10)

static uint8_t near[LEN], far[LEN];

static uint32_t placed(void)
{
	uint32_t n = 0;

	while (n < LEN && far[n])
		n++;
	return n;
}

int case_shm_urgent(void)
{
	struct memory *m;
	struct exposure x;
	struct rkey rkey;
	struct shm_rig r;
	struct chunk w, s;
	uint32_t before, i;

	memset(near, 1, LEN);
	rig_open(&r, NULL);
	rig_connect(&r);
	m = rig_memory(&r, 1, far, LEN, -1);
	rig_expose(&r, 1, m, m->rights, &x, &rkey);
	w = rig_chunk(CHUNK_WRITE, near, LEN, &rkey, 0);
	s = rig_chunk(CHUNK_SEND, near, 8, NULL, 0);
	rig_post(&r, 0, &w);
	for (i = 0; i < LEN / MOST; i++)
		rig_poll(&r, 0); /* until the ring is full */
	rig_post(&r, 0, &s);
	rig_poll(&r, 0);
	rig_poll(&r, 1);
	CHECK_EQ(r.messages[1], 1);
	for (i = 0; i < 4; i++) {
		before = placed();
		rig_poll(&r, 1);
		CHECK_GE(placed(), before + 1);
		CHECK_LE(placed(), before + MOST);
	}
	RIG_UNTIL(&r, w.op && s.op);
	CHECK_EQ(w.res, 0);
	CHECK_EQ(placed(), LEN);
	backend_shm.forget(r.ep[0], &rkey);
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	rig_memory_free(&r, 1, m);
	rig_close(&r);
	return 0;
}
