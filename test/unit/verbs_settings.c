/* SPDX-License-Identifier: Apache-2.0 */
/* What the settings rdma_port, rdma_gid_index, rdma_pkey, rdma_ack_timeout, rdma_retry_count and
 * rdma_max_rd_atomic say is what libibverbs is told. On a device that is made up: two ports with
 * tables of their own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "backend/verbs/verbs.h"
#include "test.h"

#define PORTS 2u
#define GIDS  4u
#define READS 32 /* of a queue pair, either way */

static struct ibv_device device;
static struct ibv_device *list[] = {&device, NULL};
static struct verbs_context verbs;
static struct ibv_mr mr;
static struct ibv_qp qps[QPS];
static struct ibv_qp_attr init[QPS], rtr[QPS], rts[QPS];
static uint32_t nqps;

/* ---- the device ---- */

static struct ibv_device **get_list(int *n)
{
	*n = 1;
	return list;
}

static void free_list(struct ibv_device **all)
{
	CHECK(all == list);
}

static const char *get_name(struct ibv_device *d)
{
	CHECK(d == &device);
	return "mlx5_0";
}

static struct ibv_context *open_device(struct ibv_device *d)
{
	CHECK(d == &device);
	return &verbs.context;
}

static int close_device(struct ibv_context *context)
{
	CHECK(context == &verbs.context);
	return 0;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	*attr = (struct ibv_device_attr){.phys_port_cnt = PORTS,
					 .max_cqe = 1 << 16,
					 .max_qp_rd_atom = READS,
					 .max_qp_init_rd_atom = READS};
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		      size_t len)
{
	(void)context;
	CHECK(port >= 1 && port <= PORTS && len >= sizeof(*attr));
	attr->state = IBV_PORT_ACTIVE;
	attr->active_mtu = IBV_MTU_4096;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	attr->pkey_tbl_len = 3;
	return 0;
}

/* Port 1: 0x8001 to 0x8003; port 2: from 0x8011 on. */
static int query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	*pkey = htobe16((uint16_t)(0x7ff1 + 16 * port + index));
	return 0;
}

/* The first of each port is the one that would be chosen. */
static ssize_t query_gids(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
			  uint32_t flags, size_t size)
{
	uint32_t i;

	(void)context;
	CHECK(max >= PORTS * GIDS && !flags && size == sizeof(*entries));
	for (i = 0; i < PORTS * GIDS; i++) {
		entries[i] = (struct ibv_gid_entry){.gid_index = i % GIDS,
						    .port_num = i / GIDS + 1,
						    .gid_type = GID_TYPE_ROCE_V2,
						    .ndev_ifindex = 1};
		memcpy(entries[i].gid.raw, (uint8_t[16]){[10] = 255, 255, 192, 0, 2}, 15);
		entries[i].gid.raw[15] = (uint8_t)(i + 1);
	}
	return PORTS * GIDS;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			     unsigned int access)
{
	(void)pd, (void)addr, (void)length, (void)iova, (void)access;
	return &mr;
}

static int dereg_mr(struct ibv_mr *m)
{
	CHECK(m == &mr);
	return 0;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	(void)pd, (void)attr;
	CHECK(nqps < QPS);
	return &qps[nqps++];
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr *to = attr->qp_state == IBV_QPS_INIT	 ? init
				 : attr->qp_state == IBV_QPS_RTR ? rtr
								 : rts;

	CHECK(mask & IBV_QP_STATE);
	if (to == init)
		CHECK(mask & IBV_QP_PKEY_INDEX && mask & IBV_QP_PORT);
	else if (to == rtr)
		CHECK(mask & IBV_QP_AV && mask & IBV_QP_MAX_DEST_RD_ATOMIC);
	else
		CHECK(mask & IBV_QP_TIMEOUT && mask & IBV_QP_RETRY_CNT &&
		      mask & IBV_QP_MAX_QP_RD_ATOMIC);
	to[qp - qps] = *attr;
	return 0;
}

static int destroy_qp(struct ibv_qp *qp)
{
	CHECK(qp - qps < QPS);
	return 0;
}

static const struct verbs_lib lib = {
	.get_device_list = get_list,
	.free_device_list = free_list,
	.get_device_name = get_name,
	.open_device = open_device,
	.close_device = close_device,
	.query_device = query_device,
	.query_pkey = query_pkey,
	.query_gid_table = query_gids,
	.reg_mr_iova2 = reg_mr,
	.dereg_mr = dereg_mr,
	.create_qp = create_qp,
	.modify_qp = modify_qp,
	.destroy_qp = destroy_qp,
};

