/* SPDX-License-Identifier: Apache-2.0 */
/* Two domains of a provider are two rails: bulk goes by both, and where a way of the one is cut and
 * no other is to be had, for there is no descriptor, all goes on by the other until there is.
 * With --interfaces first there are d0 and d1, in a network of this process's own. */
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include "ns.h"
#include "pair.h"

#define N	 4u
#define LEN	 (16u << 20)
#define CONTROL	 0xc0 /* traffic class, by which its connection is known */
#define BOTH	 3u   /* rails, a bit each */
#define PATIENCE 2000000000ull

static struct pair p;
static struct target t;
static uint8_t *local;

static void begin_writes(uint64_t seed)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	pattern_fill(local, N * LEN, 0, seed);
	for (i = 0; i < N; i++) {
		sqe = side_sqe(&p.a);
		urccl_prep_write(sqe, t.remote, local + (uint64_t)i * LEN, LEN, (uint64_t)i * LEN);
		urccl_sqe_set_data64(sqe, i);
	}
	CHECK_EQ(urccl_submit(p.a.ring), N);
}

/* The rails that they went by. */
static uint32_t end_writes(uint64_t seed)
{
	struct urccl_cqe cqe;
	uint32_t i, path = 0;

	for (i = 0; i < N; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, LEN);
		path |= cqe.path;
	}
	CHECK(pattern_holds(t.bytes, N * LEN, 0, seed));
	return path >> URCCL_PATH_RAILS_SHIFT & 0xff;
}

static uint32_t writes(uint64_t seed)
{
	begin_writes(seed);
	return end_writes(seed);
}

/* How fast each is shows by and by. */
static void by_both(void)
{
	uint32_t path = 0, i;

	for (i = 0; path != BOTH; i++) {
		CHECK_LE(i, 50);
		path |= writes(i);
	}
}

static int is_provider(int fd)
{
	struct sockaddr_storage to;
	socklen_t len = sizeof(to);
	int tclass = 0;

	if (getpeername(fd, (struct sockaddr *)&to, &len) || to.ss_family != AF_INET)
		return 0;
	len = sizeof(tclass);
	CHECK_EQ(getsockopt(fd, IPPROTO_IP, IP_TOS, &tclass, &len), 0);
	return tclass != CONTROL;
}

static int is_told(void)
{
	uint64_t until = now_ns() + PATIENCE;
	struct urccl_cqe cqe;

	while (!p.a.rails_down && now_ns() < until)
		CHECK(!side_take_within(&p.a, &p.b, 1000000, &cqe, NULL));
	return p.a.rails_down != 0;
}

/* Connection after connection, with writes under way. A provider makes some anew itself. */
static void cut(void)
{
	struct rlimit normal, none;
	int fd;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &normal), 0);
	none = normal;
	none.rlim_cur = 3;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (fd = 3; fd < 1024 && !p.a.rails_down; fd++) {
		if (!is_provider(fd))
			continue;
		begin_writes((uint32_t)fd);
		CHECK_EQ(shutdown(fd, SHUT_RDWR), 0);
		end_writes((uint32_t)fd);
		is_told();
	}
	CHECK(p.a.rails_down == 1 || p.a.rails_down == 2);
	CHECK_EQ(writes(1), BOTH - p.a.rails_down);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &normal), 0);
}

static void interfaces(void)
{
	if (ns_enter(CLONE_NEWNET, 1))
		SKIP("no network of its own is to be had here");
	if (system("ip link set lo up && for i in 0 1; do"
		   " ip link add d$i type veth peer name e$i && ip addr add 10.9.$i.1/24 dev d$i &&"
		   " ip link set d$i up && ip link set e$i up || exit 1; done"))
		SKIP("no veth interfaces are to be had here");
}

int main(int argc, char **argv)
{
	int own = argc > 1 && !strcmp(argv[1], "--interfaces");

	if (own)
		interfaces();
	pair_options(&p, argc - own, argv + own);
	CHECK_EQ(p.transport, URCCL_TRANSPORT_FABRIC);
	p.params.tcp_tclass[URCCL_CLASS_CONTROL] = CONTROL;
	pair_open(&p);
	local = malloc(N * LEN);
	CHECK(local);
	side_register(&p.a, local, N * LEN, 0);
	target_open(&p, &t, N * LEN, 0);
	by_both();
	cut();
	pair_rails(&p, 0);
	by_both();
	target_close(&p, &t);
	pair_close(&p);
	free(local);
	return 0;
}
