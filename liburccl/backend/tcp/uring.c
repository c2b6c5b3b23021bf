/* SPDX-License-Identifier: Apache-2.0 */
/* The io_uring driver. A link that is up always has one receive in flight, and one send while it
 * has something to send; one system call submits all sends and receives of a poll. An idle link's
 * receive names no memory: the kernel picks a buffer of the device when bytes come. Connects use
 * epoll as with the other driver, and the device sleeps on epoll. */
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif
#include "backend/tcp/uring.h"

#define SEND_SLICE  (256u * 1024)
#define RECV_SLICE  (256u * 1024)
#define EPOLL_EVERY 32u /* polls */
#define DRAIN_POLLS 3u	/* from a connection's end to its ep's end */

/* The operation of a completion: the low bits of its user_data; the others are the link. */
enum op { OP_SEND, OP_RECV, OP_CANCEL, OP_BITS = 3 };

/* ---- operations ------------------------------------------------------------------------------ */

static struct io_uring_sqe *get_sqe(struct tcp_ring *r)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->uring);

	if (!sqe) {
		io_uring_submit(&r->uring);
		sqe = io_uring_get_sqe(&r->uring);
	}
	return sqe;
}

static void sqe_tag(struct io_uring_sqe *sqe, const struct tcp_link *l, enum op op)
{
	io_uring_sqe_set_data64(sqe, (uintptr_t)l | op);
}

static void cancel_op(struct tcp_link *l, enum op op)
{
	struct io_uring_sqe *sqe = get_sqe(tcp_ep_device(l->ep)->ring);

	if (!sqe)
		return;
	io_uring_prep_cancel64(sqe, (uintptr_t)l | op, 0);
	sqe_tag(sqe, l, OP_CANCEL);
	l->async.cancelling |= 1u << op;
}

/* Cancels operations whose memory a cancel or revocation waits for. */
static void unstick(struct tcp_link *l)
{
	int stuck = stream_stuck(&l->stream);
	struct tcp_async *a = &l->async;

	if (stuck & STREAM_STUCK_TX && a->sending && !(a->cancelling & 1u << OP_SEND))
		cancel_op(l, OP_SEND);
	if (stuck & STREAM_STUCK_RX && a->receiving && !(a->cancelling & 1u << OP_RECV))
		cancel_op(l, OP_RECV);
}

/* 0: no gather or SQE is free now. */
static int start_send(struct tcp_device *d, struct tcp_link *l)
{
	struct tcp_ring *r = d->ring;
	struct tcp_async *a = &l->async;
	struct stream_gather *g;
	struct io_uring_sqe *sqe;

	if (!r->nfree)
		return 0;
	sqe = get_sqe(r);
	if (!sqe)
		return 0;
	g = r->free[--r->nfree];
	stream_gather(&l->stream, g, SEND_SLICE);
	l->stream.tx_lent = g;
	a->sending = 1;
	if (g->niov == 1) {
		io_uring_prep_send(sqe, l->source.fd, g->iov[0].iov_base, g->iov[0].iov_len,
				   MSG_NOSIGNAL);
	} else {
		memset(&a->tx, 0, sizeof(a->tx));
		a->tx.msg_iov = g->iov;
		a->tx.msg_iovlen = g->niov;
		io_uring_prep_sendmsg(sqe, l->source.fd, &a->tx, MSG_NOSIGNAL);
	}
	sqe_tag(sqe, l, OP_SEND);
	return 1;
}

static void prep_recv(struct tcp_link *l, struct io_uring_sqe *sqe, uint32_t niov, uint32_t staging)
{
	struct tcp_async *a = &l->async;

	if (!niov && staging > sizeof(a->small)) {
		a->asked = BUFFER_BYTES;
		io_uring_prep_recv(sqe, l->source.fd, NULL, BUFFER_BYTES, 0);
		sqe->flags |= IOSQE_BUFFER_SELECT;
		sqe->buf_group = BUFFER_GROUP;
		return;
	}
	if (staging) {
		if (staging > sizeof(a->small))
			staging = sizeof(a->small);
		a->iov[niov].iov_base = a->small;
		a->iov[niov++].iov_len = staging;
	}
	a->asked = a->direct + staging;
	memset(&a->rx, 0, sizeof(a->rx));
	a->rx.msg_iov = a->iov;
	a->rx.msg_iovlen = niov;
	io_uring_prep_recvmsg(sqe, l->source.fd, &a->rx, 0);
}

