/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs, and the addresses by which two eps connect theirs.
 *
 * An address, little-endian: lowest and highest version u8, GIDs u8, MTU u8; number of the first
 * queue pair u32, and its initial sequence number u32; rkey of the byte whose READ proves u32,
 * READs that a queue pair accepts u8, 0 [3], cookie [16]; then for each GID its 16 bytes, LID u16,
 * kind u8, 0 u8.
 */
#include <endian.h>
#include <stdlib.h>
#include "backend/verbs/verbs.h"

#define RNR_TIMER 12u /* 0.64 ms */
/* For ever: it is needed for the first message only, and our own timer runs. */
#define RNR_RETRY 7u
#define RETRIES	  6u /* 7 means for ever on some devices */
#define HOPS	  64u
#define ROCE_SL	  3
#define ROCE_TC	  104

struct ep_addr {
	uint8_t versions[EP_VERSIONS];
	uint8_t nends, mtu;
	uint32_t qpn, psn;
	uint32_t flush_rkey;
	uint8_t reads, zero[3];
	uint8_t cookie[VERBS_COOKIE];
	struct {
		uint8_t gid[GID_BYTES];
		uint16_t lid;
		uint8_t kind, zero;
	} end[VERBS_ENDS];
};

#define ADDR_LEN(n) (offsetof(struct ep_addr, end) + (n) * sizeof(((struct ep_addr *)0)->end[0]))
_Static_assert(sizeof(struct ep_addr) == 36 + 20 * VERBS_ENDS, "no gaps");
_Static_assert(sizeof(struct ep_addr) <= EP_ADDR_MAX, "it fits");

/* ---- queue pairs ---- */

static int is_urgent(uint32_t qp_id)
{
	return qp_id == QP_FIRST || qp_id == QP_SMALL;
}

int verbs_qp_make(struct verbs_ep *e, struct verbs_qp *w)
{
	struct verbs_device *d = verbs_ep_device(e);
	struct ibv_qp_init_attr init = {
		.qp_context = w,
		.send_cq = d->cq,
		.recv_cq = d->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = w->depth - 1,
			.max_recv_wr = w == &e->qps[QP_FIRST] ? VERBS_SLOTS : 1,
			.max_send_sge = verbs_sges(d, 0),
			.max_recv_sge = 1,
			.max_inline_data = is_urgent((uint32_t)(w - e->qps)) ? VERBS_INLINE
									     : VERBS_SPARE_INLINE},
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = e->pkey_index,
		.port_num = d->port.port,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	int rc;

	errno = 0;
	w->qp = d->lib.create_qp(d->pd, &init);
	if (!w->qp && init.cap.max_inline_data) {
		init.cap.max_inline_data = 0;
		w->qp = d->lib.create_qp(d->pd, &init);
	}
	if (!w->qp)
		return fail(errno ? -errno : -ENOMEM,
			    "ib: %s gives no queue pair (it has %d at most; with max_qps idle "
			    "peers give theirs back): %s",
			    d->port.name, d->port.attr.max_qp, errno_text(errno ? errno : ENOMEM));
	w->inlined = init.cap.max_inline_data;
	rc = d->lib.modify_qp(w->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	return rc ? fail(-rc, "ib: %s does not initialise a queue pair: %s", d->port.name,
			 errno_text(rc))
		  : 0;
}

void verbs_qp_destroy(struct verbs_qp *w)
{
	if (w->qp)
		verbs_ep_device(w->ep)->lib.destroy_qp(w->qp);
	w->qp = NULL;
}

/* ---- addresses ---- */

static uint8_t reads_taken(const struct verbs_device *d)
{
	uint32_t most = (uint32_t)d->port.attr.max_qp_rd_atom,
		 asked = d->settings.rdma_max_dest_rd_atomic;

	return (uint8_t)(asked < most ? asked : most);
}

/* READs that may be under way to a peer which accepts this many. */
static uint8_t reads_out(const struct verbs_device *d, uint8_t taken)
{
	uint32_t most = (uint32_t)d->port.attr.max_qp_init_rd_atom,
		 asked = d->settings.rdma_max_rd_atomic;

	asked = asked < most ? asked : most;
	return (uint8_t)(asked < taken ? asked : taken);
}

uint32_t verbs_addr_write(const struct verbs_ep *e, void *addr)
{
	const struct verbs_device *d = verbs_ep_device(e);
	struct ep_addr a = {
		.versions = {VERBS_VERSION, VERBS_VERSION},
		.nends = e->nends,
		.mtu = e->mtu,
		.qpn = htole32(e->qps[QP_FIRST].qp->qp_num),
		.psn = htole32(e->psn[QP_FIRST]),
		.flush_rkey = htole32(d->flush_mr->rkey),
		.reads = reads_taken(d),
	};
	uint32_t i;

	memcpy(a.cookie, e->cookie, sizeof(a.cookie));
	for (i = 0; i < e->nends; i++) {
		memcpy(a.end[i].gid, e->ends[i].gid, GID_BYTES);
		a.end[i].lid = htole16(e->ends[i].lid);
		a.end[i].kind = e->ends[i].kind;
	}
	memcpy(addr, &a, ADDR_LEN(e->nends));
	return (uint32_t)ADDR_LEN(e->nends);
}

/* 0, or -EINVAL, -EPROTO, -EPROTONOSUPPORT. */
static int read_addr(struct ep_addr *a, const void *addr, uint32_t len)
{
	int err = ep_version_check(VERBS_VERSION, addr, len);

	if (err)
		return err;
	if (len < ADDR_LEN(1) || len > sizeof(*a))
		return -EINVAL;
	memset(a, 0, sizeof(*a));
	memcpy(a, addr, len);
	if (!a->nends || a->nends > VERBS_ENDS || len != ADDR_LEN(a->nends))
		return -EINVAL;
	if (a->mtu < IBV_MTU_256 || a->mtu > IBV_MTU_4096 || !a->reads)
		return -EINVAL;
	a->qpn = le32toh(a->qpn);
	a->psn = le32toh(a->psn);
	if (a->qpn >> 24 || a->psn >> 24)
		return -EINVAL;
	a->flush_rkey = le32toh(a->flush_rkey);
	return 0;
}

/* ---- connecting ---- */

/* The setting for a class, or the default for the link. */
static uint8_t of_class(const struct verbs_device *d, const int16_t *each, uint32_t qp_id, int roce)
{
	int16_t v = each[is_urgent(qp_id) ? URCCL_CLASS_LATENCY : URCCL_CLASS_BULK];

	if (v != URCCL_AUTO)
		return (uint8_t)v;
	return d->port.gid_port.layer == GID_LAYER_ETHERNET ? (uint8_t)roce : 0;
}

static void set_route(const struct verbs_device *d, uint32_t qp_id, const struct gid_route *r,
		      struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){
		.dlid = r->dlid,
		.sl = of_class(d, d->settings.rdma_sl, qp_id, ROCE_SL),
		.is_global = r->is_global,
		.port_num = d->port.port,
	};
	if (!r->is_global)
		return;
	memcpy(ah->grh.dgid.raw, r->dgid, GID_BYTES);
	ah->grh.sgid_index = (uint8_t)r->sgid_index;
	ah->grh.hop_limit = HOPS;
	ah->grh.traffic_class = of_class(d, d->settings.rdma_tc, qp_id, ROCE_TC);
}

