/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "backend/fabric/key.h"
#include "backend/fabric/pick.h"

#define CHUNK_BYTES (1024u * 1024)
#define MSG_QUEUE   4096u /* completions */
#define PREFIX	    "fabric:"
#define RETRY_NS    (1 * NSEC_PER_MSEC)
#define TICK_NS	    (10 * NSEC_PER_MSEC)
/* Pause after a poll of the message endpoint, in times of its length, while the engine spins. */
#define MSG_PART 4u
/* The length counts at most this much: the thread may have been preempted in the poll. */
#define MSG_LOOK (50 * NSEC_PER_USEC)

/* ---- the device ---- */

/* Fills in the request to libfabric for the transport of ops. 0, or -errno with fail() text. */
static int wish_of(const struct backend *ops, const struct device_config *config,
		   struct fabric_wish *w)
{
	const char *at;

	if (ops == &backend_efa) {
		fabric_efa_wish(w, config);
		return 0;
	}
	if (ops == &backend_cxi) {
		fabric_cxi_wish(w, config);
		return fabric_cxi_threading(w, config->params);
	}
	at = config->params->transport ? strstr(config->params->transport, PREFIX) : NULL;
	if (!at)
		return fail(-EINVAL, "transport fabric wants a provider's name behind it, such as "
				     "\"fabric:tcp;ofi_rxm\"");
	return fabric_wish_read(w, at + strlen(PREFIX));
}

/* Identifies this machine's clock, so that times of one machine can be compared. 0: no machine. */
static uint64_t boot_read(void)
{
	static const uint8_t key[16];
	uint8_t hash[16];
	uint64_t boot;

	if (!machine_hash(key, hash))
		memcpy(&boot, hash, sizeof(boot));
	else if (random_bytes(&boot, sizeof(boot)))
		boot = 0;
	return boot;
}

static int fabric_open_fds(struct fabric_device *d)
{
	struct epoll_event ev = {.events = EPOLLIN};

	d->dev.fd = epoll_create1(EPOLL_CLOEXEC);
	if (d->dev.fd < 0)
		return fail_errno(-errno, "libfabric: no epoll descriptor");
	d->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (d->timer < 0 || epoll_ctl(d->dev.fd, EPOLL_CTL_ADD, d->timer, &ev))
		return fail_errno(-errno, "libfabric: no timer descriptor");
	return 0;
}

/* An object that the provider does not close is leaked, with all that it refers to. */
static int domain_end(struct fabric_device *d)
{
	if (fabric_endpoint_end(d, &d->msg) || fabric_shared_close(d) ||
	    (d->proof_mr && fabric_fid_end(d, &d->proof_mr->fid)))
		return -EBUSY;
	while (d->slabs) {
		struct fabric_slab *slab = d->slabs;

		d->slabs = slab->next;
		fabric_slab_close(d, slab);
	}
	if (d->domain && fabric_fid_end(d, &d->domain->fid))
		return -EBUSY;
	if (d->fabric)
		fabric_fid_end(d, &d->fabric->fid);
	return 0;
}

void fabric_domain_close(struct fabric_device *d)
{
	fabric_domain_lock(d);
	d->unclosed = domain_end(d);
	fabric_domain_unlock(d);
}

static void fabric_end(struct device *dev)
{
	fabric_helper_end(fabric_device(dev));
}

static int fabric_close(struct device *dev)
{
	struct fabric_device *d = fabric_device(dev);

	if (fabric_helper_stop(d))
		return fail(-EBUSY,
			    "libfabric: provider %s has not returned from a call that closes, and "
			    "was left in it: it keeps what is registered with it",
			    d->info->fabric_attr->prov_name);
	fabric_tcp_close(d);
	fabric_av_free(d);
	if (d->info)
		d->lib.freeinfo(d->info);
	fd_close(d->timer);
	fd_close(d->dev.fd);
	fabric_lock_free(d);
	if (!d->unclosed)
		free(d);
	return 0;
}

static struct fabric_device *device_new(const struct device_config *config)
{
	struct fabric_device *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->dev.index = config->index;
	d->dev.fd = d->timer = -1;
	d->dev.about = d->about;
	d->to_helper.fd = d->from_helper.fd = -1;
	d->dead_after_ms = config->params->dead_after_ms;
	d->boot = boot_read();
	list_init(&d->eps);
	list_init(&d->telling);
	list_init(&d->free_slots);
	list_init(&d->given);
	list_init(&d->unposted);
	list_init(&d->expiring);
	d->expire_ns = NEVER_NS;
	chunk_queue_init(&d->out);
	fabric_av_init(d);
	fabric_lock_init(d);
	return d;
}

