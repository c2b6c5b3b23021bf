/* SPDX-License-Identifier: Apache-2.0 */
/* One direction of one of the connections between two contexts is shut down, each in turn: every
 * entry ends, with success or -ECONNRESET, both sides hear of the loss, and they connect again. A
 * provider of libfabric may make its connections anew instead: nobody is lost, and all goes on. */
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include "meet.h"

#define N	 90u
#define LEN	 65536u
#define SOCKETS	 64u
#define MARK	 0x3a7cu /* pair_open()'s WATCH */
#define DEADLINE 10000000u
#define BOUND_NS 3000000000ull
#define CONTROL	 0xc0 /* traffic class, by which its connection is known */

static struct pair p;
static struct target t;
static uint8_t *local;

/* A provider of libfabric wakes itself by others. */
static int is_network(int family)
{
	return p.transport != URCCL_TRANSPORT_FABRIC || family != AF_UNIX;
}

/* The sockets of this process that have somebody at the other end. */
static uint32_t connections(int fds[SOCKETS])
{
	struct sockaddr_storage to;
	socklen_t len;
	uint32_t n = 0;
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/fd");

	CHECK(dir);
	while ((entry = readdir(dir)) && n < SOCKETS) {
		int fd = atoi(entry->d_name);

		len = sizeof(to);
		if (fd > 2 && !getpeername(fd, (struct sockaddr *)&to, &len) &&
		    is_network(to.ss_family))
			fds[n++] = fd;
	}
	closedir(dir);
	return n;
}

/* What nobody but this library makes is not made anew. */
static int is_final(int fd)
{
	socklen_t len = sizeof(int);
	int tclass = 0;

	if (p.transport != URCCL_TRANSPORT_FABRIC)
		return 1;
	return !getsockopt(fd, IPPROTO_IP, IP_TOS, &tclass, &len) && tclass == CONTROL;
}

static void prepare(uint32_t i)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (i % 3 == 0)
		urccl_prep_notify(sqe, p.a.peer, i, NULL, 0);
	else if (i % 3 == 1)
		urccl_prep_write(sqe, t.remote, local, LEN, 0);
	else
		urccl_prep_read(sqe, t.remote, local, LEN, 0);
	urccl_sqe_set_data64(sqe, i);
	urccl_sqe_set_deadline_us(sqe, DEADLINE);
}

/* 1: both are lost. 0: neither, which is shown by one entry more, and need not be so. */
static int take_all(int final)
{
	uint32_t ended = 0, n = N, lost[2] = {0}, seen[N + 1] = {0};
	uint64_t since = now_ns();
	struct urccl_cqe cqe;

	while (ended < n || !lost[0] || !lost[1]) {
		CHECK(!is_late(since + BOUND_NS));
		while (side_take_within(&p.b, &p.a, 0, &cqe, NULL)) {
			if (urccl_cqe_kind(&cqe) != URCCL_KIND_LOST)
				continue;
			CHECK_EQ(cqe.res, -ECONNRESET);
			lost[1]++;
		}
		if (!side_take_within(&p.a, &p.b, 1000000, &cqe, NULL))
			continue;
		CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
		if (urccl_cqe_kind(&cqe) == URCCL_KIND_LOST) {
			CHECK_EQ(cqe.user_data, MARK);
			CHECK_EQ(cqe.res, -ECONNRESET);
			lost[0]++;
			continue;
		}
		CHECK(cqe.user_data < n && !seen[cqe.user_data]++);
		if (cqe.res < 0)
			CHECK_EQ(cqe.res, -ECONNRESET);
		ended++;
		if (ended == N && !final && !lost[0])
			prepare(n++);
		else if (ended > N && !cqe.res)
			return 0;
		urccl_submit(p.a.ring);
	}
	CHECK_EQ(lost[0], 1);
	CHECK_EQ(lost[1], 1);
	return 1;
}

/* The k-th that there is; returns how many there are. */
static uint32_t round_of(uint32_t k)
{
	int fds[SOCKETS];
	uint32_t n, i;

	p.params.tcp_tclass[URCCL_CLASS_CONTROL] = CONTROL;
	pair_open(&p);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	urccl_prep_write(side_sqe(&p.a), t.remote, local, 1, 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(pair_end(&p, &p.a, 0).res, 1);
	n = connections(fds);
	CHECK_GE(n, 2);
	for (i = 0; k < n && i < N; i++)
		prepare(i);
	CHECK_EQ(urccl_submit(p.a.ring), (int)i);
	if (k < n && !shutdown(fds[k], SHUT_WR) && take_all(is_final(fds[k]))) {
		CHECK_EQ(side_drop(&p.a, &p.b, p.a.peer.id), 0);
		CHECK_EQ(side_drop(&p.b, &p.a, p.b.peer.id), 0);
		side_connect(&p.a, &p.b);
		side_watch(&p.b, p.b.peer, MARK);
		CHECK_EQ(side_tell(&p.a, &p.b, p.a.peer.id, 1), 0);
	}
	side_close(&p.a);
	side_close(&p.b);
	return n;
}

int main(int argc, char **argv)
{
	uint32_t k = 0;

	pair_options(&p, argc, argv);
	if (p.transport == URCCL_TRANSPORT_SIM)
		SKIP("a simulated network has no connections");
	local = calloc(1, LEN);
	CHECK(local);
	while (round_of(k) > k)
		k++;
	printf("%u connections\n", k);
	free(local);
	return 0;
}
