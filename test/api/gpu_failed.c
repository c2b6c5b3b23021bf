/* SPDX-License-Identifier: Apache-2.0 */
/* An error breaks the GPU for the process, as a faulting kernel of the program does: entries on its
 * memory end with -EIO and a sentence, those on other memory go on, and the context closes. */
#include <stdlib.h>
#include "pair.h"
#include "cuda/device.h"

#define LEN  (4u << 20)
#define PART (64u << 10)

static struct pair p;
static struct target t;

static void submit(const void *from, uint32_t len, uint64_t off)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (off / PART & 1)
		urccl_prep_write(sqe, t.remote, from, len, off);
	else
		urccl_prep_read(sqe, t.remote, (void *)(uintptr_t)from, len, off);
}

int main(int argc, char **argv)
{
	uint32_t i, failed = 0;
	struct urccl_cqe cqe;
	uint8_t *host, *device;

	device_load();
	pair_begin(&p, argc, argv);
	device = (uint8_t *)(uintptr_t)device_alloc(LEN, 0);
	host = calloc(1, PART);
	CHECK(host);
	side_register(&p.a, device, LEN, 0);
	side_register(&p.a, host, PART, 0);
	target_open(&p, &t, LEN, p.shared);
	device_set("fail=20:700");
	for (i = 0; i < LEN / PART; i++)
		submit(device + i * PART, PART, i * PART);
	CHECK_EQ(urccl_submit(p.a.ring), LEN / PART);
	for (i = 0; i < LEN / PART; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK(!(cqe.flags & URCCL_CQE_MORE));
		CHECK(cqe.res == PART || cqe.res == -EIO);
		if (cqe.res == PART)
			continue;
		failed++;
		CHECK(cqe.flags & URCCL_CQE_REMOTE_QUIET);
		check_sentence(&p.a, &cqe, "CUDA error 700");
	}
	CHECK_GE(failed, 1);
	submit(device, PART, 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.res, -EIO);
	submit(host, PART, PART);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.res, PART);
	target_close(&p, &t);
	pair_close(&p);
	free(host);
	return 0;
}
