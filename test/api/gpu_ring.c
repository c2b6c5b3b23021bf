/* SPDX-License-Identifier: Apache-2.0 */
/* The lanes of a device ring for a GPU are pinned memory as long as the ring is open, and entries
 * of it move memory of that GPU both ways. */
#include "lanes.h"
#include "cuda/device.h"

#define LEN    65536u
#define PINNED 712 /* CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED */

static struct pair p;
static struct target t;
static uint64_t device;

static struct urccl_device_ring open_ring(void)
{
	struct urccl_device_ring_params params = URCCL_INIT(urccl_device_ring_params);
	struct urccl_device_ring ring;

	params.lanes = 2;
	params.device = 1;
	CHECK_EQ(urccl_device_ring_open(p.a.ctx, &params, &ring), 0);
	return ring;
}

static int is_pinned(void *at)
{
	int (*pin)(void *memory, size_t len, unsigned flags);
	int code;

	DEVICE_SYMBOL(pin, "cuMemHostRegister_v2", 1);
	device_enter(0);
	code = pin(at, 4096, 0);
	device_leave();
	CHECK_EQ(code, PINNED);
	return 1;
}

static void moves(struct urccl_dev_lane *l)
{
	uint64_t i;

	device_fill(device, LEN, 0, 1);
	i = urccl_dev_write(l, t.remote, (void *)(uintptr_t)device, LEN, LEN, 0);
	CHECK_EQ(urccl_dev_wait(l, i, PAIR_LATE_NS), 0);
	settle();
	for (i = 0; i < LEN; i++)
		CHECK_EQ(t.bytes[LEN + i], device_byte(i, 1));
	device_fill(device, LEN, 0, 2);
	i = urccl_dev_read(l, t.remote, (void *)(uintptr_t)device, LEN, LEN, 0);
	CHECK_EQ(urccl_dev_wait(l, i, PAIR_LATE_NS), 0);
	CHECK(device_check(device, LEN, 0, 1));
}

int main(int argc, char **argv)
{
	struct urccl_device_ring ring;
	struct urccl_dev_lane l;
	unsigned long before;

	device_load();
	pair_options(&p, argc, argv);
	pair_open(&p);
	device = device_alloc(LEN, 0);
	ring = open_ring();
	CHECK(is_pinned(ring.slots));
	CHECK(is_pinned(ring.words));
	side_register(&p.a, (void *)(uintptr_t)device, LEN, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	target_open(&p, &t, 2 * LEN, p.shared);
	l = urccl_dev_open(ring, 1);
	moves(&l);
	before = device_calls(NULL, "cuMemHostUnregister");
	urccl_device_ring_close(&ring);
	if (device_cuda.calls)
		CHECK_EQ(device_calls(NULL, "cuMemHostUnregister"), before + 1);
	ring = open_ring(); /* urccl_close() ends it */
	target_close(&p, &t);
	pair_close(&p);
	CHECK_EQ(device_calls("urccl-engine", NULL), 0);
	return 0;
}
