/* SPDX-License-Identifier: Apache-2.0 */
/* The program holds CUDA up, and more entries on memory of a GPU reach their deadlines meanwhile
 * than a lane of the GPU has room for: all of them end, and later ones succeed. */
#include "pair.h"
#include "cuda/device.h"

#define LEN    4096u
#define BATCH  16u
#define MANY   2600u /* more than two lanes have room for */
#define ALL    ((MANY + 3 * BATCH) * LEN)
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static uint64_t device;

/* Each entry has bytes of its own: nothing orders one that is late and the next. */
static void submit(struct urccl_remote remote, uint32_t n, uint32_t us)
{
	static uint64_t at;

	while (n--) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		urccl_prep_write(sqe, remote, (void *)(uintptr_t)(device + at), LEN, at);
		urccl_sqe_set_deadline_us(sqe, us);
		at = (at + LEN) % ALL;
	}
	CHECK_GE(urccl_submit(p.a.ring), 1);
}

/* Terminal ones among the next CQEs, of which n have another res than -ETIMEDOUT. */
static uint32_t take(uint32_t n, int64_t res)
{
	uint32_t ended = 0, i;
	struct urccl_cqe cqe;

	for (i = 0; i < n; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, res);
		ended += !(cqe.flags & URCCL_CQE_MORE);
	}
	return ended;
}

static void overfill(struct urccl_remote remote)
{
	uint32_t ended = 0, n;

	submit(remote, 1, 0);
	CHECK_EQ(take(1, LEN), 1);
	device_set("hold=memcpy");
	for (n = 0; n < MANY; n += BATCH) {
		submit(remote, BATCH, 100);
		ended += take(BATCH, -ETIMEDOUT);
	}
	device_set("hold=none");
	ended += take(n - ended, -ETIMEDOUT);
	CHECK_EQ(ended, n);
	submit(remote, BATCH, 0);
	CHECK_EQ(take(BATCH, LEN), BATCH);
}

int main(int argc, char **argv)
{
	struct urccl_advert advert;
	struct urccl_remote remote;
	struct urccl_region r;
	struct target t;
	uint64_t theirs;

	device_load();
	pair_begin(&p, argc, argv);
	device = device_alloc(ALL, 0);
	theirs = device_alloc(ALL, 0);
	side_register(&p.a, (void *)(uintptr_t)device, ALL, 0);
	target_open(&p, &t, ALL, p.shared);
	overfill(t.remote);
	target_close(&p, &t);
	if (p.transport == URCCL_TRANSPORT_SHM) { /* others' memory of GPUs goes another way */
		r = side_register(&p.b, (void *)(uintptr_t)theirs, ALL, RIGHTS);
		CHECK_EQ(urccl_advertise(p.b.ctx, r, 0, ALL, RIGHTS, 0, &advert), 0);
		CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &advert, 1, &remote), 0);
		overfill(remote);
	}
	pair_close(&p);
	return 0;
}
