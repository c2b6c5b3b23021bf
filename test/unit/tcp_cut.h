/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices of transport tcp in a network of the test's own, in which packets can be dropped, and
 * more to write than sockets hold. */
#ifndef TCP_CUT_H
#define TCP_CUT_H

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
static struct exposure exposure; /* of b's memory */
static struct rkey rkey;

#define CHAIN	  "nft 'add table inet cut; add chain inet cut in { type filter hook input priority 0; "
#define ALL_OF_IT CHAIN "policy drop; }'"
#define LARGE	  CHAIN "}; add rule inet cut in meta length > 500 drop'"

static inline void cut(const char *what)
{
	CHECK_EQ(system(what), 0);
}

/* a is polled, and not all the time: nothing that it waits for comes soon. */
static inline void turn_seldom(void)
{
	tcp_turn(&a);
	usleep(200);
}

static inline void mend(void)
{
	CHECK_EQ(system("nft delete table inet cut"), 0);
}

/* A network of its own, in which packets can be dropped. */
static inline void own_net(void)
{
	setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1);
	if (ns_enter(CLONE_NEWNET, 1) && (getuid() || unshare(CLONE_NEWNET)))
		SKIP("user and network namespaces are denied here");
	if (system("ip link set lo up && nft add table inet probe && nft delete table inet probe"))
		SKIP("ip or nft is not installed, or may not be used in a namespace here");
}

/* The owner's bytes, to the other. */
static inline void give(struct exposure *x, struct tcp_node *owner, struct tcp_node *importer,
			void *bytes, uint32_t rights, struct rkey *to)
{
	static union {
		struct memory memory;
		uint8_t space[sizeof(struct memory) + sizeof(struct span)];
	} all[2];
	struct memory *m = &all[owner == &a].memory;
	uint8_t key[KEY_MAX];
	int n;

	m->len = ALL;
	m->nspans = 1;
	m->spans[0] = (struct span){.len = ALL, .addr = (uintptr_t)bytes, .fd = -1};
	*x = (struct exposure){
		.memory = m, .len = ALL, .expires_ns = NEVER_NS, .ep = owner->ep, .rights = rights};
	n = backend_tcp.expose(x, key, sizeof(key));
	CHECK_GE(n, 1);
	CHECK_EQ(backend_tcp.import(importer->ep, key, (uint32_t)n, ALL, to), 0);
}

static inline void meet(void)
{
	tcp_up(&a, &b, AF_INET);
	give(&exposure, &b, &a, remote, URCCL_RIGHT_WRITE, &rkey);
}

static inline void post(void)
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

/* By either driver, where there are both. */
static inline void by_each(void (*run)(void))
{
	enum urccl_tcp_driver drivers[] = {URCCL_TCP_READINESS, URCCL_TCP_IO_URING};
	struct urccl_params p = tcp_params();
	uint32_t i;

	own_net();
	memset(local, 0x5a, ALL);
	p.dead_after_ms = DEAD_MS;
	for (i = 0; i < 2; i++) {
		p.tcp_driver = (uint8_t)drivers[i];
		if (tcp_try_open(&a, &p, AF_INET)) {
			printf("not run: %s\n", urccl_errmsg());
			continue;
		}
		CHECK_EQ(tcp_try_open(&b, &p, AF_INET), 0);
		run();
		backend_tcp.close(a.dev);
		backend_tcp.close(b.dev);
	}
}

#endif
