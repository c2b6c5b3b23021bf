/* SPDX-License-Identifier: Apache-2.0 */
/* The choice of a device and its port, and the port's addresses. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include "backend/verbs/verbs.h"

#define SYSFS	  "/sys/class/infiniband"
#define PKEYS_MAX 256u

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	struct verbs_context *v = verbs_get_ctx_op(context, query_port);

	memset(attr, 0, sizeof(*attr));
	return v ? v->query_port(context, port, attr, sizeof(*attr)) : EOPNOTSUPP;
}

/* ---- choice ---- */

/* All devices of this host, and the settings that choose among them. */
struct nics {
	const struct verbs_lib *lib;
	const struct urccl_params *params;
	const struct nic_port *rails; /* in this order; NULL: any */
	uint32_t nrails;
	struct ibv_device **list;
	const char **names;
	uint32_t n;
};

/* only: this port alone; 0: any. */
static int wanted(const struct nics *all, uint32_t i, uint32_t port, uint32_t only)
{
	const struct urccl_params *p = all->params;

	if ((p->rdma_port && p->rdma_port != port) || (only && only != port))
		return 0;
	return !p->rdma_dev || nic_matches(p->rdma_dev, all->names, all->n, i, port);
}

/* Finds the first port of device i that is wanted and active, and leaves the device open. 0: there
 * is none. */
static int try_device(const struct nics *all, uint32_t i, uint32_t only, struct verbs_port *out)
{
	uint32_t port;

	for (port = 1; port <= NIC_PORT_MAX && !wanted(all, i, port, only);)
		port++;
	if (port > NIC_PORT_MAX)
		return 0;
	*out = (struct verbs_port){.context = all->lib->open_device(all->list[i])};
	if (!out->context)
		return 0;
	if (all->lib->query_device(out->context, &out->attr))
		out->attr.phys_port_cnt = 0;
	for (; port <= out->attr.phys_port_cnt; port++) {
		if (!wanted(all, i, port, only) ||
		    query_port(out->context, (uint8_t)port, &out->port_attr) ||
		    out->port_attr.state != IBV_PORT_ACTIVE)
			continue;
		out->port = (uint8_t)port;
		snprintf(out->name, sizeof(out->name), "%s port %u", all->names[i], port);
		return 1;
	}
	all->lib->close_device(out->context);
	out->context = NULL;
	return 0;
}

static int none_usable(const struct nics *all)
{
	if (!all->n)
		return fail(-ENODEV, "ib: this machine shows no RDMA device: urccl_info --doctor "
				     "says what is missing");
	return fail(-ENODEV,
		    "ib: none of the RDMA devices that the settings allow (%u are here) "
		    "has an active port that can be opened",
		    all->n);
}

/* The number of named devices that cannot be opened. The reason for number `number` is in
 * fail(). */
static uint32_t unusable(const struct nics *all, uint32_t number)
{
	const char *rules = all->params->rdma_dev;
	char word[NIC_NAME_MAX + 1] = "";
	uint32_t i, found = 0;
	struct verbs_port one;

	if (!rules || !all->n)
		return 0;
	for (; nic_missing(rules, all->names, all->n, found, word, sizeof(word)); found++)
		if (found == number)
			fail(-ENODEV,
			     "ib: there is no RDMA device \"%s\", which rdma_dev names: "
			     "%s is one",
			     word, all->names[0]);
	for (i = 0; i < all->n; i++) {
		if (!nic_named(rules, all->names, all->n, i))
			continue;
		if (try_device(all, i, 0, &one))
			all->lib->close_device(one.context);
		else if (found++ == number)
			fail(-ENODEV,
			     "ib: %s, which rdma_dev names, has no active port that can be "
			     "opened: bring its link up, or leave it out of rdma_dev",
			     all->names[i]);
	}
	return found;
}

/* Tries the k-th candidate. 0: it is not usable. */
static int port_try(const struct nics *all, uint32_t k, struct verbs_port *out)
{
	uint32_t i;

	if (!all->rails)
		return try_device(all, k, 0, out);
	for (i = 0; i < all->n; i++)
		if (!strcmp(all->names[i], all->rails[k].name))
			return try_device(all, i, all->rails[k].port, out);
	return 0;
}

