/* SPDX-License-Identifier: Apache-2.0 */
/* A link that ends since its peer garbled it, while copies of a GPU to the peer's memory wait: they
 * come out, and the peer is told that nothing here is at its memory. */
#include <stdlib.h>
#include <gpu/gpu.h>
#include <backend/shm/shm.h>
#include "shm_rig.h"
#include "cuda/device.h"

#define LEN    (1u << 20)
#define CHUNKS 3u

static struct shm_rig r;
static struct memory *m[2];
static struct extent x[2];

static void memory_of_gpu(uint32_t side)
{
	struct gpu *gpu;
	struct gpu_config config = {.so = getenv("URCCL_TEST_CUDA_SO"), .spin_ns = 20000};
	uint64_t addr = device_alloc(LEN, 0);
	int code;

	CHECK_EQ(gpu_open(&config, &gpu), 0);
	x[side] = (struct extent){.addr = addr, .len = LEN, .fd = -1, .kind = GPU_MEMORY_DEVICE};
	CHECK_EQ(gpu_dev_get(gpu, 0, &x[side].gpu, &code), 0);
	r.dev[side]->gpu = gpu;
	CHECK_EQ(backend_shm.reg(r.dev[side], &x[side]), 0);
	m[side] = calloc(1, sizeof(*m[side]) + sizeof(m[side]->spans[0]));
	CHECK(m[side]);
	*m[side] = (struct memory){.len = LEN, .nspans = 1, .gpus = 1};
	m[side]->rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;
	m[side]->spans[0] = (struct span){.len = LEN, .addr = addr, .fd = -1, .extent = &x[side]};
	m[side]->spans[0].kind = GPU_MEMORY_DEVICE;
}

static void memory_end(uint32_t side)
{
	struct gpu *gpu = r.dev[side]->gpu;

	CHECK_EQ(backend_shm.unreg(r.dev[side], &x[side]), 0);
	rig_end(&r, side);
	CHECK_EQ(gpu_close(gpu), 0);
	device_free(x[side].addr);
	free(m[side]);
}

/* Side 0 imports what side 1 exposes. */
static void expose(struct exposure *e, struct rkey *rkey)
{
	uint8_t key[KEY_MAX];
	int n, res = -EINPROGRESS;

	*e = (struct exposure){.ep = r.ep[1], .memory = m[1], .len = LEN, .rights = m[1]->rights};
	e->expires_ns = NEVER_NS;
	n = backend_shm.expose(e, key, sizeof(key));
	CHECK_GE(n, 1);
	RIG_UNTIL(&r,
		  (res = backend_shm.import(r.ep[0], key, (uint32_t)n, LEN, rkey)) != -EINPROGRESS);
	CHECK_EQ(res, 0);
	CHECK(rkey->gpu);
}

static void garble(struct ep *ep)
{
	struct shm_record record = {.type = 77};

	CHECK_EQ(shm_link_send(container_of(ep, struct shm_ep, ep), &record, -1), 0);
}

int case_gpu_garbled(void)
{
	struct chunk c[CHUNKS];
	struct exposure e;
	struct rkey rkey;
	uint32_t i, out = 0;

	device_load();
	device_set("hold=none");
	rig_open(&r, NULL);
	rig_connect(&r);
	for (i = 0; i < 2; i++)
		memory_of_gpu(i);
	expose(&e, &rkey);
	device_set("hold=memcpy"); /* the first is issued, and the others wait */
	for (i = 0; i < CHUNKS; i++) {
		c[i] = rig_chunk(CHUNK_WRITE, (void *)(uintptr_t)x[0].addr, LEN, &rkey, 0);
		c[i].memory = m[0];
		rig_post(&r, 0, &c[i]);
	}
	garble(r.ep[1]);
	RIG_UNTIL(&r, r.down[0]);
	CHECK_EQ(r.down[0], -EPROTO);
	CHECK_EQ(backend_shm.unexpose(&e), -EINPROGRESS);
	device_set("hold=none");
	RIG_UNTIL(&r, !backend_shm.unexpose(&e));
	for (i = 0; i < CHUNKS; i++)
		out += c[i].op != NULL;
	CHECK_EQ(out, CHUNKS);
	backend_shm.forget(r.ep[0], &rkey);
	memory_end(0);
	memory_end(1);
	return 0;
}
