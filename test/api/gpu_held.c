/* SPDX-License-Identifier: Apache-2.0 */
/* The program holds CUDA up, as a cudaFree() behind a long kernel does: entries on other memory go
 * on, deadlines of those on memory of a GPU are kept, and what was not issued is quiet at once. */
#include <stdlib.h>
#include "pair.h"
#include "cuda/device.h"

#define LEN  (1u << 20)
#define SOON 20000u /* us */

enum { LATE = 100, NEVER, HOST };

static struct pair p;
static struct target t;
static uint64_t device;
static uint8_t *host;

static void submit(const void *from, uint32_t len, uint32_t us, uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, from, len, 0);
	urccl_sqe_set_deadline_us(sqe, us);
	urccl_sqe_set_data64(sqe, user_data);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

/* CUDA does not return from its copy. On a busy machine its deadline may pass before the copy: then
 * it is submitted again with a later one. Returns 1 where its outcome has come. */
static uint32_t first_late(void)
{
	struct urccl_cqe cqe;
	uint32_t us = SOON;

	submit((void *)(uintptr_t)device, LEN, us, LATE);
	while (!device_calls(NULL, "cuMemcpy")) {
		if (!side_take_within(&p.a, &p.b, 0, &cqe, NULL))
			continue;
		CHECK_EQ(cqe.user_data, LATE);
		CHECK_EQ(cqe.res, -ETIMEDOUT);
		if (cqe.flags & URCCL_CQE_MORE)
			return 1;
		submit((void *)(uintptr_t)device, LEN, us *= 2, LATE);
	}
	return 0;
}

/* The second is behind the first. */
static void two_late(void)
{
	uint32_t told = first_late();
	struct urccl_cqe cqe;
	int i;

	submit((void *)(uintptr_t)device, LEN, SOON, NEVER);
	for (i = 0; i < 50; i++) {
		submit(host, 4096, 0, HOST);
		do {
			side_take(&p.a, &p.b, &cqe, NULL);
			told |= cqe.user_data == LATE ? 1 : cqe.user_data == NEVER ? 2 : 0;
			CHECK_EQ(cqe.res, cqe.user_data == HOST ? 4096 : -ETIMEDOUT);
			CHECK_EQ(!!(cqe.flags & URCCL_CQE_MORE), cqe.user_data == LATE);
		} while (cqe.user_data != HOST);
	}
	while (told != 3) {
		side_take(&p.a, &p.b, &cqe, NULL);
		told |= cqe.user_data == LATE ? 1 : 2;
		CHECK_EQ(cqe.res, -ETIMEDOUT);
		CHECK_EQ(!!(cqe.flags & URCCL_CQE_MORE), cqe.user_data == LATE);
	}
}

int main(int argc, char **argv)
{
	struct urccl_cqe cqe;

	device_load();
	pair_begin(&p, argc, argv);
	device = device_alloc(LEN, 0);
	host = calloc(1, 4096);
	CHECK(host);
	side_register(&p.a, (void *)(uintptr_t)device, LEN, 0);
	side_register(&p.a, host, 4096, 0);
	target_open(&p, &t, LEN, p.shared);
	submit(host, 4096, 0, HOST);
	CHECK_EQ(pair_end(&p, &p.a, HOST).res, 4096);
	CHECK_EQ(device_calls("urccl", "cuMemcpy"), 0);
	device_set("hold=memcpy");
	two_late();
	device_set("hold=none");
	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.user_data, LATE);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	CHECK(!(cqe.flags & URCCL_CQE_MORE));
	submit((void *)(uintptr_t)device, LEN, 0, HOST);
	CHECK_EQ(pair_end(&p, &p.a, HOST).res, LEN);
	target_close(&p, &t);
	pair_close(&p);
	CHECK_EQ(device_calls("urccl-engine", NULL), 0);
	free(host);
	return 0;
}
