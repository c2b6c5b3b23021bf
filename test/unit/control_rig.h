/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts for the tests of the control thread, and strangers that speak to its port. */
#ifndef CONTROL_RIG_H
#define CONTROL_RIG_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "conn/wire.h"
#include "test.h"
#include "waited.h"

#define RIG_NS (10 * NSEC_PER_SEC) /* nothing here takes so long */

struct side {
	struct urccl *ctx;
	struct urccl_ring *ring;
	uint8_t blob[URCCL_METADATA_MAX];
	uint32_t blob_len;
	uint16_t port;
	char text[32];
	uint64_t incarnation;
};

static inline struct urccl_params rig_params(void)
{
	struct urccl_params p = {.size = sizeof(p)};

	urccl_params_init(&p);
	p.transport = "tcp";
	return p;
}

static inline void side_open(struct side *s, const struct urccl_params *p)
{
	struct metadata m;
	int rc;

	memset(s, 0, sizeof(*s));
	CHECK_EQ(urccl_open(p, &s->ctx), 0);
	CHECK_EQ(urccl_ring_open(s->ctx, NULL, &s->ring), 0);
	if (p->listen && !*p->listen)
		return;
	rc = urccl_metadata(s->ctx, s->blob, sizeof(s->blob));
	CHECK(rc > 0);
	s->blob_len = (uint32_t)rc;
	CHECK_EQ(metadata_get(s->blob, s->blob_len, &m), 0);
	s->port = (uint16_t)m.port;
	s->incarnation = m.incarnation;
	snprintf(s->text, sizeof(s->text), "127.0.0.1:%u", m.port);
}

static inline void side_close(struct side *s)
{
	urccl_ring_close(s->ring);
	urccl_close(s->ctx);
}

static inline void side_connect(struct side *s, const void *to, uint32_t len, uint32_t deadline_us,
				uint64_t data)
{
	struct urccl_sqe *sqe = urccl_get_sqe(s->ring);

	CHECK(sqe);
	urccl_prep_connect(sqe, to, len);
	urccl_sqe_set_deadline_us(sqe, deadline_us);
	urccl_sqe_set_data64(sqe, data);
	CHECK_EQ(urccl_submit(s->ring), 1);
}

static inline void side_accept(struct side *s, uint64_t data)
{
	struct urccl_sqe *sqe = urccl_get_sqe(s->ring);

	CHECK(sqe);
	urccl_prep_accept(sqe);
	urccl_sqe_set_data64(sqe, data);
	CHECK_EQ(urccl_submit(s->ring), 1);
}

static inline void side_hang_up(struct side *s, uint32_t peer, uint64_t data)
{
	struct urccl_sqe *sqe = urccl_get_sqe(s->ring);

	CHECK(sqe);
	urccl_prep_close(sqe, (struct urccl_peer){peer});
	urccl_sqe_set_data64(sqe, data);
	CHECK_EQ(urccl_submit(s->ring), 1);
}

/* The next CQE, which must be there in time. */
static inline struct urccl_cqe side_next(struct side *s)
{
	struct urccl_wait_args args = {.size = sizeof(args), .min_n = 1, .timeout_ns = RIG_NS};
	struct urccl_cqe *cqe, copy;

	if (urccl_wait(s->ring, &cqe, &args) < 1) {
		urccl_dump(s->ctx, 2);
		CHECK(!"a CQE in time");
	}
	copy = *cqe;
	urccl_cqe_seen(s->ring, cqe);
	return copy;
}

/* The end of this entry comes next; its res. The outcome may be told before it, where the control
 * thread gets no processor. */
static inline int64_t side_end_of(struct side *s, uint64_t data)
{
	struct urccl_cqe cqe;

	do {
		cqe = side_next(s);
		CHECK_EQ(cqe.user_data, data);
		CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_OP);
	} while (cqe.flags & URCCL_CQE_MORE);
	return cqe.res;
}

/* CONNECT fails with this, and the sentence has these words. */
static inline void side_cannot_connect(struct side *s, const void *to, uint32_t len, int res,
				       const char *words)
{
	struct urccl_cqe cqe;
	char text[512];

	side_connect(s, to, len, 5000000, 99);
	cqe = side_next(s);
	CHECK_EQ(cqe.user_data, 99);
	CHECK(urccl_explain(s->ctx, &cqe, text, sizeof(text)) > 0);
	if (cqe.res != res || !strstr(text, words))
		fprintf(stderr, "%lld: %s\n", (long long)cqe.res, text);
	CHECK_EQ(cqe.res, res);
	CHECK(strstr(text, words));
}

