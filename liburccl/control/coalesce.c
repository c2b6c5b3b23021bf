/* SPDX-License-Identifier: Apache-2.0 */
/* Coalesced dials: dials to one address under different names. One dial connects there; the others
 * wait for its result. */
#include "control/dial.h"

struct host *dial_host_at(struct dial *d, const struct sockaddr_storage *addr)
{
	uint32_t i;

	for (i = 0; i < d->nhosts; i++)
		if (addr_port_same(&d->hosts[i].addr, addr))
			return &d->hosts[i];
	return NULL;
}

int dials_coalesce(const struct control *c, const struct dial *d,
		   const struct sockaddr_storage *addr)
{
	struct dial *o;

	list_for_each_entry(o, &c->dials, link) {
		const struct host *h = o != d ? dial_host_at(o, addr) : NULL;

		if (h && h->conn && (!o->expected || !d->expected || o->expected == d->expected))
			return 1;
	}
	return 0;
}

struct peer *dials_found(const struct control *c, const struct dial *d,
			 const struct sockaddr_storage *addr)
{
	const struct list *pos;

	list_for_each(pos, &c->dials) {
		struct peer *p = list_entry(pos, struct dial, link)->peer;

		if (p && addr_port_same(&p->at, addr) &&
		    (!d->expected || d->expected == p->incarnation))
			return p;
	}
	return NULL;
}

static struct dial *dial_coalesced(const struct control *c, const struct sockaddr_storage *addr)
{
	struct dial *d;

	list_for_each_entry(d, &c->dials, link) {
		struct host *h = dial_host_at(d, addr);

		if (h && h->state == HOST_COALESCED)
			return d;
	}
	return NULL;
}

/* The waiting dials continue from their own timers, since the caller may be in the middle of an
 * operation. */
void dials_release(struct control *c, const struct sockaddr_storage *addr)
{
	struct dial *d;

	while ((d = dial_coalesced(c, addr))) {
		dial_host_at(d, addr)->state = HOST_FRESH;
		timer_set(c, &d->timer, 0);
	}
}

void dials_share(struct control *c, const struct sockaddr_storage *addr, struct peer *p)
{
	struct dial *d;

	while ((d = dial_coalesced(c, addr))) {
		dial_host_at(d, addr)->state = HOST_FRESH;
		if (!d->expected || d->expected == p->incarnation)
			dial_attach(c, d, p);
		else
			timer_set(c, &d->timer, 0);
	}
}
