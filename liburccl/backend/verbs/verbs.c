/* SPDX-License-Identifier: Apache-2.0 */
/* The device and its poll. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "backend/verbs/verbs.h"

#define CHUNK_BYTES (1024u * 1024)
/* A port at 5 MB/s acknowledges that in 52 ms; it retransmits after 67 ms. */
#define WINDOW	(256u << 10)
#define QPS_MAX (1u << 18)
#define BATCHES 4u /* batches of completions per poll */
/* Polls between reads of asynchronous events, while the engine does not sleep. */
#define ASYNC_POLLS 1024u
#define FIRST_CQES  1024u  /* initial size of the completion queue */
#define FIXED_CQES  65536u /* largest size of one that cannot be enlarged: 4 MiB */

/* ---- opening ---- */

static int epoll_add(struct verbs_device *d, int fd, const char *what)
{
	struct epoll_event event = {.events = EPOLLIN};
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
	    epoll_ctl(d->dev.fd, EPOLL_CTL_ADD, fd, &event))
		return fail(-errno, "ib: cannot wait for %s: %s", what, errno_text(errno));
	return 0;
}

static int verbs_open_fds(struct verbs_device *d)
{
	int rc;

	d->dev.fd = epoll_create1(EPOLL_CLOEXEC);
	if (d->dev.fd < 0)
		return fail_errno(-errno, "ib: no epoll descriptor");
	d->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (d->timer_fd < 0)
		return fail_errno(-errno, "ib: no timer descriptor");
	rc = epoll_add(d, d->timer_fd, "the timer");
	if (!rc)
		rc = epoll_add(d, d->channel->fd, "completions");
	return rc ? rc : epoll_add(d, d->port.context->async_fd, "events of the device");
}

static int open_refused(const struct verbs_device *d, const char *what)
{
	int err = errno ? errno : ENOMEM;

	return fail(-err, "ib: %s gives no %s: %s", d->port.name, what, errno_text(err));
}

/* Makes a queue for n completions, or as many as the device allows. */
static int cq_make(struct verbs_device *d, uint32_t n)
{
	uint32_t max = (uint32_t)d->port.attr.max_cqe;

	errno = 0;
	d->ncqes = n < max ? n : max;
	d->cq = d->lib.create_cq(d->port.context, (int)d->ncqes, NULL, d->channel, 0);
	return d->cq ? 0 : open_refused(d, "completion queue");
}

/* Completions of all eps that the settings allow at a time. */
static uint32_t cqes_most(const struct urccl_params *p)
{
	uint32_t eps = p->max_warm ? p->max_warm : p->max_peers, each = VERBS_CQES_MOST;

	if (p->max_qps && p->max_qps / QPS < eps)
		eps = p->max_qps / QPS;
	return eps < FIXED_CQES / each ? eps * each : FIXED_CQES;
}

/* Some devices cannot enlarge a queue, and report that only when asked: it gets its final size
 * then. */
static int cq_open(struct verbs_device *d)
{
	uint32_t n = cqes_most(&d->settings);
	int rc = cq_make(d, FIRST_CQES);

	if (rc)
		return rc;
	rc = abs(d->lib.resize_cq(d->cq, (int)d->ncqes));
	if (rc != EOPNOTSUPP && rc != ENOSYS)
		return 0;
	d->fixed = 1;
	d->lib.destroy_cq(d->cq);
	d->cq = NULL;
	while (n > FIRST_CQES && cq_make(d, n))
		n /= 2;
	return d->cq ? 0 : cq_make(d, FIRST_CQES);
}

static int open_objects(struct verbs_device *d)
{
	int rc;

	errno = 0;
	d->pd = d->lib.alloc_pd(d->port.context);
	if (!d->pd)
		return open_refused(d, "protection domain");
	d->channel = d->lib.create_comp_channel(d->port.context);
	if (!d->channel)
		return open_refused(d, "completion channel");
	rc = cq_open(d);
	if (rc)
		return rc;
	d->flush_page = verbs_pages(d, VERBS_FLUSH_LEN, IBV_ACCESS_REMOTE_READ, &d->flush_mr);
	return d->flush_page ? 0 : -ENOMEM;
}

