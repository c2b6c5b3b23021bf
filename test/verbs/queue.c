/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues, queue pairs, and what is posted. */
#include <errno.h>
#include <unistd.h>
#include "double.h"

uint32_t double_late, double_regions, double_posted, double_peermem;
struct qp *double_qps;

static struct qp *numbered[QPS];
static uint32_t last = 16;

__attribute__((constructor)) static void begin(void)
{
	const char *words = getenv("SHIM"), *late = words ? strstr(words, "late=") : NULL;
	const char *posted = words ? strstr(words, "posted=") : NULL;
	const char *regions = words ? strstr(words, "regions=") : NULL;

	double_late = late ? (uint32_t)strtoul(late + 5, NULL, 0) : 0;
	double_peermem = words && strstr(words, "peermem=1");
	double_posted = posted ? (uint32_t)strtoul(posted + 7, NULL, 0) : 0;
	double_regions = regions ? (uint32_t)strtoul(regions + 8, NULL, 0) : MRS;
}

/* Those that are there. */
EXPORT uint32_t double_count_qps(void);
EXPORT uint32_t double_count_qps(void)
{
	const struct qp *q;
	uint32_t n = 0;

	pthread_mutex_lock(&double_lock);
	for (q = double_qps; q; q = q->next)
		n++;
	pthread_mutex_unlock(&double_lock);
	return n;
}

static struct cq *cq_of(struct ibv_cq *cq)
{
	return (struct cq *)(void *)cq;
}

static struct qp *qp_of(struct ibv_qp *qp)
{
	return (struct qp *)(void *)qp;
}

/* ---- completion queues ---- */

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *owner,
				    struct ibv_comp_channel *channel, int vector)
{
	struct cq *c = cqe > 0 && cqe <= CQE_MAX && !vector ? calloc(1, sizeof(*c)) : NULL;

	if (!c) {
		errno = EINVAL;
		return NULL;
	}
	c->entries = calloc((size_t)cqe, sizeof(*c->entries));
	MUST(c->entries);
	c->cq = (struct ibv_cq){.context = context,
				.channel = channel,
				.cq_context = owner,
				.cqe = cqe};
	return &c->cq;
}

EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	struct cq *c = cq_of(cq);
	struct entry *grown;
	uint32_t i, n;

	if (cqe <= 0 || cqe > CQE_MAX)
		return EINVAL;
	grown = calloc((size_t)cqe, sizeof(*grown));
	MUST(grown);
	pthread_mutex_lock(&double_lock);
	n = c->tail - c->head;
	MUST(n <= (uint32_t)cqe);
	for (i = 0; i < n; i++)
		grown[i] = c->entries[(c->head + i) % (uint32_t)c->cq.cqe];
	free(c->entries);
	c->entries = grown;
	c->head = 0;
	c->tail = n;
	c->cq.cqe = cqe;
	pthread_mutex_unlock(&double_lock);
	return 0;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	free(cq_of(cq)->entries);
	free(cq);
	return 0;
}

static void wake(struct ibv_cq *cq)
{
	const struct channel *channel = (const struct channel *)(void *)cq->channel;
	struct cq *c = cq_of(cq);

	if (!c->armed || channel->bell < 0)
		return;
	c->armed = 0;
	MUST(write(channel->bell, &cq, sizeof(cq)) == (ssize_t)sizeof(cq));
}

void cq_add(struct ibv_cq *cq, const struct entry *e)
{
	struct cq *c = cq_of(cq);

	MUST(c->tail - c->head < (uint32_t)cq->cqe);
	c->entries[c->tail++ % (uint32_t)cq->cqe] = *e;
	wake(cq);
}

/* Something of it is late: time goes on by looks at the queue alone. */
static int waits_for_looks(const struct ibv_cq *cq)
{
	const struct qp *q;

	for (q = double_late ? double_qps : NULL; q; q = q->next)
		if (q->qp.send_cq == cq && q->done != q->posted)
			return 1;
	return 0;
}

int req_notify_cq(struct ibv_cq *cq, int solicited)
{
	(void)solicited;
	pthread_mutex_lock(&double_lock);
	cq_of(cq)->armed = 1;
	if (waits_for_looks(cq))
		wake(cq);
	pthread_mutex_unlock(&double_lock);
	return 0;
}

int poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	struct cq *c = cq_of(cq);
	int n;

	pthread_mutex_lock(&double_lock);
	c->polls++;
	if (double_late)
		qps_run();
	for (n = 0; n < max && c->head != c->tail; n++) {
		const struct entry *e = &c->entries[c->head++ % (uint32_t)cq->cqe];

		wc[n] = e->wc;
		if (e->qp)
			e->qp->retired = e->number + 1;
	}
	pthread_mutex_unlock(&double_lock);
	return n;
}

/* ---- queue pairs ---- */

struct qp *qp_find(uint32_t number)
{
	struct qp *q = numbered[number % QPS];

	return q && q->qp.qp_num == number ? q : NULL;
}

static void qp_add(struct qp *q)
{
	pthread_mutex_lock(&double_lock);
	do
		last = (last + 1) % (1u << 24);
	while (numbered[last % QPS]);
	q->qp.qp_num = last;
	numbered[last % QPS] = q;
	q->next = double_qps;
	double_qps = q;
	pthread_mutex_unlock(&double_lock);
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct qp *q;

	if (attr->qp_type != IBV_QPT_RC || attr->cap.max_send_sge > SGES_MAX ||
	    attr->cap.max_recv_sge > 1 || attr->cap.max_inline_data > INLINE_MAX ||
	    attr->cap.max_send_wr > QP_WR_MAX || attr->cap.max_recv_wr > QP_WR_MAX) {
		errno = EINVAL;
		return NULL;
	}
	q = calloc(1, sizeof(*q));
	MUST(q);
	/* What has room for pieces has as much for bytes. */
	if (attr->cap.max_inline_data < attr->cap.max_send_sge * sizeof(struct ibv_sge))
		attr->cap.max_inline_data = attr->cap.max_send_sge * sizeof(struct ibv_sge);
	q->cap = attr->cap;
	q->sends = calloc(q->cap.max_send_wr, sizeof(*q->sends));
	q->receives = calloc(q->cap.max_recv_wr, sizeof(*q->receives));
	MUST(q->sends && q->receives);
	q->qp = (struct ibv_qp){
		.context = pd->context,
		.qp_context = attr->qp_context,
		.pd = pd,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.qp_type = attr->qp_type,
		.state = IBV_QPS_RESET,
	};
	qp_add(q);
	return &q->qp;
}

/* Of a queue pair that is no more none is left, as its numbers may come again. */
static void forget(struct cq *c, const struct qp *q)
{
	uint32_t i, to = c->head, cqe = (uint32_t)c->cq.cqe;

	for (i = c->head; i != c->tail; i++)
		if (c->entries[i % cqe].wc.qp_num != q->qp.qp_num)
			c->entries[to++ % cqe] = c->entries[i % cqe];
	c->tail = to;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct qp *q = qp_of(qp), **at;

	pthread_mutex_lock(&double_lock);
	for (at = &double_qps; *at != q; at = &(*at)->next)
		MUST(*at);
	*at = q->next;
	numbered[qp->qp_num % QPS] = NULL;
	regions_push(qp->pd);
	forget(cq_of(qp->send_cq), q);
	forget(cq_of(qp->recv_cq), q);
	pthread_mutex_unlock(&double_lock);
	free(q->sends);
	free(q->receives);
	free(q);
	return 0;
}

static void complete(struct qp *q, uint64_t wr_id, enum ibv_wc_status status, int sent)
{
	struct entry e = {.wc = {.wr_id = wr_id, .status = status, .qp_num = q->qp.qp_num},
			  .qp = sent ? q : NULL,
			  .number = q->done};

	cq_add(sent ? q->qp.send_cq : q->qp.recv_cq, &e);
}

/* All that is left comes back. */
void qp_break(struct qp *q)
{
	q->qp.state = IBV_QPS_ERR;
	for (; q->done != q->posted; q->done++)
		complete(q, q->sends[q->done % q->cap.max_send_wr].wr_id, IBV_WC_WR_FLUSH_ERR, 1);
	for (; q->rdone != q->rposted; q->rdone++)
		complete(q, q->receives[q->rdone % q->cap.max_recv_wr].wr_id, IBV_WC_WR_FLUSH_ERR,
			 0);
}

