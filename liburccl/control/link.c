/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own links. The kernel says when an interface goes down (rtnetlink), and nothing of it to the
 * connections that go by it: their packets are lost until it is back. So, a moment after it said
 * so, who is reached by what is looked up again. A peer that no interface leads to any more is cut
 * off: its entries end with -ENETDOWN, and so do new ones, until a later look finds a way to it.
 * Its connection stays, as long as TCP and dead_after let it.
 *
 * A peer whose bytes do not go by addresses of this host may have devices that know their own links
 * (ib): it is cut off when it has no rail and none of them has a link. An interface that is back
 * may be what a rail that does not come was waiting for.
 */
#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "control/private.h"

#define DOWN_NS	  (100 * NSEC_PER_MSEC) /* a link that is back sooner was never away */
#define AGAIN_NS  (250 * NSEC_PER_MSEC) /* while somebody is cut off */
#define NEWS_MAX  8192u
#define NEWS_READ 64 /* messages at a time */
#define ANSWER	  1024u

static int netlink(uint32_t groups)
{
	struct sockaddr_nl nl = {.nl_family = AF_NETLINK, .nl_groups = groups};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&nl, sizeof(nl))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Bytes of a message of the kernel's; 0: it was somebody else's; -errno. */
static int netlink_read(int fd, void *buf, size_t len)
{
	struct sockaddr_nl from;
	socklen_t from_len = sizeof(from);
	ssize_t n = recvfrom(fd, buf, len, MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);

	if (n < 0)
		return -errno;
	return from_len == sizeof(from) && !from.nl_pid ? (int)n : 0;
}

/* The kernel answers before send() returns; of a long answer this is the beginning. */
static int netlink_ask(int fd, const struct nlmsghdr *q, uint8_t answer[ANSWER])
{
	int n;

	if (send(fd, q, q->nlmsg_len, 0) < 0)
		return -errno;
	n = netlink_read(fd, answer, ANSWER);
	return n ? n : -EPROTO;
}

/* What it says instead of an answer: -errno, or 0. */
static int netlink_error(const uint8_t *buf, uint32_t len)
{
	struct nlmsghdr head;
	int32_t err;

	if (len < sizeof(head))
		return -EPROTO;
	memcpy(&head, buf, sizeof(head));
	if (head.nlmsg_type != NLMSG_ERROR)
		return 0;
	if (len < sizeof(head) + sizeof(err))
		return -EPROTO;
	memcpy(&err, buf + sizeof(head), sizeof(err));
	return err < 0 ? err : -EPROTO;
}

/* ---- which interface leads to whom ---- */

struct question {
	struct nlmsghdr head;
	struct rtmsg route;
	uint8_t attrs[64];
};

static void ask_attr(struct question *q, uint16_t type, const void *data, uint16_t len)
{
	struct rtattr a = {.rta_len = (uint16_t)RTA_LENGTH(len), .rta_type = type};
	uint8_t *at = (uint8_t *)q + q->head.nlmsg_len;

	memcpy(at, &a, sizeof(a));
	memcpy(at + RTA_LENGTH(0), data, len);
	q->head.nlmsg_len += (uint32_t)RTA_SPACE(len);
}

static void ask_address(struct question *q, uint16_t type, const struct sockaddr_storage *ss)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	memcpy(&in6, ss, sizeof(in6));
	memcpy(&in, ss, sizeof(in));
	if (ss->ss_family == AF_INET6)
		ask_attr(q, type, &in6.sin6_addr, sizeof(in6.sin6_addr));
	else
		ask_attr(q, type, &in.sin_addr, sizeof(in.sin_addr));
}

