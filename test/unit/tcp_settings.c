/* SPDX-License-Identifier: Apache-2.0 */
/* Settings reach the sockets, or opening says why not. Both families of addresses work. */
#include <netinet/tcp.h>
#include "tcp_pair.h"

static void option_is(int fd, int name, unsigned int want)
{
	unsigned int value = 0;
	socklen_t len = sizeof(value);

	CHECK_EQ(getsockopt(fd, IPPROTO_TCP, name, &value, &len), 0);
	CHECK_EQ(value, want);
}

/* The first is latency's, the others bulk's. */
static void class_is_set(int fd, int index, int family)
{
	int level = family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP, value = -1;
	int name = family == AF_INET6 ? IPV6_TCLASS : IP_TOS;
	socklen_t len = sizeof(value);

	CHECK_EQ(getsockopt(fd, level, name, &value, &len), 0);
	CHECK_EQ(value, index ? 0x08 : 0xb8);
	CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_PRIORITY, &value, &len), 0);
	CHECK_EQ(value, index ? 2 : 6);
}

static void congestion_is(int fd, const char *want)
{
	char name[16] = "";
	socklen_t len = sizeof(name);

	CHECK_EQ(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
	CHECK(!strcmp(name, want));
}

static void links_are_set(const struct tcp_node *n, uint32_t links, int family)
{
	const struct tcp_ep *e = tcp_ep(n->ep);
	uint32_t i;

	CHECK_EQ(e->nlinks, links);
	for (i = 0; i < e->nlinks; i++) {
		int fd = e->links[i].source.fd;

		option_is(fd, TCP_NODELAY, 1);
		/* Which would end what a program that computes does not read. */
		option_is(fd, TCP_USER_TIMEOUT, 0);
		class_is_set(fd, (int)i, family);
		congestion_is(fd, "reno");
	}
}

static void opens_with(int family)
{
	struct urccl_params p = tcp_params();
	struct tcp_node a, b;

	p.tcp_congestion = "reno";
	p.tcp_tclass[URCCL_CLASS_BULK] = 0x08;
	p.tcp_priority[URCCL_CLASS_BULK] = 2;
	p.tcp_tclass[URCCL_CLASS_LATENCY] = 0xb8;
	p.tcp_priority[URCCL_CLASS_LATENCY] = 6;
	p.tcp_streams = 3;
	if (tcp_try_open(&a, &p, family)) {
		printf("no family %d here: %s\n", family, urccl_errmsg());
		return;
	}
	p.tcp_streams = 2;
	CHECK_EQ(tcp_try_open(&b, &p, family), 0);
	tcp_open_ep(&a);
	tcp_open_ep(&b);
	tcp_connect(&b, &a, 0, family);
	tcp_connect(&a, &b, 1, family);
	TCP_WAIT(&a, &b, a.up && b.up);
	links_are_set(&a, 3, family);
	links_are_set(&b, 3, family);
	tcp_close_eps(&a, &b);
	backend_tcp.close(a.dev);
	backend_tcp.close(b.dev);
}

static void refuses_nonsense(void)
{
	struct urccl_params p = tcp_params();
	struct tcp_node a;

	p.tcp_congestion = "no-such-control";
	CHECK_EQ(tcp_try_open(&a, &p, AF_INET), -ENOENT);
	CHECK(strstr(urccl_errmsg(), "no-such-control"));
	p.tcp_congestion = "a name longer than any congestion control has";
	CHECK_EQ(tcp_try_open(&a, &p, AF_INET), -EINVAL);
	p.tcp_congestion = "bulk:reno,latency:no-such-control";
	CHECK_EQ(tcp_try_open(&a, &p, AF_INET), -ENOENT);
	CHECK(strstr(urccl_errmsg(), "\"no-such-control\""));
}

/* Whether the kernel lets us have it. */
static int has_congestion(const char *name)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

	CHECK(fd >= 0);
	rc = setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
	close(fd);
	return !rc;
}

/* Each stream has that of its class; a class that is not named has the system's. */
static void each_has_its_own(const char *setting, const char *latency, const char *bulk)
{
	struct urccl_params p = tcp_params();
	struct tcp_node a, b;
	uint32_t i;

	p.tcp_congestion = setting;
	p.tcp_streams = 2;
	CHECK_EQ(tcp_try_open(&a, &p, AF_INET), 0);
	CHECK_EQ(tcp_try_open(&b, &p, AF_INET), 0);
	tcp_open_ep(&a);
	tcp_open_ep(&b);
	tcp_connect(&b, &a, 0, AF_INET);
	tcp_connect(&a, &b, 1, AF_INET);
	TCP_WAIT(&a, &b, a.up && b.up);
	for (i = 0; i < 6; i++) {
		const struct tcp_ep *e = tcp_ep(i % 2 ? a.ep : b.ep);

		CHECK_EQ(e->nlinks, 3);
		congestion_is(e->links[i / 2].source.fd, i / 2 ? bulk : latency);
	}
	tcp_close_eps(&a, &b);
	backend_tcp.close(a.dev);
	backend_tcp.close(b.dev);
}

static void congestion_of_classes(void)
{
	char standard[16] = "";
	socklen_t len = sizeof(standard);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK_EQ(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, standard, &len), 0);
	close(fd);
	each_has_its_own("latency:reno", "reno", standard);
	if (!has_congestion("cubic")) {
		printf("no cubic here\n");
		return;
	}
	each_has_its_own("bulk:reno,latency:cubic", "cubic", "reno");
	each_has_its_own("control:reno,latency:reno,bulk:cubic", "reno", "cubic");
}

/* One whose context does not listen dials. */
static void dials_without_listening(void)
{
	struct device_config config = {0};
	struct urccl_params p = tcp_params();
	struct tcp_node a = {.listener = -1, .held = -1}, b;

	config.params = &p;
	CHECK_EQ(backend_tcp.open(&config, &a.dev), 0);
	CHECK_EQ(tcp_try_open(&b, &p, AF_INET), 0);
	tcp_meet(&a, &b, AF_INET);
	backend_tcp.close(a.dev);
	backend_tcp.close(b.dev);
}

int case_tcp_settings(void)
{
	opens_with(AF_INET);
	opens_with(AF_INET6);
	congestion_of_classes();
	refuses_nonsense();
	dials_without_listening();
	return 0;
}
