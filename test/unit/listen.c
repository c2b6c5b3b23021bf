/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses to listen on: numbers of both families, and nothing that would need a name looked up.
 */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

#include "params.h"
#include "test.h"

static const struct sockaddr_in *v4(const struct sockaddr_storage *ss)
{
	return (const struct sockaddr_in *)ss;
}

static const struct sockaddr_in6 *v6(const struct sockaddr_storage *ss)
{
	return (const struct sockaddr_in6 *)ss;
}

static int one(const char *text, struct sockaddr_storage *ss)
{
	struct sockaddr_storage all[LISTEN_MAX];
	int n = listen_parse(text, all);

	*ss = all[0];
	return n;
}

int case_listen(void)
{
	static const char *const bad[] = {
		"127.0.0.1",
		"127.0.0.1:",
		"127.0.0.1:65536",
		"127.0.0.1:99999999999999999999",
		"127.0.0.1:7 ",
		"127.0.0.1:-1",
		" 127.0.0.1:1",
		"127.0.0.256:1",
		"127.1:1",
		":7777",
		":",
		"[",
		"]",
		"[]:1",
		"[::1]",
		"[::1]7",
		"[::1:7",
		"::1:7",
		"::1]:7",
		"[127.0.0.1]:7",
		"[fe80::1%]:1",
		"[::1%nosuchinterface0]:1",
		"example.org:80",
		"7777",
		"127.0.0.1:1,",
		",127.0.0.1:1",
		"127.0.0.1:1,127.0.0.2:2",
		"127.0.0.1:1,[::1]:1,127.0.0.1:1",
		("[0000:0000:0000:0000:0000:0000:0000:0000%012345678901234567890123456789012345678"
		 "90123456789012345678901234567890123456789]:1"),
	};
	struct sockaddr_storage ss, many[LISTEN_MAX];
	char lo[IF_NAMESIZE];
	size_t i;

	CHECK_EQ(one("127.0.0.1:0", &ss), 1);
	CHECK_EQ(ss.ss_family, AF_INET);
	CHECK_EQ(ntohl(v4(&ss)->sin_addr.s_addr), INADDR_LOOPBACK);
	CHECK_EQ(v4(&ss)->sin_port, 0);
	CHECK_EQ(one("0.0.0.0:65535", &ss), 1);
	CHECK_EQ(v4(&ss)->sin_addr.s_addr, 0);
	CHECK_EQ(ntohs(v4(&ss)->sin_port), 65535);
	CHECK_EQ(one("[::1]:7777", &ss), 1);
	CHECK_EQ(ss.ss_family, AF_INET6);
	CHECK(IN6_IS_ADDR_LOOPBACK(&v6(&ss)->sin6_addr));
	CHECK_EQ(ntohs(v6(&ss)->sin6_port), 7777);
	CHECK_EQ(v6(&ss)->sin6_scope_id, 0);
	if (if_indextoname(1, lo)) {
		char text[64];

		snprintf(text, sizeof(text), "[fe80::1%%%s]:1", lo);
		CHECK_EQ(one(text, &ss), 1);
		CHECK_EQ(v6(&ss)->sin6_scope_id, 1);
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		if (listen_parse(bad[i], many) != -EINVAL)
			fprintf(stderr, "accepted: %s\n", bad[i]);
		CHECK_EQ(listen_parse(bad[i], many), -EINVAL);
		CHECK(*urccl_errmsg());
	}
	CHECK_EQ(listen_parse("127.0.0.1:7,[::1]:7,127.0.0.2:7", many), 3);
	CHECK_EQ(many[1].ss_family, AF_INET6);
	CHECK_EQ(ntohl(v4(&many[2])->sin_addr.s_addr), INADDR_LOOPBACK + 1);
	CHECK_EQ(ntohs(v4(&many[2])->sin_port), 7);
	CHECK(netif_matches("eth,ib", "ib0") && !netif_matches("eth,ib", "lo"));
	CHECK(netif_matches("=eth0", "eth0") && !netif_matches("=eth0", "eth01"));
	CHECK(netif_matches("^docker,lo", "eth0") && !netif_matches("^docker,lo", "docker0"));
	CHECK(netif_matches("^=lo", "lo1") && !netif_matches("^=lo", "lo"));
	CHECK(!netif_rules_check("^=eth0,ib1") && netif_rules_check("") && netif_rules_check("^"));
	CHECK(netif_rules_check("a,,b") && netif_rules_check("a b") && netif_rules_check("=,a"));
	CHECK_EQ(listen_choose(NULL, "nosuchinterface", many), -EADDRNOTAVAIL);
	CHECK(strstr(urccl_errmsg(), "nosuchinterface") && strstr(urccl_errmsg(), "lo"));
	CHECK_EQ(listen_choose("127.0.0.1:9", "=lo", many), 1);
	CHECK_EQ(ntohs(v4(&many[0])->sin_port), 9);
	CHECK_EQ(listen_choose("10.255.255.1:9", "=lo", many), -EADDRNOTAVAIL);
	CHECK(strstr(urccl_errmsg(), "10.255.255.1"));
	CHECK_EQ(listen_choose("0.0.0.0:9", "=lo", many), 1);
	CHECK_EQ(ntohl(v4(&many[0])->sin_addr.s_addr), INADDR_LOOPBACK);
	return 0;
}
