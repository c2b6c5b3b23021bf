/* SPDX-License-Identifier: Apache-2.0 */
/* Which GID a port is addressed by. The tables are those of ports that others have shown in public;
 * each says where. What is expected of them is reasoned beside them. */
#include <arpa/inet.h>
#include "backend/verbs/gid.h"
#include "test.h"

#define ROWS 10u
#define OWN  2u /* the interface of the port itself */
#define VLAN 3u /* another on top of it */
#define V1   GID_TYPE_ROCE_V1
#define V2   GID_TYPE_ROCE_V2

struct row {
	uint32_t index;
	const char *gid;
	uint8_t type;
	uint32_t ifindex;
};

struct table {
	const char *name;
	struct row rows[ROWS];
	uint8_t layer;
	uint16_t lid;
	const char *control; /* this host's address of the control connection; NULL: not known */
	int32_t wish;	     /* 0: URCCL_AUTO; else the index and 1 */
	int index, kind;     /* expected of the first; index -errno: refused */
	int kinds;	     /* how many the peer is told */
};

static const struct table tables[] = {
	/* github.com/NVIDIA/nccl/issues/1131, show_gids of a ConnectX-7: each address twice, and
	 * the link-local pair first. Only the last is routed and of version 2. */
	{"mlx5",
	 {{0, "fe80::a288:c2ff:fe5b:03ec", V1, OWN},
	  {1, "fe80::a288:c2ff:fe5b:03ec", V2, OWN},
	  {2, "::ffff:11.0.0.72", V1, OWN},
	  {3, "::ffff:11.0.0.72", V2, OWN}},
	 .index = 3,
	 .kind = GID_V2_IPV4,
	 .kinds = 4},

	/* github.com/tensorflow/tensorflow/issues/22077, ConnectX-3: version 1 alone, and a VLAN's
	 * address behind the port's own, which comes first. */
	{"mlx4, RoCE v1",
	 {{0, "fe80::202:c9ff:feb3:8421", V1, OWN},
	  {1, "::ffff:12.12.12.12", V1, OWN},
	  {2, "::ffff:10.10.10.2", V1, VLAN}},
	 .index = 1,
	 .kind = GID_V1_IPV4,
	 .kinds = 2},

	/* Written: a queue pair's address has a byte for the index, so that better ones behind it
	 * are none. */
	{"behind 255",
	 {{0, "fe80::202:c9ff:feb3:8421", V1, OWN},
	  {255, "::ffff:12.12.12.12", V1, OWN},
	  {256, "::ffff:12.12.12.13", V2, OWN},
	  {299, "2001:db8::1", V2, OWN}},
	 .control = "12.12.12.13",
	 .index = 255,
	 .kind = GID_V1_IPV4,
	 .kinds = 2},

	/* The same with the control connection on the VLAN: the network that is known to lead
	 * there. */
	{"mlx4, by VLAN",
	 {{0, "fe80::202:c9ff:feb3:8421", V1, OWN},
	  {1, "::ffff:12.12.12.12", V1, OWN},
	  {2, "::ffff:10.10.10.2", V1, VLAN}},
	 .control = "10.10.10.2",
	 .index = 2,
	 .kind = GID_V1_IPV4,
	 .kinds = 2},

	/* Written: the same where the VLAN had its address first. */
	{"mlx4, VLAN first",
	 {{0, "fe80::202:c9ff:feb3:8421", V1, OWN},
	  {1, "::ffff:10.10.10.2", V1, VLAN},
	  {2, "::ffff:12.12.12.12", V1, OWN}},
	 .index = 2,
	 .kind = GID_V1_IPV4,
	 .kinds = 2},

	/* github.com/NVIDIA/nccl/issues/769, ibv_devinfo of a bond: GID 1 timed out, 3 worked. */
	{"bond",
	 {{0, "fe80::ac0:ebff:feda:1cfb", V1, OWN},
	  {1, "fe80::ac0:ebff:feda:1cfb", V2, OWN},
	  {2, "::ffff:200.0.209.6", V1, OWN},
	  {3, "::ffff:200.0.209.6", V2, OWN}},
	 .index = 3,
	 .kind = GID_V2_IPV4,
	 .kinds = 4},

	/* github.com/openucx/ucx/issues/10420, show_gids of mlx5_bond_0; here with the control
	 * connection on another network (the documentation's), which changes nothing. */
	{"bond, control elsewhere",
	 {{0, "fe80::a288:c2ff:feb4:87d6", V1, OWN},
	  {1, "fe80::a288:c2ff:feb4:87d6", V2, OWN},
	  {2, "::ffff:10.16.29.13", V1, OWN},
	  {3, "::ffff:10.16.29.13", V2, OWN}},
	 .control = "192.0.2.1",
	 .index = 3,
	 .kind = GID_V2_IPV4,
	 .kinds = 4},

	/* github.com/kvcache-ai/Mooncake/issues/1617, show_gids beside MI355X: IPv6 alone, and the
	 * second is a unique local address, which is routed. */
	{"IPv6 alone",
	 {{0, "fe80::690:81ff:fe39:e3e8", V2, OWN},
	  {1, "fd93:16d3:59b6:10d:690:81ff:fe39:e3e8", V2, OWN}},
	 .index = 1,
	 .kind = GID_V2_IPV6,
	 .kinds = 2},

	/* github.com/kvcache-ai/Mooncake/issues/2747: the private 10.0.0.0/8 is no reason to take
	 * the link-local one. */
	{"private IPv4",
	 {{0, "fe80::690:81ff:fe37:a9e8", V2, OWN}, {1, "::ffff:10.102.9.101", V2, OWN}},
	 .index = 1,
	 .kind = GID_V2_IPV4,
	 .kinds = 2},

	/* github.com/NVIDIA/nccl/issues/1573, a pod with a macvlan: the first four rows are the
	 * host's and read as zeroes, and the interface is not the port's. */
	{"pod",
	 {{0, "::", 0, 0},
	  {1, "::", 0, 0},
	  {2, "::", 0, 0},
	  {3, "::", 0, 0},
	  {4, "fe80::a4ed:ccff:fe8b:1994", V1, VLAN},
	  {5, "fe80::a4ed:ccff:fe8b:1994", V2, VLAN},
	  {6, "::ffff:10.152.0.12", V1, VLAN},
	  {7, "::ffff:10.152.0.12", V2, VLAN}},
	 .index = 7,
	 .kind = GID_V2_IPV4,
	 .kinds = 4},

	/* github.com/Mellanox/k8s-rdma-shared-dev-plugin/issues/164: one address twice, 25 Gbit/s
	 * port; the types are those of the driver, which enters version 1 first. */
	{"shared device",
	 {{14, "::ffff:192.168.6.6", V1, OWN}, {15, "::ffff:192.168.6.6", V2, OWN}},
	 .index = 15,
	 .kind = GID_V2_IPV4,
	 .kinds = 2},

	/* github.com/ml-explore/mlx/pull/4191, RDMA over Thunderbolt: nothing but the link's own
	 * address, which does between neighbours (its type is not shown: version 2 assumed) ... */
	{"link-local alone",
	 {{0, "fe80::347c:94ff:fecd:45c4", V2, OWN}},
	 .index = 0,
	 .kind = GID_V2_LINK6,
	 .kinds = 1},
	/* ... and with one of IPv4 that is link-local too. */
	{"link-local IPv4",
	 {{0, "fe80::347c:94ff:fecd:45c4", V2, OWN}, {1, "::ffff:169.254.10.1", V2, OWN}},
	 .index = 1,
	 .kind = GID_V2_LINK4,
	 .kinds = 2},

	/* Recorded: soft-RoCE of Linux 6.1 on a veth, in the project's own guest. */
	{"rxe",
	 {{0, "fe80::78a5:a4ff:fe6c:4b39", V2, OWN}, {1, "::ffff:10.79.0.1", V2, OWN}},
	 .index = 1,
	 .kind = GID_V2_IPV4,
	 .kinds = 2},

	/* github.com/ofiwg/libfabric/issues/5689, EFA: one GID, which is all that there is. */
	{"EFA",
	 {{0, "fe80::39:beff:fe6e:c23", GID_TYPE_IB, 0}},
	 .layer = GID_LAYER_OTHER,
	 .index = 0,
	 .kind = GID_OTHER,
	 .kinds = 1},

	/* github.com/linux-rdma/opensm/issues/36, InfiniBand with a subnet prefix of its own. */
	{"InfiniBand",
	 {{0, "fe80:0:0:6:b859:9f03:db:f884", GID_TYPE_IB, 0}},
	 .layer = GID_LAYER_INFINIBAND,
	 .lid = 3,
	 .index = 0,
	 .kind = GID_INFINIBAND,
	 .kinds = 1},
	{"InfiniBand, no manager",
	 {{0, "fe80::b859:9f03:db:f884", GID_TYPE_IB, 0}},
	 .layer = GID_LAYER_INFINIBAND,
	 .index = -ENETDOWN},
	/* Written after github.com/openucx/ucx/pull/9557, which says where the FLID (7 here) is:
	 * the GID by which other subnets reach the port is the one to tell. */
	{"InfiniBand, FLID",
	 {{0, "fe80::b859:9f03:db:f884", GID_TYPE_IB, 0},
	  {1, "fec0:0:7:1:14:500:db:f884", GID_TYPE_IB, 0}},
	 .layer = GID_LAYER_INFINIBAND,
	 .lid = 3,
	 .index = 1,
	 .kind = GID_INFINIBAND,
	 .kinds = 1},

	/* Written: what a port shows before its interface has an address, and with nothing at all.
	 */
	{"no address yet", {{0, "fe80::", V2, OWN}, {1, "::", 0, 0}}, .index = -EADDRNOTAVAIL},
	{"empty", {{0, NULL, 0, 0}}, .index = -EADDRNOTAVAIL},

	/* Written: two families, and the control connection's decides; IPv4 where none does. */
	{"both families",
	 {{0, "2001:db8::1", V2, OWN}, {1, "::ffff:192.0.2.1", V2, OWN}},
	 .index = 1,
	 .kind = GID_V2_IPV4,
	 .kinds = 2},
	{"both, IPv6 control",
	 {{0, "2001:db8::1", V2, OWN}, {1, "::ffff:192.0.2.1", V2, OWN}},
	 .control = "2001:db8:5::9",
	 .index = 0,
	 .kind = GID_V2_IPV6,
	 .kinds = 2},
	{"both, mapped control",
	 {{0, "2001:db8::1", V2, OWN}, {1, "::ffff:192.0.2.1", V2, OWN}},
	 .control = "::ffff:192.0.2.1",
	 .index = 1,
	 .kind = GID_V2_IPV4,
	 .kinds = 2},
	/* Its address of version 1 goes not before one of version 2. */
	{"control on v1",
	 {{0, "::ffff:192.0.2.9", V1, OWN}, {1, "2001:db8::1", V2, OWN}},
	 .control = "192.0.2.9",
	 .index = 1,
	 .kind = GID_V2_IPV6,
	 .kinds = 2},

	/* The program's word. */
	{"GID index 2",
	 {{1, "::ffff:192.0.2.1", V2, OWN}, {2, "::ffff:192.0.2.1", V1, OWN}},
	 .wish = 3,
	 .index = 2,
	 .kind = GID_V1_IPV4,
	 .kinds = 1},
	{"GID index 9", {{1, "::ffff:192.0.2.1", V2, OWN}}, .wish = 10, .index = -EINVAL},
	{"GID index 0, empty",
	 {{0, "::", 0, 0}, {1, "::ffff:192.0.2.1", V2, OWN}},
	 .wish = 1,
	 .index = -EINVAL},
};