/* Queues the link, so that flush_sending() retries. */
static void link_defer(struct tcp_link *l)
{
	if (list_empty(&l->sending))
		list_add_tail(&l->sending, &tcp_ep_device(l->ep)->sending);
}

static void start_recv(struct tcp_link *l)
{
	struct io_uring_sqe *sqe = get_sqe(tcp_ep_device(l->ep)->ring);
	struct tcp_async *a = &l->async;
	uint32_t niov, staging, i;

	if (!sqe) {
		link_defer(l);
		return;
	}
	niov = stream_into(&l->stream, a->iov, TCP_INTO, RECV_SLICE, &staging);
	for (i = 0, a->direct = 0; i < niov; i++)
		a->direct += (uint32_t)a->iov[i].iov_len;
	prep_recv(l, sqe, niov, staging);
	l->stream.rx_lent = niov != 0;
	a->receiving = 1;
	sqe_tag(sqe, l, OP_RECV);
}

/* ---- completions ----------------------------------------------------------------------------- */

/* The ep ends DRAIN_POLLS later, so that bytes that came on its other links are received. */
static void error_kills_ep(struct tcp_link *l, int res)
{
	if (!l->async.broken)
		l->async.broken = res;
	link_defer(l);
}

static void link_sent(struct tcp_link *l, int res)
{
	struct tcp_ring *r = tcp_ep_device(l->ep)->ring;
	struct stream_gather *g = l->stream.tx_lent;

	tcp_ep_device(l->ep)->dev.served = 1;
	l->async.sending = 0;
	l->async.cancelling &= ~(1u << OP_SEND);
	r->free[r->nfree++] = g;
	stream_sent(&l->stream, g, res > 0 ? (uint32_t)res : 0);
	if (l->state != LINK_UP)
		return;
	if (res > 0)
		tcp_link_sent(l);
	if (res < 0 && res != -ECANCELED && !tcp_passes(res))
		error_kills_ep(l, res);
	else
		tcp_link_sends(l);
}

/* 0, or why the connection is broken. */
static int take_in(struct tcp_link *l, const uint8_t *staging, uint32_t n)
{
	struct tcp_async *a = &l->async;
	uint32_t direct = n < a->direct ? n : a->direct;
	ssize_t took = 0;

	if (a->direct)
		stream_placed(&l->stream, direct);
	if (n > direct && l->state == LINK_UP)
		took = stream_rx(&l->stream, staging, n - direct);
	assert(took <= 0 || (uint32_t)took == n - direct);
	return took < 0 ? (int)took : 0;
}

static int ends_receiving(int res)
{
	return res <= 0 && res != -ECANCELED && !tcp_passes(res);
}

static void received(struct tcp_link *l, int res, uint32_t flags)
{
	struct tcp_ring *r = tcp_ep_device(l->ep)->ring;
	uint32_t id = flags >> IORING_CQE_BUFFER_SHIFT;
	struct tcp_async *a = &l->async;
	const uint8_t *staging = a->small;
	int rc;

	tcp_ep_device(l->ep)->dev.served = 1;
	a->receiving = 0;
	a->cancelling &= ~(1u << OP_RECV);
	if (flags & IORING_CQE_F_BUFFER)
		staging = r->staging + (size_t)id * BUFFER_BYTES;
	rc = take_in(l, staging, res > 0 ? (uint32_t)res : 0);
	if (flags & IORING_CQE_F_BUFFER)
		tcp_ring_give(r, id);
	if (l->state != LINK_UP)
		return;
	if (rc) {
		tcp_ep_down(l->ep, rc);
		return;
	}
	l->more = res > 0 && (uint32_t)res == a->asked;
	if (ends_receiving(res)) {
		error_kills_ep(l, res ? res : -ECONNRESET);
		return;
	}
	start_recv(l);
	tcp_link_sends(l);
}

static void completed(uint64_t data, int res, uint32_t flags)
{
	struct tcp_link *l = (struct tcp_link *)(uintptr_t)(data & ~(uint64_t)OP_BITS);

	switch (data & OP_BITS) {
	case OP_SEND:
		link_sent(l, res);
		break;
	case OP_RECV:
		received(l, res, flags);
		break;
	default:
		return;
	}
	if (l->state == LINK_ENDING && !l->async.sending && !l->async.receiving)
		tcp_link_ended(l);
}

/* A receive happens after the send: ThreadSanitizer sees that in socket system calls, but not
 * here. */