/* Counts usable ports up to index `number`, which stays open in *out. */
static uint32_t usable(const struct nics *all, uint32_t number, struct verbs_port *out)
{
	uint32_t i, found = 0, n = all->rails ? all->nrails : all->n;
	struct verbs_port one;

	for (i = 0; i < n && found <= number; i++) {
		if (!port_try(all, i, &one))
			continue;
		if (found++ == number)
			*out = one;
		else
			all->lib->close_device(one.context);
	}
	return found;
}

/* Named devices that cannot be opened have the last numbers: the transport may work without them,
 * and each reports its own reason. */
static int ports_count(const struct nics *all)
{
	struct verbs_port unused;
	uint32_t n = usable(all, UINT32_MAX, &unused) + unusable(all, UINT32_MAX);

	return n ? (int)n : none_usable(all);
}

static int choose(const struct nics *all, uint32_t number, struct verbs_port *out)
{
	uint32_t n = usable(all, number, out);

	if (n > number)
		return 0;
	return unusable(all, number - n) > number - n ? -ENODEV : none_usable(all);
}

/* Opens the port of this number; out NULL: counts the ports. */
static int ports_walk(const struct verbs_lib *lib, const struct device_config *config,
		      uint32_t number, struct verbs_port *out)
{
	struct nics all = {
		.lib = lib,
		.params = config->params,
		.rails = config->nics,
		.nrails = config->nnics,
	};
	int i, rc, n = 0;

	/* Without the kernel modules there is no list at all. */
	all.list = lib->get_device_list(&n);
	if (!all.list)
		return none_usable(&all);
	all.names = calloc((size_t)n + 1, sizeof(all.names[0]));
	for (i = 0; all.names && i < n; i++)
		all.names[i] = lib->get_device_name(all.list[i]);
	all.n = all.names ? (uint32_t)n : 0;
	if (!all.names)
		rc = fail(-ENOMEM, "ib: no memory for the list of RDMA devices");
	else
		rc = out ? choose(&all, number, out) : ports_count(&all);
	free(all.names);
	lib->free_device_list(all.list);
	return rc;
}

uint32_t verbs_ports(const struct verbs_lib *lib, const struct device_config *config)
{
	int n = ports_walk(lib, config, 0, NULL);

	return n > 0 ? (uint32_t)n : 0;
}

/* ---- addresses ---- */

static uint8_t layer_of(const struct ibv_port_attr *attr)
{
	switch (attr->link_layer) {
	case IBV_LINK_LAYER_ETHERNET:
		return GID_LAYER_ETHERNET;
	case IBV_LINK_LAYER_INFINIBAND:
		return GID_LAYER_INFINIBAND;
	default:
		return GID_LAYER_OTHER;
	}
}

/* One call for the device instead of three files per row. Returns the number of rows, or -errno. */
static int ask_gids(const struct verbs_lib *lib, const struct verbs_port *port,
		    struct gid_entry *gids)
{
	struct ibv_gid_entry *table = calloc(GIDS_MAX, sizeof(*table));
	ssize_t i, n;
	int out = 0;

	if (!table)
		return -ENOMEM;
	n = lib->query_gid_table(port->context, table, GIDS_MAX, 0, sizeof(*table));
	for (i = 0; i < n; i++) {
		if (table[i].port_num != port->port)
			continue;
		memcpy(gids[out].gid, table[i].gid.raw, GID_BYTES);
		gids[out].index = table[i].gid_index;
		gids[out].ifindex = table[i].ndev_ifindex;
		gids[out++].type = (uint8_t)table[i].gid_type;
	}
	free(table);
	return n < 0 ? (int)n : out;
}

/* An older library or kernel has no such call. */
static int list_gids(const struct verbs_lib *lib, const struct verbs_port *port,
		     struct gid_entry *gids)
{
	int n = lib->query_gid_table ? ask_gids(lib, port, gids) : -EOPNOTSUPP;

	return n >= 0 ? n : gid_table_read(SYSFS, port->context->device->name, port->port, gids);
}

/* The addresses that the context listens on, or otherwise dials from. */
static void own_read(const struct device_config *config, struct verbs_port *out)
{
	struct netif all[NETIFS_MAX];
	int i, n = 0;

	for (out->nown = 0; out->nown < config->nlisten && out->nown < LISTEN_MAX; out->nown++)
		out->own[out->nown] = config->listen[out->nown];
	if (!out->nown && config->params->socket_ifname)
		n = netifs(all, NETIFS_MAX, config->params->socket_ifname);
	for (i = 0; i < n && out->nown < LISTEN_MAX; i++)
		out->own[out->nown++] = all[i].addr;
}

