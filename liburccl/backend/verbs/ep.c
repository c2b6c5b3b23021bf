/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ep from its address to its end.
 *
 * ep_open makes a queue pair. ep_prepare connects it to the peer's, which may take the kernel a
 * while, since it resolves the peer's link address. If it was not called before, ep_connect calls
 * it on the engine's thread. Then the active side sends HELLO, the passive side answers, and each
 * side is up when it has received one. A peer that cannot be reached is thus detected by our own
 * timer, and not by a device's retries.
 *
 * The end: all queue pairs but the first go to the error state at once, so that their requests come
 * out flushed. The first one sends BYE before that, for which it has BYE_NS; the peer then does the
 * same. The ep has ended when each queue pair has returned all completions, those of receives too.
 * If a device keeps some for longer than DRAIN_NS, its queue pairs are destroyed, after which it
 * uses no memory.
 */
#include <stdlib.h>
#include "backend/verbs/verbs.h"

#define CONNECT_NS (NSEC_PER_SEC / 2)
#define BYE_NS	   (20 * NSEC_PER_MSEC)
#define DRAIN_NS   (100 * NSEC_PER_MSEC)

static const uint32_t depths[QPS] = {VERBS_FIRST_DEPTH, VERBS_SMALL_DEPTH, VERBS_WRITES_DEPTH,
				     VERBS_READS_DEPTH};

/* ---- begin ---- */

/* Enlarges the queue for this many further completions. It never shrinks. */
static int make_room(struct verbs_device *d, uint32_t cqes)
{
	uint64_t room = (uint64_t)d->cqes + cqes;
	uint32_t max = (uint32_t)d->port.attr.max_cqe, more;
	int rc;

	if (room <= d->ncqes)
		return 0;
	if (room > max)
		return fail(-ENOSPC,
			    "ib: %s has room for the completions of %u peers (max_cqe %u): set "
			    "max_warm so that idle ones give theirs back",
			    d->port.name, d->neps, max);
	if (d->fixed)
		return fail(-ENOSPC,
			    "ib: %s has room for the completions of %u peers, and does not enlarge "
			    "the queue of them (resize_cq; max_cqe %u): set max_warm so that idle "
			    "ones give theirs back",
			    d->port.name, d->neps, max);
	more = d->ncqes < max / 2 ? 2 * d->ncqes : max;
	more = more < room ? (uint32_t)room : more;
	rc = d->lib.resize_cq(d->cq, (int)more);
	if (rc)
		return fail(-abs(rc),
			    "ib: %s does not enlarge its completion queue to %u, for %u peers: %s",
			    d->port.name, more, d->neps + 1, errno_text(abs(rc)));
	d->ncqes = more;
	return 0;
}

/* Reserves a quarter of the queue for peers that connect. */
static int has_spare(const struct verbs_device *d, uint32_t cqes)
{
	uint32_t max = d->fixed ? d->ncqes : (uint32_t)d->port.attr.max_cqe;

	if ((uint64_t)d->cqes + cqes <= max - max / 4)
		return 0;
	return fail(-ENOSPC,
		    "ib: %s keeps what is left of its completion queue (of %u) for peers that "
		    "connect",
		    d->port.name, max);
}

int verbs_room(struct verbs_device *d, const struct verbs_qp *w, uint32_t cqes)
{
	int rc;

	pthread_mutex_lock(&d->room);
	rc = w ? has_spare(d, cqes) : 0;
	if (!rc)
		rc = make_room(d, cqes);
	if (!rc)
		d->cqes += cqes;
	pthread_mutex_unlock(&d->room);
	return rc;
}

void verbs_room_free(struct verbs_device *d, uint32_t cqes)
{
	pthread_mutex_lock(&d->room);
	d->cqes -= cqes;
	pthread_mutex_unlock(&d->room);
}

static void count_ep(struct verbs_device *d, int more)
{
	pthread_mutex_lock(&d->room);
	d->neps += (uint32_t)more;
	pthread_mutex_unlock(&d->room);
}

/* Reads the port's addresses again if they may have changed. */
static int look_again(struct verbs_device *d)
{
	uint32_t news = load_acquire(&d->port_news);
	int rc = 0;

	if (news != d->port_seen)
		rc = verbs_port_again(&d->lib, &d->settings, &d->port);
	if (!rc)
		d->port_seen = news;
	return rc;
}

