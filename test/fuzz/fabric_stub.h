/* SPDX-License-Identifier: Apache-2.0 */
/* A provider of libfabric's that does nothing by itself: each operation is kept until the test says
 * how it went, and every object that was opened is counted. */
#ifndef FUZZ_FABRIC_STUB_H
#define FUZZ_FABRIC_STUB_H

#include <endian.h>
#include <stdlib.h>

#include <backend/fabric/key.h>
#include "fuzz.h"

#define OUT  1024u /* operations that an endpoint has */
#define NAME 16u   /* bytes of its name */
#define RAW  16u   /* bytes of a key that is no number */

static int opened;	      /* objects, and keys of the other side's that are mapped */
static const uint8_t *theirs; /* whom messages are for */

struct queue {
	struct fid_cq fid;
	struct fi_cq_msg_entry done[OUT];
	int failed[OUT];
	uint32_t n;
};

struct endpoint {
	struct fid_ep fid;
	struct queue *cq;
	struct operation {
		void *context, *buf;
	} receives[OUT], ops[OUT];
	uint32_t nreceives, nops;
};

static int obj_close(struct fid *fid)
{
	opened--;
	free(fid); /* all begin with it */
	return 0;
}

static int obj_bind(struct fid *fid, struct fid *to, uint64_t flags)
{
	(void)flags;
	if (fid->fclass == FI_CLASS_EP && to->fclass == FI_CLASS_CQ)
		container_of(fid, struct endpoint, fid.fid)->cq =
			container_of(to, struct queue, fid.fid);
	return 0;
}

static int obj_control(struct fid *fid, int command, void *arg)
{
	struct fi_mr_raw_attr *attr = arg;

	(void)fid;
	if (command == FI_GET_RAW_MR) {
		must(*attr->key_size >= RAW);
		memset(attr->raw_key, 7, RAW);
		*attr->key_size = RAW;
	}
	opened += command == FI_MAP_RAW_MR;
	opened -= command == FI_UNMAP_KEY;
	if (command == FI_MAP_RAW_MR)
		*((struct fi_mr_map_raw *)arg)->key = 1;
	return 0;
}

static struct fi_ops obj_ops = {.close = obj_close, .bind = obj_bind, .control = obj_control};

static void *obj_new(size_t size, size_t fclass)
{
	struct fid *fid = calloc(1, size);

	must(!!fid);
	fid->fclass = fclass;
	fid->ops = &obj_ops;
	opened++;
	return fid;
}

/* As many as are asked for, up to one that failed: whoever gets fewer may take that for all. */
static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t n)
{
	struct queue *q = container_of(fid, struct queue, fid);
	struct fi_cq_msg_entry *to = buf;
	size_t k;

	if (q->n && q->failed[0])
		return -FI_EAVAIL;
	for (k = 0; k < n && q->n && !q->failed[0]; k++) {
		to[k] = q->done[0];
		q->n--;
		memmove(q->done, q->done + 1, q->n * sizeof(q->done[0]));
		memmove(q->failed, q->failed + 1, q->n * sizeof(q->failed[0]));
	}
	return k ? (ssize_t)k : -FI_EAGAIN;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct queue *q = container_of(fid, struct queue, fid);

	(void)flags;
	*buf = (struct fi_cq_err_entry){.op_context = q->done[0].op_context, .err = q->failed[0]};
	q->n--;
	memmove(q->done, q->done + 1, q->n * sizeof(q->done[0]));
	memmove(q->failed, q->failed + 1, q->n * sizeof(q->failed[0]));
	return 1;
}

static struct fi_ops_cq cq_ops = {.read = cq_read, .readerr = cq_readerr};

static void cq_add(struct queue *q, void *context, size_t len, int err)
{
	must(q->n < OUT);
	q->failed[q->n] = err;
	q->done[q->n++] = (struct fi_cq_msg_entry){.op_context = context, .len = len};
}

static ssize_t ep_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t from,
		       void *context)
{
	struct endpoint *ep = container_of(fid, struct endpoint, fid);

	(void)desc, (void)from;
	must(len == FABRIC_BUF && ep->nreceives < OUT);
	ep->receives[ep->nreceives++] = (struct operation){context, buf};
	return 0;
}

static ssize_t op_begin(struct fid_ep *fid, void *context)
{
	struct endpoint *ep = container_of(fid, struct endpoint, fid);

	if (ep->nops == OUT)
		return -FI_EAGAIN;
	ep->ops[ep->nops++] = (struct operation){context, NULL};
	return 0;
}

