/* SPDX-License-Identifier: Apache-2.0 */
/* Scattered blocks beside a GPU that hangs: the entry is told of at its deadline, with MORE. Where
 * an error breaks the GPU ("broken" as the last argument) all entries on it end with -EIO. */
#include <stdlib.h>
#include "pair.h"
#include "cuda/device.h"

#define BLOCK  4096u
#define BLOCKS 1000u
#define LEN    (2ull * BLOCKS * BLOCK)
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)
#define MANY   100u /* more than there are tables */
#define ROUNDS 100u

static struct pair p;
static struct urccl_region region;
static struct urccl_remote remote;

static void submit(uint32_t us)
{
	/* Entries under way point to it: it stays as it is. */
	static struct urccl_paged d = {
		.size = sizeof(d),
		.ndims = 1,
		.block = BLOCK,
		.dim = {{.count = BLOCKS, .local_stride = 2 * BLOCK, .remote_stride = 2 * BLOCK}},
	};
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write_paged(sqe, remote, region, &d, 1);
	urccl_sqe_set_deadline_us(sqe, us);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

/* How many fail. */
static uint32_t several(void)
{
	struct urccl_cqe cqe;
	uint32_t i, failed = 0;

	for (i = 0; i < MANY; i++)
		submit(0);
	for (i = 0; i < MANY; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK(!(cqe.flags & URCCL_CQE_MORE));
		CHECK(cqe.res == BLOCKS * BLOCK || cqe.res == -EIO);
		if (cqe.res != -EIO)
			continue;
		failed++;
		check_sentence(&p.a, &cqe, "CUDA error 700");
	}
	return failed;
}

static void broken(void)
{
	struct urccl_cqe cqe;
	uint32_t round, failed = 0;

	submit(0);
	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.res, BLOCKS * BLOCK);
	device_set("fail=2:700"); /* a kernel may take the bundles of many */
	for (round = 0; !failed && round < ROUNDS; round++)
		failed = several();
	CHECK_GE(failed, 1);
	submit(0);
	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.res, -EIO);
	check_sentence(&p.a, &cqe, "CUDA error 700");
	pair_close(&p);
}

static void hung(void)
{
	struct urccl_cqe cqe;
	uint64_t begun;

	submit(1000000);
	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	CHECK(cqe.flags & URCCL_CQE_MORE);
	begun = now_ns();
	urccl_close(p.a.ctx);
	CHECK(!is_late(begun + PAIR_LATE_NS));
	CHECK(strstr(urccl_errmsg(), "a GPU has not ended"));
	test_end(0); /* without a look for leaks: the GPU was left */
}

int main(int argc, char **argv)
{
	int breaks = !strcmp(argv[argc - 1], "broken");
	struct urccl_advert advert;
	void *ours, *theirs;
	struct urccl_region r;

	device_load();
	if (!breaks)
		device_set("hang=5"); /* lane KERNEL of the first context */
	pair_begin(&p, argc - breaks, argv);
	ours = (void *)(uintptr_t)device_alloc(LEN, 0);
	theirs = (void *)(uintptr_t)device_alloc(LEN, 0);
	region = side_register(&p.a, ours, LEN, 0);
	r = side_register(&p.b, theirs, LEN, RIGHTS);
	CHECK_EQ(urccl_advertise(p.b.ctx, r, 0, LEN, RIGHTS, 0, &advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &advert, 1, &remote), 0);
	if (breaks)
		broken();
	else
		hung();
	return 0;
}