static int read_gids(const struct verbs_lib *lib, const struct urccl_params *p,
		     struct verbs_port *out)
{
	struct gid_wish wish = {.index = p->rdma_gid_index};
	struct gid_entry *gids = calloc(GIDS_MAX, sizeof(*gids));
	int n;

	if (!gids)
		return fail(-ENOMEM, "ib: no memory for the GIDs of %s", out->name);
	n = list_gids(lib, out, gids);
	if (n >= 0) {
		out->gid_port = (struct gid_port){
			.name = out->name,
			.layer = layer_of(&out->port_attr),
			.wants_grh = !!(out->port_attr.flags & IBV_QPF_GRH_REQUIRED),
			.lid = out->port_attr.lid,
			.ifindex = gid_own_ifindex(gids, (uint32_t)n),
			.gids = gids,
			.n = (uint32_t)n,
		};
		wish.to = gid_wish_to(&out->gid_port, out->own, out->nown);
		n = gid_ends(&out->gid_port, &wish, out->ends);
		out->gid_port.gids = NULL;
	} else {
		fail(n, "ib: the GIDs of %s cannot be read: %s", out->name, errno_text(-n));
	}
	free(gids);
	if (n < 0)
		return n;
	out->nends = (uint32_t)n < VERBS_ENDS ? (uint32_t)n : VERBS_ENDS;
	return 0;
}

static int read_pkeys(const struct verbs_lib *lib, const struct urccl_params *p,
		      struct verbs_port *out)
{
	uint16_t table[PKEYS_MAX];
	uint32_t i, n = out->port_attr.pkey_tbl_len;
	__be16 pkey;
	int index;

	for (i = 0; i < n && i < PKEYS_MAX; i++)
		table[i] =
			lib->query_pkey(out->context, out->port, (int)i, &pkey) ? 0 : be16toh(pkey);
	index = pkey_index(out->name, table, i, p->rdma_pkey);
	if (index < 0)
		return index;
	out->pkey_index = (uint16_t)index;
	return 0;
}

uint64_t verbs_port_speed(const struct verbs_port *port)
{
	static const uint16_t lanes[] = {1, 4, 8, 12, 2}; /* by the bit of active_width */
	static const uint32_t mbps[] = {2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000};
	uint32_t width = port->port_attr.active_width, speed = port->port_attr.active_speed;

	if (!width || width >= 1u << ARRAY_SIZE(lanes) || !speed || speed >= 1u << ARRAY_SIZE(mbps))
		return 0;
	return 125000ull * lanes[__builtin_ctz(width)] * mbps[__builtin_ctz(speed)];
}

static int read_port(const struct verbs_lib *lib, const struct urccl_params *p,
		     struct verbs_port *port)
{
	int rc;

	port->mtu = (uint8_t)port->port_attr.active_mtu;
	rc = read_gids(lib, p, port);
	return rc ? rc : read_pkeys(lib, p, port);
}

int verbs_port_is_cut(const struct verbs_port *port)
{
	struct ibv_port_attr now = {0};

	if (query_port(port->context, port->port, &now))
		return 0;
	return now.state != IBV_PORT_ACTIVE && now.state != IBV_PORT_ACTIVE_DEFER;
}

int verbs_port_again(const struct verbs_lib *lib, const struct urccl_params *p,
		     struct verbs_port *port)
{
	struct verbs_port fresh = *port;
	int rc = query_port(port->context, port->port, &fresh.port_attr);

	if (rc)
		return fail(-abs(rc), "ib: %s cannot be asked for its state: %s", port->name,
			    errno_text(abs(rc)));
	rc = read_port(lib, p, &fresh);
	if (rc)
		return rc;
	/* Members that other threads read stay unchanged. */
	memcpy(port->ends, fresh.ends, sizeof(port->ends));
	port->nends = fresh.nends;
	port->pkey_index = fresh.pkey_index;
	port->mtu = fresh.mtu;
	return 0;
}

int verbs_port_open(const struct verbs_lib *lib, const struct device_config *config,
		    struct verbs_port *port)
{
	int rc = ports_walk(lib, config, config->number, port);

	if (rc)
		return rc;
	own_read(config, port);
	rc = read_port(lib, config->params, port);
	if (rc)
		verbs_port_close(lib, port);
	return rc;
}

void verbs_port_close(const struct verbs_lib *lib, struct verbs_port *port)
{
	if (port->context)
		lib->close_device(port->context);
	port->context = NULL;
}
