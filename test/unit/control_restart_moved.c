/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that left and was dialled again at another of its addresses restarts: who finds the other
 * incarnation there, and not where the old one was at first, has found the restart. */
#include "control_rig.h"

enum { ACCEPT = 1, CONNECT, WATCH, NOTIFY, CLOSE };

static struct side a, b;

static struct urccl_cqe next(struct side *s, uint64_t data)
{
	struct urccl_cqe cqe;

	do
		cqe = side_next(s);
	while (cqe.flags & URCCL_CQE_MORE && cqe.user_data != WATCH);
	CHECK_EQ(cqe.user_data, data);
	return cqe;
}

static uint32_t dial(const char *place)
{
	struct urccl_cqe cqe;

	side_connect(&a, place, (uint32_t)strlen(place), 0, CONNECT);
	cqe = next(&a, CONNECT);
	CHECK_EQ(cqe.res, 0);
	return (uint32_t)cqe.handle;
}

static void submit(const struct side *s, uint64_t data, struct urccl_sqe *sqe)
{
	urccl_sqe_set_data64(sqe, data);
	CHECK_EQ(urccl_submit(s->ring), 1);
}

/* b ends the connection, or all of itself. */
static void end(uint32_t handle, uint32_t theirs)
{
	struct urccl_sqe *sqe = urccl_get_sqe(a.ring);
	struct urccl_cqe cqe;

	urccl_prep_watch(sqe, (struct urccl_peer){handle});
	submit(&a, WATCH, sqe);
	if (theirs) {
		side_hang_up(&b, theirs, CLOSE);
		next(&b, CLOSE);
	} else {
		side_close(&b);
	}
	cqe = next(&a, WATCH);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_LOST);
}

static int64_t notify(uint32_t handle)
{
	struct urccl_sqe *sqe = urccl_get_sqe(a.ring);

	urccl_prep_notify(sqe, (struct urccl_peer){handle}, 7, NULL, 0);
	submit(&a, NOTIFY, sqe);
	return next(&a, NOTIFY).res;
}

int case_control_restart_moved(void)
{
	char all[32], first[32], second[32];
	struct urccl_params p = rig_params();
	struct urccl_cqe cqe;
	uint32_t old, moved;
	uint16_t port;
	int fd = rig_port(&port);

	snprintf(all, sizeof(all), "0.0.0.0:%u", port);
	snprintf(first, sizeof(first), "127.0.0.1:%u", port);
	snprintf(second, sizeof(second), "127.0.0.2:%u", port);
	side_open(&a, &p);
	p.listen = all;
	side_open(&b, &p);
	side_accept(&b, ACCEPT);
	old = dial(first);
	cqe = side_next(&b);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_PEER);
	end(old, cqe.peer);
	moved = dial(second);
	CHECK_NE(moved, old);
	end(moved, 0);
	side_open(&b, &p);
	side_accept(&b, ACCEPT);
	dial(second);
	CHECK_EQ(notify(moved), -ESTALE);
	side_close(&b);
	side_close(&a);
	close(fd);
	return 0;
}
