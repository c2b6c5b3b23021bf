/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints, and what is posted to them. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "prov.h"

#define CUDA_PERMITTED		10 /* FI_OPT_*, bool: since libfabric 1.18 */
#define SHARED_MEMORY_PERMITTED 11 /* likewise, 1.21 */
/* Of rdma/fi_ext.h, which 1.17 lacks: likewise. */
#define EFA_EMULATED_READ  (-(0xefa << 16) + 1)
#define EFA_EMULATED_WRITE (-(0xefa << 16) + 2)

static struct prov_ep *ep_of(struct fid_ep *fid)
{
	return container_of(fid, struct prov_ep, fid);
}

/* ---- contexts ---- */

/* With FI_CONTEXT, FI_CONTEXT2 the bytes are ours while in flight. */
static void context_take(struct prov_ep *ep, void *context)
{
	size_t bytes = words()->mode & FI_CONTEXT2 ? sizeof(struct fi_context2)
						   : sizeof(struct fi_context);
	struct list *pos;
	uint32_t i;

	if (!ep->domain->contexts)
		return;
	if (!context)
		DIE("FI_CONTEXT: an operation without a context");
	for (i = 0; i < TX_SIZE; i++)
		if (ep->ops[i].type && ep->ops[i].context == context)
			DIE("FI_CONTEXT: a context that is in flight is used again");
	list_for_each(pos, &ep->receives)
		if (list_entry(pos, struct receive, link)->context == context)
			DIE("FI_CONTEXT: a receive's context is used again");
	memset(context, 0xa5, bytes);
}

/* ---- receives ---- */

