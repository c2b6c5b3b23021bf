/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "backend/tcp/tcp.h"

#define CHUNK_BYTES (1024u * 1024)
#define GRANTS_MAX  (1u << 18) /* exposures of a device */

/* ---- the device ---- */

/* AUTO is readiness, which every kernel and container supports. */
static const struct tcp_driver *choose_driver(const struct urccl_params *p)
{
	return p->tcp_driver == URCCL_TCP_IO_URING ? &tcp_uring : &tcp_ready;
}

/* Reads the class settings and tries a socket, so that open fails early. */
static int try_settings(struct tcp_device *d, const struct urccl_params *p)
{
	uint32_t cls;
	int fd, err = 0;

	for (cls = 0; cls < CLASSES && !err; cls++)
		err = class_socket_read(&d->classes[cls], p, cls);
	if (err)
		return err;
	fd = tcp_socket(AF_INET);
	if (fd == -EAFNOSUPPORT)
		fd = tcp_socket(AF_INET6);
	if (fd < 0)
		return fail_errno(fd, "tcp: no socket");
	close(fd);
	return 0;
}

static int tcp_open_fds(struct tcp_device *d)
{
	int rc;

	d->dev.fd = epoll_create1(EPOLL_CLOEXEC);
	if (d->dev.fd < 0)
		return fail_errno(-errno, "tcp: no epoll descriptor");
	d->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (d->timer.fd < 0)
		return fail_errno(-errno, "tcp: no timer descriptor");
	rc = tcp_watch(d, &d->timer, EPOLLIN);
	return rc ? fail(rc, "tcp: no room in epoll: %s", errno_text(-rc)) : 0;
}

static int tcp_close(struct device *dev)
{
	struct tcp_device *d = tcp_device(dev);
	uint32_t i;

	if (d->driver)
		d->driver->close(d);
	for (i = 0; i < TCP_STRAYS; i++) {
		if (d->strays[i].used)
			tcp_close_source(d, &d->strays[i].source);
	}
	tcp_inbox_close(d);
	tcp_close_source(d, &d->timer);
	fd_close(d->dev.fd);
	handles_fini(&d->grants);
	free(d);
	return 0;
}

static void device_init(struct tcp_device *d, const struct device_config *config)
{
	d->dev.ops = &backend_tcp;
	d->dev.caps = CAP_ACCESS_OUTLIVES_KEY;
	d->dev.index = config->index;
	d->dev.fd = -1;
	d->nbulk = config->params->tcp_streams;
	d->dead_after_ms = config->params->dead_after_ms;
	d->look_ms = tcp_look_ms(d->dead_after_ms);
	d->is_inline = (config->params->flags & URCCL_OPEN_INLINE) != 0;
	tcp_source_init(&d->timer, TCP_TIMER, -1);
	tcp_source_init(&d->inbox, TCP_INBOX, -1);
	d->outbox = -1;
	list_init(&d->waiting);
	list_init(&d->reporting);
	list_init(&d->sending);
	list_init(&d->unacked);
	stream_cq_init(&d->cq);
}

static int tcp_device_open(struct tcp_device *d, const struct device_config *config)
{
	int rc = handles_init(&d->grants, GRANTS_MAX, HANDLE_INTERNAL);

	if (rc)
		return fail(rc, "tcp: no memory for the table of exposures");
	rc = try_settings(d, config->params);
	if (!rc)
		rc = tcp_open_fds(d);
	if (rc)
		return rc;
	if (config->nlisten) {
		rc = tcp_inbox_open(d);
		if (rc)
			return fail_errno(rc, "tcp: no pipe for accepted connections");
	}
	d->driver = choose_driver(config->params);
	d->dev.about = d->driver == &tcp_uring
			       ? "any peer, at the one port of listen, by sockets and io_uring, "
				 "which tcp_driver asks for"
			       : "any peer, at the one port of listen, by sockets and epoll: "
				 "io_uring is used where tcp_driver asks for it";
	rc = d->driver->open(d);
	if (rc)
		d->driver = NULL;
	return rc;
}

static int tcp_open(const struct device_config *config, struct device **dev)
{
	struct tcp_device *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return fail(-ENOMEM, "tcp: no memory for the device");
	device_init(d, config);
	rc = tcp_device_open(d, config);
	if (rc) {
		tcp_close(&d->dev);
		return rc;
	}
	*dev = &d->dev;
	return 0;
}

/* Sockets take any memory. */
static int tcp_reg(struct device *dev, struct extent *extent)
{
	(void)dev;
	(void)extent;
	return 0;
}