/* Both of one family, and that the one of their packets. */
static void ask_route(struct question *q, const struct sockaddr_storage *from,
		      const struct sockaddr_storage *to)
{
	uint8_t bits = to->ss_family == AF_INET6 ? 128 : 32;
	struct sockaddr_in6 in6;

	memset(q, 0, sizeof(*q));
	q->head.nlmsg_len = NLMSG_LENGTH(sizeof(q->route));
	q->head.nlmsg_type = RTM_GETROUTE;
	q->head.nlmsg_flags = NLM_F_REQUEST;
	q->route.rtm_family = (uint8_t)to->ss_family;
	q->route.rtm_dst_len = q->route.rtm_src_len = bits;
	ask_address(q, RTA_DST, to);
	ask_address(q, RTA_SRC, from);
	memcpy(&in6, to, sizeof(in6));
	if (to->ss_family == AF_INET6 && in6.sin6_scope_id)
		ask_attr(q, RTA_OIF, &in6.sin6_scope_id, sizeof(in6.sin6_scope_id));
}

/* The interface of the answer, or -errno. */
static int read_route(const uint8_t *buf, uint32_t len)
{
	uint32_t at = NLMSG_LENGTH(sizeof(struct rtmsg));
	struct nlmsghdr head;
	struct rtattr a;
	int32_t link;

	memcpy(&head, buf, sizeof(head));
	len = head.nlmsg_len < len ? head.nlmsg_len : len;
	for (; head.nlmsg_type == RTM_NEWROUTE && at + sizeof(a) <= len;
	     at += RTA_ALIGN(a.rta_len)) {
		memcpy(&a, buf + at, sizeof(a));
		if (a.rta_len < sizeof(a) || a.rta_len > len - at)
			break;
		if (a.rta_type != RTA_OIF || a.rta_len < RTA_LENGTH(sizeof(link)))
			continue;
		memcpy(&link, buf + at + RTA_LENGTH(0), sizeof(link));
		return link > 0 ? link : -EPROTO;
	}
	return -EPROTO;
}

static int route(int fd, const struct sockaddr_storage *from, const struct sockaddr_storage *to)
{
	uint8_t answer[ANSWER];
	struct question q;
	int n, err;

	ask_route(&q, from, to);
	n = netlink_ask(fd, &q.head, answer);
	if (n < 0)
		return n;
	err = netlink_error(answer, (uint32_t)n);
	return err ? err : read_route(answer, (uint32_t)n);
}

/* What the kernel may say of a way that is not there. */
static int is_no_way(int err)
{
	return err == -ENETUNREACH || err == -EHOSTUNREACH || err == -ENETDOWN || err == -ENODEV ||
	       err == -EADDRNOTAVAIL || err == -EINVAL;
}

/* By its carrier: that it runs (IFF_RUNNING) is said up to a second after it does. */
static int flags_down(uint32_t flags)
{
	return (flags & (IFF_UP | IFF_LOWER_UP)) != (IFF_UP | IFF_LOWER_UP);
}

/* 1, 0 or -errno: not to be known now. */
static int is_down(int fd, int link)
{
	struct {
		struct nlmsghdr head;
		struct ifinfomsg info;
	} q = {
		.head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct ifinfomsg)),
			 .nlmsg_type = RTM_GETLINK,
			 .nlmsg_flags = NLM_F_REQUEST},
		.info = {.ifi_index = link},
	};
	uint8_t answer[ANSWER];
	int n = netlink_ask(fd, &q.head, answer), err;

	if (n < 0)
		return n;
	err = netlink_error(answer, (uint32_t)n);
	if (err)
		return err == -ENODEV ? 1 : err;
	if (n < (int)sizeof(q))
		return -EPROTO;
	memcpy(&q, answer, sizeof(q));
	return q.head.nlmsg_type == RTM_NEWLINK ? flags_down(q.info.ifi_flags) : -EPROTO;
}

/* ---- peers ---- */

static void cut_post(struct control *c, struct peer *p);

static void cut_back(struct control *c, struct cmd *cmd)
{
	struct peer *p = cmd->e.owner;

	if (p->stage == STAGE_DOWN)
		peer_step(c, p);
	else if (p->cut_again)
		cut_post(c, p);
}

static void cut_post(struct control *c, struct peer *p)
{
	p->cut_again = 0;
	p->cutting.e.peer = p->engine;
	p->cutting.e.arg = p->cut;
	p->cutting.e.owner = p;
	cmd_post(c, &p->cutting, ENGINE_PEER_CUT, cut_back);
}

