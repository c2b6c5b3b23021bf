/* SPDX-License-Identifier: Apache-2.0 */
/* Two ends that told each other their GIDs come to the same pair, and how each then addresses the
 * other; and P_Keys. */
#include <arpa/inet.h>
#include "backend/verbs/gid.h"
#include "test.h"

static struct gid_end end(uint8_t kind, const char *gid, uint16_t lid)
{
	struct gid_end e = {.kind = kind, .lid = lid, .index = kind};

	CHECK_EQ(inet_pton(AF_INET6, gid, e.gid), 1);
	return e;
}

/* Each side calls itself ours; both must mean the same two. */
static void pairs(const struct gid_end *a, uint32_t na, const struct gid_end *b, uint32_t nb,
		  uint8_t kind)
{
	uint32_t our = 9, their = 9, back_our = 9, back_their = 9;

	if (!kind) {
		CHECK_EQ(gid_pair(a, na, b, nb, &our, &their), -EHOSTUNREACH);
		CHECK_EQ(gid_pair(b, nb, a, na, &our, &their), -EHOSTUNREACH);
		return;
	}
	CHECK_EQ(gid_pair(a, na, b, nb, &our, &their), 0);
	CHECK_EQ(gid_pair(b, nb, a, na, &back_our, &back_their), 0);
	CHECK_EQ(our, back_their);
	CHECK_EQ(their, back_our);
	CHECK_EQ(a[our].kind, kind);
	CHECK_EQ(b[their].kind, kind);
}

static void test_pairs(void)
{
	struct gid_end v4 = end(GID_V2_IPV4, "::ffff:192.0.2.1", 0);
	struct gid_end v6 = end(GID_V2_IPV6, "2001:db8::1", 0);
	struct gid_end old = end(GID_V1_IPV4, "::ffff:192.0.2.1", 0);
	struct gid_end ib = end(GID_INFINIBAND, "fe80::1", 3), forged = v4;
	struct gid_end four_six[] = {v4, v6, old}, six_four[] = {v6, v4, old},
		       six_old[] = {v6, old};

	pairs(four_six, 3, four_six, 3, GID_V2_IPV4);
	/* The two do not agree on what is best: the sums are equal, the lesser kind decides. */
	pairs(four_six, 3, six_four, 3, GID_V2_IPV4);
	pairs(four_six, 3, six_old, 2, GID_V2_IPV6);
	pairs(four_six, 3, &old, 1, GID_V1_IPV4);
	pairs(&v4, 1, &v6, 1, 0);
	pairs(&v4, 1, &ib, 1, 0);
	CHECK(strstr(urccl_errmsg(), "LID 3"));
	CHECK(strstr(urccl_errmsg(), "RoCE v2, 192.0.2.1"));
	pairs(&v4, 1, NULL, 0, 0);

	/* What a peer sends may be anything. */
	memset(forged.gid, 0, sizeof(forged.gid));
	CHECK_EQ(gid_pair(&v4, 1, &forged, 1, &(uint32_t){0}, &(uint32_t){0}), -EHOSTUNREACH);
	forged = v4;
	forged.kind = 255;
	CHECK_EQ(gid_pair(&v4, 1, &forged, 1, &(uint32_t){0}, &(uint32_t){0}), -EHOSTUNREACH);
}

static void test_routes(void)
{
	struct gid_port port = {.name = "mlx5_0 port 1"};
	struct gid_end a = end(GID_V2_IPV4, "::ffff:192.0.2.1", 0), b = a;
	struct gid_route r;

	/* Ethernet has no LIDs, and always a GRH. */
	b.index = 7;
	gid_route(&port, &a, &b, &r);
	CHECK(r.is_global && !r.dlid);
	CHECK_EQ(r.sgid_index, a.index);
	CHECK(!memcmp(r.dgid, b.gid, GID_BYTES));

	/* One subnet of InfiniBand: LIDs do, but where the port wants more. */
	port.layer = GID_LAYER_INFINIBAND;
	a = end(GID_INFINIBAND, "fe80::1", 3);
	b = end(GID_INFINIBAND, "fe80::2", 4);
	gid_route(&port, &a, &b, &r);
	CHECK(!r.is_global);
	CHECK_EQ(r.dlid, 4);
	port.wants_grh = 1;
	gid_route(&port, &a, &b, &r);
	CHECK(r.is_global);
	CHECK_EQ(r.dlid, 4);
	port.wants_grh = 0;

	/* Another subnet: the GID leads there, and the FLID in it to the router. */
	b = end(GID_INFINIBAND, "fe80:0:0:6::2", 4);
	gid_route(&port, &a, &b, &r);
	CHECK(r.is_global);
	CHECK_EQ(r.dlid, 4);
	a = end(GID_INFINIBAND, "fec0:0:9:1::1", 3);
	b = end(GID_INFINIBAND, "fec0:0:7:2::2", 4);
	gid_route(&port, &a, &b, &r);
	CHECK(r.is_global);
	CHECK_EQ(r.dlid, 7);
	b = end(GID_INFINIBAND, "fec0:0:7:1::2", 4);
	gid_route(&port, &a, &b, &r);
	CHECK(!r.is_global);
	CHECK_EQ(r.dlid, 4);
}

static void test_pkeys(void)
{
	static const uint16_t ib[] = {0x7fff, 0x8001, 0, 0x0002, 0x8002}, roce[] = {0xffff},
			      gap[] = {0, 0x8005};

	CHECK_EQ(pkey_index("p", roce, 1, 0), 0);
	CHECK_EQ(pkey_index("p", roce, 1, 0xffff), 0);
	CHECK_EQ(pkey_index("p", gap, 2, 0), 1);
	CHECK_EQ(pkey_index("p", ib, 5, 0), 0);
	CHECK_EQ(pkey_index("p", ib, 5, 0x8001), 1);
	/* With the bit of membership or without it names one partition. */
	CHECK_EQ(pkey_index("p", ib, 5, 0x0001), 1);
	CHECK_EQ(pkey_index("p", ib, 5, 0x0002), 4);
	CHECK_EQ(pkey_index("p", ib, 4, 0x8002), 3);
	CHECK_EQ(pkey_index("mlx5_0 port 1", ib, 5, 0x8003), -ENOENT);
	CHECK(strstr(urccl_errmsg(), "0x8003") && strstr(urccl_errmsg(), "mlx5_0 port 1"));
	CHECK_EQ(pkey_index("p", ib, 0, 0), -ENOENT);
}

int case_verbs_pair(void)
{
	test_pairs();
	test_routes();
	test_pkeys();
	return 0;
}