static int to_rtr(struct verbs_qp *w, uint32_t qpn, uint32_t psn)
{
	const struct verbs_route *route = &w->ep->route;
	const struct verbs_device *d = verbs_ep_device(w->ep);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = route->mtu,
		.dest_qp_num = qpn,
		.rq_psn = psn,
		.max_dest_rd_atomic = reads_taken(d),
		.min_rnr_timer = RNR_TIMER,
	};

	set_route(d, (uint32_t)(w - w->ep->qps), &route->gid, &attr.ah_attr);
	return d->lib.modify_qp(w->qp, &attr,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct verbs_qp *w)
{
	const struct verbs_device *d = verbs_ep_device(w->ep);
	int32_t retries = d->settings.rdma_retry_count;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = w->ep->psn[w - w->ep->qps],
		.timeout = d->settings.rdma_ack_timeout,
		.retry_cnt = retries == URCCL_AUTO ? RETRIES : (uint8_t)retries,
		.rnr_retry = RNR_RETRY,
		.max_rd_atomic = reads_out(d, w->ep->route.reads),
	};

	return d->lib.modify_qp(w->qp, &attr,
				IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int find_route(const struct verbs_ep *e, const struct ep_addr *a, struct gid_route *r)
{
	const struct verbs_device *d = verbs_ep_device(e);
	struct gid_end theirs[VERBS_ENDS];
	uint32_t i, our, their;
	int rc;

	memset(theirs, 0, sizeof(theirs));
	for (i = 0; i < a->nends; i++) {
		memcpy(theirs[i].gid, a->end[i].gid, GID_BYTES);
		theirs[i].lid = le16toh(a->end[i].lid);
		theirs[i].kind = a->end[i].kind;
	}
	rc = gid_pair(e->ends, e->nends, theirs, a->nends, &our, &their);
	if (!rc)
		gid_route(&d->port.gid_port, &e->ends[our], &theirs[their], r);
	return rc;
}

int verbs_qp_connect(struct verbs_qp *w, uint32_t qpn, uint32_t psn)
{
	int rc = -abs(to_rtr(w, qpn, psn));

	return rc ? rc : -abs(to_rts(w));
}

int verbs_ep_prepare(struct ep *ep, const void *addr, uint32_t addr_len)
{
	struct verbs_ep *e = verbs_ep(ep);
	struct ep_addr a;
	int rc = read_addr(&a, addr, addr_len);

	if (!rc)
		rc = find_route(e, &a, &e->route.gid);
	if (rc)
		return rc;
	e->route.mtu = a.mtu < e->mtu ? a.mtu : e->mtu;
	e->route.reads = a.reads;
	rc = verbs_qp_connect(&e->qps[QP_FIRST], a.qpn, a.psn);
	if (rc)
		return rc;
	memcpy(e->peer, a.cookie, sizeof(e->peer));
	e->flush_rkey = a.flush_rkey;
	e->state = EP_PREPARED;
	return 0;
}