static ssize_t ep_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from,
		       void *context)
{
	struct prov_ep *ep = ep_of(fid);
	uint32_t dead = words()->recv_dead;
	struct receive *r;

	(void)from;
	domain_enter(ep->domain);
	if (++ep->posted >= dead && dead) {
		domain_leave(ep->domain);
		return -FI_EIO;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		DIE("no memory for a receive");
	if (!ep->enabled)
		DIE("a receive on an endpoint that is not enabled");
	memory_local(ep, desc, buf, len, FI_RECV);
	context_take(ep, context);
	*r = (struct receive){.context = context, .buf = buf, .desc = desc, .len = len};
	list_add_tail(&r->link, &ep->receives);
	domain_leave(ep->domain);
	return 0;
}

void ep_receive_end(struct prov_ep *ep, struct receive *r, size_t len, int err)
{
	list_del(&r->link);
	cq_add(ep->rx, r->context, FI_RECV | FI_MSG, len, err);
	free(r);
}

/* ---- operations ---- */

static uint64_t done_flags(uint32_t type)
{
	if (type == PACKET_SEND)
		return FI_SEND | FI_MSG;
	return FI_RMA | (type == PACKET_READ ? FI_READ : FI_WRITE);
}

/* An operation's end that the words ask for, or 0. */
static int error_for(struct prov_ep *ep, const struct op *op, uint32_t times)
{
	const struct words *w = words();

	if (op->type == PACKET_SEND && w->cut && !domain_random(ep->domain, times * w->cut))
		return FI_ECANCELED;
	return w->cqerr && !domain_random(ep->domain, times * w->cqerr) ? FI_EIO : 0;
}

void op_end(struct prov_ep *ep, struct op *op, int err)
{
	if (!err)
		err = error_for(ep, op, 1);
	list_del(&op->link);
	free(op->copy);
	op->copy = NULL;
	cq_add(ep->tx, op->context, done_flags(op->type), op->len, err);
	op->type = 0;
}

/* 1: it has ended, and nobody will hear it. */
static int is_lost(struct prov_ep *ep, struct op *op)
{
	uint32_t lose = words()->lose;

	if (op->type != PACKET_SEND || !lose || domain_random(ep->domain, lose))
		return 0;
	op_end(ep, op, 0);
	return 1;
}

static int has_range(const struct op *op, size_t len)
{
	uint32_t i;

	for (i = 0; i < op->n; i++)
		if (op->ranges[i].len == len)
			return 1;
	return 0;
}

/* 1: it has ended, and others with it. */
static int ends_always(struct prov_ep *ep, struct op *op)
{
	const struct words *w = words();
	uint32_t i;

	if (op->type == PACKET_SEND || !op->len)
		return 0;
	ep->moved++;
	if (has_range(op, w->poison) || (w->sick && ep->moved > w->sick)) {
		op_end(ep, op, FI_EIO);
		return 1;
	}
	if (!has_range(op, w->cutter))
		return 0;
	for (i = 0; i < TX_SIZE; i++)
		if (ep->ops[i].type)
			op_end(ep, &ep->ops[i], FI_ECANCELED);
	return 1;
}

/* Nobody pushes it any more. */
static void keep_if_mute(struct op *op)
{
	if (op->type != PACKET_SEND && op->len && has_range(op, words()->mute))
		list_del(&op->link);
}

static struct op *op_free(struct prov_ep *ep)
{
	uint32_t i;

	for (i = 0; i < TX_SIZE; i++)
		if (!ep->ops[i].type)
			return &ep->ops[i];
	return NULL;
}

/* For a test to look up: how many reads and writes there were, of them those that were copied at
 * once, and that others were promised to follow. */
#define EXPORT __attribute__((visibility("default")))
EXPORT extern uint32_t urccl_test_moves, urccl_test_injected, urccl_test_more;
uint32_t urccl_test_moves, urccl_test_injected, urccl_test_more;

static void count(const struct op *op)
{
	if (op->type == PACKET_SEND)
		return;
	__atomic_add_fetch(&urccl_test_moves, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&urccl_test_injected, !!(op->flags & FI_INJECT), __ATOMIC_RELAXED);
	__atomic_add_fetch(&urccl_test_more, !!(op->flags & FI_MORE), __ATOMIC_RELAXED);
}

/* What it is written from is its user's again. */
static void inject(struct op *op)
{
	size_t at = 0;
	uint32_t i;

	if (!(op->flags & FI_INJECT))
		return;
	op->copy = malloc(op->len ? op->len : 1);
	if (!op->copy)
		DIE("no memory for what is injected");
	for (i = 0; i < op->n; at += op->ranges[i++].len) {
		memcpy(op->copy + at, op->ranges[i].buf, op->ranges[i].len);
		op->ranges[i].buf = op->copy + at;
	}
}

/* Its memory here may be used, and its keys have their names. */
static void ranges_take(struct prov_ep *ep, struct op *op)
{
	static const uint64_t access[] = {
		[PACKET_SEND] = FI_SEND, [PACKET_WRITE] = FI_WRITE, [PACKET_READ] = FI_READ};
	uint32_t i;

	for (i = 0; i < op->n; i++) {
		struct range *r = &op->ranges[i];

		uint8_t *at = memory_local(ep, r->desc, r->buf, r->len, access[op->type]);

		if (at != r->buf && op->flags & FI_INJECT)
			DIE("memory of a GPU is injected");
		r->buf = at;
		if (op->type != PACKET_SEND)
			memory_raw(ep->domain, r->key, r->raw);
	}
}

/* How it begins: with the domain's lock. 0 or -errno. */
static ssize_t op_post(struct prov_ep *ep, const struct op *what, fi_addr_t to)
{
	const struct words *w = words();
	struct op *op = op_free(ep);
	uint32_t id;
	int err;

	if (!ep->enabled)
		DIE("an operation on an endpoint that is not enabled");
	if (what->len > w->max_msg)
		return -FI_EMSGSIZE;
	if (!op || (w->eagain && domain_random(ep->domain, 100) < w->eagain) ||
	    (w->iov_room && what->n > w->iov_room))
		return -FI_EAGAIN;
	context_take(ep, what->context);
	id = op->id;
	*op = *what;
	op->id = (id ? id + TX_SIZE : (uint32_t)(op - ep->ops) + TX_SIZE);
	memcpy(op->to, av_name(ep->av, to), NAME_BYTES);
	ranges_take(ep, op);
	inject(op);
	count(op);
	ep->more = w->more && op->flags & FI_MORE;
	list_init(&op->link);
	list_add_tail(&op->link, &ep->sending);
	/* Never begun, and nobody is to rely on that. */
	err = is_lost(ep, op) || ends_always(ep, op) ? 0 : error_for(ep, op, 2);
	if (err)
		op_end(ep, op, err);
	keep_if_mute(op);
	wire_push(ep);
	return 0;
}

static ssize_t post(struct fid_ep *fid, const struct op *what, fi_addr_t to)
{
	struct prov_ep *ep = ep_of(fid);
	ssize_t err;

	domain_enter(ep->domain);
	err = op_post(ep, what, to);
	domain_leave(ep->domain);
	return err;
}

/* Whoever has long messages has another device. */
static ssize_t ep_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to,
		       void *context)
{
	struct op what = {
		.type = PACKET_SEND,
		.context = context,
		.ranges = {{.buf = (uint8_t *)(uintptr_t)buf, .len = len, .desc = desc}},
		.n = 1,
		.len = len,
	};

	return len > PIECE_BYTES ? -FI_EMSGSIZE : post(fid, &what, to);
}

static ssize_t move(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags,
		    enum packet_type type)
{
	struct op what = {.type = type, .context = msg->context, .flags = flags};
	uint32_t i;

