/* SPDX-License-Identifier: Apache-2.0 */
/* A context listens on 16 addresses and metadata holds as many: a host that has one more is told
 * which it is, and not left to find out that nobody comes by it. In a network of the test's own. */
#include <arpa/inet.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include "params.h"
#include "ns.h"
#include "test.h"

static int fd;

static struct ifreq named(const char *name)
{
	struct ifreq r;

	memset(&r, 0, sizeof(r));
	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	return r;
}

static void up(void)
{
	struct ifreq r = named("lo");

	r.ifr_flags = IFF_UP | IFF_RUNNING;
	CHECK_EQ(ioctl(fd, SIOCSIFFLAGS, &r), 0);
}

/* 127.0.1.n, beside the one that loopback has by itself. */
static void add(uint32_t n)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(0x7f000100 + n)}};
	char name[IFNAMSIZ];
	struct ifreq r;

	snprintf(name, sizeof(name), "lo:%u", n);
	r = named(name);
	memcpy(&r.ifr_addr, &in, sizeof(in));
	CHECK_EQ(ioctl(fd, SIOCSIFADDR, &r), 0);
}

static struct urccl *opened(const char *rules)
{
	struct urccl_params p = {.size = sizeof(p)};
	struct urccl *ctx;

	urccl_params_init(&p);
	p.transport = "tcp";
	p.listen = "0.0.0.0:0";
	p.socket_ifname = rules;
	return urccl_open(&p, &ctx) ? NULL : ctx;
}

/* Of a context that listens on all, and of one that listens on each. */
static void sixteen(const char *rules)
{
	uint8_t blob[URCCL_METADATA_MAX];
	struct urccl *ctx = opened(rules);

	CHECK(ctx);
	CHECK_GE(urccl_metadata(ctx, blob, sizeof(blob)), 1);
	CHECK_EQ(blob[4], 16);
	urccl_close(ctx);
}

static void told(const char *limit)
{
	CHECK(strstr(urccl_errmsg(), limit));
	CHECK(strstr(urccl_errmsg(), "127.0.1.16"));
}

static void seventeen(void)
{
	struct sockaddr_storage at[LISTEN_MAX];
	uint8_t blob[URCCL_METADATA_MAX];
	struct urccl *ctx;

	CHECK_EQ(listen_choose(NULL, "lo", at), -E2BIG);
	told("the 16 that a context listens on");
	CHECK_EQ(listen_choose("127.0.1.3:7,127.0.1.16:7", "lo", at), 2);
	CHECK(!opened("lo"));
	told("the 16 that a context listens on");
	ctx = opened(NULL);
	CHECK(ctx);
	CHECK_EQ(urccl_metadata(ctx, blob, sizeof(blob)), -E2BIG);
	told("the 16 that metadata holds");
	urccl_close(ctx);
}

int case_addresses_many(void)
{
	uint32_t n;

	if (ns_enter(CLONE_NEWNET, 1))
		SKIP("no network namespace of the test's own");
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	up();
	for (n = 1; n < 16; n++)
		add(n);
	sixteen(NULL);
	sixteen("lo");
	add(16);
	seventeen();
	close(fd);
	return 0;
}
