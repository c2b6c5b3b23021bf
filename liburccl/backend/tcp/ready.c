/* SPDX-License-Identifier: Apache-2.0 */
/* The readiness driver: non-blocking sockets. Links with traffic are hot and read directly, so that
 * a round trip costs one send and one receive; epoll_wait() for the others is rare, unless more
 * links have traffic than may be hot. */
#include <sys/ioctl.h>
#include "backend/tcp/tcp.h"

#define SEND_SLICE   (1024u * 1024) /* per link and poll */
#define RECV_SLICE   (1024u * 1024)
#define URGENT_SLICE (32u * 1024)  /* for bulk, while urgent chunks move */
#define URGENT_BYTES (512u * 1024) /* bulk in such slices after the last urgent chunk */
#define HOT_POLLS    2048u	   /* polls without traffic until a link is no longer hot */
#define SPIN_POLLS   1024u	   /* polls in a row, after which epoll does not watch hot links */
#define EPOLL_POLLS  64u	   /* polls, or */
#define EPOLL_BYTES  4096u	   /* times so many bytes moved, between two epoll_wait()s */

static int ready_open(struct tcp_device *d)
{
	(void)d;
	return 0;
}

static void ready_close(struct tcp_device *d)
{
	(void)d;
}

/* ---- hot links ---- */

/* epoll makes every packet more expensive, for both sides. It watches hot links only if the device
 * may sleep, and not while it is polled without a pause. */
static void unwatch(struct tcp_device *d, struct tcp_link *l)
{
	if (l->source.events == UINT32_MAX)
		return;
	epoll_ctl(d->dev.fd, EPOLL_CTL_DEL, l->source.fd, NULL);
	l->source.events = UINT32_MAX;
}

static int link_watch(struct tcp_device *d, struct tcp_link *l)
{
	if (l->source.events != UINT32_MAX)
		return 0;
	return tcp_watch(d, &l->source, EPOLLIN);
}

static void link_set_hot(struct tcp_device *d, struct tcp_link *l)
{
	if (!l->hot_polls) {
		if (d->nhot == TCP_HOT) {
			d->crowded = HOT_POLLS;
			return;
		}
		d->hot[d->nhot++] = l;
		if (d->spun >= SPIN_POLLS)
			unwatch(d, l);
	}
	l->hot_polls = HOT_POLLS;
}

static void link_forget_hot(struct tcp_device *d, struct tcp_link *l)
{
	uint32_t i;

	l->hot_polls = 0;
	for (i = 0; i < d->nhot && d->hot[i] != l; i++)
		;
	if (i < d->nhot)
		d->hot[i] = d->hot[--d->nhot];
}

static void link_unset_hot(struct tcp_device *d, struct tcp_link *l)
{
	int rc = link_watch(d, l);

	link_forget_hot(d, l);
	if (rc)
		tcp_ep_down(l->ep, rc);
}

static void count_spin(struct tcp_device *d)
{
	uint32_t i;

	if (d->spun == SPIN_POLLS || ++d->spun < SPIN_POLLS)
		return;
	for (i = 0; i < d->nhot; i++)
		unwatch(d, d->hot[i]);
}

/* Busy links share a slice, so that a poll ends, and deadlines are checked, as soon as with one. */
static uint32_t link_slice(const struct tcp_device *d, const struct tcp_link *l, uint32_t most)
{
	uint32_t i, bulk = 0;

	if (l->index && d->urgent)
		return URGENT_SLICE;
	for (i = 0; i < d->nhot; i++)
		bulk += d->hot[i]->index != 0;
	return bulk > 1 ? most / bulk : most;
}

static void note_urgent(struct tcp_device *d, struct tcp_link *l)
{
	if (!l->stream.urgent)
		return;
	l->stream.urgent = 0;
	d->urgent = URGENT_BYTES;
}

static void count_moved(struct tcp_device *d, const struct tcp_link *l, uint32_t bytes)
{
	d->dev.served = 1;
	d->since_epoll += bytes / EPOLL_BYTES;
	if (l->index)
		d->urgent -= bytes < d->urgent ? bytes : d->urgent;
}

/* ---- in ---- */

