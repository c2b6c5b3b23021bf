/* SPDX-License-Identifier: Apache-2.0 */
/* Transport sim: devices and eps on a simulated network inside the process; see sim.h. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include "backend/sim/sim.h"

/* ---- device ---- */

static int epoll_add(int epoll_fd, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* -1: not open. */
static void close_fds(struct sim_device *dev)
{
	fd_close(dev->timer_fd);
	fd_close(dev->wake_fd);
	fd_close(dev->device.fd);
}

static int sim_open_fds(struct sim_device *dev)
{
	int err = 0;

	dev->device.about = "contexts of this process that join the same simulated network";
	dev->wake_fd = -1;
	dev->timer_fd = -1;
	dev->device.fd = epoll_create1(EPOLL_CLOEXEC);
	if (dev->device.fd >= 0)
		dev->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (dev->timer_fd < 0)
		err = -errno;
	if (!err)
		dev->wake_fd = wake_open();
	if (!err && dev->wake_fd < 0)
		err = dev->wake_fd;
	if (!err)
		err = epoll_add(dev->device.fd, dev->timer_fd);
	if (!err)
		err = epoll_add(dev->device.fd, dev->wake_fd);
	if (err)
		close_fds(dev);
	return err;
}

static void device_init(struct sim_device *dev, uint32_t index)
{
	dev->device.ops = &backend_sim;
	dev->device.index = index;
	list_init(&dev->members);
	list_init(&dev->left);
	list_init(&dev->ups);
	list_init(&dev->ends);
	list_init(&dev->sending);
	chunk_queue_init(&dev->done);
}

/* The context's own fault settings override the network's. */
static int device_faults(const struct device_config *config, struct sim_faults *f)
{
	const struct urccl_sim *net = config->params->sim_network;
	const char *own = config->params->sim;
	int err;

	if (!net)
		return fail(-EINVAL, "sim: no network to join: set sim_network of the parameters");
	*f = net->faults[config->number];
	err = own ? faults_parse(own, config->number, f) : 0;
	if (!err && f->is_simulated != net->faults[0].is_simulated)
		err = fail(-EINVAL,
			   "sim: the clock is the network's: urccl_sim_open() is to be "
			   "told that it is %s",
			   f->is_simulated ? "simulated" : "real");
	return err;
}

/* open() reports invalid settings. */
static uint32_t device_scan(const struct device_config *config)
{
	struct sim_faults faults;

	return device_faults(config, &faults) ? 1 : (uint32_t)faults.rails;
}

static int sim_device_open(const struct device_config *config, struct device **out)
{
	struct urccl_sim *net = config->params->sim_network;
	struct sim_faults faults;
	struct sim_device *dev;
	int err;

	err = device_faults(config, &faults);
	if (err)
		return err;
	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return fail(-ENOMEM, "sim: no memory for a device");
	device_init(dev, config->index);
	dev->faults = faults;
	dev->number = config->number;
	dev->device.bytes_per_s = faults.bytes_per_s;
	dev->clock = faults.is_simulated ? &net->clock : NULL;
	dev->device.caps = CAP_FAILOVER | CAP_ACCESS_OUTLIVES_KEY |
			   (faults.pin_ns > 0 ? CAP_PIN | CAP_SLOW_REG | CAP_BY_PAGES : 0);
	dev->next_ns = NEVER_NS;
	err = sim_open_fds(dev);
	if (err) {
		fail(err, "sim: no file descriptor for a device");
		goto free_dev;
	}
	err = handles_init(&dev->eps, SIM_EPS, HANDLE_INTERNAL);
	if (err) {
		fail(err, "sim: no memory for eps");
		goto close_dev_fds;
	}
	err = handles_init(&dev->exposures, SIM_EXPOSURES, HANDLE_INTERNAL);
	if (err) {
		fail(err, "sim: no memory for exposures");
		goto fini_eps;
	}
	err = sim_join(net, dev);
	if (err)
		goto fini_exposures;
	sim_windows_begin(dev, sim_now(dev));
	*out = &dev->device;
	return 0;
fini_exposures:
	handles_fini(&dev->exposures);
fini_eps:
	handles_fini(&dev->eps);
close_dev_fds:
	close_fds(dev);
free_dev:
	free(dev);
	return err;
}

static int device_close(struct device *d)
{
	struct sim_device *dev = to_sim_device(d);

	sim_ep_lose_left(dev);
	assert(!dev->neps && !dev->heap_len);
	sim_leave(dev);
	handles_fini(&dev->exposures);
	handles_fini(&dev->eps);
	close_fds(dev);
	free(dev->heap);
	free(dev);
	return 0;
}

/* Any memory will do; pinning only takes its time. */
static void pin_pages(struct device *dev)
{
	uint64_t ns = to_sim_device(dev)->faults.pin_ns;
	struct timespec ts = {(time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC)};

	nanosleep(&ts, NULL);
}

static int sim_reg(struct device *dev, struct extent *extent)
{
	if (dev->caps & CAP_SLOW_REG)
		pin_pages(dev);
	extent->mr[dev->index] = dev;
	return 0;
}

static int sim_pin(struct device *dev, struct pin *pin)
{
	(void)pin;
	pin_pages(dev);
	return 0;
}

static int sim_unreg(struct device *dev, struct extent *extent)
{
	if (dev->caps & CAP_SLOW_REG)
		pin_pages(dev);
	extent->mr[dev->index] = NULL;
	return 0;
}

/* ---- chunks ---- */

static uint32_t sim_post(struct ep *e, struct chunk **chunks, uint32_t n)
{
	struct sim_ep *ep = to_sim_ep(e);
	uint32_t i;

	sim_lock(ep->dev);
	for (i = 0; i < n && sim_op_post(ep, chunks[i]); i++)
		;
	sim_send(ep, sim_now(ep->dev));
	sim_unlock(ep->dev);
	return i;
}

static void cancel(struct chunk *chunk, enum cancel_how how)
{
	struct sim_device *dev = to_sim_ep(chunk->ep)->dev;

	sim_lock(dev);
	sim_op_cancel(chunk, how);
	sim_unlock(dev);
}

/* ---- poll ---- */

static int down_ready(const struct sim_ep *ep)
{
	return !ep->down_heard || !ep->dev->net->frozen;
}

/* The network's side of a poll: delivers packets that are due and sends posted chunks. */
static void device_work(struct sim_device *dev)
{
	uint64_t now = sim_now(dev);
	struct list *pos, *tmp;
	struct sim_ep *ep;

	sim_restart(dev, now);
	sim_kill(dev, now);
	list_for_each(pos, &dev->ends) {
		ep = list_entry(pos, struct sim_ep, change);
		if (ep->state != SIM_EP_CLOSING && down_ready(ep)) {
			ep->state = SIM_EP_DOWN;
			sim_op_end_all(ep, ep->down);
		}
	}
	if (!dev->net->frozen)
		sim_deliver(dev, now);
	list_for_each_safe(pos, tmp, &dev->sending)
		sim_send(list_entry(pos, struct sim_ep, sending), now);
}

static int ups_ready(const struct sim_device *dev)
{
	return !dev->net->frozen && !list_empty(&dev->ups);
}

static uint32_t poll_ups(struct sim_device *dev, struct event *events, uint32_t n)
{
	struct sim_ep *ep;
	uint32_t i;

	for (i = 0; i < n && ups_ready(dev); i++) {
		ep = list_first(&dev->ups, struct sim_ep, change);
		list_del(&ep->change);
		events[i] = (struct event){.type = EVENT_UP, .ep = &ep->ep};
	}
	return i;
}

static uint32_t poll_done(struct sim_device *dev, struct event *events, uint32_t n)
{
	struct chunk *chunk;
	uint32_t i;

	for (i = 0; i < n && dev->done.head; i++) {
		chunk = chunk_queue_pop(&dev->done);
		to_sim_ep(chunk->ep)->taken--;
		events[i] = (struct event){.type = EVENT_CHUNK, .chunk = chunk};
	}
	return i;
}

static uint32_t poll_inbox(struct sim_device *dev, struct event *events, uint32_t n)
{
	struct sim_message *m;
	uint32_t i = 0;

	dev->inbox_kept = dev->inbox_head;
	while (i < n && dev->inbox_head != dev->inbox_tail) {
		m = &dev->inbox[dev->inbox_head++ & (SIM_INBOX - 1)];
		if (!m->ep)
			continue;
		events[i++] = (struct event){.type = EVENT_MESSAGE,
					     .ep = &m->ep->ep,
					     .data = m->data,
					     .len = m->len};
	}
	return i;
}

static int end_ready(const struct sim_ep *ep)
{
	if (ep->state == SIM_EP_CLOSING)
		return !ep->taken;
	return down_ready(ep);
}

static uint32_t poll_ends(struct sim_device *dev, struct event *events, uint32_t n)
{
	struct sim_ep *ep;
	uint32_t i = 0;

	list_for_each_entry_safe(ep, &dev->ends, change) {
		if (i == n)
			break;
		if (!end_ready(ep))
			continue;
		list_del(&ep->change);
		if (ep->state == SIM_EP_CLOSING) {
			ep->state = SIM_EP_CLOSED;
			events[i++] = (struct event){.type = EVENT_CLOSED, .ep = &ep->ep};
		} else {
			events[i++] =
				(struct event){.type = EVENT_DOWN, .res = ep->down, .ep = &ep->ep};
		}
	}
	return i;
}

/* The next time at which the device has work; NEVER_NS: none until a call or a peer makes some. */
static uint64_t next_due(const struct sim_device *dev)
{
	uint64_t next = dev->neps ? sim_window_due(dev) : NEVER_NS;

	if (!dev->net->frozen && dev->heap_len && dev->heap[0]->due < next)
		next = dev->heap[0]->due;
	return next;
}

/* EVENT_UP comes first and the end of an ep last, so no event names an ep before its EVENT_UP or
 * after its end. */
static uint32_t sim_poll(struct device *d, struct event *events, uint32_t n)
{
	struct sim_device *dev = to_sim_device(d);
	uint32_t i;

	sim_lock(dev);
	dev->asleep = 0;
	device_work(dev);
	i = poll_ups(dev, events, n);
	i += poll_done(dev, events + i, n - i);
	i += poll_inbox(dev, events + i, n - i);
	i += poll_ends(dev, events + i, n - i);
	dev->next_ns = next_due(dev);
	sim_unlock(dev);
	return i;
}

/* ---- sleep ---- */

static int anything_ready(const struct sim_device *dev, uint64_t now)
{
	const struct sim_ep *ep;
	const struct list *pos;

	if (dev->done.head || dev->inbox_head != dev->inbox_tail || ups_ready(dev))
		return 1;
	if (next_due(dev) <= now)
		return 1;
	list_for_each(pos, &dev->ends)
		if (end_ready(list_entry(pos, struct sim_ep, change)))
			return 1;
	list_for_each(pos, &dev->sending) {
		ep = list_entry(pos, struct sim_ep, sending);
		if (ep->free_packets && !list_empty(&ep->unsent))
			return 1;
	}
	return 0;
}

/* Arms it for the next work of the device; also clears an earlier expiry. */
static void set_timer(struct sim_device *dev, uint64_t now)
{
	struct itimerspec spec = {.it_interval = {0, 0}, .it_value = {0, 0}};
	uint64_t next = next_due(dev), ns;

	if (next != NEVER_NS && !dev->clock) {
		ns = next - now;
		spec.it_value.tv_sec = (time_t)(ns / NSEC_PER_SEC);
		spec.it_value.tv_nsec = (long)(ns % NSEC_PER_SEC);
	}
	timerfd_settime(dev->timer_fd, 0, &spec, NULL);
}

static int sim_arm(struct device *d)
{
	struct sim_device *dev = to_sim_device(d);
	uint64_t now;
	int ready;

	sim_lock(dev);
	now = sim_now(dev);
	ready = anything_ready(dev, now);
	if (!ready) {
		if (dev->woken)
			wake_drain(dev->wake_fd);
		dev->woken = 0;
		set_timer(dev, now);
		dev->asleep = 1;
	}
	sim_unlock(dev);
	return ready;
}

static struct clock *sim_clock(struct device *d, uint64_t *next_ns)
{
	*next_ns = to_sim_device(d)->next_ns;
	return to_sim_device(d)->clock;
}

const struct backend backend_sim = {
	.name = "sim",
	.transport = URCCL_TRANSPORT_SIM,
	.chunk_bytes = 64 << 10,
	.scan = device_scan,
	.open = sim_device_open,
	.close = device_close,
	.clock = sim_clock,
	.reg = sim_reg,
	.unreg = sim_unreg,
	.pin = sim_pin,
	.unpin = sim_pin, /* takes as long */
	.ep_open = sim_ep_open,
	.ep_free = sim_ep_free,
	.ep_connect = sim_ep_connect,
	.ep_close = sim_ep_close,
	.expose = sim_expose,
	.unexpose = sim_unexpose,
	.import = sim_import,
	.forget = sim_forget,
	.post = sim_post,
	.cancel = cancel,
	.poll = sim_poll,
	.arm = sim_arm,
};
