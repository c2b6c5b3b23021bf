/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues. Who reads one, or wants to sleep on it, drives the endpoints of its domain
 * that are bound to it. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "prov.h"

#define RETRY_NS   (100 * NSEC_PER_USEC)
#define PROV_ERRNO 4711

static struct prov_cq *cq_of(struct fid_cq *fid)
{
	return container_of(fid, struct prov_cq, fid);
}

void cq_add(struct prov_cq *cq, void *context, uint64_t flags, size_t len, int err)
{
	struct itimerspec now = {.it_value = {.tv_nsec = 1}};
	struct done *c = calloc(1, sizeof(*c));

	if (!c)
		DIE("no memory for a completion");
	c->what = (struct fi_cq_err_entry){.op_context = context,
					   .flags = flags,
					   .len = len,
					   .err = err,
					   .prov_errno = err ? PROV_ERRNO : 0};
	list_add_tail(&c->link, &cq->done);
	/* Who is driven by others may sleep meanwhile. */
	if (words()->progress == FI_PROGRESS_AUTO && cq->fd >= 0)
		timerfd_settime(cq->timer, 0, &now, NULL);
}

/* 1: some of it has something to do that no packet will wake us for. */
static int drive(struct prov_cq *cq)
{
	int all = words()->progress == FI_PROGRESS_AUTO, left = 0;
	struct list *pos;

	list_for_each(pos, &cq->domain->eps) {
		struct prov_ep *ep = list_entry(pos, struct prov_ep, link);

		if (ep->enabled && (all || ep->tx == cq || ep->rx == cq))
			left |= wire_progress(ep);
	}
	return left;
}

/* ---- reading ---- */

static void put(const struct prov_cq *cq, void *buf, ssize_t i, const struct fi_cq_err_entry *e)
{
	if (cq->format == FI_CQ_FORMAT_CONTEXT)
		((struct fi_cq_entry *)buf)[i].op_context = e->op_context;
	else
		((struct fi_cq_msg_entry *)buf)[i] =
			(struct fi_cq_msg_entry){.op_context = e->op_context,
						 .flags = e->flags,
						 .len = e->len};
}

/* 1: it has given all that it will. */
static int is_dead(struct prov_cq *cq)
{
	uint32_t after = words()->tx_dead;
	struct list *pos;

	list_for_each(pos, &cq->domain->eps) {
		struct prov_ep *ep = list_entry(pos, struct prov_ep, link);

		if (ep->rx == cq && ep->posted)
			after = words()->rx_dead;
	}
	return after && cq->given >= after;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	struct prov_cq *cq = cq_of(fid);
	ssize_t n = 0;

	domain_enter(cq->domain);
	if (is_dead(cq)) {
		domain_leave(cq->domain);
		return -FI_EIO;
	}
	drive(cq);
	while ((size_t)n < count && !list_empty(&cq->done)) {
		struct done *c = list_first(&cq->done, struct done, link);

		if (c->what.err) {
			n = n ? n : -FI_EAVAIL;
			break;
		}
		put(cq, buf, n++, &c->what);
		list_del(&c->link);
		free(c);
	}
	cq->given += n > 0 ? (uint32_t)n : 0;
	domain_leave(cq->domain);
	return n ? n : -FI_EAGAIN;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct prov_cq *cq = cq_of(fid);
	struct done *c;

	(void)flags;
	domain_enter(cq->domain);
	c = list_empty(&cq->done) ? NULL : list_first(&cq->done, struct done, link);
	if (c && c->what.err) {
		*buf = c->what;
		list_del(&c->link);
		free(c);
	} else {
		c = NULL;
	}
	domain_leave(cq->domain);
	return c ? 1 : -FI_EAGAIN;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *data, char *buf,
			       size_t len)
{
	(void)fid, (void)prov_errno, (void)data, (void)buf, (void)len;
	return "the test provider was told to fail it";
}

/* ---- sleeping ---- */

static int trywait_one(struct prov_cq *cq)
{
	struct itimerspec soon = {.it_value = {.tv_nsec = RETRY_NS}};
	uint64_t expired;
	int left;

	if (cq->fd < 0)
		return -FI_ENOSYS;
	if (read(cq->timer, &expired, sizeof(expired)) < 0)
		expired = 0;
	left = drive(cq);
	if (!list_empty(&cq->done))
		return -FI_EAGAIN;
	if (left)
		timerfd_settime(cq->timer, 0, &soon, NULL);
	return 0;
}

int cq_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	int i, err = 0;

	(void)fabric;
	for (i = 0; i < count && !err; i++) {
		struct prov_cq *cq = container_of(fids[i], struct prov_cq, fid.fid);

		domain_enter(cq->domain);
		err = trywait_one(cq);
		domain_leave(cq->domain);
	}
	return err;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	struct prov_cq *cq = container_of(fid, struct prov_cq, fid.fid);

	if (command != FI_GETWAIT || cq->fd < 0)
		return -FI_ENOSYS;
	*(int *)arg = cq->fd;
	return 0;
}

/* ---- open and close ---- */

static void fds_close(struct prov_cq *cq)
{
	if (cq->fd >= 0)
		close(cq->fd);
	if (cq->timer >= 0)
		close(cq->timer);
}

static int cq_close(struct fid *fid)
{
	struct prov_cq *cq = container_of(fid, struct prov_cq, fid.fid);

	domain_enter(cq->domain);
	if (cq->refused < words()->busy) {
		cq->refused++;
		domain_leave(cq->domain);
		return -FI_EBUSY;
	}
	if (cq->bound)
		DIE("%u endpoints are bound to the queue", cq->bound);
	cq->domain->objects--;
	domain_leave(cq->domain);
	while (!list_empty(&cq->done)) {
		struct done *c = list_first(&cq->done, struct done, link);

		list_del(&c->link);
		free(c);
	}
	fds_close(cq);
	free(cq);
	return 0;
}

static struct fi_ops cq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.bind = no_bind,
	.control = cq_control,
};

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readerr = cq_readerr,
	.strerror = cq_strerror,
};

static int fds_open(struct prov_cq *cq)
{
	struct epoll_event ev = {.events = EPOLLIN};

	cq->fd = epoll_create1(EPOLL_CLOEXEC);
	cq->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (cq->fd < 0 || cq->timer < 0 || epoll_ctl(cq->fd, EPOLL_CTL_ADD, cq->timer, &ev))
		return -errno;
	return 0;
}

int cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out, void *context)
{
	struct prov_domain *d = container_of(fid, struct prov_domain, fid);
	struct prov_cq *cq;
	int err = 0;

	if (attr->wait_obj != FI_WAIT_NONE && (attr->wait_obj != FI_WAIT_FD || words()->no_fd))
		return -FI_ENOSYS;
	if (attr->format != FI_CQ_FORMAT_CONTEXT && attr->format != FI_CQ_FORMAT_MSG)
		return -FI_ENOSYS;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	cq->fid.fid = (struct fid){.fclass = FI_CLASS_CQ, .context = context, .ops = &cq_fid_ops};
	cq->fid.ops = &cq_ops;
	cq->domain = d;
	cq->format = attr->format;
	cq->fd = cq->timer = -1;
	list_init(&cq->done);
	if (attr->wait_obj == FI_WAIT_FD)
		err = fds_open(cq);
	if (err) {
		fds_close(cq);
		free(cq);
		return err;
	}
	domain_enter(d);
	d->objects++;
	domain_leave(d);
	*out = &cq->fid;
	return 0;
}