/* One receive. Bytes, 0: there are none, or -errno. */
static ssize_t receive(struct tcp_device *d, struct tcp_link *l, uint32_t max)
{
	struct iovec iov[TCP_INTO + 1];
	struct msghdr m = {.msg_iov = iov};
	uint32_t staging, room, direct = 0, i, niov;
	ssize_t n, took;

	niov = stream_into(&l->stream, iov, TCP_INTO, max, &staging);
	for (i = 0; i < niov; i++)
		direct += (uint32_t)iov[i].iov_len;
	room = staging ? stream_cq_room(&d->cq) : 0;
	if (staging > room)
		staging = room;
	l->more = 0;
	if (!direct && !staging)
		return 0;
	if (staging) {
		iov[niov].iov_base = d->staging;
		iov[niov++].iov_len = staging;
	}
	m.msg_iovlen = niov;
	n = niov == 1 ? recv(l->source.fd, iov[0].iov_base, iov[0].iov_len, 0)
		      : recvmsg(l->source.fd, &m, 0);
	if (n <= 0) {
		if (n < 0 && tcp_passes(-errno))
			return 0;
		return n ? -errno : -ECONNRESET;
	}
	l->more = (uint32_t)n == direct + staging;
	if (direct)
		stream_placed(&l->stream, (uint32_t)n < direct ? (uint32_t)n : direct);
	if ((uint32_t)n > direct) {
		took = stream_rx(&l->stream, d->staging, (uint32_t)n - direct);
		if (took < 0)
			return took;
		assert((uint32_t)took == (uint32_t)n - direct);
	}
	return n;
}

/* Receives the bytes that came before the peer closed, from every link, before the ep ends; no
 * more, as a peer may send without end. */
static void ep_drain(struct tcp_device *d, struct tcp_ep *e)
{
	uint32_t i;

	for (i = 0; i < e->nlinks; i++) {
		struct tcp_link *l = &e->links[i];
		ssize_t n = 1;
		int left = 0;

		if (ioctl(l->source.fd, FIONREAD, &left))
			continue;
		for (; left > 0 && n > 0; left -= (int)n)
			n = receive(d, l, RECV_SLICE);
	}
}

/* ---- out ---- */

static ssize_t send_gathered(const struct tcp_link *l, struct stream_gather *g)
{
	struct msghdr m = {.msg_iov = g->iov, .msg_iovlen = g->niov};

	if (g->niov == 1)
		return send(l->source.fd, g->iov[0].iov_base, g->iov[0].iov_len, MSG_NOSIGNAL);
	return sendmsg(l->source.fd, &m, MSG_NOSIGNAL);
}

/* 0, or why the connection is broken. */
static int send_some(struct tcp_device *d, struct tcp_link *l)
{
	struct stream_gather *g = &d->gather;
	uint32_t left = link_slice(d, l, SEND_SLICE);
	ssize_t n;

	note_urgent(d, l);
	while (left >= STREAM_HELD && stream_next_due(&l->stream) != STREAM_NOTHING) {
		stream_gather(&l->stream, g, left);
		n = send_gathered(l, g);
		stream_sent(&l->stream, g, n > 0 ? (uint32_t)n : 0);
		l->blocked = n < (ssize_t)g->bytes;
		if (n < 0 && !tcp_passes(-errno))
			return -errno;
		if (n > 0) {
			link_set_hot(d, l);
			count_moved(d, l, (uint32_t)n);
			tcp_link_sent(l);
			left -= (uint32_t)n;
		}
		if (l->blocked)
			break;
	}
	return 0;
}

/* 1: a frame that is only an acknowledgement waits while more data is coming in, or until the
 * engine has seen all messages: its reply then carries the acknowledgement, which saves a system
 * call. */
static int ack_waits(const struct tcp_device *d, const struct tcp_link *l, int retry)
{
	return (l->more && l->hot_polls) || (!retry && stream_cq_heard(&d->cq));
}

/* Sends for links in device.sending. retry: also hot ones whose socket was full, and held ACKs. */
static void flush_sending(struct tcp_device *d, int retry)
{
	struct list *pos, *tmp;
	int rc;

	list_for_each_safe(pos, tmp, &d->sending) {
		struct tcp_link *l = list_entry(pos, struct tcp_link, sending);
		enum stream_due due = stream_next_due(&l->stream);

		if (due == STREAM_NOTHING) {
			list_del(&l->sending);
			continue;
		}
		if (l->blocked && !l->hot_polls)
			tcp_watch(d, &l->source, EPOLLIN | EPOLLOUT);
		if ((l->blocked && !(retry && l->hot_polls)) ||
		    (due == STREAM_ACK && ack_waits(d, l, retry)))
			continue;
		if (d->urgent && l->index && !retry) /* one slice a poll */
			continue;
		rc = send_some(d, l);
		if (rc) {
			ep_drain(d, l->ep);
			/* Other links of the ep leave the list, too. */
			tcp_ep_down(l->ep, rc);
			break;
		}
	}
}