static int verbs_close(struct device *dev)
{
	struct verbs_device *d = verbs_device(dev);

	verbs_pages_free(d, d->flush_page, VERBS_FLUSH_LEN, d->flush_mr);
	if (d->cq)
		d->lib.destroy_cq(d->cq);
	if (d->channel)
		d->lib.destroy_comp_channel(d->channel);
	if (d->pd)
		d->lib.dealloc_pd(d->pd);
	fd_close(d->timer_fd);
	fd_close(d->dev.fd);
	verbs_port_close(&d->lib, &d->port);
	handles_fini(&d->qps);
	pthread_mutex_destroy(&d->room);
	free(d);
	return 0;
}

static int verbs_is_cut(struct device *dev)
{
	struct verbs_device *d = verbs_device(dev);

	return load_acquire(&d->broken) || verbs_port_is_cut(&d->port);
}

void verbs_device_init(struct verbs_device *d, const struct device_config *config)
{
	d->dev.ops = &backend_ib;
	d->dev.index = config->index;
	d->dev.fd = -1;
	d->timer_fd = -1;
	d->settings = *config->params;
	d->next_ns = NEVER_NS;
	d->armed_ns = NEVER_NS;
	d->watch_ns = NEVER_NS;
	pthread_mutex_init(&d->room, NULL);
	chunk_queue_init(&d->done);
	list_init(&d->eps);
	list_init(&d->reporting);
	list_init(&d->kicked);
	list_init(&d->messages);
	list_init(&d->given);
}

/* WRITEs need READs as proof that they are placed. */
static int check_reads(const struct verbs_device *d)
{
	const struct ibv_device_attr *a = &d->port.attr;

	if (a->max_qp_rd_atom > 0 && a->max_qp_init_rd_atom > 0)
		return 0;
	return fail(-EOPNOTSUPP,
		    "ib: %s has queue pairs without RDMA READs (max_qp_rd_atom %d, "
		    "max_qp_init_rd_atom %d), which prove that WRITEs are placed",
		    d->port.name, a->max_qp_rd_atom, a->max_qp_init_rd_atom);
}

static int verbs_device_open(struct verbs_device *d, const struct device_config *config)
{
	char gid[GID_TEXT];
	int rc = handles_init(&d->qps, QPS_MAX, HANDLE_INTERNAL);

	if (rc)
		return fail(rc, "ib: no memory for the table of queue pairs");
	rc = verbs_lib_open(&d->lib, config->params->ibv_so);
	if (!rc)
		rc = verbs_port_open(&d->lib, config, &d->port);
	if (!rc)
		rc = check_reads(d);
	if (!rc)
		rc = open_objects(d);
	if (!rc)
		rc = verbs_open_fds(d);
	if (rc)
		return rc;
	snprintf(d->about, sizeof(d->about), "peers that %s reaches (%s), by queue pairs",
		 d->port.name, gid_text(&d->port.ends[0], gid));
	d->dev.about = d->about;
	d->dev.caps = CAP_FAILOVER | CAP_ERROR_KILLS_EP | CAP_PIN | CAP_SLOW_REG | CAP_BY_PAGES |
		      CAP_GPU_DIRECT | (d->lib.reg_dmabuf_mr ? CAP_DMABUF : 0);
	d->dev.bytes_per_s = verbs_port_speed(&d->port);
	return 0;
}

static uint32_t verbs_scan(const struct device_config *config)
{
	struct verbs_lib lib;

	return verbs_lib_open(&lib, config->params->ibv_so) ? 0 : verbs_ports(&lib, config);
}

