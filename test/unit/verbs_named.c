/* SPDX-License-Identifier: Apache-2.0 */
/* Of the RDMA devices that rdma_dev names those that can be opened come first, and behind them each
 * that is absent or whose link is down, which says so itself. On a machine that is made up. */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include "backend/verbs/verbs.h"
#include "test.h"

#define N 3u

static struct machine_device {
	struct ibv_device device;
	struct verbs_context verbs;
	uint32_t opened;
} devices[N];
static struct ibv_device *list[N + 1];
static const char *const names[N] = {"mlx5_0", "mlx5_1", "mlx5_2"};
static uint32_t down; /* which of them: a bit each */

static uint32_t number_of(const struct ibv_device *device)
{
	uint32_t i;

	for (i = 0; list[i] != device; i++)
		CHECK(list[i]);
	return i;
}

static struct ibv_device **get_list(int *n)
{
	*n = N;
	return list;
}

static void free_list(struct ibv_device **all)
{
	CHECK(all == list);
}

static const char *get_name(struct ibv_device *device)
{
	return names[number_of(device)];
}

static struct ibv_context *open_device(struct ibv_device *device)
{
	struct machine_device *d = &devices[number_of(device)];

	d->opened++;
	return &d->verbs.context;
}

static int close_device(struct ibv_context *context)
{
	devices[number_of(context->device)].opened--;
	return 0;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	memset(attr, 0, sizeof(*attr));
	attr->phys_port_cnt = 1;
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		      size_t len)
{
	CHECK_EQ(port, 1);
	CHECK_GE(len, sizeof(*attr));
	attr->state = down >> number_of(context->device) & 1 ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	attr->pkey_tbl_len = 1;
	return 0;
}

static int query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	CHECK_EQ(port, 1);
	CHECK_EQ(index, 0);
	*pkey = 0xffff;
	return 0;
}

static ssize_t query_gids(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
			  uint32_t flags, size_t size)
{
	static const uint8_t gid[16] = {[10] = 0xff, 0xff, 192, 0, 2, 1};

	(void)context;
	CHECK(max && !flags && size == sizeof(*entries));
	entries->port_num = 1;
	entries->gid_type = GID_TYPE_ROCE_V2;
	memcpy(entries->gid.raw, gid, sizeof(gid));
	return 1;
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
};

static void make(void)
{
	uint32_t i;

	for (i = 0; i < N; i++) {
		list[i] = &devices[i].device;
		devices[i].verbs.sz = sizeof(devices[i].verbs);
		devices[i].verbs.query_port = query_port;
		devices[i].verbs.context.device = list[i];
		devices[i].verbs.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	}
}

/* opens: the ports, by comma, and then words of the sentences of those that do not. */
static void finds(const char *rules, const char *opens, const char *refused[2])
{
	struct urccl_params p = {
		.size = sizeof(p), .rdma_dev = rules, .rdma_gid_index = URCCL_AUTO};
	struct device_config config = {.params = &p};
	uint32_t n = verbs_ports(&lib, &config), refusals = 0, i;
	struct verbs_port port;
	char got[200] = "";

	for (; config.number < n; config.number++) {
		if (!verbs_port_open(&lib, &config, &port)) {
			CHECK_EQ(refusals, 0);
			strcat(strcat(got, *got ? "," : ""), port.name);
			verbs_port_close(&lib, &port);
			continue;
		}
		CHECK(refusals < 2 && refused[refusals]);
		CHECK_SAYS(urccl_errmsg(), refused[refusals++]);
	}
	CHECK(refusals == 2 || !refused[refusals]);
	CHECK(!strcmp(got, opens));
	CHECK_EQ(verbs_port_open(&lib, &config, &port), -ENODEV);
	for (i = 0; i < N; i++)
		CHECK_EQ(devices[i].opened, 0);
}

#define REFUSED(...) ((const char *[2]){__VA_ARGS__})

int case_verbs_named(void)
{
	make();
	finds("mlx5_0,mlx5_2", "mlx5_0 port 1,mlx5_2 port 1", REFUSED(NULL));
	finds("=mlx5_9,mlx5_1,mlx4_0", "mlx5_1 port 1",
	      REFUSED("no RDMA device \"mlx5_9\"", "no RDMA device \"mlx4_0\""));
	finds("7", "", REFUSED("no RDMA device \"7\""));
	down = 1 << 1;
	finds("mlx5_1,mlx5_2", "mlx5_2 port 1", REFUSED("mlx5_1, which rdma_dev names, has no"));
	finds("mlx5_1,mlx5_9,0", "mlx5_0 port 1",
	      REFUSED("no RDMA device \"mlx5_9\"", "mlx5_1, which rdma_dev names, has no"));
	/* What is not named by itself may be down. */
	finds("mlx5", "mlx5_0 port 1,mlx5_2 port 1", REFUSED(NULL));
	finds("^mlx5_2", "mlx5_0 port 1", REFUSED(NULL));
	finds(NULL, "mlx5_0 port 1,mlx5_2 port 1", REFUSED(NULL));
	return 0;
}
