/* SPDX-License-Identifier: Apache-2.0 */
/* Two tcp devices in one thread, and a pair of eps between them. */
#ifndef TCP_PAIR_H
#define TCP_PAIR_H

#include <arpa/inet.h>
#include "backend/tcp/tcp.h"
#include "../test.h"
#include "../waited.h"

#define PATIENCE_NS (20 * NSEC_PER_SEC)

struct tcp_node {
	struct device *dev;
	struct ep *ep;
	uint8_t addr[EP_ADDR_MAX];
	uint32_t addr_len;
	int up, down, closed, chunks;
	int down_res;
	int listener; /* in place of the context's, at port */
	int held;     /* accepted, and the device had no room for it; -1: none */
	uint16_t port;
};

static inline struct sockaddr_storage loopback(int family)
{
	struct sockaddr_storage ss;

	memset(&ss, 0, sizeof(ss));
	ss.ss_family = (sa_family_t)family;
	if (family == AF_INET6)
		((struct sockaddr_in6 *)&ss)->sin6_addr = in6addr_loopback;
	else
		((struct sockaddr_in *)&ss)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return ss;
}

static inline struct urccl_params tcp_params(void)
{
	struct urccl_params p = {.size = sizeof(p)};

	urccl_params_init(&p);
	p.tcp_driver = URCCL_TCP_READINESS;
	return p;
}

static inline void tcp_listen(struct tcp_node *n, const struct sockaddr_storage *at)
{
	struct sockaddr_storage ss = *at;
	socklen_t len = tcp_addr_len(&ss);

	n->listener = socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	CHECK(n->listener >= 0);
	CHECK_EQ(bind(n->listener, (struct sockaddr *)&ss, len), 0);
	CHECK_EQ(listen(n->listener, SOMAXCONN), 0);
	CHECK_EQ(getsockname(n->listener, (struct sockaddr *)&ss, &len), 0);
	n->port = ntohs(((struct sockaddr_in *)&ss)->sin_port);
}

static inline int tcp_try_open(struct tcp_node *n, const struct urccl_params *p, int family)
{
	struct sockaddr_storage at = loopback(family);
	struct device_config config = {.params = p, .listen = &at, .nlisten = 1};

	memset(n, 0, sizeof(*n));
	n->held = -1;
	tcp_listen(n, &at);
	return backend_tcp.open(&config, &n->dev);
}

static inline void tcp_open_ep(struct tcp_node *n)
{
	n->up = n->down = n->closed = 0;
	CHECK_EQ(backend_tcp.ep_open(n->dev, &n->ep, n->addr, &n->addr_len), 0);
}

static inline int tcp_take(struct tcp_node *n)
{
	if (n->held < 0)
		n->held = accept4(n->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	return n->held >= 0;
}

static inline void tcp_turn(struct tcp_node *n)
{
	struct event events[16];
	uint32_t i, count;

	while (tcp_take(n) && backend_tcp.accept(n->dev, n->held))
		n->held = -1;
	count = backend_tcp.poll(n->dev, events, 16);
	for (i = 0; i < count; i++) {
		const struct event *e = &events[i];

		n->up += e->type == EVENT_UP;
		n->down += e->type == EVENT_DOWN;
		n->closed += e->type == EVENT_CLOSED;
		n->chunks += e->type == EVENT_CHUNK;
		if (e->type == EVENT_DOWN)
			n->down_res = e->res;
	}
}

#define TCP_WAIT(a, b, cond)                                                                       \
	do {                                                                                       \
		uint64_t tcp_until = clock_ns() + PATIENCE_NS;                                     \
		while (!(cond)) {                                                                  \
			tcp_turn(a);                                                               \
			tcp_turn(b);                                                               \
			CHECK(!is_late(tcp_until));                                                \
		}                                                                                  \
	} while (0)

static inline void tcp_connect(struct tcp_node *n, const struct tcp_node *to, int active,
			       int family)
{
	struct sockaddr_storage via = loopback(family);

	((struct sockaddr_in *)&via)->sin_port = htons(to->port);
	CHECK_EQ(backend_tcp.ep_connect(n->ep, to->addr, to->addr_len, active, &via), 0);
}

static inline void tcp_close_eps(struct tcp_node *a, struct tcp_node *b)
{
	backend_tcp.ep_close(a->ep);
	backend_tcp.ep_close(b->ep);
	TCP_WAIT(a, b, a->closed && b->closed);
	backend_tcp.ep_free(a->ep);
	backend_tcp.ep_free(b->ep);
}

/* A pair comes up and goes: the devices are well. */
static inline void tcp_up(struct tcp_node *a, struct tcp_node *b, int family)
{
	tcp_open_ep(a);
	tcp_open_ep(b);
	tcp_connect(a, b, 1, family);
	tcp_connect(b, a, 0, family);
	TCP_WAIT(a, b, a->up && b->up);
}

static inline void tcp_meet(struct tcp_node *a, struct tcp_node *b, int family)
{
	tcp_up(a, b, family);
	tcp_close_eps(a, b);
}

#endif
