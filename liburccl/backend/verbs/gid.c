/* SPDX-License-Identifier: Apache-2.0 */
/* The GIDs, LIDs and P_Keys that a queue pair uses. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

#include "backend/verbs/gid.h"

#define PKEY_PARTITION 0x7fffu
#define PKEY_FULL      0x8000u

/* ---- the kind of a GID ---- */

static int is_zero(const uint8_t *gid)
{
	static const uint8_t zero[GID_BYTES];

	return !memcmp(gid, zero, GID_BYTES);
}

/* 1: an IPv4 address, in its last four bytes. */
static int is_ipv4(const uint8_t *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid, mapped, sizeof(mapped));
}

/* 1: valid on this link only. A port without an address briefly has fe80:: followed by zeroes. */
static int is_link_local(const uint8_t *gid)
{
	if (is_ipv4(gid))
		return gid[12] == 169 && gid[13] == 254;
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/* 1: not an address that other hosts can send to. */
static int is_useless(const uint8_t *gid)
{
	static const uint8_t loopback[GID_BYTES] = {[15] = 1};
	static const uint8_t unset[GID_BYTES] = {0xfe, 0x80};

	if (is_zero(gid) || gid[0] == 0xff || !memcmp(gid, loopback, GID_BYTES) ||
	    !memcmp(gid, unset, GID_BYTES))
		return 1;
	return is_ipv4(gid) && (gid[12] == 127 || gid[12] == 0 || gid[12] >= 224);
}

static uint8_t kind_of(const struct gid_port *port, const struct gid_entry *e)
{
	uint8_t kind = e->type == GID_TYPE_ROCE_V2 ? GID_V2_IPV4 : GID_V1_IPV4;

	if (port->layer == GID_LAYER_INFINIBAND)
		return GID_INFINIBAND;
	if (port->layer != GID_LAYER_ETHERNET)
		return GID_OTHER;
	if (is_link_local(e->gid))
		kind += GID_V2_LINK4 - GID_V2_IPV4;
	return (uint8_t)(kind + !is_ipv4(e->gid));
}

/* ---- InfiniBand subnets ---- */

/* The first eight bytes of a GID name the subnet. If routers forward by LID, the GID is site-local
 * (fec0:0000), followed by the LID by which other subnets reach the port (FLID), then by the
 * subnet. */

static int is_site_local(const uint8_t *gid)
{
	static const uint8_t site[4] = {0xfe, 0xc0};

	return !memcmp(gid, site, sizeof(site));
}

static uint16_t flid_of(const uint8_t *gid)
{
	return is_site_local(gid) ? (uint16_t)(gid[4] << 8 | gid[5]) : 0;
}

static int same_subnet(const uint8_t *a, const uint8_t *b)
{
	if (is_site_local(a) && is_site_local(b))
		return !memcmp(a + 6, b + 6, 2);
	return !memcmp(a, b, 8);
}

/* ---- the best of each kind ---- */

/* An IPv4 address equals the IPv6 address that it is mapped to. */
static int is_address(const uint8_t *gid, const struct sockaddr_storage *ss)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	memcpy(&in, ss, sizeof(in));
	memcpy(&in6, ss, sizeof(in6));
	if (ss->ss_family == AF_INET)
		return is_ipv4(gid) && !memcmp(gid + 12, &in.sin_addr, 4);
	return ss->ss_family == AF_INET6 && !memcmp(gid, &in6.sin6_addr, GID_BYTES);
}

/* Ranks two GIDs of one kind: more is better. */
static uint32_t entry_merit(const struct gid_port *port, const struct gid_wish *wish,
			    const struct gid_entry *e)
{
	uint32_t points = 0;

	if (wish->to && is_address(e->gid, wish->to))
		points += 4;
	/* The port's own GID goes before that of a VLAN, an alias, or another container. */
	if (e->ifindex && e->ifindex == port->ifindex)
		points += 2;
	if (port->layer == GID_LAYER_INFINIBAND && flid_of(e->gid))
		points += 1;
	return points;
}

