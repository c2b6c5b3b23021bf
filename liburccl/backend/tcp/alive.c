/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects a dead peer of a link with unacknowledged bytes. The peer is dead if no segment at all
 * came for dead_after_ms although the kernel retransmitted or probed. A path is dead if none of the
 * retransmitted bytes arrived for as long, even if other segments come. The link is checked every
 * look_ms until all is acknowledged.
 *
 * TCP_USER_TIMEOUT differs: it also ends a connection whose receiver computes and does not read,
 * while its kernel answers the probes of the closed window. One probe may be lost or unanswered (a
 * kernel answers two a second), so two in a row are required. Probes become ever rarer, so a path
 * that is cut while its window has been closed for long is detected late. A peer that is cut off
 * altogether has lost the control connection by then.
 *
 * Time without checks, as this process was stopped or its program did not call, is not counted,
 * except for one period: the kernel may have probed a suspended machine in vain once.
 */
#include <linux/tcp.h>
#include "backend/tcp/tcp.h"

#define LOOKS  8u /* checks per dead_after_ms */
#define PROBES 2u /* unanswered, in a row */

uint32_t tcp_look_ms(uint32_t dead_after_ms)
{
	return dead_after_ms / LOOKS > TCP_TICK_MS ? dead_after_ms / LOOKS : TCP_TICK_MS;
}

void tcp_link_sent(struct tcp_link *l)
{
	struct tcp_device *d = tcp_ep_device(l->ep);

	if (!list_empty(&l->unacked))
		return;
	l->silent_ns = l->stuck_ns = 0;
	list_add_tail(&l->unacked, &d->unacked);
	tcp_tick(d, d->look_ms);
}

static void compare(struct tcp_link *l, const struct tcp_info *i, uint64_t now)
{
	if (!l->silent_ns || i->tcpi_segs_in != l->heard || !(i->tcpi_unacked || i->tcpi_probes)) {
		l->heard = i->tcpi_segs_in;
		l->silent_ns = now;
	}
	/* 0: the window is closed, or the kernel does not report it. */
	if (!l->stuck_ns || i->tcpi_bytes_acked != l->acked || !i->tcpi_unacked ||
	    !i->tcpi_snd_wnd) {
		l->acked = i->tcpi_bytes_acked;
		l->stuck_ns = now;
	}
}

static void skip_absence(struct tcp_link *l, uint64_t now, uint64_t look_ns)
{
	uint64_t gap = now - l->looked_ns;

	if (l->silent_ns && gap > 2 * look_ns) {
		l->silent_ns += gap - look_ns;
		l->stuck_ns += gap - look_ns;
	}
	l->looked_ns = now;
}

/* 0, or why the connection is broken. */
static int link_look(struct tcp_link *l, uint64_t now)
{
	struct tcp_device *d = tcp_ep_device(l->ep);
	uint64_t dead_ns = d->dead_after_ms * NSEC_PER_MSEC;
	struct tcp_info i = {0};
	socklen_t len = sizeof(i);

	/* Without TCP_INFO only the control connection detects a dead peer. */
	if (getsockopt(l->source.fd, IPPROTO_TCP, TCP_INFO, &i, &len) ||
	    (!i.tcpi_unacked && !i.tcpi_notsent_bytes)) {
		list_del(&l->unacked);
		return 0;
	}
	skip_absence(l, now, d->look_ms * NSEC_PER_MSEC);
	compare(l, &i, now);
	if (now - l->silent_ns >= dead_ns && (i.tcpi_retransmits || i.tcpi_probes >= PROBES))
		return -ETIMEDOUT;
	return now - l->stuck_ns >= dead_ns && i.tcpi_retransmits ? -ETIMEDOUT : 0;
}

void tcp_look(struct tcp_device *d)
{
	uint64_t now = clock_ns();
	uint32_t n = 0;
	struct list *pos;

	list_for_each(pos, &d->unacked)
		n++;
	/* Checks each once, from the front: if an ep ends, its other links leave the list, too. */
	for (; n && !list_empty(&d->unacked); n--) {
		struct tcp_link *l = list_first(&d->unacked, struct tcp_link, unacked);
		int rc = link_look(l, now);

		if (list_empty(&l->unacked))
			continue;
		list_del(&l->unacked);
		list_add_tail(&l->unacked, &d->unacked);
		if (rc)
			tcp_ep_down(l->ep, rc);
	}
}