static uint32_t fill(const struct table *t, struct gid_entry out[ROWS])
{
	uint32_t i;

	for (i = 0; i < ROWS && t->rows[i].gid; i++) {
		out[i] = (struct gid_entry){.index = t->rows[i].index,
					    .type = t->rows[i].type,
					    .ifindex = t->rows[i].ifindex};
		CHECK_EQ(inet_pton(AF_INET6, t->rows[i].gid, out[i].gid), 1);
	}
	return i;
}

static void address(const char *text, struct sockaddr_storage *ss)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

	if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
		memcpy(ss, &in, sizeof(in));
		return;
	}
	CHECK_EQ(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
	memcpy(ss, &in6, sizeof(in6));
}

static void choose(const struct table *t)
{
	struct gid_entry rows[ROWS];
	uint32_t nrows = fill(t, rows);
	struct gid_port port = {.name = "mlx5_0 port 1",
				.layer = t->layer,
				.lid = t->lid,
				.ifindex = gid_own_ifindex(rows, nrows),
				.gids = rows,
				.n = nrows};
	struct gid_wish wish = {.index = t->wish ? t->wish - 1 : URCCL_AUTO};
	struct sockaddr_storage control = {0};
	struct gid_end ends[GID_KINDS];
	char text[GID_TEXT];
	int n;

	if (t->control) {
		address(t->control, &control);
		wish.to = &control;
	}
	n = gid_ends(&port, &wish, ends);
	printf("%-24s %s\n", t->name, n < 0 ? urccl_errmsg() : gid_text(&ends[0], text));
	if (t->index < 0) {
		CHECK_EQ(n, t->index);
		CHECK(strstr(urccl_errmsg(), "mlx5_0 port 1"));
		return;
	}
	CHECK_EQ(n, t->kinds);
	CHECK_EQ(ends[0].index, t->index);
	CHECK_EQ(ends[0].kind, t->kind);
	CHECK_EQ(ends[0].lid, t->lid);
}