static int wants_ipv6(const struct sockaddr_storage *ss)
{
	struct sockaddr_in6 in6;

	memcpy(&in6, ss, sizeof(in6));
	return ss->ss_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr) &&
	       !IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr) && !IN6_IS_ADDR_UNSPECIFIED(&in6.sin6_addr);
}

static void end_set(struct gid_end *end, const struct gid_port *port, const struct gid_entry *e)
{
	*end = (struct gid_end){
		.lid = port->layer == GID_LAYER_INFINIBAND ? port->lid : 0,
		.kind = kind_of(port, e),
		.index = e->index,
	};
	memcpy(end->gid, e->gid, GID_BYTES);
}

static const struct gid_entry *entry_at(const struct gid_port *port, uint32_t index)
{
	uint32_t i;

	for (i = 0; i < port->n; i++)
		if (port->gids[i].index == index)
			return &port->gids[i];
	return NULL;
}

/* An index in the settings applies even to a GID that would not be chosen. */
static int end_at(const struct gid_port *port, int32_t index, struct gid_end *out)
{
	const struct gid_entry *e = entry_at(port, (uint32_t)index);

	if (!e || is_zero(e->gid))
		return fail(-EINVAL,
			    "rdma_gid_index is %d, and in the table of %s that place is empty",
			    index, port->name);
	end_set(out, port, e);
	return 1;
}

/* The index of the GID that goes first. An address of the control connection is known to reach the
 * peer, and both ends have its family. A link-local GID, or one of RoCE v1, never goes before one
 * that can be routed. */
static uint32_t preferred(const struct gid_wish *wish, const struct gid_end *ends, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n && ends[i].kind <= GID_V2_IPV6; i++)
		if (is_address(ends[i].gid, wish->to))
			return i;
	for (i = 0; i < n; i++)
		if (ends[i].kind == GID_V2_IPV6 && wants_ipv6(wish->to))
			return i;
	return 0;
}

uint32_t gid_own_ifindex(const struct gid_entry *gids, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (!gids[i].index)
			return gids[i].ifindex;
	return 0;
}

const struct sockaddr_storage *gid_wish_to(const struct gid_port *port,
					   const struct sockaddr_storage *own, uint32_t n)
{
	uint32_t i, k;

	for (i = 0; i < n; i++)
		for (k = 0; k < port->n; k++)
			if (!is_useless(port->gids[k].gid) &&
			    is_address(port->gids[k].gid, &own[i]))
				return &own[i];
	for (i = 0; i < n; i++)
		if (!addr_wildcard(&own[i]) && !addr_loopback(&own[i]))
			return &own[i];
	return NULL;
}

static int nothing(const struct gid_port *port)
{
	if (port->layer == GID_LAYER_INFINIBAND)
		return fail(-ENETDOWN, "%s has no LID: a subnet manager has to run in its network",
			    port->name);
	return fail(-EADDRNOTAVAIL,
		    "%s has no GID that can be used: give its network interface an address",
		    port->name);
}

int gid_ends(const struct gid_port *port, const struct gid_wish *wish,
	     struct gid_end out[GID_KINDS])
{
	const struct gid_entry *best[GID_KINDS] = {NULL};
	struct gid_end first;
	uint32_t i, n = 0;

	if (port->layer == GID_LAYER_INFINIBAND && !port->lid && !port->wants_grh)
		return nothing(port);
	if (wish->index >= 0)
		return end_at(port, wish->index, &out[0]);
	for (i = 0; i < port->n; i++) {
		const struct gid_entry *e = &port->gids[i];
		uint8_t kind = kind_of(port, e);

		if (is_useless(e->gid) || e->index > GID_INDEX_MAX)
			continue;
		if (!best[kind] || entry_merit(port, wish, e) > entry_merit(port, wish, best[kind]))
			best[kind] = e;
	}
	for (i = 0; i < GID_KINDS; i++)
		if (best[i])
			end_set(&out[n++], port, best[i]);
	if (!n)
		return nothing(port);
	i = wish->to ? preferred(wish, out, n) : 0;
	first = out[i];
	memmove(out + 1, out, i * sizeof(*out));
	out[0] = first;
	return (int)n;
}

