/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses under which peers can dial this context. */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "control/private.h"

static int too_many(int family, const void *addr)
{
	char text[INET6_ADDRSTRLEN];

	return fail(-E2BIG,
		    "this host has more addresses than the %u that metadata holds, and %s is one "
		    "too many: name those to be dialled in listen, or their interfaces in "
		    "socket_ifname",
		    METADATA_HOSTS, inet_ntop(family, addr, text, sizeof(text)));
}

static int host_add(struct metadata *m, int family, const void *addr)
{
	struct metadata_host *h = &m->hosts[m->nhosts];

	if (m->nhosts == METADATA_HOSTS)
		return too_many(family, addr);
	m->nhosts++;
	memset(h, 0, sizeof(*h));
	h->family = family == AF_INET ? 4 : 6;
	memcpy(h->addr, addr, family == AF_INET ? 4 : 16);
	return 0;
}

static int host_of(struct metadata *m, const struct sockaddr_storage *ss)
{
	struct sockaddr_storage at = *ss;
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	addr_unmap(&at);
	memcpy(&in6, &at, sizeof(in6));
	memcpy(&in, &at, sizeof(in));
	if (at.ss_family == AF_INET)
		return host_add(m, AF_INET, &in.sin_addr);
	return host_add(m, AF_INET6, &in6.sin6_addr);
}

static int host_fits(const struct netif *n, int family, int loopback)
{
	return n->loopback == loopback && (family == AF_INET6 || n->addr.ss_family == AF_INET);
}

/* Expands a wildcard into the addresses of all interfaces. Loopback comes last: from another host
 * it leads to the wrong context, which the incarnation detects. */
static int hosts_of_interfaces(struct metadata *m, int family)
{
	struct netif all[NETIFS_MAX];
	int i, n = netifs(all, NETIFS_MAX, NULL), loopback, err = 0;

	if (n < 0)
		return fail(n, "cannot list the addresses of this host: %s", errno_text(-n));
	for (loopback = 0; loopback <= 1; loopback++)
		for (i = 0; i < n && !err; i++)
			if (host_fits(&all[i], family, loopback))
				err = host_of(m, &all[i].addr);
	if (!m->nhosts)
		err = fail(-EADDRNOTAVAIL, "no interface of this host is up and has an address");
	return err;
}

static int hosts_of_listener(struct metadata *m, const struct listener *l)
{
	if (addr_wildcard(&l->addr))
		return hosts_of_interfaces(m, l->addr.ss_family);
	return host_of(m, &l->addr);
}

int metadata_make(struct control *c, void *buf, uint32_t len)
{
	struct metadata m = {.incarnation = c->config.incarnation};
	uint8_t blob[METADATA_MAX];
	uint32_t i;
	int rc = 0;

	if (!c->nlisteners)
		return fail(-EOPNOTSUPP, "the context does not listen: nobody can dial it");
	m.port = addr_port(&c->listeners[0].addr);
	for (i = 0; i < c->nlisteners && !rc; i++)
		rc = hosts_of_listener(&m, &c->listeners[i]);
	if (rc)
		return rc;
	rc = (int)metadata_put(blob, &m);
	if ((uint32_t)rc > len)
		return fail(-ENOSPC, "the metadata has %d bytes, the buffer %u", rc, len);
	memcpy(buf, blob, (size_t)rc);
	return rc;
}
