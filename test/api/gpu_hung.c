/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU hangs: an entry with a copy that it does not end is told of at its deadline, with MORE;
 * and the close does not wait for the GPU. */
#include <stdlib.h>
#include "pair.h"
#include "cuda/device.h"

#define LEN (1u << 20)

static struct pair p;

int main(int argc, char **argv)
{
	struct urccl_cqe cqe;
	struct urccl_sqe *sqe;
	struct target t;
	uint64_t begun;
	void *device;

	device_load();
	device_set("hang=1");
	pair_begin(&p, argc, argv);
	device = (void *)(uintptr_t)device_alloc(LEN, 0);
	side_register(&p.a, device, LEN, 0);
	target_open(&p, &t, LEN, p.shared);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, device, LEN, 0);
	urccl_sqe_set_deadline_us(sqe, 500000);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	while (!device_calls(NULL, "cuMemcpy")) { /* or it is taken back */
		side_turn(&p.a);
		side_turn(&p.b);
	}
	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	CHECK(cqe.flags & URCCL_CQE_MORE);
	begun = now_ns();
	urccl_close(p.a.ctx);
	CHECK(!is_late(begun + PAIR_LATE_NS));
	CHECK(strstr(urccl_errmsg(), "a GPU has not ended"));
	test_end(0); /* without a look for leaks: the GPU was left */
}