/* ---- polls ---- */

/* Acknowledges before the next link is read, so that the peer sends while others are received. */
static int acknowledge(struct tcp_device *d, struct tcp_link *l)
{
	if (l->blocked || stream_next_due(&l->stream) != STREAM_ACK || ack_waits(d, l, 0))
		return 0;
	return send_some(d, l);
}

/* Receives at most a slice. 1: bytes came. */
static int receive_some(struct tcp_device *d, struct tcp_link *l)
{
	uint32_t max = link_slice(d, l, RECV_SLICE);
	uint32_t got = 0;
	ssize_t n;

	do {
		n = receive(d, l, max - got);
		if (n > 0)
			got += (uint32_t)n;
	} while (n > 0 && l->more && got < max);
	if (got) {
		link_set_hot(d, l);
		note_urgent(d, l);
		count_moved(d, l, got);
		tcp_link_sends(l);
	}
	if (got && n >= 0)
		n = acknowledge(d, l);
	if (n < 0) {
		if (n != -EPROTO && n != -EILSEQ)
			ep_drain(d, l->ep);
		tcp_ep_down(l->ep, (int)n);
	}
	return got != 0;
}

static void ready_event(struct tcp_link *l, uint32_t events)
{
	struct tcp_device *d = tcp_ep_device(l->ep);

	if (events & EPOLLOUT) {
		if (!l->blocked)
			tcp_watch(d, &l->source, EPOLLIN);
		l->blocked = 0;
	}
	if (events & ~(uint32_t)EPOLLOUT && !l->hot_polls)
		receive_some(d, l);
}

/* Receives from hot links, for bulk or for small and urgent chunks. 1: bytes came. */
static int ask_hot(struct tcp_device *d, int bulk)
{
	uint32_t i;
	int any = 0;

	/* From the last, which replaces a link that is hot no more. A failed ep removes several. */
	for (i = d->nhot; i-- > 0;) {
		struct tcp_link *l = d->hot[i];

		if (i >= d->nhot || (l->index != 0) != bulk)
			continue;
		if (receive_some(d, l))
			any = 1;
		else if (l->hot_polls && !--l->hot_polls)
			link_unset_hot(d, l);
	}
	return any;
}

static void ready_work(struct tcp_device *d)
{
	int any;

	count_spin(d);
	flush_sending(d, 1);
	any = ask_hot(d, 0);
	if (ask_hot(d, 1)) {
		/* Meanwhile an urgent chunk may have come. */
		if (d->urgent)
			ask_hot(d, 0);
		any = 1;
	}
	if (++d->since_epoll >= EPOLL_POLLS || d->crowded || (d->slept && !any))
		tcp_ask_epoll(d);
	d->crowded -= d->crowded != 0;
	d->slept = 0;
	flush_sending(d, 0);
}

static int ready_arm(struct tcp_device *d)
{
	struct list *pos;
	uint32_t i;

	d->spun = 0;
	for (i = 0; i < d->nhot; i++) {
		if (link_watch(d, d->hot[i]))
			return 1;
	}
	list_for_each(pos, &d->sending) {
		struct tcp_link *l = list_entry(pos, struct tcp_link, sending);

		if (!l->blocked && stream_next_due(&l->stream) != STREAM_NOTHING)
			return 1;
		if (l->blocked && tcp_watch(d, &l->source, EPOLLIN | EPOLLOUT))
			return 1;
	}
	d->slept = 1;
	return 0;
}

static int ready_start(struct tcp_link *l)
{
	return tcp_watch(tcp_ep_device(l->ep), &l->source, EPOLLIN);
}

static int ready_stop(struct tcp_link *l)
{
	link_forget_hot(tcp_ep_device(l->ep), l);
	return 1;
}

const struct tcp_driver tcp_ready = {
	.open = ready_open,
	.close = ready_close,
	.start = ready_start,
	.stop = ready_stop,
	.ready = ready_event,
	.work = ready_work,
	.arm = ready_arm,
};
