/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses to listen on: numeric only, so that no name is resolved. */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#include "params.h"

#define HOST_MAX 96u /* an IPv6 address and an interface's name */

/* The text of a setting's check follows its name and value. */
static int listen_refuse(void)
{
	return fail(-EINVAL, "an address and a port are wanted, such as \"127.0.0.1:0\" or "
			     "\"[::1]:7777\", several with commas, or \"\" for none");
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

/* One address of the list, len bytes. */
static int parse_one(const char *text, size_t len, struct sockaddr_storage *ss)
{
	int is_v6 = text[0] == '[';
	char copy[HOST_MAX + 16], *host = copy + is_v6, *colon;

	memset(ss, 0, sizeof(*ss));
	if (len >= sizeof(copy))
		return -EINVAL;
	memcpy(copy, text, len);
	copy[len] = 0;
	colon = strrchr(copy, ':');
	if (!colon || colon <= host + is_v6 || (is_v6 && colon[-1] != ']'))
		return -EINVAL;
	colon[-is_v6] = 0;
	colon[0] = 0;
	return is_v6 ? parse_v6(host, colon + 1, ss) : parse_v4(host, colon + 1, ss);
}

static in_port_t port_of(const struct sockaddr_storage *ss)
{
	struct sockaddr_in in;

	_Static_assert(offsetof(struct sockaddr_in, sin_port) ==
			       offsetof(struct sockaddr_in6, sin6_port),
		       "ports of both families are at one place");
	memcpy(&in, ss, sizeof(in));
	return in.sin_port;
}

static void port_set(struct sockaddr_storage *ss, in_port_t port)
{
	memcpy((char *)ss + offsetof(struct sockaddr_in, sin_port), &port, sizeof(port));
}

static int listed(const struct sockaddr_storage *list, int n, const struct sockaddr_storage *ss)
{
	while (n--)
		if (addr_same(&list[n], ss))
			return 1;
	return 0;
}

int listen_parse(const char *text, struct sockaddr_storage out[LISTEN_MAX])
{
	const char *word = text;
	int n = 0;

	for (;;) {
		size_t len = strcspn(word, ",");

		if (n == (int)LISTEN_MAX)
			return fail(-EINVAL, "these are more than %u addresses", LISTEN_MAX);
		if (parse_one(word, len, &out[n]))
			return listen_refuse();
		if (port_of(&out[n]) != port_of(&out[0]))
			return fail(-EINVAL, "all addresses have one port");
		if (listed(out, n, &out[n]))
			return fail(-EINVAL, "%.*s is there twice", (int)len, word);
		n++;
		if (!word[len])
			return n;
		word += len + 1;
	}
}

/* ---- addresses of interfaces ---- */

static int none_of(const char *rules)
{
	struct netif all[NETIFS_MAX];
	char names[256] = "none";
	int i, n = netifs(all, NETIFS_MAX, NULL);
	size_t at = 0;

	for (i = 0; i < n && at < sizeof(names); i++)
		if (!i || strcmp(all[i].name, all[i - 1].name))
			at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s",
					       at ? ", " : "", all[i].name);
	return fail(-EADDRNOTAVAIL,
		    "socket_ifname \"%s\" names no interface that is up and has an "
		    "address: those are %s",
		    rules, names);
}

static int too_many(const struct netif *netif)
{
	const struct sockaddr_storage *ss = &netif->addr;
	const void *at = ss->ss_family == AF_INET
				 ? (const void *)&((const struct sockaddr_in *)ss)->sin_addr
				 : (const void *)&((const struct sockaddr_in6 *)ss)->sin6_addr;
	char text[INET6_ADDRSTRLEN];

	return fail(-E2BIG,
		    "socket_ifname allows more addresses than the %u that a context listens on; "
		    "%s of %s is one too many: name fewer interfaces, or in listen the addresses",
		    LISTEN_MAX, inet_ntop(ss->ss_family, at, text, sizeof(text)), netif->name);
}

static int listen_add(struct sockaddr_storage *out, int n, const struct netif *netif,
		      in_port_t port)
{
	if (listed(out, n, &netif->addr))
		return n;
	if (n == (int)LISTEN_MAX)
		return too_many(netif);
	out[n] = netif->addr;
	port_set(&out[n], port);
	return n + 1;
}

/* Adds the interfaces' addresses that equal `wanted` (NULL: any) or match its wildcard. */
static int add_allowed(struct sockaddr_storage *out, int n, const struct sockaddr_storage *wanted,
		       const struct netif *all, int nall)
{
	int i, any = !wanted || addr_wildcard(wanted);

	for (i = 0; i < nall && n >= 0; i++) {
		int fits = any ? !wanted || wanted->ss_family == AF_INET6 ||
					   all[i].addr.ss_family == AF_INET
			       : addr_same(wanted, &all[i].addr);

		if (fits)
			n = listen_add(out, n, &all[i], wanted ? port_of(wanted) : 0);
	}
	return n;
}

int listen_choose(const char *text, const char *rules, struct sockaddr_storage out[LISTEN_MAX])
{
	struct sockaddr_storage wanted[LISTEN_MAX];
	struct netif all[NETIFS_MAX];
	int i, n = 0, had, nwant = text ? listen_parse(text, wanted) : 0;
	int nall = netifs(all, NETIFS_MAX, rules);

	if (nwant < 0)
		return nwant;
	if (nall <= 0)
		return none_of(rules);
	if (!text)
		return add_allowed(out, 0, NULL, all, nall);
	for (i = 0; i < nwant; i++) {
		had = n;
		n = add_allowed(out, n, &wanted[i], all, nall);
		if (n < 0)
			return n;
		if (n == had)
			return fail(-EADDRNOTAVAIL,
				    "listen is \"%s\": its address %d is on none of "
				    "the interfaces that socket_ifname \"%s\" names",
				    text, i + 1, rules);
	}
	return n;
}
