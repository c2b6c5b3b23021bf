/* SPDX-License-Identifier: Apache-2.0 */
/* A receiver that reads nothing, whose host lives, is waited for, three times dead_after too, and
 * then gets everything. One of which nothing comes any more, because packets are dropped, is down
 * when dead_after is over; also where its window was closed before. By either driver. */
#include <stdlib.h>
#include "ns.h"
#include "tcp_pair.h"

#define N	64u
#define LEN	(1u << 20) /* together more than sockets hold */
#define DEAD_MS 500u
#define DEAD_NS (DEAD_MS * NSEC_PER_MSEC)
#define ALL	((size_t)N * LEN)

static struct tcp_node a, b;
static struct chunk chunks[N];
static uint8_t local[ALL], remote[ALL];
static struct exposure exposure;
static struct rkey rkey;

static void cut(int on)
{
	CHECK_EQ(system(on ? "nft 'add table inet cut; add chain inet cut in "
			     "{ type filter hook input priority 0; policy drop; }'"
			   : "nft delete table inet cut"),
		 0);
}

/* A network of its own, in which packets can be dropped. */
static void own_net(void)
{
	setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1);
	if (ns_enter(CLONE_NEWNET, 1) && (getuid() || unshare(CLONE_NEWNET)))
		SKIP("user and network namespaces are denied here");
	if (system("ip link set lo up && nft add table inet probe && nft delete table inet probe"))
		SKIP("ip or nft is not installed, or may not be used in a namespace here");
}

static void meet(void)
{
	static union {
		struct memory memory;
		uint8_t space[sizeof(struct memory) + sizeof(struct span)];
	} m;
	uint8_t key[KEY_MAX];
	int n;

	m.memory.len = ALL;
	m.memory.nspans = 1;
	m.memory.spans[0] = (struct span){.len = ALL, .addr = (uintptr_t)remote, .fd = -1};
	tcp_up(&a, &b, AF_INET);
	exposure = (struct exposure){.memory = &m.memory,
				     .len = ALL,
				     .expires_ns = NEVER_NS,
				     .ep = b.ep,
				     .rights = URCCL_RIGHT_WRITE};
	n = backend_tcp.expose(&exposure, key, sizeof(key));
	CHECK_GE(n, 1);
	CHECK_EQ(backend_tcp.import(a.ep, key, (uint32_t)n, ALL, &rkey), 0);
}

static void post(void)
{
	uint32_t i;

	a.chunks = 0;
	for (i = 0; i < N; i++) {
		struct chunk *c = &chunks[i];

		*c = (struct chunk){.ep = a.ep,
				    .kind = CHUNK_WRITE,
				    .local = local + (size_t)i * LEN,
				    .off = (uint64_t)i * LEN,
				    .len = LEN,
				    .key = &rkey};
		CHECK_EQ(backend_tcp.post(a.ep, &c, 1), 1);
	}
}

/* b does nothing. */
static void turn_a(uint64_t ns)
{
	uint64_t until = clock_ns() + ns;

	while (clock_ns() < until && !a.down)
		tcp_turn(&a);
	CHECK(a.chunks < (int)N || a.down);
}

static void is_waited_for(void)
{
	memset(remote, 0, ALL);
	post();
	turn_a(3 * DEAD_NS);
	CHECK(!a.down);
	TCP_WAIT(&a, &b, a.chunks == N);
	CHECK(!memcmp(local, remote, ALL) && !a.down && !b.down);
}

/* When so long nobody has read. */
static void is_cut(uint64_t after)
{
	uint64_t since;

	post();
	turn_a(after);
	cut(1);
	since = clock_ns();
	CHECK(!a.down);
	turn_a(PATIENCE_NS);
	CHECK_EQ(a.down_res, -ECONNRESET);
	since = clock_ns() - since;
	printf("cut off: down after %llu ms\n", (unsigned long long)(since / NSEC_PER_MSEC));
	if (!after)
		CHECK_LE(since, 4 * DEAD_NS);
	cut(0);
	backend_tcp.unexpose(&exposure);
	tcp_close_eps(&a, &b);
}

static void run(enum urccl_tcp_driver driver)
{
	struct urccl_params p = tcp_params();

	p.tcp_driver = (uint8_t)driver;
	p.dead_after_ms = DEAD_MS;
	if (tcp_try_open(&a, &p, AF_INET)) {
		printf("not run: %s\n", urccl_errmsg());
		return;
	}
	CHECK_EQ(tcp_try_open(&b, &p, AF_INET), 0);
	meet();
	is_waited_for();
	is_cut(0);
	meet();
	is_cut(DEAD_NS);
	backend_tcp.close(a.dev);
	backend_tcp.close(b.dev);
}

int main(void)
{
	memset(local, 0x5a, ALL);
	own_net();
	run(URCCL_TCP_READINESS);
	run(URCCL_TCP_IO_URING);
	return 0;
}
