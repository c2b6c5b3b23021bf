/* SPDX-License-Identifier: Apache-2.0 */
/* Connections until their streams begin: dialling, accepting, handshake. A hello is 32 bytes:
 *	magic u32, version u16, link u8, reserved u8, cookie of the receiver
 *	[16], reserved [8]
 * The dialling side sends it first; the answer follows when all connections of the ep have come. */
#include <endian.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "backend/tcp/tcp.h"

#define EVENTS_MAX  32u
#define MAGIC	    0x4c434355u		  /* "UCCL" */
#define ACCEPTS_MAX 64u			  /* per poll */
#define SLOW_NS	    (250 * NSEC_PER_MSEC) /* age at which a new connection may replace a stray */

struct hello {
	uint32_t magic;
	uint16_t version;
	uint8_t link;
	uint8_t reserved0;
	uint8_t cookie[TCP_COOKIE];
	uint64_t reserved1;
};

_Static_assert(sizeof(struct hello) == TCP_HELLO, "a hello is 32 bytes");

/* Applies the settings of its class. 0 or -errno. */
static int set_class(const struct tcp_link *l, int fd)
{
	enum urccl_class cls = l->index ? URCCL_CLASS_BULK : URCCL_CLASS_LATENCY;

	return class_socket_set(&tcp_ep_device(l->ep)->classes[cls], fd);
}

/* ---- hellos ---- */

/* The cookie in a link's hello: the one of the ep's address or, with a bond, a keyed hash of it and
 * the link, which only the two sides of the peer's handshake can compute. */
static void cookie_of(const struct tcp_ep *e, const uint8_t whose[TCP_COOKIE], uint32_t link,
		      uint8_t out[TCP_COOKIE])
{
	uint8_t in[TCP_COOKIE + 1];

	memcpy(in, whose, TCP_COOKIE);
	in[TCP_COOKIE] = (uint8_t)link;
	if (e->ep.bonded)
		siphash128(e->ep.bond, in, sizeof(in), out);
	else
		memcpy(out, whose, TCP_COOKIE);
}

static int hello_names(const struct tcp_ep *e, const struct hello *h)
{
	uint8_t cookie[TCP_COOKIE];

	cookie_of(e, e->cookie, h->link, cookie);
	return equal_const_time(cookie, h->cookie, TCP_COOKIE);
}

static int send_hello(struct tcp_link *l)
{
	struct hello h = {
		.magic = htole32(MAGIC),
		.version = htole16(STREAM_VERSION),
		.link = (uint8_t)l->index,
	};

	cookie_of(l->ep, l->ep->peer, l->index, h.cookie);
	/* A new connection has room for 32 bytes, unless it is broken. */
	if (send(l->source.fd, &h, sizeof(h), MSG_NOSIGNAL) != (ssize_t)sizeof(h))
		return -ECONNRESET;
	return 0;
}

int tcp_answer(struct tcp_link *l)
{
	return send_hello(l);
}

/* 1: it is complete; 0: not yet; -errno. */
static int recv_hello(int fd, uint8_t *hello, uint32_t *got)
{
	ssize_t n = recv(fd, hello + *got, TCP_HELLO - *got, 0);

	if (n < 0)
		return tcp_passes(-errno) ? 0 : -errno;
	if (!n)
		return -ECONNRESET;
	*got += (uint32_t)n;
	return *got == TCP_HELLO;
}

static int parse_hello(struct hello *h, const uint8_t *from)
{
	memcpy(h, from, sizeof(*h));
	if (le32toh(h->magic) != MAGIC || h->reserved0 || h->reserved1)
		return -EPROTO;
	return le16toh(h->version) == STREAM_VERSION ? 0 : -EPROTONOSUPPORT;
}

/* ---- the dialling side ---- */

/* The errno by which a listener without a free descriptor refused the connection; 0: hello is no
 * such answer. The rest of it came with hello. */
static int refused_error(int fd, const uint8_t hello[TCP_HELLO])
{
	uint8_t rest[CONTROL_ERRNO + 2 - TCP_HELLO] = {0};
	uint32_t at = CONTROL_ERRNO - TCP_HELLO;

	if (memcmp(hello, CONTROL_MAGIC, strlen(CONTROL_MAGIC)))
		return 0;
	(void)recv(fd, rest, sizeof(rest), 0);
	return (rest[at] | rest[at + 1] << 8) == ENFILE ? -ENFILE : -EMFILE;
}

/* The listener may have closed the connection already, behind its answer. */
static int dial_error(const struct tcp_link *l, int err)
{
	uint8_t head[TCP_HELLO];
	int refused = 0;

	if (err == -ECONNRESET && recv(l->source.fd, head, TCP_HELLO, 0) == TCP_HELLO)
		refused = refused_error(l->source.fd, head);
	return refused ? refused : err;
}

