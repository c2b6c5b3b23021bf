/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that nobody has accepted yet is given up, too, when more notifications to it failed than
 * are kept in mind: its dialler hears that it is not there, and does not wait for its time. */
#include "base/base.h"
#include "control_rig.h"

#define FIRST                          \
	(HANDLE_OF_KIND(HANDLE_PEER) | \
	 1u << HANDLE_SLOT_BITS) /* the handle of a context's first peer */
#define MANY  70000u		 /* above what an engine keeps */
#define BURST 128u

static struct side a, b;

/* Its end, or b has nothing to say yet. */
static int64_t notify(uint32_t n, uint64_t len, uint32_t deadline_us)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < n; i++) {
		sqe = urccl_get_sqe(b.ring);
		CHECK(sqe);
		urccl_prep_notify(sqe, (struct urccl_peer){FIRST}, i, &a, len);
		urccl_sqe_set_deadline_us(sqe, deadline_us);
	}
	CHECK_EQ(urccl_submit(b.ring), (int)n);
	while (n) {
		cqe = side_next(&b);
		n -= !(cqe.flags & URCCL_CQE_MORE);
	}
	return cqe.res;
}

int case_control_owed(void)
{
	struct urccl_params params = rig_params();
	struct urccl_cqe cqe;
	uint32_t n;

	side_open(&a, &params);
	side_open(&b, &params);
	side_connect(&a, b.blob, b.blob_len, 0, 1);
	while (notify(1, 0, 1000) == -ESTALE) /* it has not dialled yet */
		;
	for (n = 0; n < MANY; n += BURST)
		notify(BURST, URCCL_NOTE_MAX + 1, 0);
	cqe = side_next(&a);
	CHECK_EQ(cqe.user_data, 1);
	CHECK_EQ(cqe.res, -ECONNRESET);
	side_close(&a);
	side_close(&b);
	return 0;
}
