/* SPDX-License-Identifier: Apache-2.0 */
/* What a peer on the same host can write: addresses, keys, records with descriptors or handles of
 * GPU memory on the link, bytes and words of the rings. The input is a list of such deeds against
 * an ep that has chunks under way. */
#include <fcntl.h>
#include <sys/mman.h>
#include <backend/shm/shm.h>
#include <gpu/gpu.h>
#include "../unit/shm_rig.h"
#include "cuda/control.h"
#include "cuda/device.h"
#include "fuzz.h"

#define LEN    8192u
#define CHUNKS 4u

static struct shm_rig rig;
static uint8_t memory[LEN], local[LEN];
static int fds[3];
static struct rkey forged;
static struct chunk chunk[CHUNKS];
static struct shm_key good; /* of memory that only the ring reaches */
static struct gpu *gpu;
static uint64_t device; /* LEN bytes of the GPU */
static struct memory *of_local;

static struct shm_ep *hostile(void)
{
	return container_of(rig.ep[1], struct shm_ep, ep);
}

/* Both ends are one process: the handle is an address. */
static void gpu_handle(struct input *in, struct shm_record *r)
{
	uint64_t base = device + take_number(in, 1) % 2 * LEN / 2;

	r->version = (uint32_t)take_number(in, 1);
	memcpy(r->from, &base, sizeof(base));
	memcpy(r->to, gpu_about(gpu_dev_find(gpu, 0))->uuid, sizeof(r->to));
}

static void send_record(struct input *in)
{
	struct shm_record r = {.type = (uint32_t)take_number(in, 1) % (SHM_GPU + 2)};
	uint32_t fd = (uint32_t)take_number(in, 1) % 4;

	r.serial = take_number(in, 1);
	r.writable = take_number(in, 1) % 3;
	r.len = take_number(in, 1) % 4 * (LEN / 2);
	if (r.type == SHM_GPU)
		gpu_handle(in, &r);
	if (r.type == SHM_REVOKE)
		memcpy(&r.len, good.grant + 4, 4);
	if (take_number(in, 1) % 8 == 0)
		take_bytes(in, &r, sizeof(r));
	if (hostile()->sock >= 0)
		shm_link_send(hostile(), &r, fd < 3 ? fds[fd] : -1);
}

/* The head or tail of a ring, near to what it was or anything. */
static void write_word(struct input *in)
{
	uint32_t which = (uint32_t)take_number(in, 1);
	struct shm_pages *p = &hostile()->pages;
	struct shm_ring *r = which & 2 ? &p->out[which & 1] : &p->in[which & 1];

	store_release(r->mine, which & 4 ? (uint32_t)take_number(in, 4)
					 : r->at + (uint32_t)take_number(in, 2));
}

static void write_bytes(struct input *in)
{
	uint32_t n = (uint32_t)take_number(in, 1);
	struct shm_ring *r = &hostile()->pages.out[n & 1];

	for (; n; n--)
		r->bytes[r->at++ & r->mask] = (uint8_t)take_number(in, 1);
	store_release(r->mine, r->at);
}

static int is_out(const struct chunk *c)
{
	return c->ep && !c->op;
}

/* The key's memory is mapped step by step. Chunks under way keep the key of before. */
static void import(const void *key, uint32_t n)
{
	struct rkey rkey;
	uint32_t i;
	int err;

	for (i = 0; i < CHUNKS; i++)
		if (is_out(&chunk[i]))
			return;
	while ((err = backend_shm.import(rig.ep[0], key, n, LEN, &rkey)) == -EINPROGRESS)
		CHECK(gpu_step(gpu));
	if (err)
		return;
	if (forged.v[0])
		backend_shm.forget(rig.ep[0], &forged);
	forged = rkey;
}

static void import_bytes(struct input *in)
{
	uint8_t key[KEY_MAX];
	uint32_t n = (uint32_t)take_number(in, 1);

	import(key, take_bytes(in, key, n));
}

/* The parts name files and GPU memory that records brought. */
static void import_parts(struct input *in)
{
	struct shm_key k = good;
	uint32_t i;

	k.rights = (uint32_t)take_number(in, 1) % 4;
	k.nparts = (uint32_t)take_number(in, 1) % 4;
	k.gpu = take_number(in, 1) % 4 != 0;
	for (i = 0; i < k.nparts; i++) {
		k.parts[i].serial = take_number(in, 1);
		k.parts[i].off = take_number(in, 1) % 4 * (LEN / 4);
		k.parts[i].len = LEN / k.nparts;
	}
	import(&k, (uint32_t)(offsetof(struct shm_key, parts) + k.nparts * sizeof(k.parts[0])));
}