/* Opens the message endpoint. Its queue has a wait object, unless the provider has none or spin_us
 * is unlimited: with some providers a wait object costs time for each poll and packet. */
static int msg_open(struct fabric_device *d, const struct urccl_params *p)
{
	int err;

	d->waits = !d->restless && !d->narrow && p->spin_us != UINT32_MAX;
	err = fabric_endpoint_open(d, &d->msg, MSG_QUEUE);
	if (!err || !d->waits)
		return err;
	if (d->msg.cq) /* left by a provider that did not close it */
		return err;
	d->waits = 0;
	return fabric_endpoint_open(d, &d->msg, MSG_QUEUE);
}

/* The message endpoint is opened with the traffic class for latency. Later ones, made from the same
 * info, get that for bulk. */
static int endpoints_open(struct fabric_device *d, const struct fabric_wish *w,
			  const struct urccl_params *p)
{
	uint32_t *tclass = &d->info->tx_attr->tclass, bulk = *tclass;
	int err = fabric_tclass(w, p, URCCL_CLASS_BULK, &bulk);

	if (!err)
		err = fabric_tclass(w, p, URCCL_CLASS_LATENCY, tclass);
	if (!err)
		err = msg_open(d, p);
	*tclass = bulk;
	return err ? err : fabric_shared_open(d);
}

static void set_about(struct fabric_device *d)
{
	const struct fi_info *i = d->info;

	snprintf(d->about, sizeof(d->about),
		 "peers of its fabric, by libfabric %u.%u's provider %.40s on %.40s%s",
		 FI_MAJOR(d->lib.version), FI_MINOR(d->lib.version), i->fabric_attr->prov_name,
		 i->domain_attr->name, d->waits ? "" : ", polled on a timer");
}

static int open_all(struct fabric_device *d, const struct device_config *config)
{
	struct fabric_wish w;
	int err = wish_of(d->dev.ops, config, &w);

	if (!err)
		err = fabric_load(&d->lib, config->params->libfabric_so);
	if (!err)
		err = fabric_open_fds(d);
	if (!err)
		err = fabric_find(d, &w, config);
	if (!err)
		err = endpoints_open(d, &w, config->params);
	if (!err)
		err = fabric_check_endpoint(d, &w);
	return err ? err : fabric_helper_start(d, config->params);
}

static int fabric_device_open(const struct backend *ops, const struct device_config *config,
			      struct device **dev)
{
	struct fabric_device *d = device_new(config);
	int err;

	if (!d)
		return fail(-ENOMEM, "libfabric: no memory for the device");
	d->dev.ops = ops;
	d->cq_size = ops == &backend_cxi ? config->params->cxi_cq_size : 0;
	err = open_all(d, config);
	if (err) {
		fabric_close(&d->dev);
		return err;
	}
	set_about(d);
	*dev = &d->dev;
	return 0;
}

/* At least 1, so that open() reports the reason with its own error code. */
static uint32_t devices_scan(const struct backend *ops, const struct device_config *config)
{
	struct fabric_wish w;
	int n = wish_of(ops, config, &w);

	if (!n)
		n = fabric_count(&w, config);
	return n > 0 ? (uint32_t)n : 1;
}