/* An engine that nobody drives for long takes the word as it is by then. */
static void cut(struct control *c, struct peer *p, uint32_t link)
{
	uint32_t was = p->cut;

	if (was == link)
		return;
	p->cut = link;
	log_link(c, p, was);
	if (!p->cutting.out) {
		cut_post(c, p);
	} else {
		store_release(&p->cutting.e.arg, link);
		p->cut_again = 1;
	}
}

static const struct backend *ops_of(const struct control *c, const struct peer *p)
{
	uint32_t i;

	for (i = 0; i < c->config.ndevices; i++)
		if (c->config.devices[i]->ops->transport == p->transport)
			return c->config.devices[i]->ops;
	return NULL;
}

/* All of its bytes go between the two addresses of the control connection. */
static int by_address(const struct control *c, const struct peer *p)
{
	const struct backend *ops = ops_of(c, p);
	struct sockaddr_storage own;
	uint32_t i;

	if (!ops || !ops->is_at)
		return ops && ops->by_address;
	conn_local(p->conn, &own);
	addr_unmap(&own);
	for (i = 0; i < c->config.ndevices; i++)
		if (c->config.devices[i]->ops == ops && !ops->is_at(c->config.devices[i], &own))
			return 0;
	return 1;
}

/* It has no rail, and devices that know of their links. */
static int is_lost(const struct control *c, const struct peer *p)
{
	const struct backend *ops = ops_of(c, p);

	return p->broken && p->stays && ops && ops->is_cut;
}

/* The interface that leads to it, or -errno. */
static int way_to(const struct peer *p, int fd)
{
	struct sockaddr_storage from, to = p->remote;

	conn_local(p->conn, &from);
	addr_unmap(&from);
	addr_unmap(&to);
	return route(fd, &from, &to);
}

/* 1: no interface leads to it; 0: one does; -errno: not to be known now. */
static int is_away(struct peer *p, int fd)
{
	int link = way_to(p, fd);

	if (link < 0)
		return is_no_way(link) ? 1 : link;
	p->via = (uint32_t)link;
	return is_down(fd, link);
}

enum has_link { LINK_UNASKED, LINK_UP, LINK_NONE };

/* A look at all of them: a device is asked once, however many peers it has. */
struct look {
	int fd;			      /* netlink; -1: not opened */
	uint8_t links[UINT8_MAX + 1]; /* enum has_link, by device */
};

/* 1: none of its devices has a link. */
static int has_no_link(const struct control *c, const struct peer *p, struct look *look)
{
	uint32_t i;

	for (i = 0; i < p->nknown; i++) {
		struct device *dev = c->config.devices[p->known[i].device];
		uint8_t *link = &look->links[p->known[i].device];

		if (p->known[i].transport != p->transport)
			continue;
		if (*link == LINK_UNASKED)
			*link = dev->ops->is_cut(dev) ? LINK_NONE : LINK_UP;
		if (*link == LINK_UP)
			return 0;
	}
	return 1;
}

/* 1, 0 or -errno, as is_away(). */
static int is_unreached(const struct control *c, struct peer *p, struct look *look)
{
	if (!p->by_address)
		return is_lost(c, p) && has_no_link(c, p, look);
	if (look->fd < 0)
		look->fd = netlink(0);
	return look->fd < 0 ? look->fd : is_away(p, look->fd);
}

/* When to look again. A peer that has no rail may lose its link at any time. */
static uint64_t look_at(struct control *c, struct peer *p, struct look *look)
{
	int away = is_unreached(c, p, look);
	uint64_t now = clock_ns();

	if (away < 0)
		return AGAIN_NS;
	if (!away) {
		p->down_ns = 0;
		cut(c, p, 0);
		return is_lost(c, p) ? DOWN_NS : NEVER_NS;
	}
	if (!p->down_ns)
		p->down_ns = now;
	if (!p->cut && now - p->down_ns < DOWN_NS)
		return DOWN_NS - (now - p->down_ns);
	cut(c, p, p->by_address ? p->via : CUT_PORTS);
	return AGAIN_NS;
}