/* What we say is a message of ours, to the ep that we know. */
static ssize_t ep_send(struct fid_ep *fid, const void *buf, size_t len, void *desc, fi_addr_t to,
		       void *context)
{
	const struct fabric_head *h = buf;

	(void)desc, (void)to;
	must(len >= sizeof(*h) && len <= FABRIC_BUF && len == sizeof(*h) + le16toh(h->len));
	must(h->type >= MESSAGE_HELLO && h->type <= MESSAGE_LEAVES);
	must(!memcmp(h->cookie, theirs, sizeof(h->cookie)));
	return op_begin(fid, context);
}

static ssize_t ep_rma(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	size_t i;

	(void)flags;
	must(msg->iov_count && msg->iov_count <= FABRIC_RANGES);
	must(msg->rma_iov_count == msg->iov_count);
	for (i = 0; i < msg->iov_count; i++)
		must(msg->rma_iov[i].len && msg->rma_iov[i].len == msg->msg_iov[i].iov_len);
	return op_begin(fid, msg->context);
}

static int ep_getname(fid_t fid, void *addr, size_t *len)
{
	(void)fid;
	must(*len >= NAME);
	memset(addr, 1, NAME);
	*len = NAME;
	return 0;
}

static int ep_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
	(void)fid, (void)level, (void)name, (void)value, (void)len;
	return -FI_ENOPROTOOPT;
}

static struct fi_ops_ep ep_ops = {.setopt = ep_setopt};
static struct fi_ops_msg msg_ops = {.recv = ep_recv, .send = ep_send};
static struct fi_ops_rma rma_ops = {.readmsg = ep_rma, .writemsg = ep_rma};
static struct fi_ops_cm cm_ops = {.getname = ep_getname};

static int dom_endpoint(struct fid_domain *dom, struct fi_info *i, struct fid_ep **out, void *ctx)
{
	struct endpoint *ep = obj_new(sizeof(*ep), FI_CLASS_EP);

	(void)dom, (void)i, (void)ctx;
	ep->fid.ops = &ep_ops;
	ep->fid.msg = &msg_ops;
	ep->fid.rma = &rma_ops;
	ep->fid.cm = &cm_ops;
	*out = &ep->fid;
	return 0;
}

static int dom_cq(struct fid_domain *dom, struct fi_cq_attr *a, struct fid_cq **out, void *ctx)
{
	struct queue *q = obj_new(sizeof(*q), FI_CLASS_CQ);

	(void)dom, (void)a, (void)ctx;
	q->fid.ops = &cq_ops;
	*out = &q->fid;
	return 0;
}

static int av_insert(struct fid_av *av, const void *addr, size_t n, fi_addr_t *out, uint64_t flags,
		     void *ctx)
{
	(void)av, (void)addr, (void)flags, (void)ctx;
	*out = 1;
	return (int)n;
}

static int av_remove(struct fid_av *av, fi_addr_t *addr, size_t n, uint64_t flags)
{
	(void)av, (void)addr, (void)n, (void)flags;
	return 0;
}

static struct fi_ops_av av_ops = {.insert = av_insert, .remove = av_remove};

static int dom_av(struct fid_domain *dom, struct fi_av_attr *a, struct fid_av **out, void *ctx)
{
	struct fid_av *av = obj_new(sizeof(*av), FI_CLASS_AV);

	(void)dom, (void)a, (void)ctx;
	av->ops = &av_ops;
	*out = av;
	return 0;
}

static int dom_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t off,
		   uint64_t key, uint64_t flags, struct fid_mr **out, void *ctx)
{
	(void)fid, (void)buf, (void)len, (void)access, (void)off, (void)flags, (void)ctx;
	*out = obj_new(sizeof(**out), FI_CLASS_MR);
	(*out)->key = key;
	return 0;
}

static struct fi_ops_domain dom_ops = {.av_open = dom_av,
				       .cq_open = dom_cq,
				       .endpoint = dom_endpoint};
static struct fi_ops_mr mr_ops = {.reg = dom_reg};
static struct fid_domain domain = {.fid = {.ops = &obj_ops}, .ops = &dom_ops, .mr = &mr_ops};

static const char *no_words(int err)
{
	(void)err;
	return "";
}

#endif
