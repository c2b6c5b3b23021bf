/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a program makes read-only behind our back is its own fault; where the kernel is to
 * put bytes there it says so: the READ ends with that, no other memory is touched, and the peer is
 * lost, with whom all entries end. */
#include <sys/mman.h>
#include "meet.h"

#define LEN   (8u << 20)
#define WRONG (64u << 10) /* at its end: larger than what is copied by the processor */

static struct pair p;
static struct target t;

static struct urccl_cqe reads(uint8_t *local, uint64_t len)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_read(sqe, t.remote, local, len, 0);
	urccl_sqe_set_deadline_us(sqe, 5000000);
	urccl_sqe_set_data64(sqe, 3);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	do
		side_take(&p.a, &p.b, &cqe, NULL);
	while (cqe.user_data != 3 || cqe.flags & URCCL_CQE_MORE);
	return cqe;
}

int main(int argc, char **argv)
{
	uint8_t *local =
		mmap(NULL, 2 * LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t i;

	CHECK(local != MAP_FAILED);
	pair_begin(&p, argc, argv);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, 2 * LEN, 0);
	CHECK_EQ(reads(local, LEN).res, LEN);
	memset(local, 0x5a, 2 * LEN);
	CHECK_EQ(mprotect(local + LEN - WRONG, WRONG, PROT_READ), 0);
	CHECK_EQ(reads(local, LEN).res, -EFAULT);
	for (i = LEN - WRONG; i < 2 * LEN; i++)
		CHECK_EQ(local[i], 0x5a);
	CHECK_EQ(reads(local + LEN, LEN).res, -ECONNRESET);
	side_close(&p.a);
	side_close(&p.b);
	return 0;
}
