/* SPDX-License-Identifier: Apache-2.0 */
/* Under which addresses this context can be dialled. */
#include <ifaddrs.h>
#include <net/if.h>
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

static void host_of(struct metadata *m, const struct sockaddr *sa)
{
	const struct sockaddr_in6 *in6 = (const void *)sa;
	const struct sockaddr_in *in = (const void *)sa;

	if (sa->sa_family == AF_INET)
		host_add(m, 4, &in->sin_addr, 4);
	else if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		host_add(m, 4, &in6->sin6_addr.s6_addr[12], 4);
	else
		host_add(m, 6, &in6->sin6_addr, 16);
}

static int is_wildcard(const struct sockaddr_storage *ss)
{
	const struct sockaddr_in6 *in6 = (const void *)ss;
	const struct sockaddr_in *in = (const void *)ss;

	if (ss->ss_family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
	return in->sin_addr.s_addr == htonl(INADDR_ANY);
}

/* An address that means something to others: one of a link needs a name that only this host knows.
 */
static int is_useful(const struct ifaddrs *i, int family)
{
	const struct sockaddr_in6 *in6 = (const void *)i->ifa_addr;

	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP))
		return 0;
	if (i->ifa_addr->sa_family == AF_INET)
		return 1;
	return i->ifa_addr->sa_family == AF_INET6 && family == AF_INET6 &&
	       !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

/* Loopback last: from another host it leads astray, to be found out by the incarnation. */
static int hosts_of_interfaces(struct metadata *m, int family)
{
	struct ifaddrs *all, *i;
	uint32_t loopback;

	if (getifaddrs(&all))
		return -errno;
	for (loopback = 0; loopback <= IFF_LOOPBACK; loopback += IFF_LOOPBACK)
		for (i = all; i; i = i->ifa_next)
			if (is_useful(i, family) && (i->ifa_flags & IFF_LOOPBACK) == loopback)
				host_of(m, i->ifa_addr);
	freeifaddrs(all);
	return m->nhosts ? 0 : -EADDRNOTAVAIL;
}

int metadata_make(struct control *c, void *buf, uint32_t len)
{
	const struct sockaddr_storage *at = &c->listen_addr;
	struct metadata m = {.incarnation = c->config.incarnation};
	uint8_t blob[METADATA_MAX];
	int rc;

	if (at->ss_family == AF_UNSPEC)
		return fail(-EOPNOTSUPP, "the context does not listen: nobody can dial it");
	m.port = ntohs(at->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)at)->sin6_port
						 : ((const struct sockaddr_in *)at)->sin_port);
	if (is_wildcard(at)) {
		rc = hosts_of_interfaces(&m, at->ss_family);
		if (rc)
			return fail(rc, "cannot list the addresses of this host: %s",
				    strerrordesc_np(-rc));
	} else {
		host_of(&m, (const struct sockaddr *)at);
	}
	rc = (int)metadata_put(blob, &m);
	if ((uint32_t)rc > len)
		return fail(-ENOSPC, "the metadata has %d bytes, the buffer %u", rc, len);
	memcpy(buf, blob, (size_t)rc);
	return rc;
}