static int tcp_unreg(struct device *dev, struct extent *extent)
{
	(void)dev;
	(void)extent;
	return 0;
}

/* ---- exposures ---- */

static int tcp_expose(struct exposure *exposure, void *key, uint32_t key_max)
{
	return stream_expose(&tcp_device(exposure->ep->dev)->grants, exposure, key, key_max);
}

static int tcp_unexpose(struct exposure *exposure)
{
	struct tcp_ep *e = tcp_ep(exposure->ep);
	uint32_t i;
	int rc = 0;

	stream_unexpose(&tcp_ep_device(e)->grants, exposure);
	for (i = 0; i < e->nlinks; i++) {
		if (stream_revoke(&e->links[i].stream, exposure)) {
			tcp_link_sends(&e->links[i]);
			rc = -EINPROGRESS;
		}
	}
	return rc;
}

static int tcp_import(struct ep *ep, const void *key, uint32_t key_len, uint64_t len,
		      struct rkey *rkey)
{
	(void)ep;
	return stream_import(key, key_len, len, rkey);
}

static void tcp_forget(struct ep *ep, struct rkey *rkey)
{
	(void)ep;
	(void)rkey;
}

/* ---- chunks ---- */

static struct tcp_link *choose_link(struct tcp_ep *e, const struct chunk *c)
{
	struct tcp_link *best = &e->links[1];
	uint32_t i;

	if (c->kind == CHUNK_SEND || c->cls != URCCL_CLASS_BULK || c->len <= TCP_SMALL)
		return &e->links[0];
	for (i = 2; i < e->nlinks; i++) {
		if (e->links[i].stream.tx.bytes < best->stream.tx.bytes)
			best = &e->links[i];
	}
	return best;
}

static uint32_t tcp_post(struct ep *ep, struct chunk **chunks, uint32_t n)
{
	struct tcp_ep *e = tcp_ep(ep);
	uint32_t i;

	if (e->state == EP_NEW || e->state == EP_CONNECTING)
		return 0;
	for (i = 0; i < n; i++) {
		struct tcp_link *l = choose_link(e, chunks[i]);

		if (!stream_post(&l->stream, chunks[i]))
			break;
		tcp_link_sends(l);
	}
	return i;
}

static void tcp_cancel(struct chunk *chunk, enum cancel_how how)
{
	struct tcp_ep *e = tcp_ep(chunk->ep);
	uint32_t i;

	stream_cancel(chunk, how);
	for (i = 0; i < e->nlinks; i++)
		tcp_link_sends(&e->links[i]);
}

/* 1: an ep's last event waits for the completion queue to drain, so nothing more is received. */
static int ends_wait(const struct tcp_device *d)
{
	return !list_empty(&d->reporting) && !stream_cq_empty(&d->cq);
}

static uint32_t tcp_poll(struct device *dev, struct event *events, uint32_t n)
{
	struct tcp_device *d = tcp_device(dev);
	uint32_t out = 0;

	stream_cq_recycle(&d->cq);
	if (!ends_wait(d))
		d->driver->work(d);
	if (!list_empty(&d->reporting))
		out = tcp_report(d, events, n, 0);
	out += stream_events(&d->cq, events + out, n - out);
	if (!list_empty(&d->reporting) && stream_cq_empty(&d->cq))
		out += tcp_report(d, events + out, n - out, 1);
	return out;
}

static int tcp_arm(struct device *dev)
{
	struct tcp_device *d = tcp_device(dev);

	if (!list_empty(&d->reporting) || !stream_cq_empty(&d->cq))
		return 1;
	return d->driver->arm(d);
}

const struct backend backend_tcp = {
	.name = "tcp",
	.transport = URCCL_TRANSPORT_TCP,
	.chunk_bytes = CHUNK_BYTES,
	.scan = scan_one,
	.open = tcp_open,
	.close = tcp_close,
	.reg = tcp_reg,
	.unreg = tcp_unreg,
	.ep_open = tcp_ep_open,
	.ep_free = tcp_ep_free,
	.ep_connect = tcp_ep_connect,
	.ep_close = tcp_ep_close,
	.expose = tcp_expose,
	.unexpose = tcp_unexpose,
	.import = tcp_import,
	.forget = tcp_forget,
	.post = tcp_post,
	.cancel = tcp_cancel,
	.poll = tcp_poll,
	.arm = tcp_arm,
	.accept = tcp_inbox_put,
	.greeting = {'U', 'C', 'C', 'L'},
};