static void dialled(struct tcp_link *l)
{
	struct tcp_device *d = tcp_ep_device(l->ep);
	socklen_t len = sizeof(int);
	int err = 0, rc;

	if (getsockopt(l->source.fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = errno;
	rc = err ? -err : send_hello(l);
	if (!rc)
		rc = tcp_watch(d, &l->source, EPOLLIN);
	if (rc) {
		tcp_ep_down(l->ep, dial_error(l, rc));
		return;
	}
	l->state = LINK_GREETING;
}

int tcp_dial(struct tcp_link *l, const struct sockaddr_storage *to)
{
	struct tcp_device *d = tcp_ep_device(l->ep);
	int fd = tcp_socket(to->ss_family), rc;

	if (fd < 0)
		return fd;
	tcp_source_init(&l->source, TCP_LINK, fd);
	l->state = LINK_DIALLING;
	rc = set_class(l, fd);
	if (!rc)
		rc = tcp_bind_from(fd, &l->ep->ep.from);
	if (rc)
		return rc;
	if (connect(fd, (const struct sockaddr *)to, tcp_addr_len(to)) && errno != EINPROGRESS)
		rc = -errno;
	else
		rc = tcp_watch(d, &l->source, EPOLLOUT);
	return rc;
}

static void greeted(struct tcp_link *l)
{
	struct hello h;
	int rc = recv_hello(l->source.fd, l->hello, &l->got);

	if (!rc)
		return;
	if (rc > 0)
		rc = refused_error(l->source.fd, l->hello);
	if (!rc) {
		rc = parse_hello(&h, l->hello);
		if (!rc && (h.link != l->index || !hello_names(l->ep, &h)))
			rc = -EPROTO;
	}
	if (!rc)
		rc = tcp_watch(tcp_ep_device(l->ep), &l->source, 0);
	if (rc)
		tcp_ep_down(l->ep, rc);
	else
		tcp_ep_greeted(l);
}

static void link_event(struct tcp_link *l, uint32_t events)
{
	switch (l->state) {
	case LINK_DIALLING:
		dialled(l);
		break;
	case LINK_GREETING:
		greeted(l);
		break;
	case LINK_READY:
		/* Only EPOLLERR and EPOLLHUP come here: these cannot be masked. */
		tcp_ep_down(l->ep, -ECONNRESET);
		break;
	case LINK_UP:
		tcp_ep_device(l->ep)->driver->ready(l, events);
		break;
	default:
		break;
	}
}

/* ---- the passive side ---- */

static void stray_free(struct tcp_device *d, struct tcp_stray *s)
{
	tcp_close_source(d, &s->source);
	s->used = 0;
	d->nstrays--;
}

/* The ep that the hello names takes over the stray's connection. */
static void ep_adopt(struct tcp_ep *e, struct tcp_stray *s, const struct hello *h)
{
	struct tcp_device *d = tcp_ep_device(e);
	struct tcp_link *l;
	int fd = s->source.fd, rc;

	if (h->link >= e->nlinks || e->links[h->link].state != LINK_IDLE) {
		stray_free(d, s);
		return;
	}
	l = &e->links[h->link];
	tcp_source_init(&l->source, TCP_LINK, fd);
	s->source.fd = -1;
	s->used = 0;
	d->nstrays--;
	rc = epoll_ctl(d->dev.fd, EPOLL_CTL_DEL, fd, NULL) ? -errno : set_class(l, fd);
	if (rc)
		tcp_ep_down(e, rc);
	else
		tcp_ep_greeted(l);
}

void tcp_claim(struct tcp_ep *e)
{
	struct tcp_device *d = tcp_ep_device(e);
	struct hello h;
	uint32_t i;

	for (i = 0; i < TCP_STRAYS && d->nstrays && e->state == EP_CONNECTING; i++) {
		struct tcp_stray *s = &d->strays[i];

		if (!s->used || s->got < TCP_HELLO)
			continue;
		if (!parse_hello(&h, s->hello) && !e->active && hello_names(e, &h))
			ep_adopt(e, s, &h);
	}
}

static void stray_event(struct tcp_device *d, struct tcp_stray *s)
{
	struct hello h;
	struct list *pos;
	int rc;

	if (s->got == TCP_HELLO) {
		/* Its hello is complete: the peer closed the connection, or it broke. */
		stray_free(d, s);
		return;
	}
	rc = recv_hello(s->source.fd, s->hello, &s->got);
	if (!rc)
		return;
	if (rc < 0 || parse_hello(&h, s->hello) || tcp_watch(d, &s->source, 0)) {
		stray_free(d, s);
		return;
	}
	list_for_each(pos, &d->waiting) {
		struct tcp_ep *e = list_entry(pos, struct tcp_ep, waiting);

		if (!e->active && hello_names(e, &h)) {
			ep_adopt(e, s, &h);
			return;
		}
	}
}

/* Makes room by closing the oldest stray if it is slow: a peer sends its hello at once. */
static int stray_room(struct tcp_device *d)
{
	struct tcp_stray *oldest = d->strays;
	uint32_t i;

	if (d->nstrays < TCP_STRAYS)
		return 1;
	for (i = 1; i < TCP_STRAYS; i++) {
		if (d->strays[i].since_ns < oldest->since_ns)
			oldest = &d->strays[i];
	}
	if (clock_ns() - oldest->since_ns < SLOW_NS)
		return 0;
	stray_free(d, oldest);
	return 1;
}

static struct tcp_stray *stray_new(struct tcp_device *d)
{
	uint32_t i;

	for (i = 0; d->strays[i].used; i++)
		;
	d->nstrays++;
	d->strays[i].used = 1;
	d->strays[i].got = 0;
	return &d->strays[i];
}

static void accept_some(struct tcp_device *d)
{
	struct tcp_stray *s;
	uint32_t i;
	int fd;

	for (i = 0; i < ACCEPTS_MAX; i++) {
		if (!stray_room(d)) {
			tcp_inbox_pause(d);
			return;
		}
		fd = tcp_inbox_take(d);
		if (fd < 0)
			return;
		s = stray_new(d);
		tcp_source_init(&s->source, TCP_STRAY, fd);
		s->since_ns = clock_ns();
		tcp_tick(d, TCP_TICK_MS);
		if (tcp_watch(d, &s->source, EPOLLIN))
			stray_free(d, s);
		else
			stray_event(d, s);
	}
}

/* ---- deadlines ---- */

static void set_timer(struct tcp_device *d, uint32_t ms)
{
	struct itimerspec t = {.it_interval = {ms / 1000, (long)(ms % 1000 * NSEC_PER_MSEC)}};

	t.it_value = t.it_interval;
	timerfd_settime(d->timer.fd, 0, &t, NULL);
	d->tick_ms = ms;
}

void tcp_tick(struct tcp_device *d, uint32_t ms)
{
	if (!d->tick_ms || ms < d->tick_ms)
		set_timer(d, ms);
}

/* Time until the next tick is needed; 0: none is. */
static uint32_t next_tick_ms(const struct tcp_device *d)
{
	if (d->nstrays || !list_empty(&d->waiting))
		return TCP_TICK_MS;
	return list_empty(&d->unacked) ? 0 : d->look_ms;
}

static void timer_event(struct tcp_device *d)
{
	uint64_t ticks, now = clock_ns(), timeout = d->dead_after_ms * NSEC_PER_MSEC;
	struct list *pos, *tmp;
	uint32_t i;

	if (read(d->timer.fd, &ticks, sizeof(ticks)) < 0)
		return;
	for (i = 0; d->nstrays && i < TCP_STRAYS; i++) {
		if (d->strays[i].used && now - d->strays[i].since_ns > timeout)
			stray_free(d, &d->strays[i]);
	}
	list_for_each_safe(pos, tmp, &d->waiting) {
		struct tcp_ep *e = list_entry(pos, struct tcp_ep, waiting);

		if (now > e->deadline_ns)
			tcp_ep_down(e, -ETIMEDOUT);
	}
	tcp_look(d);
	if (d->full)
		tcp_inbox_resume(d);
	if (next_tick_ms(d) != d->tick_ms)
		set_timer(d, next_tick_ms(d));
}

void tcp_event(struct tcp_device *d, struct tcp_source *s, uint32_t events)
{
	/* An event before it in the same batch may have closed it. */
	if (s->fd < 0)
		return;
	switch (s->kind) {
	case TCP_INBOX:
		accept_some(d);
		break;
	case TCP_TIMER:
		timer_event(d);
		break;
	case TCP_STRAY:
		stray_event(d, container_of(s, struct tcp_stray, source));
		break;
	case TCP_LINK:
		link_event(container_of(s, struct tcp_link, source), events);
		break;
	default:
		/* uring_work() reads the ring in any case. */
		break;
	}
}

void tcp_ask_epoll(struct tcp_device *d)
{
	struct epoll_event events[EVENTS_MAX];
	int i, n = epoll_wait(d->dev.fd, events, EVENTS_MAX, 0);

	d->since_epoll = 0;
	for (i = 0; i < n; i++)
		tcp_event(d, events[i].data.ptr, events[i].events);
}
