/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Picks the domains of a provider that become rails, and their order. The result depends only on
 * the list of fi_getinfo() and on the settings. The n-th rail of one side is connected to the n-th
 * of the other.
 */
#include "backend/fabric/pick.h"

#define BEHIND ",?!" /* ends a transport in the list of transports */

int fabric_wish_read(struct fabric_wish *w, const char *text)
{
	size_t len = strcspn(text, BEHIND), prov = strcspn(text, "@" BEHIND), n;
	const char *at;

	*w = (struct fabric_wish){.most = FABRIC_RAILS};
	if (!prov || prov >= sizeof(w->prov))
		return fail(-EINVAL,
			    "\"%.*s\" is not the name of a libfabric provider, of 1 to %u "
			    "characters: write fabric:NAME with one that fi_info -l lists",
			    (int)len, text, (unsigned int)sizeof(w->prov) - 1);
	memcpy(w->prov, text, prov);
	for (at = text + prov; *at == '@'; at += n + 1) {
		n = strcspn(at + 1, "@" BEHIND);
		if (!n || n >= sizeof(w->domains[0]) || w->ndomains == FABRIC_RAILS)
			return fail(-EINVAL,
				    "\"%.*s\": each @ must have the name of a domain behind it, "
				    "of 1 to %u characters, and there may be %u domains: write "
				    "fabric:NAME@DOMAIN with domains that fi_info -p NAME lists",
				    (int)len, text, (unsigned int)sizeof(w->domains[0]) - 1,
				    FABRIC_RAILS);
		memcpy(w->domains[w->ndomains++], at + 1, n);
	}
	return 0;
}

static const char *domain_of(const struct fi_info *i)
{
	return i->domain_attr->name ? i->domain_attr->name : "";
}

/* The name of the device, if the provider gives it: the domain may have another name. */
static const char *nic_of(const struct fi_info *i)
{
	if (i->nic && i->nic->device_attr && i->nic->device_attr->name)
		return i->nic->device_attr->name;
	return domain_of(i);
}

static int is_called(const struct fi_info *i, const char *name)
{
	return !strcmp(domain_of(i), name) || !strcmp(nic_of(i), name);
}

/* efa-direct leaves everything to the device; efa adds protocols of the provider. */
static int is_direct(const struct fi_info *i)
{
	return i->fabric_attr->name && !strcmp(i->fabric_attr->name, "efa-direct");
}

/* The best entry of a device: efa-direct, otherwise the provider's first. */
static const struct fi_info *best_of(const struct fi_info *list, const char *name)
{
	const struct fi_info *i, *best = NULL;

	for (i = list; i; i = i->next)
		if (is_called(i, name) && (!best || (is_direct(i) && !is_direct(best))))
			best = i;
	return best;
}

static int is_picked(const struct fabric_picked *p, const struct fi_info *i)
{
	uint32_t k;

	for (k = 0; k < p->n; k++)
		if (!strcmp(domain_of(p->rails[k]), domain_of(i)))
			return 1;
	return 0;
}

static void picked_add(struct fabric_picked *p, const struct fabric_wish *w,
		       const struct fi_info *i)
{
	if (i && p->n < w->most)
		p->rails[p->n++] = i;
}

static void picked_miss(struct fabric_picked *p, const char *name)
{
	if (p->nmissing < FABRIC_RAILS)
		p->missing[p->nmissing++] = name;
}

/* A domain named twice becomes two rails. */
static void pick_named(const struct fi_info *list, const struct fabric_wish *w,
		       struct fabric_picked *p)
{
	uint32_t k;

	for (k = 0; k < w->ndomains; k++) {
		const struct fi_info *i = best_of(list, w->domains[k]);

		if (i)
			picked_add(p, w, i);
		else
			picked_miss(p, w->domains[k]);
	}
}

/* In the order of the plan for this machine. */
static void pick_near(const struct fi_info *list, const struct fabric_wish *w,
		      struct fabric_picked *p)
{
	uint32_t k;

	for (k = 0; k < w->nnics; k++) {
		const struct fi_info *i = best_of(list, w->nics[k].name);

		if (!i && w->are_named)
			picked_miss(p, w->nics[k].name);
		else if (i && !is_picked(p, i))
			picked_add(p, w, i);
	}
}

int fabric_is_ip(const struct fi_info *i)
{
	return i->addr_format == FI_SOCKADDR || i->addr_format == FI_SOCKADDR_IN ||
	       i->addr_format == FI_SOCKADDR_IN6;
}

/* Only the first interface of a host becomes a rail: the others include loopback and bridges. */
static void pick_all(const struct fi_info *list, const struct fabric_wish *w,
		     struct fabric_picked *p)
{
	const struct fi_info *i;

	for (i = list; i; i = i->next) {
		if (is_picked(p, i))
			continue;
		picked_add(p, w, best_of(list, domain_of(i)));
		if (fabric_is_ip(list))
			return;
	}
}

int fabric_pick(const struct fi_info *list, const struct fabric_wish *w, struct fabric_picked *p)
{
	p->n = p->nmissing = 0;
	if (w->ndomains)
		pick_named(list, w, p);
	else if (w->nnics)
		pick_near(list, w, p);
	else
		pick_all(list, w, p);
	if (p->n || p->nmissing)
		return 0;
	return fail(-ENODEV,
		    "libfabric: provider %s has no domain on the NICs that the settings allow; it "
		    "has %s: name a NIC of it in rdma_dev",
		    w->prov, domain_of(list));
}

const struct fi_info *fabric_picked_at(const struct fi_info *list, const struct fabric_wish *w,
				       const struct fabric_picked *p, uint32_t number)
{
	if (number < p->n)
		return p->rails[number];
	if (number - p->n >= p->nmissing)
		fail(-ENODEV,
		     "libfabric: a domain of provider %s has disappeared since the context began to "
		     "open: open it again",
		     w->prov);
	else if (w->ndomains)
		fail(-ENODEV,
		     "libfabric: provider %s has no domain %s here with the features that this "
		     "library needs; it has %s: %s",
		     w->prov, p->missing[number - p->n], domain_of(list),
		     w->is_cxi ? "set cxi_domain to that" : "name that behind the @");
	else
		fail(-ENODEV,
		     "libfabric: provider %s has no domain on %s, which rdma_dev names; it has %s: "
		     "name a NIC of it",
		     w->prov, p->missing[number - p->n], domain_of(list));
	return NULL;
}