static int verbs_open(const struct device_config *config, struct device **dev)
{
	struct verbs_device *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return fail(-ENOMEM, "ib: no memory for the device");
	verbs_device_init(d, config);
	rc = verbs_device_open(d, config);
	if (rc) {
		verbs_close(&d->dev);
		return rc;
	}
	*dev = &d->dev;
	return 0;
}

/* ---- results ---- */

/* CHUNK_FAILOVER for a chunk that a broken or closed ep left without a result. */
static uint32_t failover_flag(const struct chunk *c, int res)
{
	if (res == -ECONNRESET || (res == -ECANCELED && !(c->flags & CHUNK_CANCELLED)))
		return CHUNK_FAILOVER;
	return 0;
}

void verbs_out(struct verbs_device *d, struct chunk *c, int res, uint32_t flags)
{
	c->res = res;
	c->flags = (uint8_t)(flags | failover_flag(c, res));
	c->state = 0;
	verbs_ep(c->ep)->done++;
	chunk_queue_add(&d->done, c);
}

static uint32_t give_messages(struct verbs_device *d, struct event *events, uint32_t n)
{
	uint32_t out = 0;

	while (out < n && !list_empty(&d->messages)) {
		struct verbs_receive *r = list_first(&d->messages, struct verbs_receive, link);
		struct verbs_ep *e = r->ep;

		list_del(&r->link);
		list_add_tail(&r->link, &d->given);
		events[out++] = (struct event){
			.type = EVENT_MESSAGE,
			.ep = &e->ep,
			.data = e->pages + (size_t)(r - e->receive) * VERBS_SLOT + VERBS_HEADER,
			.len = r->len,
		};
	}
	return out;
}

static uint32_t give_chunks(struct verbs_device *d, struct event *events, uint32_t n)
{
	uint32_t out = 0;

	while (out < n && d->done.head) {
		struct chunk *c = chunk_queue_pop(&d->done);

		verbs_ep(c->ep)->done--;
		events[out++] = (struct event){.type = EVENT_CHUNK, .chunk = c};
	}
	return out;
}

/* ---- completions ---- */

static void receive_done(struct verbs_qp *w, uint32_t i, const struct ibv_wc *wc)
{
	struct verbs_ep *e = w->ep;
	int rc;

	w->receives -= w->receives > 0;
	if (w->failing)
		return;
	if (wc->status != IBV_WC_SUCCESS || w != &e->qps[QP_FIRST]) {
		verbs_ep_down(e, wc->status == IBV_WC_SUCCESS ? -EPROTO : -ECONNRESET);
		return;
	}
	if (e->state != EP_UP && e->state != EP_CONNECTING)
		return;
	rc = verbs_message_came(e, i, wc->byte_len);
	if (rc)
		verbs_ep_down(e, rc);
}

/* Completions of closed queue pairs match no handle. */
static void completion(struct verbs_device *d, const struct ibv_wc *wc)
{
	struct verbs_qp *w = handles_get(&d->qps, (uint32_t)(wc->wr_id >> 32));
	uint32_t name = (uint32_t)wc->wr_id;

	if (!w)
		return;
	/* Flushed requests come after the one that failed. */
	if (wc->status != IBV_WC_SUCCESS && wc->status != IBV_WC_WR_FLUSH_ERR && !w->code)
		w->code = device_code((uint16_t)wc->status, wc->vendor_err);
	if (name & VERBS_IS_RECEIVE)
		receive_done(w, name & VERBS_NUMBER, wc);
	else
		verbs_ring_done(w, name, wc->status);
	verbs_ep_kick(w->ep);
}

static void all_down(struct verbs_device *d, int res)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &d->eps)
		verbs_ep_down(list_entry(pos, struct verbs_ep, all), res);
}

/* Descriptors of a device that was unplugged stay readable: stop watching them. */
static void device_broke(struct verbs_device *d, int res)
{
	store_release(&d->broken, res);
	epoll_ctl(d->dev.fd, EPOLL_CTL_DEL, d->channel->fd, NULL);
	epoll_ctl(d->dev.fd, EPOLL_CTL_DEL, d->port.context->async_fd, NULL);
	all_down(d, res);
}

