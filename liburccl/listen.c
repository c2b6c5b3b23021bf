/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses to listen on: numbers only, so that nobody is asked for a name. */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "params.h"

#define HOST_MAX 96u /* an IPv6 address and an interface's name */

static int refuse(const char *text)
{
	return fail(-EINVAL,
		    "listen is \"%s\": an address and a port are wanted, such as \"127.0.0.1:0\" "
		    "or \"[::1]:7777\", or \"\" for none",
		    text);
}

static int parse_port(const char *s, in_port_t *port)
{
	uint32_t n = 0;
	const char *c;

	for (c = s; *c >= '0' && *c <= '9' && n <= UINT16_MAX; c++)
		n = n * 10 + (uint32_t)(*c - '0');
	if (c == s || *c || n > UINT16_MAX)
		return -EINVAL;
	*port = htons((uint16_t)n);
	return 0;
}

static int parse_v4(char *host, const char *port, struct sockaddr_storage *ss)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ss;

	in->sin_family = AF_INET;
	if (inet_pton(AF_INET, host, &in->sin_addr) != 1)
		return -EINVAL;
	return parse_port(port, &in->sin_port);
}

/* A link-local address names its interface: fe80::1%eth0. */
static int parse_v6(char *host, const char *port, struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;
	char *scope = strchr(host, '%');

	in6->sin6_family = AF_INET6;
	if (scope) {
		*scope++ = 0;
		in6->sin6_scope_id = if_nametoindex(scope);
		if (!in6->sin6_scope_id)
			return -EINVAL;
	}
	if (inet_pton(AF_INET6, host, &in6->sin6_addr) != 1)
		return -EINVAL;
	return parse_port(port, &in6->sin6_port);
}

int listen_parse(const char *text, struct sockaddr_storage *ss)
{
	int is_v6 = text[0] == '[', err;
	const char *host = text + is_v6, *colon = strrchr(text, ':');
	char copy[HOST_MAX];
	size_t len;

	memset(ss, 0, sizeof(*ss));
	if (!colon || colon < host + is_v6 || (is_v6 && colon[-1] != ']'))
		return refuse(text);
	len = (size_t)(colon - is_v6 - host);
	if (!len || len >= sizeof(copy))
		return refuse(text);
	memcpy(copy, host, len);
	copy[len] = 0;
	err = is_v6 ? parse_v6(copy, colon + 1, ss) : parse_v4(copy, colon + 1, ss);
	return err ? refuse(text) : 0;
}