	if (!msg->iov_count || msg->iov_count > words()->iov ||
	    msg->rma_iov_count != msg->iov_count)
		DIE("as many ranges at either side, %u at most, are what it moves", words()->iov);
	what.n = (uint32_t)msg->iov_count;
	for (i = 0; i < what.n; i++) {
		if (msg->msg_iov[i].iov_len != msg->rma_iov[i].len)
			DIE("a range is of one length at either side");
		if (!msg->rma_iov[i].len && what.n > 1)
			DIE("an empty range among others");
		what.ranges[i] = (struct range){.buf = msg->msg_iov[i].iov_base,
						.len = msg->rma_iov[i].len,
						.desc = msg->desc ? msg->desc[i] : NULL,
						.addr = msg->rma_iov[i].addr,
						.key = msg->rma_iov[i].key};
		what.len += msg->rma_iov[i].len;
	}
	if (flags & ~(uint64_t)(FI_COMPLETION | FI_MORE | FI_DELIVERY_COMPLETE | FI_INJECT))
		return -FI_EBADFLAGS;
	if (flags & FI_INJECT && (type == PACKET_READ || what.len > words()->inject))
		DIE("%zu bytes of a read or a write are not injected", what.len);
	if (flags & FI_DELIVERY_COMPLETE && words()->no_delivery)
		return -FI_EBADFLAGS;
	return post(fid, &what, msg->addr);
}

static ssize_t ep_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return move(fid, msg, flags, PACKET_READ);
}

static ssize_t ep_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return move(fid, msg, flags, PACKET_WRITE);
}

/* ---- open, bind, enable, close ---- */

static int bind_cq(struct prov_ep *ep, struct prov_cq *cq, uint64_t flags)
{
	struct epoll_event ev = {.events = EPOLLIN};

	if (flags & FI_TRANSMIT)
		ep->tx = cq;
	if (flags & FI_RECV)
		ep->rx = cq;
	cq->bound++;
	if (cq->fd >= 0 && epoll_ctl(cq->fd, EPOLL_CTL_ADD, ep->sock, &ev))
		return -errno;
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct prov_ep *ep = container_of(fid, struct prov_ep, fid.fid);
	int err = 0;

	domain_enter(ep->domain);
	if (ep->enabled)
		DIE("a bind to an endpoint that is enabled");
	if (other->fclass == FI_CLASS_AV && !ep->av) {
		ep->av = container_of(other, struct prov_av, fid.fid);
		ep->av->eps++;
	} else if (other->fclass == FI_CLASS_CQ && !(ep->tx && ep->rx)) {
		err = bind_cq(ep, container_of(other, struct prov_cq, fid.fid), flags);
	} else {
		err = -FI_EINVAL;
	}
	domain_leave(ep->domain);
	return err;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct prov_ep *ep = container_of(fid, struct prov_ep, fid.fid);

	(void)arg;
	if (command != FI_ENABLE)
		return -FI_ENOSYS;
	domain_enter(ep->domain);
	if (words()->shm && !ep->no_shm)
		DIE("FI_OPT_SHARED_MEMORY_PERMITTED: nobody forbade it");
	if (!ep->av || !ep->tx || !ep->rx)
		DIE("enabled without a vector and queues for both directions");
	ep->enabled = 1;
	domain_leave(ep->domain);
	return 0;
}

static int ep_getname(struct fid *fid, void *addr, size_t *len)
{
	const struct prov_ep *ep = container_of(fid, struct prov_ep, fid.fid);
	size_t room = *len;

	*len = NAME_BYTES;
	if (room < NAME_BYTES)
		return -FI_ETOOSMALL;
	memcpy(addr, ep->name, NAME_BYTES);
	return 0;
}

/* Its operations are over, without a word. */
static int ep_close(struct fid *fid)
{
	struct prov_ep *ep = container_of(fid, struct prov_ep, fid.fid);
	struct prov_domain *d = ep->domain;
	uint32_t i;

	usleep(words()->close_slow);
	domain_enter(d);
	if (ep->refused < words()->busy) {
		ep->refused++;
		domain_leave(d);
		return -FI_EBUSY;
	}
	if (ep->regions)
		DIE("%u regions are bound to the endpoint", ep->regions);
	wire_end(ep);
	for (i = 0; i < TX_SIZE; i++)
		if (ep->ops[i].type)
			free(ep->ops[i].copy);
	while (!list_empty(&ep->receives)) {
		struct receive *r = list_first(&ep->receives, struct receive, link);

		list_del(&r->link);
		free(r);
	}
	if (ep->av)
		ep->av->eps--;
	if (ep->tx)
		ep->tx->bound--;
	if (ep->rx && ep->rx != ep->tx)
		ep->rx->bound--;
	close(ep->sock);
	list_del(&ep->link);
	d->objects--;
	d->neps--;
	domain_leave(d);
	free(ep);
	return 0;
}

