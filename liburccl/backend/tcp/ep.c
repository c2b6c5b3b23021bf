/* SPDX-License-Identifier: Apache-2.0 */
/* An ep from open to close. Its address: least and greatest version u8, bulk links u8, 0 u8, 0 u16,
 * windows of WRITEs and READs u16 each, cookie [16]; little-endian. */
#include <endian.h>
#include <stdlib.h>
#include "backend/tcp/tcp.h"

struct ep_addr {
	uint8_t versions[EP_VERSIONS];
	uint8_t nbulk;
	uint8_t reserved[3];
	uint16_t writes, reads;
	uint8_t cookie[TCP_COOKIE];
};

_Static_assert(sizeof(struct ep_addr) == TCP_ADDR && TCP_ADDR <= EP_ADDR_MAX, "it fits");

static void link_init(struct tcp_ep *e, uint32_t index)
{
	struct tcp_device *d = tcp_ep_device(e);
	struct tcp_link *l = &e->links[index];

	memset(l, 0, offsetof(struct tcp_link, stream));
	l->source.kind = TCP_LINK;
	l->source.fd = -1;
	l->index = index;
	l->ep = e;
	list_init(&l->sending);
	list_init(&l->unacked);
	stream_init(&l->stream, &e->ep, &d->grants, &d->cq);
}

int tcp_ep_open(struct device *dev, struct ep **ep, void *addr, uint32_t *len)
{
	struct tcp_device *d = tcp_device(dev);
	uint32_t i, nmax = 1 + d->nbulk;
	struct ep_addr a = {
		.versions = {STREAM_VERSION, STREAM_VERSION},
		.nbulk = (uint8_t)d->nbulk,
		.writes = htole16(STREAM_WRITES),
		.reads = htole16(STREAM_READS),
	};
	struct tcp_ep *e;
	int rc;

	rc = random_bytes(a.cookie, sizeof(a.cookie));
	if (rc)
		return fail(rc, "no random bytes for a connection's cookie: %s", errno_text(-rc));
	e = malloc(sizeof(*e) + nmax * sizeof(e->links[0]));
	if (!e)
		return fail(-ENOMEM, "no memory for a tcp connection's state");
	memset(e, 0, sizeof(*e));
	e->ep.dev = dev;
	e->state = EP_NEW;
	e->nmax = nmax;
	memcpy(e->cookie, a.cookie, sizeof(e->cookie));
	list_init(&e->waiting);
	list_init(&e->reporting);
	for (i = 0; i < nmax; i++)
		link_init(e, i);
	memcpy(addr, &a, sizeof(a));
	*len = sizeof(a);
	*ep = &e->ep;
	return 0;
}

void tcp_ep_free(struct ep *ep)
{
	free(tcp_ep(ep));
}

/* ---- events ---- */

static void ep_report(struct tcp_ep *e, enum tcp_news news)
{
	e->news |= news;
	if (list_empty(&e->reporting))
		list_add_tail(&e->reporting, &tcp_ep_device(e)->reporting);
}

static void ep_event(struct event *event, struct tcp_ep *e, uint32_t type, int res)
{
	event->type = type;
	event->res = res;
	event->ep = &e->ep;
	event->data = NULL;
	event->len = 0;
}

uint32_t tcp_report(struct tcp_device *d, struct event *events, uint32_t n, int ends)
{
	uint32_t out = 0, news;
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &d->reporting) {
		struct tcp_ep *e = list_entry(pos, struct tcp_ep, reporting);

		news = ends ? e->news : e->news & NEWS_UP;
		if (out == n || !news)
			continue;
		if (news & NEWS_UP) {
			e->news &= ~(uint32_t)NEWS_UP;
			ep_event(&events[out++], e, EVENT_UP, 0);
		} else if (news & NEWS_DOWN) {
			e->news &= ~(uint32_t)NEWS_DOWN;
			ep_event(&events[out++], e, EVENT_DOWN, e->res);
		} else {
			e->news = 0;
			e->state = EP_CLOSED;
			ep_event(&events[out++], e, EVENT_CLOSED, 0);
		}
		if (!e->news)
			list_del(&e->reporting);
	}
	return out;
}

/* ---- connect ---- */

/* 0, or -EINVAL, -EPROTO, -EPROTONOSUPPORT: not an address of ours. */
static int parse_addr(struct ep_addr *a, const void *addr, uint32_t len)
{
	static const uint8_t none[sizeof(a->reserved)];
	int err = ep_version_check(STREAM_VERSION, addr, len);

	if (err)
		return err;
	if (len < sizeof(*a))
		return -EINVAL;
	memcpy(a, addr, sizeof(*a));
	/* A newer version may append fields that this one does not know. */
	if (a->versions[1] <= STREAM_VERSION &&
	    (len != sizeof(*a) || memcmp(a->reserved, none, sizeof(none))))
		return -EINVAL;
	a->writes = le16toh(a->writes);
	a->reads = le16toh(a->reads);
	if (!a->nbulk || a->nbulk >= TCP_LINKS_MAX || !a->writes || !a->reads)
		return -EINVAL;
	return 0;
}