static int is_watched(const struct control *c, const struct peer *p)
{
	if (p->stage != STAGE_UP)
		return 0;
	return p->by_address ? p->via && p->conn : p->cut || is_lost(c, p);
}

static void look_in(struct control *c, uint64_t ns)
{
	struct alarm *a = &c->link_alarm;

	if (ns != NEVER_NS && (!alarm_is_set(a) || a->due.at > clock_ns() + ns))
		alarm_set(c, a, ns);
}

void links_look(struct control *c, struct alarm *a)
{
	struct look look = {.fd = -1};
	struct list *pos;

	(void)a;
	list_for_each(pos, &c->peers) {
		struct peer *p = list_entry(pos, struct peer, link);

		if (is_watched(c, p))
			look_in(c, look_at(c, p, &look));
	}
	if (look.fd >= 0)
		close(look.fd);
}

/* Whoever is told nothing by the kernel waits for deadlines, as before. */
void links_listen(struct control *c)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &c->link_fd};

	if (c->link_fd >= 0)
		return;
	c->link_fd = netlink(RTMGRP_LINK);
	if (c->link_fd < 0 || !epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->link_fd, &ev))
		return;
	close(c->link_fd);
	c->link_fd = -1;
}

void link_watch(struct control *c, struct peer *p)
{
	struct sockaddr_storage to = p->remote;
	int fd, link;

	addr_unmap(&to);
	p->by_address = p->conn && by_address(c, p);
	if (!p->conn || addr_loopback(&to))
		return;
	fd = netlink(0);
	if (fd < 0)
		return;
	links_listen(c); /* first, so that no news is missed of what is found now */
	link = way_to(p, fd);
	if (link > 0)
		p->via = (uint32_t)link;
	if (link > 0 && is_down(fd, link) != 0)
		look_in(c, DOWN_NS);
	close(fd);
}

void link_lost(struct control *c, struct peer *p)
{
	if (is_lost(c, p))
		look_in(c, 1);
}

void link_back(struct control *c, struct peer *p)
{
	if (p->by_address)
		return;
	p->down_ns = 0;
	cut(c, p, 0);
}

/* ---- the kernel's word ---- */

/* Of this interface. Whoever is reached by another since the last look is looked at too. */
static void news(struct control *c, uint32_t link, int down)
{
	struct list *pos;

	if (down)
		look_in(c, DOWN_NS);
	else
		rails_hope(c);
	list_for_each(pos, &c->peers) {
		struct peer *p = list_entry(pos, struct peer, link);

		if (p->via != link || !p->by_address || !is_watched(c, p))
			continue;
		if (!down)
			p->down_ns = 0;
		else if (!p->down_ns)
			p->down_ns = clock_ns();
	}
}

static void read_news(struct control *c, const uint8_t *buf, uint32_t len)
{
	struct nlmsghdr head;
	struct ifinfomsg info;
	uint32_t at;

	for (at = 0; at + sizeof(head) <= len; at += NLMSG_ALIGN(head.nlmsg_len)) {
		memcpy(&head, buf + at, sizeof(head));
		if (head.nlmsg_len < sizeof(head) || head.nlmsg_len > len - at)
			break;
		if (head.nlmsg_len < NLMSG_LENGTH(sizeof(info)))
			continue;
		memcpy(&info, buf + at + NLMSG_LENGTH(0), sizeof(info));
		if (head.nlmsg_type == RTM_DELLINK || head.nlmsg_type == RTM_NEWLINK)
			news(c, (uint32_t)info.ifi_index,
			     head.nlmsg_type == RTM_DELLINK || flags_down(info.ifi_flags));
	}
}

void links_event(struct control *c)
{
	uint8_t buf[NEWS_MAX];
	int i, n = 0;

	for (i = 0; i < NEWS_READ && (n = netlink_read(c->link_fd, buf, sizeof(buf))) >= 0; i++)
		read_news(c, buf, (uint32_t)n);
	if (n == -ENOBUFS) /* some were lost */
		look_in(c, DOWN_NS);
}

void links_close(struct control *c)
{
	if (c->link_fd >= 0)
		close(c->link_fd);
}