/* Dials and gets through: the handle. */
static inline uint32_t side_connected(struct side *from, struct side *to, uint32_t deadline_us)
{
	struct urccl_cqe cqe;

	side_connect(from, to->blob, to->blob_len, deadline_us, 2);
	cqe = side_next(from);
	CHECK_EQ(cqe.res, 0);
	return (uint32_t)cqe.handle;
}

/* A and B connect, A dialling; the handles they have of each other. */
static inline void sides_connect(struct side *a, struct side *b, uint32_t *ab, uint32_t *ba)
{
	struct urccl_cqe cqe;

	side_accept(b, 1);
	*ab = side_connected(a, b, 0);
	cqe = side_next(b);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_PEER);
	*ba = cqe.peer;
}

/* ---- strangers ---- */

static inline struct sockaddr_in rig_loopback(uint16_t port)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	return in;
}

/* A port that no other process is given as long as the socket lives, and where a context may
 * listen. */
static inline int rig_port(uint16_t *port)
{
	struct sockaddr_in in = rig_loopback(0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	socklen_t len = sizeof(in);

	CHECK(fd >= 0);
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	in.sin_addr.s_addr = htonl(INADDR_ANY); /* some listen at all addresses */
	CHECK_EQ(bind(fd, (struct sockaddr *)&in, len), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	*port = ntohs(in.sin_port);
	return fd;
}

static inline int stranger_dial(uint16_t port)
{
	struct sockaddr_in in = rig_loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK_EQ(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	return fd;
}

static inline int stranger_listen(uint16_t *port)
{
	struct sockaddr_in in = rig_loopback(0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(in);

	CHECK(fd >= 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	CHECK_EQ(listen(fd, 16), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	*port = ntohs(in.sin_port);
	return fd;
}

static inline void stranger_say(int fd, const void *bytes, size_t len)
{
	CHECK_EQ(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* Reads until there are len bytes or the other side ends; how many. */
static inline size_t stranger_hear(int fd, void *bytes, size_t len)
{
	struct pollfd pfd = {fd, POLLIN, 0};
	size_t have = 0;

	while (have < len) {
		ssize_t r;

		CHECK_EQ(poll(&pfd, 1, (int)(RIG_NS / NSEC_PER_MSEC)), 1);
		r = recv(fd, (char *)bytes + have, len - have, 0);
		if (r <= 0)
			break;
		have += (size_t)r;
	}
	return have;
}

/* The magic and one frame: its body in buf (WIRE_BUF bytes). */
static inline struct wire_header stranger_frame(int fd, uint8_t *buf, int greeted)
{
	uint8_t head[WIRE_HEADER], magic[WIRE_MAGIC];
	struct wire_header h;

	if (!greeted) {
		CHECK_EQ(stranger_hear(fd, magic, WIRE_MAGIC), WIRE_MAGIC);
		CHECK_EQ(memcmp(magic, wire_magic, WIRE_MAGIC), 0);
	}
	CHECK_EQ(stranger_hear(fd, head, WIRE_HEADER), WIRE_HEADER);
	CHECK_EQ(wire_get_header(head, &h), 0);
	CHECK(h.len <= WIRE_BUF);
	CHECK_EQ(stranger_hear(fd, buf, h.len), h.len);
	return h;
}

/* A HELLO as a dialler with one rail of tcp would say it. */
static inline struct wire_hello stranger_hello(void)
{
	struct wire_hello h = {.version_min = WIRE_VERSION,
			       .version_max = WIRE_VERSION,
			       .incarnation = 0x5eed,
			       .key_window = 1,
			       .nrails = 1};

	h.rails[0].transport = URCCL_TRANSPORT_TCP;
	return h;
}

static inline void stranger_say_hello(int fd, const struct wire_hello *h)
{
	uint8_t frame[WIRE_BUF];

	stranger_say(fd, wire_magic, WIRE_MAGIC);
	stranger_say(fd, frame, wire_put_hello(frame, WIRE_HELLO, h));
}

#endif