/* ---- settings ---- */

static struct urccl_params fresh(void)
{
	struct urccl_params p = {.size = sizeof(p)};

	urccl_params_init(&p);
	return p;
}

/* Connects an ep to itself, and makes it grow; what its queue pairs were told is in init, rtr and
 * rts. */
static void connects(const struct urccl_params *p)
{
	struct device_config config = {.params = p};
	struct verbs_device *d = calloc(1, sizeof(*d));
	uint8_t addr[EP_ADDR_MAX];
	uint32_t len = sizeof(addr);
	struct ep *ep;
	uint32_t i;

	CHECK(d);
	verbs_device_init(d, &config);
	d->lib = lib;
	d->flush_mr = &mr;
	d->ncqes = 1 << 16;
	CHECK_EQ(verbs_port_open(&lib, &config, &d->port), 0);
	nqps = 0;
	CHECK_EQ(verbs_ep_open(&d->dev, &ep, addr, &len), 0);
	CHECK_EQ(verbs_ep_prepare(ep, addr, len), 0);
	CHECK_EQ(nqps, 1);
	verbs_ep(ep)->connects = 1;
	for (i = 1; i < QPS; i++) {
		verbs_ep(ep)->growing = &verbs_ep(ep)->qps[i];
		CHECK_EQ(verbs_ep_add_qps(ep), 0);
	}
	CHECK_EQ(nqps, QPS);
	verbs_ep_free(ep);
	verbs_port_close(&lib, &d->port);
	free(d);
}

static void told(const struct urccl_params *p, uint8_t port, uint8_t gid, uint16_t pkey)
{
	uint32_t i;

	connects(p);
	for (i = 0; i < QPS; i++) {
		CHECK_EQ(init[i].port_num, port);
		CHECK_EQ(init[i].pkey_index, pkey);
		CHECK_EQ(rtr[i].ah_attr.port_num, port);
		CHECK_EQ(rtr[i].ah_attr.grh.sgid_index, gid);
		CHECK_EQ(rtr[i].ah_attr.grh.dgid.raw[15], (port - 1) * (int)GIDS + gid + 1);
	}
}

static void timed(const struct urccl_params *p, uint8_t timeout, uint8_t retries, uint8_t out,
		  uint8_t taken)
{
	uint32_t i;

	connects(p);
	for (i = 0; i < QPS; i++) {
		CHECK_EQ(rts[i].timeout, timeout);
		CHECK_EQ(rts[i].retry_cnt, retries);
		CHECK_EQ(rts[i].max_rd_atomic, out);
		CHECK_EQ(rtr[i].max_dest_rd_atomic, taken);
	}
}

static void refused(const struct urccl_params *p, int err, const char *words)
{
	struct device_config config = {.params = p};
	struct verbs_port port;

	CHECK_EQ(verbs_port_open(&lib, &config, &port), err);
	CHECK_SAYS(urccl_errmsg(), words);
}

static void addresses(void)
{
	struct urccl_params p = fresh();

	told(&p, 1, 0, 0);
	p.rdma_port = 2;
	told(&p, 2, 0, 0);
	p.rdma_gid_index = 3;
	told(&p, 2, 3, 0);
	p.rdma_pkey = 0x8012;
	told(&p, 2, 3, 1);
	p.rdma_port = 1;
	refused(&p, -ENOENT, "rdma_pkey 0x8012");
	p.rdma_pkey = 0x8003;
	told(&p, 1, 3, 2);
	p.rdma_gid_index = 4;
	refused(&p, -EINVAL, "4");
	p.rdma_port = 3;
	refused(&p, -ENODEV, "that the settings allow");
}

static void times(void)
{
	struct urccl_params p = fresh();

	timed(&p, 14, 6, 16, 16);
	p.rdma_ack_timeout = 21;
	p.rdma_retry_count = 0;
	p.rdma_max_rd_atomic = 5;
	timed(&p, 21, 0, 5, 16);
	p.rdma_retry_count = 7;
	p.rdma_max_dest_rd_atomic = 3;
	/* No more than the peer takes, which here is the same one. */
	timed(&p, 21, 7, 3, 3);
	p.rdma_max_rd_atomic = 255;
	p.rdma_max_dest_rd_atomic = 255;
	timed(&p, 21, 7, READS, READS);
}

int case_verbs_settings(void)
{
	verbs.sz = sizeof(verbs);
	verbs.query_port = query_port;
	verbs.context.device = &device;
	verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	addresses();
	times();
	return 0;
}
