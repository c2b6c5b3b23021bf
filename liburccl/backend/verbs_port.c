/* SPDX-License-Identifier: Apache-2.0 */
/* Which port of which device, and how it is addressed. */
#include <endian.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include "backend/verbs.h"

#define SYSFS "/sys/class/infiniband"
#define PKEYS_MAX 256u

/* ---- devices by name: "mlx5_0,mlx5_1:2" ---- */

/* *port: what the word says, or 0. */
static int word_names(const char *word, size_t len, const char *name, uint32_t *port)
{
	size_t n = strlen(name);

	*port = 0;
	if (len < n || memcmp(word, name, n))
		return 0;
	if (len > n && word[n] == ':')
		*port = (uint32_t)strtoul(word + n + 1, NULL, 10);
	return len == n || *port;
}

/* Is the device among those asked for? */
static int wanted(const struct urccl_params *p, const char *name, uint32_t *port)
{
	const char *word = p->rdma_dev;
	size_t len;

	*port = 0;
	if (!word)
		return 1;
	for (;; word += len + 1) {
		len = strcspn(word, ",");
		if (word_names(word, len, name, port))
			return 1;
		if (!word[len])
			return 0;
	}
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	struct verbs_context *v = verbs_get_ctx_op(context, query_port);

	memset(attr, 0, sizeof(*attr));
	return v ? v->query_port(context, port, attr, sizeof(*attr)) : EOPNOTSUPP;
}

/* The port that the settings name, or the first that is active. 0: none. */
static uint8_t choose_port(const struct urccl_params *p, struct verbs_port *out, uint32_t named)
{
	uint32_t port, n = out->attr.phys_port_cnt;

	if (!named)
		named = p->rdma_port;
	for (port = named ? named : 1; port <= n; port++) {
		if (query_port(out->context, (uint8_t)port, &out->port_attr))
			continue;
		if (out->port_attr.state == IBV_PORT_ACTIVE)
			return (uint8_t)port;
		if (named)
			break;
	}
	return 0;
}

/* 1: its port can be used. The context is open then. */
static int try_device(const struct verbs_lib *lib, const struct urccl_params *p,
		      struct ibv_device *device, struct verbs_port *out)
{
	const char *name = lib->get_device_name(device);
	uint32_t named;

	if (!wanted(p, name, &named))
		return 0;
	out->context = lib->open_device(device);
	if (!out->context)
		return 0;
	if (!lib->query_device(out->context, &out->attr)) {
		out->port = choose_port(p, out, named);
		if (out->port) {
			snprintf(out->name, sizeof(out->name), "%s port %u", name, out->port);
			return 1;
		}
	}
	lib->close_device(out->context);
	out->context = NULL;
	return 0;
}

static int none(const struct urccl_params *p, int ndevices)
{
	if (!ndevices)
		return fail(-ENODEV, "ib: this machine shows no RDMA device: urccl_info --doctor "
				     "says what is missing");
	if (p->rdma_dev)
		return fail(-ENODEV, "ib: none of rdma_dev=%s has an active port that can be opened",
			    p->rdma_dev);
	return fail(-ENODEV, "ib: none of the %d RDMA devices has an active port that can be opened",
		    ndevices);
}

/* Opens the number-th that can be used; with out NULL counts them. */
static int walk(const struct verbs_lib *lib, const struct urccl_params *p, uint32_t number,
		struct verbs_port *out)
{
	struct verbs_port one = {.context = NULL};
	struct ibv_device **list;
	uint32_t found = 0;
	int i, n = 0;

	/* Without the kernel's modules there is no list either. */
	list = lib->get_device_list(&n);
	if (!list)
		return none(p, 0);
	for (i = 0; i < n && (!out || found <= number); i++) {
		if (!try_device(lib, p, list[i], &one))
			continue;
		if (out && found == number)
			*out = one;
		else
			lib->close_device(one.context);
		found++;
	}
	lib->free_device_list(list);
	if (out)
		return found > number ? 0 : none(p, n);
	return found ? (int)found : none(p, n);
}

uint32_t verbs_ports(const struct urccl_params *p)
{
	struct verbs_lib lib;
	int n;

	if (verbs_lib_open(&lib, p->ibv_so))
		return 0;
	n = walk(&lib, p, 0, NULL);
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

static int read_gids(const struct urccl_params *p, struct verbs_port *out)
{
	struct gid_wish wish = {.index = p->rdma_gid_index};
	struct gid_entry *gids = calloc(GIDS_MAX, sizeof(*gids));
	int n;

	if (!gids)
		return fail(-ENOMEM, "ib: no memory for the GIDs of %s", out->name);
	n = gid_table_read(SYSFS, out->context->device->name, out->port, gids);
	if (n >= 0) {
		out->gid_port = (struct gid_port){
			.name = out->name,
			.layer = layer_of(&out->port_attr),
			.wants_grh = !!(out->port_attr.flags & IBV_QPF_GRH_REQUIRED),
			.lid = out->port_attr.lid,
			.gids = gids,
			.n = (uint32_t)n,
		};
		n = gid_ends(&out->gid_port, &wish, out->ends);
		out->gid_port.gids = NULL;
	} else {
		fail(n, "ib: the GIDs of %s cannot be read in " SYSFS ": %s", out->name,
		     strerrordesc_np(-n));
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
		table[i] = lib->query_pkey(out->context, out->port, (int)i, &pkey)
				   ? 0
				   : be16toh(pkey);
	index = pkey_index(out->name, table, i, p->rdma_pkey);
	if (index < 0)
		return index;
	out->pkey_index = (uint16_t)index;
	return 0;
}

int verbs_port_open(const struct verbs_lib *lib, const struct urccl_params *p, uint32_t number,
		    struct verbs_port *port)
{
	int rc = walk(lib, p, number, port);

	if (rc)
		return rc;
	port->mtu = (uint8_t)port->port_attr.active_mtu;
	rc = read_gids(p, port);
	if (!rc)
		rc = read_pkeys(lib, p, port);
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