/* ---- which address of the control plane is wished for ---- */

#define OWN_MAX 3u

static const struct {
	const char *own[OWN_MAX]; /* what a context listens on */
	int index;		  /* -1: none */
} wishes[] = {
	{{NULL}, -1},
	{{"0.0.0.0"}, -1},
	{{"::"}, -1},
	{{"127.0.0.1"}, -1},
	{{"::1"}, -1},
	{{"192.0.2.1"}, 0},
	/* One that the port has goes first, */
	{{"198.51.100.7", "192.0.2.1"}, 1},
	{{"198.51.100.7", "127.0.0.1", "2001:db8::1"}, 2},
	/* and of the others the first: its family counts. */
	{{"198.51.100.7", "2001:db8:5::9"}, 0},
	{{"127.0.0.1", "2001:db8:5::9"}, 1},
	/* The port's row for the loopback interface is no address that others reach. */
	{{"127.0.0.5"}, -1},
};

static void wish(size_t i)
{
	static const struct table port_table = {.rows = {{0, "fe80::1", V2, OWN},
							 {1, "2001:db8::1", V2, OWN},
							 {2, "::ffff:192.0.2.1", V2, OWN},
							 {3, "::ffff:127.0.0.5", V2, VLAN}}};
	struct gid_entry rows[ROWS];
	struct gid_port port = {.name = "mlx5_0 port 1", .gids = rows};
	struct sockaddr_storage own[OWN_MAX];
	const struct sockaddr_storage *to;
	uint32_t n;

	memset(own, 0, sizeof(own));
	port.n = fill(&port_table, rows);
	for (n = 0; n < OWN_MAX && wishes[i].own[n]; n++)
		address(wishes[i].own[n], &own[n]);
	to = gid_wish_to(&port, own, n);
	CHECK_EQ(to ? to - own : -1, wishes[i].index);
}

int case_verbs_gid(void)
{
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(tables); i++)
		choose(&tables[i]);
	for (i = 0; i < ARRAY_SIZE(wishes); i++)
		wish(i);
	return 0;
}
