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

int main(void)
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
		("[0000:0000:0000:0000:0000:0000:0000:0000%012345678901234567890123456789012345678"
		 "90123456789012345678901234567890123456789]:1"),
	};
	struct sockaddr_storage ss;
	char lo[IF_NAMESIZE];
	size_t i;

	CHECK_EQ(listen_parse("127.0.0.1:0", &ss), 0);
	CHECK_EQ(ss.ss_family, AF_INET);
	CHECK_EQ(ntohl(v4(&ss)->sin_addr.s_addr), INADDR_LOOPBACK);
	CHECK_EQ(v4(&ss)->sin_port, 0);
	CHECK_EQ(listen_parse("0.0.0.0:65535", &ss), 0);
	CHECK_EQ(v4(&ss)->sin_addr.s_addr, 0);
	CHECK_EQ(ntohs(v4(&ss)->sin_port), 65535);
	CHECK_EQ(listen_parse("[::1]:7777", &ss), 0);
	CHECK_EQ(ss.ss_family, AF_INET6);
	CHECK(IN6_IS_ADDR_LOOPBACK(&v6(&ss)->sin6_addr));
	CHECK_EQ(ntohs(v6(&ss)->sin6_port), 7777);
	CHECK_EQ(v6(&ss)->sin6_scope_id, 0);
	if (if_indextoname(1, lo)) {
		char text[64];

		snprintf(text, sizeof(text), "[fe80::1%%%s]:1", lo);
		CHECK_EQ(listen_parse(text, &ss), 0);
		CHECK_EQ(v6(&ss)->sin6_scope_id, 1);
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		if (listen_parse(bad[i], &ss) != -EINVAL)
			fprintf(stderr, "accepted: %s\n", bad[i]);
		CHECK_EQ(listen_parse(bad[i], &ss), -EINVAL);
		CHECK(strstr(urccl_errmsg(), bad[i]));
	}
	return 0;
}