static int may_follow(enum ibv_qp_state now, enum ibv_qp_state next)
{
	return next == IBV_QPS_ERR || (next == IBV_QPS_INIT && now == IBV_QPS_RESET) ||
	       (next == IBV_QPS_RTR && now == IBV_QPS_INIT) ||
	       (next == IBV_QPS_RTS && now == IBV_QPS_RTR);
}

static void copy_attr(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	if (mask & IBV_QP_ACCESS_FLAGS)
		to->qp_access_flags = from->qp_access_flags;
	if (mask & IBV_QP_AV)
		to->ah_attr = from->ah_attr;
	if (mask & IBV_QP_DEST_QPN)
		to->dest_qp_num = from->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN)
		to->rq_psn = from->rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		to->sq_psn = from->sq_psn;
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct qp *q = qp_of(qp);

	MUST(mask & IBV_QP_STATE);
	pthread_mutex_lock(&double_lock);
	MUST(may_follow(qp->state, attr->qp_state));
	copy_attr(&q->attr, attr, mask);
	qp->state = attr->qp_state;
	if (qp->state == IBV_QPS_ERR)
		qp_break(q);
	else
		qps_run();
	pthread_mutex_unlock(&double_lock);
	return 0;
}

/* ---- posting ---- */

static int is_bad(const struct qp *q, const struct ibv_send_wr *wr)
{
	uint32_t len = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		len += wr->sg_list[i].length;
	return (uint32_t)wr->num_sge > q->cap.max_send_sge ||
	       (wr->send_flags & IBV_SEND_INLINE && len > q->cap.max_inline_data);
}

static void keep(struct qp *q, const struct ibv_send_wr *wr)
{
	struct send *s = &q->sends[q->posted++ % q->cap.max_send_wr];
	int i;

	*s = (struct send){
		.wr_id = wr->wr_id,
		.opcode = wr->opcode,
		.signalled = !!(wr->send_flags & IBV_SEND_SIGNALED),
		.remote = wr->wr.rdma.remote_addr,
		.rkey = wr->wr.rdma.rkey,
		.due = cq_of(q->qp.send_cq)->polls + double_late,
		.nsges = wr->num_sge,
	};
	for (i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		s->sges[i] = *sge;
		if (!(wr->send_flags & IBV_SEND_INLINE))
			continue;
		memcpy(s->bytes + s->inlined, (const void *)(uintptr_t)sge->addr, sge->length);
		s->inlined += sge->length;
	}
}

int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct qp *q = qp_of(qp);
	int rc = 0;

	pthread_mutex_lock(&double_lock);
	MUST(qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_ERR);
	for (; wr && !rc; wr = wr->next) {
		*bad = wr;
		if (q->posted - q->retired >= q->cap.max_send_wr)
			rc = ENOMEM;
		else if (is_bad(q, wr))
			rc = EINVAL;
		else
			keep(q, wr);
	}
	if (qp->state == IBV_QPS_ERR)
		qp_break(q);
	else
		qp_run(q);
	pthread_mutex_unlock(&double_lock);
	return rc;
}

int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct qp *q = qp_of(qp);
	int rc = 0;

	pthread_mutex_lock(&double_lock);
	MUST(qp->state != IBV_QPS_RESET);
	for (; wr && !rc; wr = wr->next) {
		*bad = wr;
		if (q->rposted - q->rdone >= q->cap.max_recv_wr) {
			rc = ENOMEM;
			break;
		}
		q->receives[q->rposted++ % q->cap.max_recv_wr] =
			(struct receive){.wr_id = wr->wr_id,
					 .nsges = wr->num_sge,
					 .sge = wr->num_sge ? wr->sg_list[0] : (struct ibv_sge){0}};
	}
	if (qp->state == IBV_QPS_ERR)
		qp_break(q);
	else
		qps_run();
	pthread_mutex_unlock(&double_lock);
	return rc;
}