#define SCAN_AND_OPEN(transport_)                                                             \
	static uint32_t transport_##_scan(const struct device_config *config)                 \
	{                                                                                     \
		return devices_scan(&backend_##transport_, config);                           \
	}                                                                                     \
	static int transport_##_open(const struct device_config *config, struct device **dev) \
	{                                                                                     \
		return fabric_device_open(&backend_##transport_, config, dev);                \
	}

SCAN_AND_OPEN(fabric)
SCAN_AND_OPEN(efa)
SCAN_AND_OPEN(cxi)

/* ---- events ---- */

int fabric_queue_remove(struct chunk_queue *q, const struct chunk *c)
{
	struct chunk **at = &q->head;

	while (*at && *at != c)
		at = &(*at)->next;
	if (!*at)
		return 0;
	chunk_queue_del(q, at);
	return 1;
}

void fabric_out(struct fabric_ep *e, struct chunk *c, int res, uint32_t flags)
{
	fabric_move_clear(e, c);
	if (c == &e->prove) {
		fabric_move_proved(e, res);
		return;
	}
	c->res = res;
	c->flags |= (uint8_t)flags;
	if (!res && fabric_reaches_gpu(fabric_ep_device(e), c))
		c->flags |= CHUNK_UNFLUSHED;
	c->state |= CHUNK_OUT;
	chunk_queue_add(&fabric_ep_device(e)->out, c);
}

void fabric_out_failover(struct fabric_ep *e, struct chunk *c, uint32_t flags)
{
	uint32_t failover = c->flags & CHUNK_CANCELLED ? 0 : CHUNK_FAILOVER;

	fabric_out(e, c, e->res, flags | failover);
}

static void fabric_event(struct fabric_device *d, struct fabric_ep *e, uint32_t type, int res)
{
	d->events[d->nevents++] = (struct event){.type = type, .res = res, .ep = &e->ep};
}

void fabric_report(struct fabric_ep *e, enum fabric_news news)
{
	struct fabric_device *d = fabric_ep_device(e);

	/* Messages that follow at once must not be seen before EVENT_UP. */
	if (news == NEWS_UP && d->nevents < d->max) {
		fabric_event(d, e, EVENT_UP, 0);
		return;
	}
	e->news |= news;
	if (list_empty(&e->telling))
		list_add_tail(&e->telling, &d->telling);
}

static void give_chunks(struct fabric_device *d)
{
	while (d->out.head && d->nevents < d->max) {
		struct chunk *c = chunk_queue_pop(&d->out);

		fabric_ep(c->ep)->chunks--;
		d->events[d->nevents++] = (struct event){.type = EVENT_CHUNK, .chunk = c};
	}
}

/* EVENT_CLOSED comes after all chunks of the ep. */
static void give_news(struct fabric_device *d, uint32_t which)
{
	struct fabric_ep *e;

	list_for_each_entry_safe(e, &d->telling, telling) {
		uint32_t news = e->news & which;

		if (d->nevents == d->max)
			return;
		if (news & NEWS_UP) {
			e->news &= ~(uint32_t)NEWS_UP;
			fabric_event(d, e, EVENT_UP, 0);
		} else if (news & NEWS_DOWN) {
			e->news &= ~(uint32_t)NEWS_DOWN;
			fabric_event(d, e, EVENT_DOWN, e->res);
		} else if (news & NEWS_CLOSED && !e->chunks) {
			e->news = 0;
			fabric_event(d, e, EVENT_CLOSED, 0);
		}
		if (!e->news)
			list_del(&e->telling);
	}
}

/* ---- poll and sleep ---- */

static void jobs_take(struct fabric_device *d)
{
	struct msg *m = mailbox_take(&d->from_helper), *next;

	for (; m; m = next) {
		next = m->next;
		if (m->type == JOB_KEY)
			fabric_grant_closed(container_of(m, struct fabric_grant, job));
		else if (m->type == JOB_FILL)
			fabric_bound_filled(container_of(m, struct fabric_grant, fill));
		else if (m->type == JOB_FORGET)
			free(container_of(m, struct fabric_av_entry, job));
		else if (m->type == JOB_SPARE || m->type == JOB_RETIRE)
			fabric_shared_job_done(d, container_of(m, struct fabric_initiator, job));
		else
			fabric_ep_job_done(container_of(m, struct fabric_ep, job));
	}
}

static void wake_up(struct fabric_device *d)
{
	struct itimerspec off = {.it_value = {0, 0}};

	d->armed = 0;
	wake_drain(d->from_helper.fd);
	timerfd_settime(d->timer, 0, &off, NULL);
}

/* Polls the message endpoint. With some providers a poll is a system call, so an engine that spins
 * polls the data endpoints several times in between: while no message comes, this takes one part in
 * MSG_PART + 1 of the time. With providers whose poll only reads memory, it is polled about every
 * other time. */
static void msg_look(struct fabric_device *d, int woken)
{
	uint64_t now = clock_ns(), took;

	if (!woken && now < d->msg_ns)
		return;
	d->msg_ns = 0;
	if (fabric_msg_poll(d))
		return;
	took = clock_ns() - now;
	d->msg_ns = now + MSG_PART * (took < MSG_LOOK ? took : MSG_LOOK);
}

/* Rotates the list: an ep that found no room on the shared endpoints must not come last each
 * time. */
static void serialize(struct fabric_device *d)
{
	struct fabric_ep *e = list_first(&d->eps, struct fabric_ep, all);

	list_del(&e->all);
	list_add_tail(&e->all, &d->eps);
}

uint32_t fabric_poll(struct device *dev, struct event *events, uint32_t n)
{
	struct fabric_device *d = fabric_device(dev);
	int woken = (int)d->armed;
	struct fabric_ep *e;

	d->events = events;
	d->max = n;
	d->nevents = 0;
	d->stalled = 0;
	if (d->armed)
		wake_up(d);
	give_news(d, NEWS_UP);
	jobs_take(d);
	if (d->expire_ns != NEVER_NS)
		fabric_grants_tick(d);
	fabric_msg_begin(d);
	msg_look(d, woken);
	if (d->shared)
		fabric_shared_poll(d);
	list_for_each_entry_safe(e, &d->eps, all) {
		if (d->dead)
			fabric_ep_down(e, -EIO);
		fabric_move_poll(e);
		fabric_ep_tick(e);
	}
	if (d->shared && d->stalled && !list_empty(&d->eps))
		serialize(d);
	give_chunks(d);
	give_news(d, NEWS_DOWN | NEWS_CLOSED);
	d->max = 0;
	return d->nevents;
}

static int fabric_is_stuck(struct device *dev, uint64_t since)
{
	return fabric_helper_is_stuck(fabric_device(dev), since);
}

/* The time until the next poll that no descriptor triggers; 0: none is needed. */
static uint64_t timer_ns(const struct fabric_device *d)
{
	uint64_t now = clock_ns(), at = d->expire_ns;
	const struct fabric_ep *e;

	if (d->stalled || fabric_shared_waits(d) ||
	    ((!d->waits || d->unwatched) && !list_empty(&d->eps)))
		return RETRY_NS;
	if (d->revoking)
		return TICK_NS;
	list_for_each_entry(e, &d->eps, all) {
		uint64_t again = e->resend_ns ? e->resend_ns : now + e->resend_in;

		if (e->deadline_ns)
			return TICK_NS;
		if (fabric_msg_awaits(e) && again < at)
			at = again;
	}
	if (at == NEVER_NS)
		return 0;
	return at > now ? at - now : 1;
}

static void timer_set(struct fabric_device *d)
{
	uint64_t ns = timer_ns(d);
	struct itimerspec at = {.it_value = {.tv_sec = (time_t)(ns / NSEC_PER_SEC),
					     .tv_nsec = (long)(ns % NSEC_PER_SEC)}};

	timerfd_settime(d->timer, 0, &at, NULL);
}

/* An epoll that watches a queue costs time for each packet, even while nobody sleeps. The queue is
 * therefore added when the engine first wants to sleep. Closing the queue removes its
 * descriptor. */
static void queue_watch(struct fabric_device *d, struct fabric_endpoint *endpoint)
{
	struct epoll_event ev = {.events = EPOLLIN};

	endpoint->watched = 1;
	/* The kernel limits the number of watched descriptors, and of epolls that watch one: some
	 * providers share objects between all queues. A timer replaces the watch then. */
	if (epoll_ctl(d->dev.fd, EPOLL_CTL_ADD, endpoint->fd, &ev))
		d->unwatched = 1;
}

static int queue_has(struct fabric_device *d, struct fabric_endpoint *endpoint)
{
	struct fid *fid;

	if (!d->waits || !endpoint->cq)
		return 0;
	if (!endpoint->watched)
		queue_watch(d, endpoint);
	fid = &endpoint->cq->fid;
	return fi_trywait(d->fabric, &fid, 1) == -FI_EAGAIN;
}

int fabric_arm(struct device *dev)
{
	struct fabric_device *d = fabric_device(dev);
	struct fabric_ep *e;

	d->armed = 1;
	if (d->out.head || !list_empty(&d->telling) || !list_empty(&d->given))
		return 1;
	if (mailbox_arm(&d->from_helper) || queue_has(d, &d->msg))
		return 1;
	if (d->shared && fabric_shared_has(d, queue_has))
		return 1;
	list_for_each_entry(e, &d->eps, all) {
		if (fabric_msg_waits(e) ||
		    (e->endpoint_state != ENDPOINT_JOB && queue_has(d, &e->endpoint)))
			return 1;
	}
	timer_set(d);
	return 0;
}

#define FABRIC_BACKEND(name_, transport_)                                                          \
	{                                                                                          \
		.name = #name_, .transport = transport_, .chunk_bytes = CHUNK_BYTES,               \
		.scan = name_##_scan, .open = name_##_open, .close = fabric_close,                 \
		.reg = fabric_reg, .unreg = fabric_unreg, .ep_open = fabric_locked_ep_open,        \
		.ep_free = fabric_locked_ep_free, .ep_connect = fabric_ep_connect,                 \
		.ep_close = fabric_ep_close, .expose = fabric_expose, .unexpose = fabric_unexpose, \
		.import = fabric_locked_import, .forget = fabric_locked_forget, .pin = fabric_pin, \
		.unpin = fabric_unpin, .post = fabric_locked_post, .cancel = fabric_cancel,        \
		.poll = fabric_locked_poll, .arm = fabric_locked_arm, .is_stuck = fabric_is_stuck, \
		.end = fabric_end,                                                                 \
	}

const struct backend backend_fabric = FABRIC_BACKEND(fabric, URCCL_TRANSPORT_FABRIC);
const struct backend backend_efa = FABRIC_BACKEND(efa, URCCL_TRANSPORT_EFA);
const struct backend backend_cxi = FABRIC_BACKEND(cxi, URCCL_TRANSPORT_CXI);