static int ep_begin(struct verbs_ep *e)
{
	struct verbs_device *d = verbs_ep_device(e);
	uint32_t i;
	int rc;

	rc = random_bytes(e->cookie, sizeof(e->cookie));
	if (!rc)
		rc = random_bytes(e->psn, sizeof(e->psn));
	if (rc)
		return fail(rc, "no random bytes for a connection's cookie: %s", errno_text(-rc));
	e->pages = verbs_pages(d, VERBS_PAGES_LEN, IBV_ACCESS_LOCAL_WRITE, &e->mr);
	if (!e->pages)
		return -ENOMEM;
	e->word_at = (uintptr_t)e->pages + 2 * VERBS_SLOTS * VERBS_SLOT;
	for (i = 0; i < QPS; i++)
		e->psn[i] &= 0xffffff;
	e->qps[QP_FIRST].slots = e->slots;
	return verbs_qp_make(e, &e->qps[QP_FIRST]);
}

static void ep_init(struct verbs_ep *e, struct device *dev)
{
	uint32_t i;

	memset(e, 0, sizeof(*e));
	e->ep.dev = dev;
	e->state = EP_NEW;
	e->deadline_ns = NEVER_NS;
	list_init(&e->all);
	list_init(&e->reporting);
	list_init(&e->kicked);
	list_init(&e->keys);
	for (i = 0; i < VERBS_SLOTS; i++)
		list_init(&e->receive[i].link);
	for (i = 0; i < QPS; i++) {
		e->qps[i].ep = e;
		e->qps[i].depth = depths[i];
		chunk_queue_init(&e->qps[i].held);
		e->qps[i].seen = UINT32_MAX;
	}
}

int verbs_ep_open(struct device *dev, struct ep **ep, void *addr, uint32_t *addr_len)
{
	struct verbs_device *d = verbs_device(dev);
	struct verbs_ep *e;
	int rc = look_again(d);

	if (!rc)
		rc = verbs_room(d, NULL, VERBS_CQES);
	if (rc)
		return rc;
	e = malloc(sizeof(*e));
	if (!e) {
		verbs_room_free(d, VERBS_CQES);
		return fail(-ENOMEM, "no memory for an ib connection's state");
	}
	ep_init(e, dev);
	memcpy(e->ends, d->port.ends, sizeof(e->ends));
	e->nends = (uint8_t)d->port.nends;
	e->mtu = d->port.mtu;
	e->pkey_index = d->port.pkey_index;
	count_ep(d, 1);
	rc = ep_begin(e);
	if (rc) {
		verbs_ep_free(&e->ep);
		return rc;
	}
	*addr_len = verbs_addr_write(e, addr);
	*ep = &e->ep;
	return 0;
}

void verbs_ep_free(struct ep *ep)
{
	struct verbs_ep *e = verbs_ep(ep);
	struct verbs_device *d = verbs_ep_device(e);

	verbs_grow_free(e);
	verbs_qp_destroy(&e->qps[QP_FIRST]);
	verbs_pages_free(d, e->pages, VERBS_PAGES_LEN, e->mr);
	verbs_keys_free(e);
	verbs_room_free(d, VERBS_CQES);
	count_ep(d, -1);
	free(e);
}

/* ---- news ---- */

void verbs_ep_report(struct verbs_ep *e, enum verbs_news news)
{
	e->news |= news;
	if (list_empty(&e->reporting))
		list_add_tail(&e->reporting, &verbs_ep_device(e)->reporting);
}

static void ep_event(struct event *event, struct verbs_ep *e, uint32_t type, int res)
{
	uint32_t i;

	*event = (struct event){.type = type, .res = res, .ep = &e->ep};
	for (i = 0; i < QPS && !event->code; i++)
		event->code = e->qps[i].code;
}

static void forget(struct verbs_ep *e)
{
	struct verbs_device *d = verbs_ep_device(e);
	uint32_t i;

	for (i = 0; i < QPS; i++) {
		if (e->qps[i].handle)
			handles_del(&d->qps, e->qps[i].handle);
		e->qps[i].handle = 0;
	}
	list_del(&e->all);
	list_del(&e->kicked);
	e->deadline_ns = NEVER_NS;
	e->state = EP_CLOSED;
}

