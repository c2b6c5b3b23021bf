/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that we had a CONNECT to is gone, and another incarnation is at its address: once a
 * CONNECT has found that, entries on the old handle end with -ESTALE, whichever side dialled first,
 * of the old one and of the new one. */
#include "control_rig.h"

enum { ACCEPT = 1, CONNECT, WATCH, NOTIFY, CLOSE };
enum how { WE, IT_THEN_TEXT, IT_THEN_BLOB, AT_ONCE, HOWS }; /* who dials whom */

static struct urccl_params here; /* the address of those that restart */
static char place[32];
static struct side a;

/* The next CQE but PEER events and what is told before its end. */
static struct urccl_cqe next(struct side *s, uint64_t data)
{
	struct urccl_cqe cqe;

	do
		cqe = side_next(s);
	while (cqe.flags & URCCL_CQE_MORE);
	CHECK_EQ(cqe.user_data, data);
	return cqe;
}

static void by_text(struct side *from, const struct side *to)
{
	side_connect(from, to->text, (uint32_t)strlen(to->text), 0, CONNECT);
}

static uint32_t connected(struct side *s)
{
	struct urccl_cqe cqe = next(s, CONNECT);

	CHECK_EQ(cqe.res, 0);
	return (uint32_t)cqe.handle;
}

static uint32_t meet(struct side *b, enum how how)
{
	side_open(b, &here);
	side_accept(b, ACCEPT);
	if (how != WE)
		by_text(b, &a);
	if (how == IT_THEN_TEXT || how == IT_THEN_BLOB)
		connected(b);
	if (how == IT_THEN_BLOB)
		side_connect(&a, b->blob, b->blob_len, 0, CONNECT);
	else
		by_text(&a, b);
	if (how == AT_ONCE)
		connected(b);
	return connected(&a);
}

static void watch(uint32_t handle)
{
	struct urccl_sqe *sqe = urccl_get_sqe(a.ring);

	urccl_prep_watch(sqe, (struct urccl_peer){handle});
	urccl_sqe_set_data64(sqe, WATCH);
	CHECK_EQ(urccl_submit(a.ring), 1);
}

static void lost(void)
{
	struct urccl_cqe cqe = next(&a, WATCH);

	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_LOST);
}

static void end(struct side *b, uint32_t handle)
{
	watch(handle);
	side_close(b);
	lost();
}

static int64_t notify(uint32_t handle)
{
	struct urccl_sqe *sqe = urccl_get_sqe(a.ring);

	urccl_prep_notify(sqe, (struct urccl_peer){handle}, 7, NULL, 0);
	urccl_sqe_set_data64(sqe, NOTIFY);
	CHECK_EQ(urccl_submit(a.ring), 1);
	return next(&a, NOTIFY).res;
}

static void restart(enum how first, enum how then)
{
	struct side b;
	uint32_t old = meet(&b, first), new;

	end(&b, old);
	CHECK_EQ(notify(old), -ECONNRESET);
	new = meet(&b, then);
	CHECK_NE(new, old);
	CHECK_EQ(notify(old), -ESTALE);
	end(&b, new);
	CHECK_EQ(notify(new), -ECONNRESET);
}

/* One that left and came back by itself is where it was. */
static void returns(void)
{
	struct urccl_cqe cqe;
	struct side b;
	uint32_t theirs;

	watch(meet(&b, IT_THEN_TEXT));
	by_text(&b, &a);
	theirs = connected(&b);
	side_hang_up(&b, theirs, CLOSE);
	next(&b, CLOSE);
	side_hang_up(&b, theirs, CLOSE);
	next(&b, CLOSE);
	lost();
	by_text(&b, &a);
	connected(&b);
	cqe = side_next(&a);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_PEER);
	end(&b, cqe.peer);
	cqe.handle = meet(&b, WE);
	CHECK_EQ(notify(cqe.peer), -ESTALE);
	end(&b, (uint32_t)cqe.handle);
}

int case_control_restart(void)
{
	struct urccl_params p = rig_params();
	enum how first, then;
	uint16_t port;
	int fd = rig_port(&port);

	snprintf(place, sizeof(place), "127.0.0.1:%u", port);
	here = rig_params();
	here.listen = place;
	side_open(&a, &p);
	side_accept(&a, ACCEPT);
	for (first = WE; first < HOWS; first++)
		for (then = WE; then < HOWS; then++)
			restart(first, then);
	returns();
	side_close(&a);
	close(fd);
	return 0;
}