static void post(struct input *in)
{
	uint32_t i = (uint32_t)take_number(in, 1) % CHUNKS;
	struct chunk *c = &chunk[i];

	if (!forged.v[0] || is_out(c))
		return;
	*c = rig_chunk(take_number(in, 1) % 2 ? CHUNK_READ : CHUNK_WRITE, local, LEN / CHUNKS,
		       &forged, 0);
	c->ep = rig.ep[0];
	c->memory = of_local;
	if (!backend_shm.post(rig.ep[0], &c, 1))
		c->ep = NULL;
}

static void poll_some(void)
{
	rig_poll(&rig, 0);
	gpu_step(gpu);
}

static void deed(struct input *in)
{
	static void (*const deeds[])(struct input * in) = {send_record,	 write_word,   write_bytes,
							   import_bytes, import_parts, post};
	uint32_t n = (uint32_t)take_number(in, 1) % (ARRAY_SIZE(deeds) + 1);

	if (n < ARRAY_SIZE(deeds))
		deeds[n](in);
	else
		poll_some();
}

/* Over the stand-in for libcuda, which this program is linked with. */
static void gpu_begin(void)
{
	struct gpu_config config = {.so = "libcuda.so.1", .by_hand = 1};
	struct gpu_dev *dev;
	int code;

	CHECK_EQ(cuda_double_set("gpus=1"), 0);
	device_load();
	CHECK_EQ(gpu_open(&config, &gpu), 0);
	CHECK_EQ(gpu_dev_get(gpu, 0, &dev, &code), 0);
	device = device_alloc(LEN, 0);
	rig.dev[0]->gpu = gpu;
}

/* Once: two devices, and what a hostile peer may send: a good memfd, one without seals, no
 * memfd. */
static void begin(void)
{
	if (rig.dev[0])
		return;
	rig_device(&rig.dev[0], NULL);
	rig_device(&rig.dev[1], NULL);
	gpu_begin();
	of_local = rig_memory(&rig, 0, local, LEN, -1);
	fds[0] = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	fds[1] = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	fds[2] = open("/dev/null", O_RDWR | O_CLOEXEC);
	CHECK(fds[0] >= 0 && fds[1] >= 0 && fds[2] >= 0);
	CHECK(!fallocate(fds[0], 0, 0, LEN) && !fallocate(fds[1], 0, 0, LEN));
	CHECK(!fcntl(fds[0], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
}

static void ep_end(uint32_t side)
{
	backend_shm.ep_close(rig.ep[side]);
	while (!rig.closed[side]) {
		rig_poll(&rig, side);
		gpu_step(gpu);
	}
	backend_shm.ep_free(rig.ep[side]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct exposure x = {.len = LEN, .rights = URCCL_RIGHT_READ, .expires_ns = NEVER_NS};
	struct memory *m;
	uint32_t i;

	begin();
	memset(rig.up, 0, sizeof(rig.up));
	memset(rig.closed, 0, sizeof(rig.closed));
	memset(chunk, 0, sizeof(chunk));
	memset(memory, 0x5a, sizeof(memory));
	memset(&forged, 0, sizeof(forged));
	for (i = 0; i < 2; i++)
		CHECK_EQ(backend_shm.ep_open(rig.dev[i], &rig.ep[i], rig.addr[i], &rig.addr_len[i]),
			 0);
	rig_connect(&rig);
	m = rig_memory(&rig, 0, memory, LEN, -1);
	x.ep = rig.ep[0];
	x.memory = m;
	CHECK(backend_shm.expose(&x, &good, sizeof(good)) > 0);
	while (in.left)
		deed(&in);
	for (i = 0; i < 4; i++)
		poll_some();
	CHECK_EQ(backend_shm.unexpose(&x), 0);
	ep_end(0);
	ep_end(1);
	rig_memory_free(&rig, 0, m);
	for (i = 0; i < LEN; i++)
		CHECK_EQ(memory[i], 0x5a);
	for (i = 0; i < CHUNKS; i++)
		CHECK(!chunk[i].ep || chunk[i].op);
	return 0;
}
