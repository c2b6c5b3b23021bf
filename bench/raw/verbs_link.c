/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PSN_MASK = 0xffffff, ACK_TIMEOUT = 14 /* 67 ms */, RETRIES = 6 };

/* ---- the device ---- */

static int named(const struct raw_options *o, int which, const char *device)
{
	const char *comma;
	size_t len;

	if (!o->device)
		return 1;
	comma = strchr(o->device, ',');
	len = strlen(device);
	if (which)
		return !strcmp(comma + 1, device);
	return len == (size_t)(comma - o->device) && !strncmp(o->device, device, len);
}

/* Of all devices in the order of their names, the first for us and the second for the other end,
 * unless they were named. */
static int by_name(const void *a, const void *b)
{
	struct ibv_device *const *x = a, *const *y = b;

	return strcmp(ibv_get_device_name(*x), ibv_get_device_name(*y));
}

static struct ibv_context *open_device(const struct raw_options *o, int which)
{
	struct ibv_device **list, *found = NULL;
	struct ibv_context *ctx;
	int n, i;

	list = ibv_get_device_list(&n);
	if (!list || !n)
		bench_die("there is no RDMA device here");
	qsort(list, (size_t)n, sizeof(*list), by_name);
	for (i = 0; i < n && !found; i++)
		if (named(o, which, ibv_get_device_name(list[i])))
			found = list[o->device || !which || n == 1 ? i : 1];
	if (!found)
		bench_die("no RDMA device is named as in '%s'", o->device);
	ctx = ibv_open_device(found);
	if (!ctx)
		bench_die("cannot open %s: %s", ibv_get_device_name(found), strerror(errno));
	ibv_free_device_list(list);
	return ctx;
}

/* RoCE over IPv4 where there is an address, else the port's first GID. */
static uint8_t pick_gid(struct link *l, int entries)
{
	struct ibv_gid_entry e;
	int i;

	for (i = 0; i < entries && i < 256; i++)
		if (!ibv_query_gid_ex(l->ctx, l->port, (uint32_t)i, &e, 0) &&
		    e.gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    !memcmp(e.gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12))
			return (uint8_t)i;
	return 0;
}

static void pick_port(struct link *l, const struct ibv_device_attr *device)
{
	struct ibv_port_attr port;

	for (l->port = 1; l->port <= device->phys_port_cnt; l->port++)
		if (!ibv_query_port(l->ctx, l->port, &port) && port.state == IBV_PORT_ACTIVE)
			break;
	if (l->port > device->phys_port_cnt)
		bench_die("no port of %s is active", ibv_get_device_name(l->ctx->device));
	l->ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
	l->gid_index = pick_gid(l, port.gid_tbl_len);
	if (ibv_query_gid(l->ctx, l->port, l->gid_index, &l->ours.gid))
		bench_die("cannot read GID %u: %s", l->gid_index, strerror(errno));
	l->ours.lid = port.lid;
	l->ours.mtu = (uint8_t)port.active_mtu;
}

static uint8_t least(int a, int b)
{
	int least = a < b ? a : b;

	return (uint8_t)(least < 255 ? least : 255);
}

/* ---- what is made of it ---- */

static void make_memory(struct link *l, uint64_t span, enum bench_pages pages)
{
	l->buf = bench_map(span, pages);
	l->mr = ibv_reg_mr(l->pd, l->buf, span,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ);
	if (!l->mr)
		bench_die("cannot register %lu bytes: %s", span, strerror(errno));
	l->ours.rkey = l->mr->rkey;
	l->ours.addr = (uintptr_t)l->buf;
}

/* With as much inline as wished, or with none. */
static struct ibv_qp *make_qp(struct link *l, uint32_t sends)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = l->cq,
		.recv_cq = l->cq,
		.cap = {.max_send_wr = sends,
			.max_recv_wr = RECVS,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = INLINE_WISH},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(l->pd, &attr);

	if (!qp) {
		attr.cap.max_inline_data = 0;
		qp = ibv_create_qp(l->pd, &attr);
	}
	if (!qp)
		bench_die("no queue pair for %u sends: %s", sends, strerror(errno));
	l->inline_max = attr.cap.max_inline_data;
	return qp;
}

static void make(struct link *l, const struct raw_options *o, uint32_t sends)
{
	uint32_t i;

	l->pd = ibv_alloc_pd(l->ctx);
	/* Room for every completion that can be: then it never overruns. */
	l->cq = ibv_create_cq(l->ctx, (int)(l->qps * (sends + RECVS)), NULL, NULL, 0);
	if (!l->pd || !l->cq)
		bench_die("no protection domain or completion queue: %s", strerror(errno));
	make_memory(l, o->span, o->pages);
	l->ours.psn = (uint32_t)bench_now() & PSN_MASK;
	for (i = 0; i < l->qps; i++) {
		l->qp[i] = make_qp(l, sends);
		l->ours.qpn[i] = l->qp[i]->qp_num;
	}
}