uint32_t verbs_report(struct verbs_device *d, struct event *events, uint32_t n, int ends)
{
	uint32_t out = 0, news;
	struct verbs_ep *e;

	list_for_each_entry_safe(e, &d->reporting, reporting) {
		news = ends ? e->news : e->news & (NEWS_UP | NEWS_GROW);
		if (out == n || !news || (ends && e->done))
			continue;
		if (news & NEWS_UP) {
			e->news &= ~(uint32_t)NEWS_UP;
			ep_event(&events[out++], e, EVENT_UP, 0);
		} else if (news & NEWS_GROW) {
			e->news &= ~(uint32_t)NEWS_GROW;
			ep_event(&events[out++], e, EVENT_ADD_QPS, 0);
		} else if (news & NEWS_DOWN) {
			e->news &= ~(uint32_t)NEWS_DOWN;
			ep_event(&events[out++], e, EVENT_DOWN, e->res);
		} else {
			e->news = 0;
			forget(e);
			ep_event(&events[out++], e, EVENT_CLOSED, 0);
		}
		if (!e->news)
			list_del(&e->reporting);
	}
	return out;
}

/* ---- up ---- */

static void set_deadline(struct verbs_ep *e, uint64_t ns)
{
	e->deadline_ns = clock_ns() + ns;
	verbs_until(verbs_ep_device(e), e->deadline_ns);
}

/* A peer that does not answer for this long is down. */
static uint64_t dead_after_ns(const struct verbs_device *d)
{
	return d->settings.dead_after_ms * NSEC_PER_MSEC;
}

int verbs_qp_start(struct verbs_qp *w)
{
	w->handle = handles_add(&verbs_ep_device(w->ep)->qps, w);
	return w->handle ? verbs_message_start(w) : -ENOMEM;
}

static int ep_start(struct verbs_ep *e)
{
	list_add_tail(&e->all, &verbs_ep_device(e)->eps);
	return verbs_qp_start(&e->qps[QP_FIRST]);
}

int verbs_ep_connect(struct ep *ep, const void *addr, uint32_t addr_len, int active,
		     const struct sockaddr_storage *via)
{
	struct verbs_ep *e = verbs_ep(ep);
	struct verbs_device *d = verbs_ep_device(e);
	uint64_t limit = dead_after_ns(d);
	int rc = e->state == EP_PREPARED ? 0 : verbs_ep_prepare(ep, addr, addr_len);

	(void)via;
	if (rc)
		return rc;
	e->active = active;
	e->state = EP_CONNECTING;
	rc = d->broken ? d->broken : ep_start(e);
	if (rc) {
		verbs_ep_down(e, rc);
		return 0;
	}
	/* The passive side waits longer, since the dialler may try other rails first. */
	set_deadline(e, active && CONNECT_NS < limit ? CONNECT_NS : limit);
	if (active)
		verbs_message_hello(e);
	return 0;
}

void verbs_ep_up(struct verbs_ep *e)
{
	if (e->state != EP_CONNECTING)
		return;
	e->state = EP_UP;
	e->deadline_ns = NEVER_NS;
	verbs_ep_report(e, NEWS_UP);
}

void verbs_ep_kick(struct verbs_ep *e)
{
	if (list_empty(&e->kicked))
		list_add_tail(&e->kicked, &verbs_ep_device(e)->kicked);
}

/* ---- end ---- */

/* From now on none of its bytes is sent or lands; its requests come back flushed. A queue pair that
 * was never started has none, and ep_add_qps may be working on it. */
static void qp_fail(struct verbs_qp *w)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (w->failing)
		return;
	w->failing = 1;
	if (!w->handle)
		return;
	/* A device that refuses even this is handled at the deadline. */
	if (w->qp)
		verbs_ep_device(w->ep)->lib.modify_qp(w->qp, &attr, IBV_QP_STATE);
}

static void fail_ways(struct verbs_ep *e)
{
	uint32_t i;

	for (i = 0; i < QPS; i++)
		qp_fail(&e->qps[i]);
	set_deadline(e, DRAIN_NS);
	verbs_ep_kick(e);
}

void verbs_ep_down(struct verbs_ep *e, int res)
{
	if (e->state == EP_CLOSING)
		fail_ways(e);
	if (e->state != EP_CONNECTING && e->state != EP_UP)
		return;
	e->res = res;
	e->state = EP_DOWN;
	verbs_grow_off(e);
	verbs_ep_report(e, NEWS_DOWN);
	fail_ways(e);
}

