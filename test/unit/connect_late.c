/* SPDX-License-Identifier: Apache-2.0 */
/* A CONNECT that the program was told is over (with MORE, for the control thread does not answer),
 * and that succeeds afterwards: it ends as was told, and the reference that nobody knows of goes.
 */
#include <pthread.h>
#include <sys/syscall.h>

#include "control_rig.h"
#include "gate.h"

static int held, ready, released;

/* In place of the system's: whoever has sent PATH, which is the dialler's control thread, stays in
 * here, as if it had no processor. */
ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	ssize_t n = syscall(SYS_sendto, fd, buf, len, flags, NULL, 0);
	struct wire_header h = {0, 0};

	if (len == WIRE_HEADER + 8 && !wire_get_header(buf, &h) && h.len != 8)
		h.type = 0;
	if (h.type == WIRE_READY)
		tell(&ready);
	if (h.type != WIRE_PATH)
		return n;
	tell(&held);
	await(&released);
	return n;
}

static void watch(struct side *s, uint64_t data)
{
	struct urccl_sqe *sqe = urccl_get_sqe(s->ring);

	CHECK(sqe);
	urccl_prep_watch(sqe, (struct urccl_peer){0});
	urccl_sqe_set_data64(sqe, data);
	CHECK_EQ(urccl_submit(s->ring), 1);
}

int main(void)
{
	struct urccl_params p = rig_params();
	struct side a, b;
	struct urccl_cqe cqe;

	side_open(&a, &p);
	side_open(&b, &p);
	side_accept(&b, 1);
	watch(&b, 2);
	side_connect(&a, b.blob, b.blob_len, 3000000, 3);
	await(&held);
	await(&ready);
	cqe = side_next(&a);
	CHECK_EQ(cqe.user_data, 3);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	CHECK(cqe.flags & URCCL_CQE_MORE);
	tell(&released);
	cqe = side_next(&a);
	CHECK_EQ(cqe.user_data, 3);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	CHECK(!(cqe.flags & URCCL_CQE_MORE));
	cqe = side_next(&b);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_PEER);
	cqe = side_next(&b);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_LOST);
	side_close(&a);
	side_close(&b);
	return 0;
}