static void set_windows(struct tcp_ep *e, const struct ep_addr *a)
{
	uint32_t i;

	for (i = 0; i < e->nlinks; i++) {
		struct stream *s = &e->links[i].stream;

		if (a->writes < s->write_window)
			s->write_window = a->writes;
		if (a->reads < s->read_window)
			s->read_window = a->reads;
	}
}

static void ep_dial(struct tcp_ep *e, const struct sockaddr_storage *via)
{
	uint32_t i;
	int rc = 0;

	for (i = 0; i < e->nlinks && !rc; i++)
		rc = tcp_dial(&e->links[i], via);
	if (rc)
		tcp_ep_down(e, rc);
}

int tcp_ep_connect(struct ep *ep, const void *addr, uint32_t addr_len, int active,
		   const struct sockaddr_storage *via)
{
	struct tcp_ep *e = tcp_ep(ep);
	struct tcp_device *d = tcp_device(ep->dev);
	struct ep_addr a;
	int rc = parse_addr(&a, addr, addr_len);

	if (rc)
		return rc;
	e->nlinks = 1 + (a.nbulk < d->nbulk ? a.nbulk : d->nbulk);
	memcpy(e->peer, a.cookie, sizeof(e->peer));
	set_windows(e, &a);
	e->active = active;
	e->state = EP_CONNECTING;
	e->deadline_ns = clock_ns() + d->dead_after_ms * NSEC_PER_MSEC;
	list_add_tail(&e->waiting, &d->waiting);
	tcp_tick(d, TCP_TICK_MS);
	if (active)
		ep_dial(e, via);
	else
		tcp_claim(e);
	return 0;
}

static int start_links(struct tcp_ep *e)
{
	struct tcp_device *d = tcp_ep_device(e);
	uint32_t i;
	int rc;

	for (i = 0; i < e->nlinks; i++) {
		rc = e->active ? 0 : tcp_answer(&e->links[i]);
		if (!rc)
			rc = d->driver->start(&e->links[i]);
		if (rc)
			return rc;
		e->links[i].state = LINK_UP;
	}
	return 0;
}

void tcp_ep_greeted(struct tcp_link *l)
{
	struct tcp_ep *e = l->ep;
	int rc;

	l->state = LINK_READY;
	if (++e->ready < e->nlinks)
		return;
	rc = start_links(e);
	if (rc) {
		tcp_ep_down(e, rc);
		return;
	}
	list_del(&e->waiting);
	e->state = EP_UP;
	ep_report(e, NEWS_UP);
}

void tcp_link_sends(struct tcp_link *l)
{
	struct list *head = &tcp_ep_device(l->ep)->sending;

	if (!list_empty(&l->sending) || l->state != LINK_UP)
		return;
	/* The link for small or urgent chunks goes before all bulk links. */
	if (stream_next_due(&l->stream) != STREAM_NOTHING || stream_stuck(&l->stream))
		list_add_tail(&l->sending, l->index ? head : head->next);
}

/* ---- close ---- */

static void all_ended(struct tcp_ep *e)
{
	if (e->state == EP_CLOSING)
		ep_report(e, NEWS_CLOSED);
}

void tcp_link_ended(struct tcp_link *l)
{
	struct tcp_ep *e = l->ep;
	struct tcp_device *d = tcp_ep_device(e);

	tcp_close_source(d, &l->source);
	l->state = LINK_IDLE;
	stream_fail(&l->stream, e->state == EP_CLOSING ? -ECANCELED : e->res);
	if (!--e->ending)
		all_ended(e);
}

static void end_link(struct tcp_link *l)
{
	struct tcp_device *d = tcp_ep_device(l->ep);
	int up = l->state == LINK_UP;

	list_del(&l->sending);
	list_del(&l->unacked);
	l->state = LINK_ENDING;
	if (!up || d->driver->stop(l))
		tcp_link_ended(l);
}

static void end_links(struct tcp_ep *e)
{
	uint32_t i;

	list_del(&e->waiting);
	e->ending = e->nmax;
	for (i = 0; i < e->nmax; i++)
		end_link(&e->links[i]);
}

/* The error of a connection that was up: -ECONNRESET if the peer is lost. */
static int lost_error(int res)
{
	switch (res) {
	case -EPIPE:
	case -ETIMEDOUT:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
		return -ECONNRESET;
	default:
		return res;
	}
}

void tcp_ep_down(struct tcp_ep *e, int res)
{
	if (e->state != EP_CONNECTING && e->state != EP_UP)
		return;
	e->res = e->state == EP_UP ? lost_error(res) : res;
	e->state = EP_DOWN;
	ep_report(e, NEWS_DOWN);
	end_links(e);
}

void tcp_ep_close(struct ep *ep)
{
	struct tcp_ep *e = tcp_ep(ep);
	int ended = e->state == EP_DOWN && !e->ending;

	if (e->state == EP_CLOSING || e->state == EP_CLOSED)
		return;
	if (e->state != EP_DOWN)
		e->res = -ECANCELED;
	e->news &= ~(uint32_t)(NEWS_UP | NEWS_DOWN);
	stream_cq_forget(&tcp_ep_device(e)->cq, ep);
	if (e->state == EP_DOWN) {
		e->state = EP_CLOSING;
		if (ended)
			all_ended(e);
		return;
	}
	e->state = EP_CLOSING;
	end_links(e);
}
