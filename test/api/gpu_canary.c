/* SPDX-License-Identifier: Apache-2.0 */
/* What ended without MORE is the program's: memory of a GPU that an entry was read into, or written
 * from, is written anew behind its end, and stays as it is, however the entry ended: by itself, by
 * its deadline or by CANCEL, beside a GPU whose last bytes come late. */
#include <stdlib.h>
#include "pair.h"
#include "cuda/device.h"

#define LEN   (192u << 10)
#define PARTS 16u

static struct pair p;
static struct target t;
static uint64_t device;
static uint32_t state = 1;

static uint32_t next(uint32_t n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % n;
}

static void submit(uint32_t i)
{
	static const uint32_t us[] = {0, 20, 100, 500, 2000};
	struct urccl_sqe *sqe = side_sqe(&p.a);
	void *at = (void *)(uintptr_t)(device + i * LEN);

	if (next(4))
		urccl_prep_read(sqe, t.remote, at, LEN, i * LEN);
	else
		urccl_prep_write(sqe, t.remote, at, LEN, i * LEN);
	urccl_sqe_set_deadline_us(sqe, us[next(5)]);
	urccl_sqe_set_data64(sqe, 100 + i);
	if (next(4))
		return;
	sqe = side_sqe(&p.a);
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, 100 + i);
	urccl_sqe_set_data64(sqe, 1);
}

/* One of the parts ended; it is given a pattern at once. */
static void ended(const struct urccl_cqe *cqe, uint32_t round)
{
	uint64_t i = cqe->user_data - 100;

	CHECK(cqe->res == LEN || cqe->res == -ETIMEDOUT || cqe->res == -ECANCELED);
	device_fill(device + i * LEN, LEN, i * LEN, round);
}

static void one_round(uint32_t round)
{
	uint32_t i, left = 0, n = 1 + next(PARTS);
	struct urccl_cqe cqe;

	for (i = 0; i < n; i++)
		submit(i);
	left = n;
	CHECK_GE(urccl_submit(p.a.ring), (int)n);
	while (left) {
		side_take(&p.a, &p.b, &cqe, NULL);
		if (cqe.user_data < 100 || cqe.flags & URCCL_CQE_MORE)
			continue;
		ended(&cqe, round);
		left--;
	}
	while (side_take_within(&p.a, &p.b, 1000, &cqe, NULL))
		CHECK(cqe.user_data < 100);
	for (i = 0; i < n; i++)
		CHECK(device_check(device + i * LEN, LEN, i * LEN, round));
}

int main(int argc, char **argv)
{
	uint32_t rounds = 60, i;

	device_load();
	if (argc > 1 && !strncmp(argv[argc - 1], "--rounds=", 9))
		rounds = (uint32_t)atoi(argv[--argc] + 9);
	pair_begin(&p, argc, argv);
	device = device_alloc(PARTS * LEN, 0);
	side_register(&p.a, (void *)(uintptr_t)device, PARTS * LEN, 0);
	target_open(&p, &t, PARTS * LEN, p.shared);
	for (i = 0; i < rounds; i++)
		one_round(i);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
