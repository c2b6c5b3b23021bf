/* SPDX-License-Identifier: Apache-2.0 */
/* The network interfaces of this host, their addresses, and the interfaces that a setting means. */
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>

#include "base/base.h"

_Static_assert(sizeof(((struct netif *)0)->name) == IFNAMSIZ, "any name fits");

int netif_rules_check(const char *rules)
{
	const char *word = rules;

	word += *word == '^';
	word += *word == '=';
	for (;;) {
		size_t len = strcspn(word, ",");

		if (!len || len >= IFNAMSIZ || strcspn(word, " \t/^=") < len)
			return -EINVAL;
		if (!word[len])
			return 0;
		word += len + 1;
	}
}

int netif_matches(const char *rules, const char *name)
{
	int others = *rules == '^', exact, hit = 0;
	const char *word = rules + others;
	size_t len;

	exact = *word == '=';
	for (word += exact; !hit; word += len + 1) {
		len = strcspn(word, ",");
		hit = !strncmp(word, name, len) && (!exact || !name[len]);
		if (!word[len])
			break;
	}
	return hit != others;
}

static uint32_t bits(const uint8_t *mask, uint32_t bytes)
{
	uint32_t i, n = 0;

	for (i = 0; i < bytes; i++)
		n += (uint32_t)__builtin_popcount(mask[i]);
	return n;
}

/* Returns 1 and fills *n, or 0 if other hosts cannot use the address. They cannot use a link-local
 * address of IPv6: it needs the name of an interface that only this host knows. */
static int netif_fill(struct netif *n, const struct ifaddrs *i)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	if (!i->ifa_addr || !i->ifa_netmask || !(i->ifa_flags & IFF_UP))
		return 0;
	memset(n, 0, sizeof(*n));
	snprintf(n->name, sizeof(n->name), "%s", i->ifa_name);
	n->loopback = !!(i->ifa_flags & IFF_LOOPBACK);
	if (i->ifa_addr->sa_family == AF_INET) {
		memcpy(&n->addr, i->ifa_addr, sizeof(in));
		memcpy(&in, i->ifa_netmask, sizeof(in));
		n->prefix = bits((const uint8_t *)&in.sin_addr, 4);
		return 1;
	}
	if (i->ifa_addr->sa_family != AF_INET6)
		return 0;
	memcpy(&in6, i->ifa_addr, sizeof(in6));
	if (IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr))
		return 0;
	memcpy(&n->addr, &in6, sizeof(in6));
	memcpy(&in6, i->ifa_netmask, sizeof(in6));
	n->prefix = bits((const uint8_t *)&in6.sin6_addr, 16);
	return 1;
}

int netifs(struct netif *out, uint32_t max, const char *rules)
{
	struct ifaddrs *all, *i;
	uint32_t n = 0;

	if (getifaddrs(&all))
		return -errno;
	for (i = all; i && n < max; i = i->ifa_next)
		if ((!rules || netif_matches(rules, i->ifa_name)) && netif_fill(&out[n], i))
			n++;
	freeifaddrs(all);
	return (int)n;
}

int netif_scopes(uint32_t *out, uint32_t max, const char *rules)
{
	struct sockaddr_storage ss = {0};
	struct ifaddrs *all, *i;
	uint32_t n = 0;

	if (getifaddrs(&all))
		return -errno;
	for (i = all; i && n < max; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET6 ||
		    (i->ifa_flags & (IFF_UP | IFF_LOOPBACK)) != IFF_UP ||
		    (rules && !netif_matches(rules, i->ifa_name)))
			continue;
		memcpy(&ss, i->ifa_addr, sizeof(struct sockaddr_in6));
		if (addr_link_local(&ss))
			out[n++] = addr_scope(&ss);
	}
	freeifaddrs(all);
	return (int)n;
}

/* Copies the bytes of the address and returns their number. */
static uint32_t addr_bytes(const struct sockaddr_storage *ss, uint8_t bytes[16])
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	memcpy(&in6, ss, sizeof(in6));
	memcpy(&in, ss, sizeof(in));
	if (ss->ss_family == AF_INET6)
		memcpy(bytes, &in6.sin6_addr, 16);
	else
		memcpy(bytes, &in.sin_addr, 4);
	return ss->ss_family == AF_INET6 ? 16 : 4;
}

int addr_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	uint8_t x[16], y[16];
	uint32_t len;

	if (a->ss_family != b->ss_family)
		return 0;
	if (addr_scope(a) && addr_scope(b) && addr_scope(a) != addr_scope(b))
		return 0;
	len = addr_bytes(a, x);
	addr_bytes(b, y);
	return !memcmp(x, y, len);
}

int addr_loopback(const struct sockaddr_storage *ss)
{
	static const uint8_t one[16] = {[15] = 1};
	uint8_t x[16];

	if (addr_bytes(ss, x) == 4)
		return x[0] == 127;
	return !memcmp(x, one, 16);
}

int addr_wildcard(const struct sockaddr_storage *ss)
{
	static const uint8_t none[16];
	uint8_t x[16];
	uint32_t len = addr_bytes(ss, x);

	return !memcmp(x, none, len);
}

int addr_link_local(const struct sockaddr_storage *ss)
{
	const struct sockaddr_in6 *in6 = (const void *)ss;

	return ss->ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

uint32_t addr_scope(const struct sockaddr_storage *ss)
{
	const struct sockaddr_in6 *in6 = (const void *)ss;

	return addr_link_local(ss) ? in6->sin6_scope_id : 0;
}

void addr_scope_set(struct sockaddr_storage *ss, uint32_t scope)
{
	struct sockaddr_in6 *in6 = (void *)ss;

	in6->sin6_scope_id = scope;
}

void addr_unmap(struct sockaddr_storage *ss)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6;

	memcpy(&in6, ss, sizeof(in6));
	if (ss->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr))
		return;
	in.sin_port = in6.sin6_port;
	memcpy(&in.sin_addr, &in6.sin6_addr.s6_addr[12], 4);
	memset(ss, 0, sizeof(*ss));
	memcpy(ss, &in, sizeof(in));
}

int netif_near(const struct netif *n, const struct sockaddr_storage *to)
{
	uint8_t x[16], y[16];
	uint32_t whole = n->prefix / 8, rest = n->prefix % 8;

	if (n->addr.ss_family != to->ss_family)
		return 0;
	addr_bytes(&n->addr, x);
	addr_bytes(to, y);
	return !memcmp(x, y, whole) && (!rest || !((x[whole] ^ y[whole]) >> (8 - rest)));
}

int netif_source(const char *rules, const struct sockaddr_storage *to,
		 struct sockaddr_storage *from)
{
	struct netif all[NETIFS_MAX], *best = NULL;
	int i, n;

	memset(from, 0, sizeof(*from));
	if (!rules || addr_loopback(to) || addr_link_local(to))
		return 0;
	n = netifs(all, NETIFS_MAX, rules);
	for (i = 0; i < n; i++) {
		if (all[i].addr.ss_family != to->ss_family)
			continue;
		if (!best || (!netif_near(best, to) && netif_near(&all[i], to)))
			best = &all[i];
	}
	if (!best)
		return n < 0 ? n : -EADDRNOTAVAIL;
	*from = best->addr;
	return 0;
}