/* ---- pairs of GIDs ---- */

static int end_ok(const struct gid_end *end)
{
	return end->kind && end->kind < GID_KINDS && (end->lid || !is_zero(end->gid));
}

/* Adds the ranks of both ends, so that both ends compute the same sum. */
int gid_pair(const struct gid_end *ours, uint32_t nours, const struct gid_end *theirs,
	     uint32_t ntheirs, uint32_t *our, uint32_t *their)
{
	uint32_t i, j, best = UINT32_MAX;
	char mine[GID_TEXT], other[GID_TEXT];

	for (i = 0; i < nours; i++) {
		for (j = 0; j < ntheirs; j++) {
			uint32_t rank = (i + j) * GID_KINDS + ours[i].kind;

			if (ours[i].kind != theirs[j].kind || !end_ok(&theirs[j]) || rank >= best)
				continue;
			best = rank;
			*our = i;
			*their = j;
		}
	}
	if (best != UINT32_MAX)
		return 0;
	if (!nours || !ntheirs || !end_ok(&theirs[0]))
		return fail(-EHOSTUNREACH, "one side has no address that RDMA can use");
	return fail(-EHOSTUNREACH,
		    "addresses of two kinds do not reach each other: ours is %s, the "
		    "peer's %s",
		    gid_text(&ours[0], mine), gid_text(&theirs[0], other));
}

void gid_route(const struct gid_port *port, const struct gid_end *our, const struct gid_end *their,
	       struct gid_route *route)
{
	int is_ib = our->kind == GID_INFINIBAND;
	int is_far = is_ib && !same_subnet(our->gid, their->gid);
	uint16_t flid = flid_of(their->gid);

	*route = (struct gid_route){
		.is_global = !is_ib || is_far || port->wants_grh || !their->lid,
		.sgid_index = our->index,
		.dlid = is_far && flid ? flid : their->lid,
	};
	memcpy(route->dgid, their->gid, GID_BYTES);
}

/* ---- text ---- */

static const char *version_text(uint8_t kind)
{
	if (kind == GID_OTHER)
		return "";
	return kind < GID_V1_IPV4 ? "RoCE v2, " : "RoCE v1, ";
}

const char *gid_text(const struct gid_end *end, char buf[GID_TEXT])
{
	char ip[INET6_ADDRSTRLEN];
	int v4 = is_ipv4(end->gid);

	inet_ntop(v4 ? AF_INET : AF_INET6, end->gid + (v4 ? 12 : 0), ip, sizeof(ip));
	if (end->kind == GID_INFINIBAND)
		snprintf(buf, GID_TEXT, "LID %u, GID %u, %s", end->lid, end->index, ip);
	else
		snprintf(buf, GID_TEXT, "GID %u, %s%s", end->index, version_text(end->kind), ip);
	return buf;
}

/* ---- P_Keys ---- */

int pkey_index(const char *port, const uint16_t *table, uint32_t n, uint16_t wanted)
{
	uint32_t i;
	int found = -1;

	for (i = 0; i < n; i++) {
		if (!(table[i] & PKEY_PARTITION))
			continue;
		if (wanted && (table[i] & PKEY_PARTITION) != (wanted & PKEY_PARTITION))
			continue;
		if (!wanted || table[i] & PKEY_FULL)
			return (int)i;
		if (found < 0)
			found = (int)i;
	}
	if (found >= 0)
		return found;
	if (!wanted)
		return fail(-ENOENT, "%s has no P_Key", port);
	return fail(-ENOENT,
		    "%s is not in the partition of rdma_pkey 0x%04x: its first P_Key is "
		    "0x%04x",
		    port, wanted, n ? table[0] : 0);
}