static struct fi_ops ep_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = ep_close,
	.bind = ep_bind,
	.control = ep_control,
};

static int ep_setopt(struct fid *fid, int level, int name, const void *value, size_t len)
{
	struct prov_ep *ep = container_of(fid, struct prov_ep, fid.fid);
	int is_p2p = name == FI_OPT_FI_HMEM_P2P, is_shm = name == SHARED_MEMORY_PERMITTED;

	if (level != FI_OPT_ENDPOINT || (is_shm && !words()->shm) || (!is_shm && !words()->hmem) ||
	    (!is_p2p && !is_shm && name != CUDA_PERMITTED))
		return -FI_ENOPROTOOPT;
	if (len != (is_p2p ? sizeof(int) : sizeof(bool)))
		return -FI_EINVAL;
	domain_enter(ep->domain);
	if (ep->enabled)
		DIE("an option of an endpoint that is enabled");
	if (is_p2p)
		ep->p2p = *(const int *)value == FI_HMEM_P2P_REQUIRED;
	else
		*(is_shm ? &ep->no_shm : &ep->no_cuda) = !*(const bool *)value;
	domain_leave(ep->domain);
	return 0;
}

/* Nothing is emulated by messages. */
static int ep_getopt(struct fid *fid, int level, int name, void *value, size_t *len)
{
	(void)fid;
	if (level != FI_OPT_ENDPOINT || strcmp(words()->name, "efa") != 0 ||
	    (name != EFA_EMULATED_READ && name != EFA_EMULATED_WRITE))
		return -FI_ENOPROTOOPT;
	if (*len < sizeof(bool))
		return -FI_ETOOSMALL;
	*len = sizeof(bool);
	*(bool *)value = false;
	return 0;
}

static struct fi_ops_ep ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.getopt = ep_getopt,
	.setopt = ep_setopt,
};

static struct fi_ops_cm cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.getname = ep_getname,
};

static struct fi_ops_msg msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = ep_recv,
	.send = ep_send,
};

static struct fi_ops_rma rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.readmsg = ep_readmsg,
	.writemsg = ep_writemsg,
};

/* A name that nobody has, and nobody had. */
static int sock_open(struct prov_ep *ep)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	uint64_t number;
	int err = random_bytes(&number, sizeof(number));

	if (err)
		return err;
	snprintf(ep->name, sizeof(ep->name), "urccl://%015llx",
		 (unsigned long long)number & 0xfffffffffffffffull);
	memcpy(at.sun_path + 1, ep->name, NAME_BYTES);
	ep->sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (ep->sock < 0)
		return -errno;
	return bind(ep->sock, (struct sockaddr *)&at,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + NAME_BYTES))
		       ? -errno
		       : 0;
}

/* For a test to look up: of the last endpoint that was made; and how many there were. */
EXPORT extern uint32_t urccl_test_tclass, urccl_test_endpoints;
uint32_t urccl_test_tclass, urccl_test_endpoints;

/* 1: the domain has another one. */
static int is_left(struct prov_domain *d)
{
	int left;

	domain_enter(d);
	left = !words()->eps || d->neps < words()->eps;
	d->neps += (uint32_t)left;
	domain_leave(d);
	return left;
}

static void give_back(struct prov_domain *d)
{
	domain_enter(d);
	d->neps--;
	domain_leave(d);
}

int ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context)
{
	struct prov_domain *d = container_of(fid, struct prov_domain, fid);
	struct prov_ep *ep;
	int err;

	domain_makes(d, "an endpoint");
	if (!is_left(d))
		return -FI_ENOSPC;
	ep = calloc(1, sizeof(*ep));
	if (!ep) {
		give_back(d);
		return -FI_ENOMEM;
	}
	ep->fid = (struct fid_ep){
		.fid = {.fclass = FI_CLASS_EP, .context = context, .ops = &ep_fid_ops},
		.ops = &ep_ops,
		.cm = &cm_ops,
		.msg = &msg_ops,
		.rma = &rma_ops,
	};
	ep->domain = d;
	list_init(&ep->sending);
	list_init(&ep->receives);
	list_init(&ep->replies);
	list_init(&ep->held);
	err = sock_open(ep);
	if (err) {
		if (ep->sock >= 0)
			close(ep->sock);
		free(ep);
		give_back(d);
		return err;
	}
	domain_enter(d);
	d->objects++;
	list_add_tail(&ep->link, &d->eps);
	domain_leave(d);
	__atomic_store_n(&urccl_test_tclass, info->tx_attr->tclass, __ATOMIC_RELAXED);
	__atomic_add_fetch(&urccl_test_endpoints, 1, __ATOMIC_RELAXED);
	*out = &ep->fid;
	return 0;
}