#ifdef __SANITIZE_THREAD__
static char wire;
#define SENT()	   __tsan_release(&wire)
#define RECEIVED() __tsan_acquire(&wire)
#else
#define SENT()	   (void)0
#define RECEIVED() (void)0
#endif

/* Takes a CQE only while stream_cq has room for all that it may deliver. */
static int ring_reap(struct tcp_device *d)
{
	struct tcp_ring *r = d->ring;
	struct io_uring_cqe *cqe;
	int any = 0;

	while (stream_cq_room(&d->cq) >= BUFFER_BYTES && !io_uring_peek_cqe(&r->uring, &cqe)) {
		uint64_t data = cqe->user_data;
		uint32_t flags = cqe->flags;
		int res = cqe->res;

		RECEIVED();
		io_uring_cqe_seen(&r->uring, cqe);
		completed(data, res, flags);
		any = 1;
	}
	return any;
}

/* ---- work ------------------------------------------------------------------------------------ */

static void flush_sending(struct tcp_device *d)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &d->sending) {
		struct tcp_link *l = list_entry(pos, struct tcp_link, sending);
		enum stream_due due = stream_next_due(&l->stream);

		if (l->async.broken) {
			if (++l->async.draining < DRAIN_POLLS)
				continue;
			/* Other links of the ep leave the list, too. */
			tcp_ep_down(l->ep, l->async.broken);
			return;
		}
		if (!l->async.receiving)
			start_recv(l);
		unstick(l);
		if (l->async.sending || due == STREAM_NOTHING) {
			if (l->async.receiving && !stream_stuck(&l->stream))
				list_del(&l->sending);
			continue;
		}
		/* A mere acknowledgement waits once, for data that may come at once. */
		if (due == STREAM_ACK && l->more) {
			l->more = 0;
			continue;
		}
		if (start_send(d, l) && l->async.receiving)
			list_del(&l->sending);
	}
}

/* Submits new SQEs, and runs the kernel's deferred task work. */
static void ring_enter(struct tcp_ring *r)
{
	SENT();
	if (io_uring_sq_ready(&r->uring))
		io_uring_submit_and_get_events(&r->uring);
	else if (load_relaxed(r->uring.sq.kflags) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW))
		io_uring_get_events(&r->uring);
}

static void uring_work(struct tcp_device *d)
{
	struct tcp_ring *r = d->ring;

	if (!r->enabled) {
		io_uring_enable_rings(&r->uring);
		r->enabled = 1;
	}
	flush_sending(d);
	ring_enter(r);
	/* Replies to received frames are sent in the same poll. */
	if (ring_reap(d)) {
		flush_sending(d);
		ring_enter(r);
	}
	if (++d->since_epoll >= EPOLL_EVERY || d->slept)
		tcp_ask_epoll(d);
	d->slept = 0;
}

static int uring_arm(struct tcp_device *d)
{
	struct tcp_ring *r = d->ring;

	flush_sending(d);
	ring_enter(r);
	if (io_uring_cq_ready(&r->uring) || io_uring_sq_ready(&r->uring))
		return 1;
	if (!list_empty(&d->sending))
		return 1;
	d->slept = 1;
	return 0;
}

/* ---- a link ---------------------------------------------------------------------------------- */

static int uring_start(struct tcp_link *l)
{
	struct tcp_device *d = tcp_ep_device(l->ep);

	if (l->source.events != UINT32_MAX &&
	    epoll_ctl(d->dev.fd, EPOLL_CTL_DEL, l->source.fd, NULL))
		return -errno;
	l->source.events = UINT32_MAX;
	start_recv(l);
	return 0;
}

/* Both operations end when the connection does. */
static int uring_stop(struct tcp_link *l)
{
	if (!l->async.sending && !l->async.receiving)
		return 1;
	shutdown(l->source.fd, SHUT_RDWR);
	if (l->async.sending)
		cancel_op(l, OP_SEND);
	if (l->async.receiving)
		cancel_op(l, OP_RECV);
	return 0;
}

static void uring_ready(struct tcp_link *l, uint32_t events)
{
	(void)l;
	(void)events;
}

const struct tcp_driver tcp_uring = {
	.open = tcp_ring_open,
	.close = tcp_ring_close,
	.start = uring_start,
	.stop = uring_stop,
	.ready = uring_ready,
	.work = uring_work,
	.arm = uring_arm,
};