static void completions(struct verbs_device *d)
{
	uint32_t batch;
	int i;

	for (batch = 0; batch < BATCHES; batch++) {
		if (!d->nwc)
			d->nwc = ibv_poll_cq(d->cq, VERBS_WCS, d->wc);
		if (d->nwc > 0)
			d->dev.served = 1;
		for (i = 0; i < d->nwc; i++)
			completion(d, &d->wc[i]);
		if (d->nwc < 0 && !d->broken)
			device_broke(d, -EIO);
		i = d->nwc;
		d->nwc = 0;
		if (i < (int)VERBS_WCS)
			return;
	}
}

/* ---- asynchronous events ---- */

static void async_event(struct verbs_device *d, const struct ibv_async_event *event)
{
	struct verbs_qp *w;

	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		w = event->element.qp->qp_context;
		/* Not connected yet, or closed: the control thread has it. */
		if (!w->handle)
			return;
		if (!w->failing)
			verbs_ep_down(w->ep, -ECONNRESET);
		verbs_ep_kick(w->ep);
		return;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_GID_CHANGE:
		if (event->element.port_num == d->port.port)
			store_release(&d->port_news, d->port_news + 1);
		return;
	case IBV_EVENT_PORT_ERR:
		if (event->element.port_num == d->port.port)
			all_down(d, -ENETDOWN);
		return;
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_DEVICE_FATAL:
		device_broke(d, -EIO);
		return;
	default:
		return;
	}
}

static void async_events(struct verbs_device *d)
{
	struct ibv_async_event event;

	while (!d->lib.get_async_event(d->port.context, &event)) {
		async_event(d, &event);
		d->lib.ack_async_event(&event);
	}
	/* If the device went away, the event may be lost: treat it as broken. */
	if (errno != EAGAIN && errno != EINTR && !d->broken)
		device_broke(d, -EIO);
}

/* ---- sleeping ---- */

void verbs_until(struct verbs_device *d, uint64_t ns)
{
	if (ns < d->next_ns)
		d->next_ns = ns;
}

