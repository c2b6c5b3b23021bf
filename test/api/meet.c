/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include "meet.h"

static struct sockaddr_in loopback(uint16_t port)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return in;
}

int raw_listen(uint16_t *port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in in = loopback(0);
	socklen_t len = sizeof(in);

	CHECK(fd >= 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)&in, len), 0);
	CHECK_EQ(listen(fd, 128), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	*port = ntohs(in.sin_port);
	return fd;
}

int raw_dial(uint16_t port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in in = loopback(port);

	CHECK(fd >= 0);
	CHECK_EQ(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	return fd;
}

uint16_t free_port(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	struct sockaddr_in in = loopback(0);
	socklen_t len = sizeof(in);

	/* Kept, so that no other process is given it; whoever says SO_REUSEADDR may listen. */
	CHECK(fd >= 0);
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)&in, len), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	return ntohs(in.sin_port);
}

void place_v4(char text[PLACE_MAX], uint16_t port)
{
	snprintf(text, PLACE_MAX, "127.0.0.1:%u", port);
}

void side_accept(struct side *s, uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(s);

	urccl_prep_accept(sqe);
	urccl_sqe_set_data64(sqe, user_data);
	CHECK_GE(urccl_submit(s->ring), 1);
}

void side_watch(struct side *s, struct urccl_peer peer, uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(s);

	urccl_prep_watch(sqe, peer);
	urccl_sqe_set_data64(sqe, user_data);
	CHECK_GE(urccl_submit(s->ring), 1);
}

void side_dial(struct side *from, const void *target, uint32_t len, uint32_t us, uint64_t user_data)
{
	struct urccl_sqe *sqe = side_sqe(from);

	urccl_prep_connect(sqe, target, len);
	urccl_sqe_set_deadline_us(sqe, us);
	urccl_sqe_set_data64(sqe, user_data);
	CHECK_GE(urccl_submit(from->ring), 1);
}

struct urccl_cqe side_end(struct side *from, struct side *other, uint64_t user_data)
{
	struct urccl_cqe cqe;

	/* Where threads get no time the outcome may be told before the end. */
	do {
		side_take(from, other, &cqe, NULL);
		CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_OP);
		CHECK_EQ(cqe.user_data, user_data);
	} while (cqe.flags & URCCL_CQE_MORE);
	return cqe;
}

struct urccl_cqe side_dialled(struct side *from, struct side *other, const void *target,
			      uint32_t len, uint32_t us)
{
	side_dial(from, target, len, us, 0xd1a1);
	return side_end(from, other, 0xd1a1);
}

struct urccl_cqe side_event(struct side *s, struct side *other, enum urccl_cqe_kind kind,
			    void *note)
{
	struct urccl_cqe cqe;

	side_take(s, other, &cqe, note);
	CHECK_EQ(urccl_cqe_kind(&cqe), kind);
	return cqe;
}

struct urccl_peer pair_meet(struct pair *p, struct side *hub, struct side *s)
{
	side_open(p, s);
	side_accept(s, 1);
	side_connect(hub, s);
	side_watch(s, (struct urccl_peer){0}, 2);
	return hub->peer;
}

int64_t side_drop(struct side *s, struct side *other, uint32_t peer)
{
	struct urccl_sqe *sqe = side_sqe(s);

	urccl_prep_close(sqe, (struct urccl_peer){peer});
	urccl_sqe_set_data64(sqe, 0xc105e);
	CHECK_GE(urccl_submit(s->ring), 1);
	return side_end(s, other, 0xc105e).res;
}

int64_t side_tell(struct side *s, struct side *other, uint32_t peer, uint64_t tag)
{
	struct urccl_sqe *sqe = side_sqe(s);

	urccl_prep_notify(sqe, (struct urccl_peer){peer}, tag, NULL, 0);
	urccl_sqe_set_data64(sqe, 0x7e11);
	CHECK_GE(urccl_submit(s->ring), 1);
	return side_end(s, other, 0x7e11).res;
}

void side_silent(struct side *s, struct side *other, uint64_t ns)
{
	struct urccl_cqe cqe;

	CHECK(!side_take_within(s, other, ns, &cqe, NULL));
}
