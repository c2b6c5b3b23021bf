/* SPDX-License-Identifier: Apache-2.0 */
/* A server that dials nobody: a peer of it is gone, and another incarnation comes by itself that
 * listens where the old one did. Entries on the old handle end with -ESTALE from its PEER event on,
 * whichever side had dialled the old one. Of one that listens nowhere, or somewhere else, or not at
 * the address that it comes from, nobody can tell whom it follows. */
#include "control_rig.h"

enum { ACCEPT = 1, CONNECT, WATCH, NOTIFY };

static struct side a;

static struct urccl_cqe next(struct side *s, uint64_t data)
{
	struct urccl_cqe cqe;

	do
		cqe = side_next(s);
	while (data == NOTIFY && cqe.flags & URCCL_CQE_MORE);
	CHECK_EQ(cqe.user_data, data);
	return cqe;
}

static void open_at(struct side *b, const char *listen)
{
	struct urccl_params p = rig_params();

	p.listen = listen;
	side_open(b, &p);
}

/* b comes: a's handle of it. */
static uint32_t comes(struct side *b)
{
	struct urccl_cqe cqe;

	side_connect(b, a.text, (uint32_t)strlen(a.text), 0, CONNECT);
	cqe = next(&a, ACCEPT);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_PEER);
	CHECK_EQ(next(b, CONNECT).res, 0);
	return cqe.peer;
}

/* a dials: its handle. */
static uint32_t dialled(struct side *b)
{
	struct urccl_cqe cqe;

	side_accept(b, ACCEPT);
	side_connect(&a, b->text, (uint32_t)strlen(b->text), 0, CONNECT);
	cqe = next(&a, CONNECT);
	CHECK_EQ(cqe.res, 0);
	return (uint32_t)cqe.handle;
}

static int64_t notify(uint32_t handle)
{
	struct urccl_sqe *sqe = urccl_get_sqe(a.ring);

	urccl_prep_notify(sqe, (struct urccl_peer){handle}, 7, NULL, 0);
	urccl_sqe_set_data64(sqe, NOTIFY);
	CHECK_EQ(urccl_submit(a.ring), 1);
	return next(&a, NOTIFY).res;
}

static void end(struct side *b, uint32_t handle)
{
	struct urccl_sqe *sqe = urccl_get_sqe(a.ring);
	struct urccl_cqe cqe;

	urccl_prep_watch(sqe, (struct urccl_peer){handle});
	urccl_sqe_set_data64(sqe, WATCH);
	CHECK_EQ(urccl_submit(a.ring), 1);
	side_close(b);
	cqe = next(&a, WATCH);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_LOST);
	CHECK_EQ(notify(handle), -ECONNRESET);
}

/* What an entry on the old handle ends with when the other has come. */
static int64_t follows(const char *first, const char *then, int we_dialled)
{
	uint32_t old, new;
	struct side b;
	int64_t res;

	open_at(&b, first);
	old = we_dialled ? dialled(&b) : comes(&b);
	end(&b, old);
	open_at(&b, then);
	new = comes(&b);
	CHECK_NE(new, old);
	res = notify(old);
	end(&b, new);
	return res;
}

/* Both live, each where it is: one's coming is not the other's end. */
static void beside(const char *one, const char *other)
{
	struct urccl_peer_info info = {.size = sizeof(info)};
	struct side b, c;
	uint32_t first;

	open_at(&b, one);
	first = comes(&b);
	open_at(&c, other);
	end(&c, comes(&c));
	CHECK_EQ(urccl_get_peer_info(a.ctx, (struct urccl_peer){first}, &info), 0);
	CHECK_EQ(info.state, URCCL_PEER_UP);
	end(&b, first);
}

static int has_v6(void)
{
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

int case_control_restart_comes(void)
{
	char here[32], all[32], six[32], second[32], third[32];
	uint16_t port, port2;
	int fd = rig_port(&port), fd2 = rig_port(&port2);

	snprintf(here, sizeof(here), "127.0.0.1:%u", port);
	snprintf(all, sizeof(all), "0.0.0.0:%u", port);
	snprintf(six, sizeof(six), "[::]:%u", port);
	snprintf(second, sizeof(second), "127.0.0.2:%u", port);
	snprintf(third, sizeof(third), "127.0.0.3:%u", port);
	open_at(&a, NULL);
	side_accept(&a, ACCEPT);
	CHECK_EQ(follows(here, here, 0), -ESTALE);
	CHECK_EQ(follows(here, here, 1), -ESTALE);
	CHECK_EQ(follows(here, all, 0), -ESTALE);
	if (has_v6())
		CHECK_EQ(follows(six, here, 0), -ESTALE);
	CHECK_EQ(follows("", "", 0), -ECONNRESET);
	CHECK_EQ(follows(here, "", 0), -ECONNRESET);
	CHECK_EQ(follows(second, third, 0), -ECONNRESET);
	snprintf(second, sizeof(second), "127.0.0.1:%u", port2);
	CHECK_EQ(follows(here, second, 0), -ECONNRESET);
	beside(here, second);
	side_close(&a);
	close(fd);
	close(fd2);
	return 0;
}
