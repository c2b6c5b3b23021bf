/* SPDX-License-Identifier: Apache-2.0 */
/* Each class of traffic has the traffic class, priority and congestion control that it was given:
 * of tcp's streams and, whatever transport data takes, of the control connection; what the kernel
 * does not give is an error of opening. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>
#include "pair.h"

#define STREAMS	    2
#define CONTROL_MAX 16 /* TCP_CA_NAME_MAX */

static struct pair p;

/* What the system gives a socket that asks for none. */
static void standard(char control[CONTROL_MAX])
{
	socklen_t len = CONTROL_MAX;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK_EQ(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, control, &len), 0);
	close(fd);
}

/* Connected sockets of this process, TCP's, with this traffic class, priority and congestion
 * control (NULL: any). */
static int sockets(int tclass, int priority, const char *control)
{
	struct sockaddr_storage ss;
	int fd, n = 0, t, pr;
	socklen_t len;

	for (fd = 3; fd < 1024; fd++) {
		char c[CONTROL_MAX] = ""; /* an emulator gives four bytes of it, and no end */

		len = sizeof(ss);
		if (getpeername(fd, (struct sockaddr *)&ss, &len) || ss.ss_family != AF_INET)
			continue;
		len = sizeof(t);
		CHECK_EQ(getsockopt(fd, IPPROTO_IP, IP_TOS, &t, &len), 0);
		CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_PRIORITY, &pr, &len), 0);
		len = sizeof(c);
		CHECK_EQ(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, c, &len), 0);
		n += t == tclass && pr == priority && (!control || !strcmp(c, control));
	}
	return n;
}

static void refused(struct urccl_params bad, const char *words)
{
	struct urccl *ctx;
	int err = urccl_open(&bad, &ctx);

	CHECK(err < 0);
	CHECK(strstr(urccl_errmsg(), words));
}

int main(int argc, char **argv)
{
	static uint8_t local[1 << 20];
	struct urccl_params bad;
	struct urccl_sqe *sqe;
	char other[CONTROL_MAX] = "";
	struct target t;
	int is_tcp;

	pair_options(&p, argc, argv);
	is_tcp = p.transport == URCCL_TRANSPORT_TCP;
	p.params.tcp_streams = STREAMS;
	p.params.tcp_tclass[URCCL_CLASS_BULK] = 0x08;
	p.params.tcp_tclass[URCCL_CLASS_LATENCY] = 0xb8;
	p.params.tcp_tclass[URCCL_CLASS_CONTROL] = 0xc0;
	p.params.tcp_priority[URCCL_CLASS_BULK] = 1;
	p.params.tcp_priority[URCCL_CLASS_LATENCY] = 5;
	p.params.tcp_priority[URCCL_CLASS_CONTROL] = 6;
	/* The one that every kernel has; where it is the system's, too, little is shown. */
	p.params.tcp_congestion = "control:reno";
	standard(other);
	pair_open(&p);
	CHECK_EQ(sockets(0xc0, 6, "reno"), 2);
	CHECK_EQ(sockets(0xb8, 5, other), is_tcp ? 2 : 0);
	CHECK_EQ(sockets(0x08, 1, other), is_tcp ? 2 * STREAMS : 0);
	/* A provider of libfabric has some of its own. */
	if (p.transport != URCCL_TRANSPORT_FABRIC)
		CHECK_EQ(sockets(0, 0, NULL), 0);

	target_open(&p, &t, sizeof(local), 0);
	side_register(&p.a, local, sizeof(local), 0);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, local, sizeof(local), 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, (int64_t)sizeof(local));
	target_close(&p, &t);

	bad = p.params;
	bad.tcp_congestion = "control:no-such-thing";
	refused(bad, "\"no-such-thing\"");
	bad.tcp_congestion = NULL;
	bad.tcp_tclass[URCCL_CLASS_CONTROL] = 5;
	refused(bad, "tcp_tclass is 5");
	pair_close(&p);
	return 0;
}
