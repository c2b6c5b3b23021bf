/* SPDX-License-Identifier: Apache-2.0 */
/* How a request is carried out: in the order of its queue pair, all of it at once, or not. */
#include "double.h"

#define NOT_YET ((enum ibv_wc_status) - 1)

static struct nic *nic_of(const struct qp *q)
{
	return (struct nic *)(void *)verbs_get_ctx(q->qp.context);
}

/* The one that it was led to, if that was led to it. */
static struct qp *peer_of(const struct qp *q)
{
	struct qp *p = qp_find(q->attr.dest_qp_num);

	if (!p || (p->qp.state != IBV_QPS_RTR && p->qp.state != IBV_QPS_RTS) ||
	    p->attr.dest_qp_num != q->qp.qp_num || p->attr.rq_psn != q->attr.sq_psn)
		return NULL;
	return memcmp(q->attr.ah_attr.grh.dgid.raw, nic_gid(nic_of(p)->number), 16) ? NULL : p;
}

static uint32_t length(const struct send *s)
{
	uint32_t len = 0;
	int i;

	for (i = 0; i < s->nsges; i++)
		len += s->sges[i].length;
	return len;
}

/* Between what the request names here and len bytes at p; NULL: only looks whether it can be. */
static enum ibv_wc_status move(const struct qp *q, const struct send *s, uint8_t *p)
{
	unsigned int access = s->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0;
	int i;

	if (s->inlined) {
		if (p)
			memcpy(p, s->bytes, s->inlined);
		return IBV_WC_SUCCESS;
	}
	for (i = 0; i < s->nsges; i++) {
		const struct ibv_sge *sge = &s->sges[i];
		uint8_t *at = region_at(q->qp.pd, sge->lkey, sge->addr, sge->length, access);

		if (!at)
			return IBV_WC_LOC_PROT_ERR;
		if (p && access)
			memcpy(at, p, sge->length);
		else if (p)
			memcpy(p, at, sge->length);
		p = p ? p + sge->length : NULL;
	}
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status rdma(const struct qp *q, const struct send *s, struct qp *peer)
{
	unsigned int access =
		s->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	uint8_t *p = region_at(peer->qp.pd, s->rkey, s->remote, length(s), access);

	if (p && peer->attr.qp_access_flags & access) {
		/* A READ of nothing asks no memory. */
		if (access == IBV_ACCESS_REMOTE_READ && length(s))
			region_push(s->rkey);
		else if (access == IBV_ACCESS_REMOTE_WRITE)
			p = region_post(s->rkey, p, length(s));
		return move(q, s, p);
	}
	qp_break(peer);
	return IBV_WC_REM_ACCESS_ERR;
}

static enum ibv_wc_status sent(const struct qp *q, const struct send *s, struct qp *peer)
{
	const struct receive *r = &peer->receives[peer->rdone % peer->cap.max_recv_wr];
	struct entry e = {.wc = {.wr_id = r->wr_id,
				 .opcode = IBV_WC_RECV,
				 .qp_num = peer->qp.qp_num,
				 .byte_len = length(s)}};
	uint8_t *p;

	if (peer->rdone == peer->rposted)
		return NOT_YET;
	p = r->nsges && length(s) <= r->sge.length
		    ? region_at(peer->qp.pd, r->sge.lkey, r->sge.addr, r->sge.length,
				IBV_ACCESS_LOCAL_WRITE)
		    : NULL;
	if (!p) {
		qp_break(peer);
		return IBV_WC_REM_INV_REQ_ERR;
	}
	peer->rdone++;
	cq_add(peer->qp.recv_cq, &e);
	return move(q, s, p);
}

static enum ibv_wc_status carry_out(struct qp *q, const struct send *s)
{
	struct qp *peer = peer_of(q);
	enum ibv_wc_status status;

	if (!peer || !nic_has_link(nic_of(q)->number) || !nic_has_link(nic_of(peer)->number))
		return NOT_YET;
	status = move(q, s, NULL);
	if (status != IBV_WC_SUCCESS)
		return status;
	MUST(s->opcode == IBV_WR_SEND || s->opcode == IBV_WR_RDMA_READ ||
	     s->opcode == IBV_WR_RDMA_WRITE);
	return s->opcode == IBV_WR_SEND ? sent(q, s, peer) : rdma(q, s, peer);
}

static enum ibv_wc_opcode opcode_of(const struct send *s)
{
	if (s->opcode == IBV_WR_SEND)
		return IBV_WC_SEND;
	return s->opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
}

void qp_run(struct qp *q)
{
	while (q->done != q->posted && q->qp.state == IBV_QPS_RTS) {
		const struct send *s = &q->sends[q->done % q->cap.max_send_wr];
		uint32_t polls = ((const struct cq *)(void *)q->qp.send_cq)->polls;
		struct entry e = {.wc = {.wr_id = s->wr_id,
					 .opcode = opcode_of(s),
					 .qp_num = q->qp.qp_num},
				  .qp = q,
				  .number = q->done};

		if ((int32_t)(polls - s->due) < 0)
			return;
		e.wc.status = carry_out(q, s);
		if (e.wc.status == NOT_YET)
			return;
		q->done++;
		if (s->signalled || e.wc.status != IBV_WC_SUCCESS)
			cq_add(q->qp.send_cq, &e);
		if (e.wc.status != IBV_WC_SUCCESS)
			qp_break(q);
	}
}

void qps_run(void)
{
	struct qp *q;

	for (q = double_qps; q; q = q->next)
		qp_run(q);
}
