/* SPDX-License-Identifier: Apache-2.0 */
/* Under which addresses this context can be dialled. */
#include <netinet/in.h>

#include "control/private.h"

static void host_add(struct metadata *m, uint32_t family, const void *addr, uint32_t len)
{
	struct metadata_host *h;

	if (m->nhosts == METADATA_HOSTS)
		return;
	h = &m->hosts[m->nhosts++];
	memset(h, 0, sizeof(*h));
	h->family = family;
	memcpy(h->addr, addr, len);
}

static void host_of(struct metadata *m, const struct sockaddr_storage *ss)
{
	struct sockaddr_storage at = *ss;
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	addr_unmap(&at);
	memcpy(&in6, &at, sizeof(in6));
	memcpy(&in, &at, sizeof(in));
	if (at.ss_family == AF_INET)
		host_add(m, 4, &in.sin_addr, 4);
	else
		host_add(m, 6, &in6.sin6_addr, 16);
}

/* What a wildcard stands for. Loopback last: from another host it leads astray, to be found out by
 * the incarnation. */
static int hosts_of_interfaces(struct metadata *m, int family)
{
	struct netif all[NETIFS_MAX];
	int i, n = netifs(all, NETIFS_MAX, NULL), loopback;

	if (n < 0)
		return n;
	for (loopback = 0; loopback <= 1; loopback++)
		for (i = 0; i < n; i++)
			if (all[i].loopback == loopback &&
			    (family == AF_INET6 || all[i].addr.ss_family == AF_INET))
				host_of(m, &all[i].addr);
	return m->nhosts ? 0 : -EADDRNOTAVAIL;
}

static int hosts_of_listener(struct metadata *m, const struct listener *l)
{
	if (addr_wildcard(&l->addr))
		return hosts_of_interfaces(m, l->addr.ss_family);
	host_of(m, &l->addr);
	return 0;
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
		return fail(rc, "cannot list the addresses of this host: %s", strerrordesc_np(-rc));
	rc = (int)metadata_put(blob, &m);
	if ((uint32_t)rc > len)
		return fail(-ENOSPC, "the metadata has %d bytes, the buffer %u", rc, len);
	memcpy(buf, blob, (size_t)rc);
	return rc;
}