static void set_timer(struct verbs_device *d)
{
	struct itimerspec when = {.it_value.tv_sec = 0};
	uint64_t at = d->next_ns ? d->next_ns : 1; /* 0 would stop it */

	if (d->next_ns == d->armed_ns)
		return;
	d->armed_ns = d->next_ns;
	if (d->next_ns != NEVER_NS) {
		when.it_value.tv_sec = (time_t)(at / NSEC_PER_SEC);
		when.it_value.tv_nsec = (long)(at % NSEC_PER_SEC);
	}
	timerfd_settime(d->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Drains the descriptors that became readable while the engine slept, so that the next sleep does
 * not end at once. */
static void drain_fds(struct verbs_device *d)
{
	struct ibv_cq *cq;
	uint64_t ticks;
	unsigned int n = 0;
	void *owner;

	d->slept = 0;
	while (!d->lib.get_cq_event(d->channel, &cq, &owner))
		n++;
	if (n)
		d->lib.ack_cq_events(d->cq, n);
	if (read(d->timer_fd, &ticks, sizeof(ticks)) == (ssize_t)sizeof(ticks))
		d->armed_ns = NEVER_NS;
	async_events(d);
}

static int verbs_arm(struct device *dev)
{
	struct verbs_device *d = verbs_device(dev);

	if (!list_empty(&d->reporting) || !list_empty(&d->kicked) || !list_empty(&d->messages) ||
	    !list_empty(&d->given) || d->done.head || d->nwc)
		return 1;
	d->slept = 1;
	set_timer(d);
	if (ibv_req_notify_cq(d->cq, 0))
		return !d->broken;
	/* Completions before the request cause no event. */
	d->nwc = ibv_poll_cq(d->cq, VERBS_WCS, d->wc);
	/* A broken queue keeps failing: deadlines end the eps. */
	if (d->nwc < 0 && d->broken)
		d->nwc = 0;
	return d->nwc != 0;
}

/* ---- poll ---- */

static void eps_tick(struct verbs_device *d)
{
	uint64_t now;

	if (d->next_ns == NEVER_NS)
		return;
	now = clock_ns();
	if (now < d->next_ns)
		return;
	d->next_ns = NEVER_NS;
	verbs_ep_tick(d, now);
}

static void eps_kick(struct verbs_device *d)
{
	struct verbs_ep *e;

	while (!list_empty(&d->kicked)) {
		e = list_first(&d->kicked, struct verbs_ep, kicked);
		list_del(&e->kicked);
		verbs_ring_kick(e);
		if (e->state == EP_DOWN || e->state == EP_CLOSING)
			verbs_ep_settle(e);
	}
}

static uint32_t give_ends(struct verbs_device *d, struct event *events, uint32_t n)
{
	return list_empty(&d->reporting) ? 0 : verbs_report(d, events, n, 1);
}

static uint32_t verbs_poll(struct device *dev, struct event *events, uint32_t n)
{
	struct verbs_device *d = verbs_device(dev);
	uint32_t out = 0;

	verbs_message_recycle(d);
	if (d->slept)
		drain_fds(d);
	else if (!(++d->polls % ASYNC_POLLS))
		async_events(d);
	completions(d);
	eps_tick(d);
	eps_kick(d);
	if (!list_empty(&d->reporting))
		out = verbs_report(d, events, n, 0);
	out += give_messages(d, events + out, n - out);
	/* Before the chunks, since other eps may fill every poll; and after them, since this ep may
	 * have a chunk in every poll. */
	out += give_ends(d, events + out, n - out);
	out += give_chunks(d, events + out, n - out);
	return out + give_ends(d, events + out, n - out);
}

static uint32_t verbs_post(struct ep *ep, struct chunk **chunks, uint32_t n)
{
	struct verbs_ep *e = verbs_ep(ep);

	if (e->state < EP_UP)
		return 0;
	return verbs_ring_post(e, chunks, n);
}

/* Requests on a live queue pair complete by themselves within the engine's window. A device takes
 * requests back only together with the queue pair. */
static void verbs_cancel(struct chunk *chunk, enum cancel_how how)
{
	if (!chunk->state)
		return;
	chunk->flags |= CHUNK_CANCELLED;
	if (verbs_ring_unhold(chunk))
		return;
	if (how == CANCEL_NOW)
		verbs_ep_down(verbs_ep(chunk->ep), -ECANCELED);
}

static uint32_t verbs_mrs(struct device *dev, uint32_t *most)
{
	const struct verbs_device *d = verbs_device(dev);

	*most = (uint32_t)d->port.attr.max_mr;
	return load_relaxed(&d->mrs);
}

const struct backend backend_ib = {
	.name = "ib",
	.transport = URCCL_TRANSPORT_IB,
	.chunk_bytes = CHUNK_BYTES,
	.window = WINDOW,
	.qps = QPS,
	.scan = verbs_scan,
	.open = verbs_open,
	.is_cut = verbs_is_cut,
	.close = verbs_close,
	.mrs = verbs_mrs,
	.reg = verbs_reg,
	.unreg = verbs_unreg,
	.pin = verbs_pin,
	.unpin = verbs_unpin,
	.ep_open = verbs_ep_open,
	.ep_free = verbs_ep_free,
	.ep_prepare = verbs_ep_prepare,
	.ep_add_qps = verbs_ep_add_qps,
	.ep_qps_added = verbs_ep_qps_added,
	.ep_connect = verbs_ep_connect,
	.ep_close = verbs_ep_close,
	.expose = verbs_expose,
	.unexpose = verbs_unexpose,
	.import = verbs_import,
	.forget = verbs_forget,
	.post = verbs_post,
	.cancel = verbs_cancel,
	.poll = verbs_poll,
	.arm = verbs_arm,
};