void verbs_ep_settle(struct verbs_ep *e)
{
	uint32_t i, left = 0;

	if (e->state == EP_CLOSING && e->left && !e->qps[QP_FIRST].failing)
		fail_ways(e);
	for (i = 0; i < QPS; i++) {
		struct verbs_qp *w = &e->qps[i];

		if (w->failing && w->acked == w->posted)
			verbs_ring_drain(w);
		left += !w->failing || !verbs_ring_is_drained(w);
	}
	if (left)
		return;
	e->deadline_ns = NEVER_NS;
	if (e->state == EP_CLOSING)
		verbs_ep_report(e, NEWS_CLOSED);
}

void verbs_ep_close(struct ep *ep)
{
	struct verbs_ep *e = verbs_ep(ep);
	int talks = (e->state == EP_UP || e->state == EP_CONNECTING) && (e->heard || e->spoke);
	uint32_t i;

	if (e->state == EP_CLOSING || e->state == EP_CLOSED)
		return;
	e->news &= ~(uint32_t)(NEWS_UP | NEWS_DOWN);
	verbs_grow_off(e);
	for (i = 0; i < VERBS_SLOTS; i++)
		list_del(&e->receive[i].link);
	e->state = EP_CLOSING;
	if (talks && !e->left) {
		for (i = QP_FIRST + 1; i < QPS; i++)
			qp_fail(&e->qps[i]);
		set_deadline(e, BYE_NS);
		verbs_message_bye(e);
		verbs_ep_kick(e);
	} else {
		fail_ways(e);
	}
}

/* The device does not return its requests: destroying the queue pairs gives the memory back. */
static void destroy_ways(struct verbs_ep *e)
{
	uint32_t i;

	for (i = 0; i < QPS; i++) {
		struct verbs_qp *w = &e->qps[i];

		if (!w->handle)
			continue;
		verbs_qp_destroy(w);
		verbs_ring_drain(w);
		w->receives = 0;
	}
	verbs_ep_kick(e);
}

static void expired(struct verbs_ep *e)
{
	e->deadline_ns = NEVER_NS;
	if (e->state == EP_CONNECTING)
		verbs_ep_down(e, -ETIMEDOUT);
	else if (!e->qps[QP_FIRST].failing)
		fail_ways(e);
	else
		destroy_ways(e);
}

/* ---- progress ---- */

void verbs_ep_watch(struct verbs_device *d)
{
	d->watch_ns = clock_ns() + dead_after_ns(d) / 4;
	verbs_until(d, d->watch_ns);
}

/* 1: it has requests under way. A device may repeat them for ever, by its own timers. Progress of
 * other queue pairs says nothing about this one. */
static int qp_progresses(struct verbs_qp *w, uint64_t now)
{
	if (w->acked == w->posted || w->ep->state != EP_UP) {
		w->seen = w->acked - 1; /* the time starts with the next request */
		return 0;
	}
	if (w->acked != w->seen) {
		w->seen = w->acked;
		w->seen_ns = now;
	} else if (now - w->seen_ns >= dead_after_ns(verbs_ep_device(w->ep))) {
		verbs_ep_down(w->ep, -ETIMEDOUT);
	}
	return 1;
}

static int progresses(struct verbs_ep *e, uint64_t now)
{
	int busy = 0;
	uint32_t i;

	for (i = 0; i < QPS; i++)
		busy |= qp_progresses(&e->qps[i], now);
	return busy;
}

static void eps_watch(struct verbs_device *d, uint64_t now)
{
	struct list *pos, *tmp;
	int busy = 0;

	list_for_each_safe(pos, tmp, &d->eps)
		busy |= progresses(list_entry(pos, struct verbs_ep, all), now);
	d->watch_ns = busy ? now + dead_after_ns(d) / 4 : NEVER_NS;
}

void verbs_ep_tick(struct verbs_device *d, uint64_t now)
{
	struct verbs_ep *e;

	if (d->watch_ns <= now)
		eps_watch(d, now);
	if (d->watch_ns != NEVER_NS)
		verbs_until(d, d->watch_ns);

	list_for_each_entry_safe(e, &d->eps, all) {
		if (e->deadline_ns <= now)
			expired(e);
		else if (e->deadline_ns != NEVER_NS)
			verbs_until(d, e->deadline_ns);
	}
}
