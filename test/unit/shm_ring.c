/* SPDX-License-Identifier: Apache-2.0 */
/* Ordinary memory through the ring: every length arrives whole, reads and writes, both ways, with
 * messages between. */
#include "shm_rig.h"

#define LEN (3u << 20)

static uint8_t near[LEN], far[LEN];

static void fill(uint8_t *p, uint32_t len, uint32_t seed)
{
	uint32_t i;

	for (i = 0; i < len; i++) {
		seed = seed * 1664525u + 1013904223u;
		p[i] = (uint8_t)(seed >> 24);
	}
}

static void write_read(struct shm_rig *r, uint32_t side, const struct rkey *rkey, uint32_t len,
		       uint64_t off)
{
	struct chunk w = rig_chunk(CHUNK_WRITE, near, len, rkey, off);
	struct chunk f = rig_chunk(CHUNK_FLUSH, NULL, 0, rkey, 0);
	struct chunk g = rig_chunk(CHUNK_READ, near, len, rkey, off);

	fill(near, len, len);
	memset(far, 0, LEN);
	CHECK_EQ(rig_do(r, side, &w), 0);
	CHECK(w.flags & CHUNK_QUIET);
	CHECK_EQ(w.path, URCCL_PATH_BOUNCE_LOCAL | URCCL_PATH_BOUNCE_REMOTE);
	CHECK(!memcmp(far + off, near, len));
	CHECK(off + len == LEN || !far[off + len]);
	CHECK_EQ(rig_do(r, side, &f), 0);
	memset(near, 0, len);
	CHECK_EQ(rig_do(r, side, &g), 0);
	CHECK(!memcmp(far + off, near, len));
}

static void message(struct shm_rig *r, uint32_t side, uint32_t len)
{
	struct chunk s = rig_chunk(CHUNK_SEND, near, len, NULL, 0);
	uint32_t before = r->messages[!side];

	fill(near, len, len + 1);
	CHECK_EQ(rig_do(r, side, &s), 0);
	RIG_UNTIL(r, r->messages[!side] != before);
	CHECK_EQ(r->message_len[!side], len);
	CHECK(!memcmp(r->message[!side], near, len));
}

int case_shm_ring(void)
{
	static const uint32_t lens[] = {0, 1, 8, 512, 513, 4096, 65535, 262144, 262145, LEN - 7};
	struct exposure x;
	struct rkey rkey;
	struct shm_rig r;
	uint32_t i, side;

	rig_open(&r, NULL);
	rig_connect(&r);
	for (side = 0; side < 2; side++) {
		struct memory *m = rig_memory(&r, !side, far, LEN, -1);

		rig_expose(&r, !side, m, m->rights, &x, &rkey);
		for (i = 0; i < ARRAY_SIZE(lens); i++) {
			write_read(&r, side, &rkey, lens[i], lens[i] % 8);
			message(&r, side, lens[i] <= MESSAGE_MAX ? lens[i] : MESSAGE_MAX);
		}
		backend_shm.forget(r.ep[side], &rkey);
		CHECK_EQ(backend_shm.unexpose(&x), 0);
		rig_memory_free(&r, !side, m);
	}
	rig_close(&r);
	return 0;
}