/* ---- connecting ---- */

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const char *state)
{
	int err = ibv_modify_qp(qp, attr, mask);

	if (err)
		bench_die("a queue pair does not become %s: %s", state, strerror(err));
}

static void to_init(struct link *l, uint32_t i)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = l->port,
				   .qp_access_flags =
					   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

	modify(l->qp[i], &attr,
	       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "initialised");
}

static void to_receive(struct link *l, uint32_t i)
{
	const struct card *them = &l->theirs;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)least(l->ours.mtu, them->mtu),
		.dest_qp_num = them->qpn[i],
		.rq_psn = them->psn,
		.max_dest_rd_atomic = l->ours.reads,
		.min_rnr_timer = 12,
		.ah_attr = {.dlid = them->lid,
			    .port_num = l->port,
			    .is_global = (uint8_t)l->ethernet},
	};

	if (l->ethernet) {
		attr.ah_attr.grh.dgid = them->gid;
		attr.ah_attr.grh.sgid_index = l->gid_index;
		attr.ah_attr.grh.hop_limit = 64;
	}
	modify(l->qp[i], &attr,
	       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	       "ready to receive");
}

static void to_send(struct link *l, uint32_t i, uint8_t reads)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
				   .sq_psn = l->ours.psn,
				   .timeout = ACK_TIMEOUT,
				   .retry_cnt = RETRIES,
				   .rnr_retry = 7,
				   .max_rd_atomic = reads};

	modify(l->qp[i], &attr,
	       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC,
	       "ready to send");
}

/* Both say the same amount, so neither waits for the other to read first. */
static void exchange(int fd, const void *ours, void *theirs, size_t len)
{
	if (write(fd, ours, len) != (ssize_t)len || read(fd, theirs, len) != (ssize_t)len)
		bench_die("the other end is gone");
}

void link_open(struct link *l, const struct raw_options *o, int which, uint32_t sends, int fd)
{
	struct ibv_device_attr device;
	uint8_t reads;
	uint32_t i;
	char word = 0;

	memset(l, 0, sizeof(*l));
	l->qps = o->qps ? (uint32_t)o->qps : 1;
	if (l->qps > QPS_MAX)
		bench_die("at most %d queue pairs", QPS_MAX);
	l->ctx = open_device(o, which);
	if (ibv_query_device(l->ctx, &device))
		bench_die("cannot ask the device what it can: %s", strerror(errno));
	pick_port(l, &device);
	l->ours.reads = least(device.max_qp_rd_atom, 255);
	make(l, o, sends);
	exchange(fd, &l->ours, &l->theirs, sizeof(l->ours));
	reads = least(device.max_qp_init_rd_atom, l->theirs.reads);
	for (i = 0; i < l->qps; i++) {
		to_init(l, i);
		to_receive(l, i);
		to_send(l, i, reads);
	}
	for (i = 0; i < RECVS; i++)
		link_receive(l);
	/* Whoever sends first finds the other ready. */
	exchange(fd, &word, &word, 1);
}

void link_close(struct link *l)
{
	uint32_t i;

	for (i = 0; i < l->qps; i++)
		ibv_destroy_qp(l->qp[i]);
	ibv_dereg_mr(l->mr);
	ibv_destroy_cq(l->cq);
	ibv_dealloc_pd(l->pd);
	ibv_close_device(l->ctx);
}

/* ---- work ---- */

int link_poll(struct link *l, struct ibv_wc *wc)
{
	int n = ibv_poll_cq(l->cq, 1, wc);

	if (n < 0)
		bench_die("the completion queue cannot be read");
	if (n && wc->status != IBV_WC_SUCCESS)
		bench_die("a work request failed: %s", ibv_wc_status_str(wc->status));
	return n;
}

void link_post(struct link *l, uint32_t qp, struct ibv_send_wr *chain)
{
	struct ibv_send_wr *bad;
	int err = ibv_post_send(l->qp[qp], chain, &bad);

	if (err)
		bench_die("ibv_post_send: %s", strerror(err));
}

void link_receive(struct link *l)
{
	struct ibv_recv_wr wr = {0}, *bad;
	int err = ibv_post_recv(l->qp[0], &wr, &bad);

	if (err)
		bench_die("ibv_post_recv: %s", strerror(err));
}
