/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a machine through libhwloc: this machine, or one from an XML file of hwloc (lstopo
 * machine.xml). */
#include <dlfcn.h>
#include <hwloc.h>
#include <stdlib.h>

#include "topology.h"

/* The functions that we use of libhwloc.so. All releases of version 2 have the same layout of
 * objects. */
struct hwloc {
	void *library;
	unsigned int (*get_api_version)(void);
	int (*topology_init)(hwloc_topology_t *t);
	int (*topology_set_xml)(hwloc_topology_t t, const char *path);
	int (*topology_set_io_types_filter)(hwloc_topology_t t, enum hwloc_type_filter_e filter);
	int (*topology_load)(hwloc_topology_t t);
	void (*topology_destroy)(hwloc_topology_t t);
	hwloc_obj_t (*get_obj_by_depth)(hwloc_topology_t t, int depth, unsigned int i);
	int (*bitmap_weight)(hwloc_const_bitmap_t b);
	int (*bitmap_first)(hwloc_const_bitmap_t b);
	int (*bitmap_isset)(hwloc_const_bitmap_t b, unsigned int i);
	int (*distances_get_by_type)(hwloc_topology_t t, hwloc_obj_type_t type, unsigned int *n,
				     struct hwloc_distances_s **d, unsigned long kind,
				     unsigned long flags);
	void (*distances_release)(hwloc_topology_t t, struct hwloc_distances_s *d);
};

struct reader {
	struct machine *m;
	struct hwloc lib;
	hwloc_topology_t t;
};

static int hwloc_load(struct hwloc *h)
{
	const struct symbol symbols[] = {
#define SYMBOL(x) {"hwloc_" #x, &h->x}
		SYMBOL(get_api_version),       SYMBOL(topology_init),
		SYMBOL(topology_set_xml),      SYMBOL(topology_set_io_types_filter),
		SYMBOL(topology_load),	       SYMBOL(topology_destroy),
		SYMBOL(get_obj_by_depth),      SYMBOL(bitmap_weight),
		SYMBOL(bitmap_first),	       SYMBOL(bitmap_isset),
		SYMBOL(distances_get_by_type), SYMBOL(distances_release),
#undef SYMBOL
	};

	h->library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
	if (!h->library)
		return fail(-ENOENT, "libhwloc.so.15 cannot be loaded: %s", dlerror());
	if (!symbols_find(h->library, symbols, ARRAY_SIZE(symbols)) &&
	    h->get_api_version() >> 16 == HWLOC_API_VERSION >> 16)
		return 0;
	dlclose(h->library);
	return fail(-EPROTONOSUPPORT, "libhwloc.so.15 is of another version than 2");
}

/* ---- NUMA nodes ---- */

static void set_cpus(const struct reader *r, struct node *node, hwloc_obj_t obj)
{
	unsigned int i;

	for (i = 0; obj->cpuset && i < CPUS_MAX; i++)
		if (r->lib.bitmap_isset(obj->cpuset, i))
			node->cpus.bits[i / 64] |= 1ull << i % 64;
}

/* hwloc shows a node that has memory alone with the CPUs near it, so several nodes may have the
 * same set of CPUs. The CPUs belong to the first of these nodes. Returns whether obj is the first,
 * or has no CPUs. */
static int is_first(const struct reader *r, hwloc_obj_t obj)
{
	return !obj->parent || obj->parent->memory_first_child == obj ||
	       !r->lib.bitmap_weight(obj->cpuset);
}

static int read_nodes(struct reader *r)
{
	hwloc_obj_t obj;
	unsigned int i;
	int at;

	for (i = 0; (obj = r->lib.get_obj_by_depth(r->t, HWLOC_TYPE_DEPTH_NUMANODE, i)); i++) {
		at = machine_add_node(r->m, obj->os_index);
		if (at < 0)
			return at;
		if (is_first(r, obj))
			set_cpus(r, &r->m->nodes[at], obj);
	}
	return 0;
}

static void read_distances(struct reader *r)
{
	struct hwloc_distances_s *d;
	unsigned int n = 1, i, j;

	if (r->lib.distances_get_by_type(r->t, HWLOC_OBJ_NUMANODE, &n, &d,
					 HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) ||
	    !n)
		return;
	for (i = 0; i < d->nbobjs; i++) {
		for (j = 0; j < d->nbobjs; j++) {
			int from = machine_node(r->m, d->objs[i]->os_index);
			int to = machine_node(r->m, d->objs[j]->os_index);

			if (from >= 0 && to >= 0)
				r->m->nodes[from].distance[to] =
					(uint8_t)d->values[i * d->nbobjs + j];
		}
	}
	r->lib.distances_release(r->t, d);
}

/* ---- devices ---- */

static void pci_address(const struct hwloc_pcidev_attr_s *pci, char address[ADDRESS_MAX])
{
	snprintf(address, ADDRESS_MAX, "%04x:%02x:%02x.%01x", (unsigned int)pci->domain, pci->bus,
		 pci->dev, pci->func);
}

/* Returns the node of an object under which hwloc shows I/O devices. -1: there are several nodes,
 * so the node is not known. */
static int16_t node_of(const struct reader *r, hwloc_obj_t obj)
{
	while (obj && !obj->nodeset)
		obj = obj->parent;
	if (!obj || r->lib.bitmap_weight(obj->nodeset) < 1)
		return -1;
	if (r->lib.bitmap_weight(obj->nodeset) > 1 &&
	    (!obj->memory_first_child || obj->type == HWLOC_OBJ_MACHINE))
		return -1;
	return (int16_t)machine_node(r->m, obj->memory_first_child
						   ? obj->memory_first_child->os_index
						   : (uint32_t)r->lib.bitmap_first(obj->nodeset));
}

/* Finds the place of a bridge; adds the place at its first use. *place is NO_PLACE above a host
 * bridge. The userdata of a bridge holds its place + 1. */
static int bridge_of(struct reader *r, hwloc_obj_t obj, uint32_t *place)
{
	const struct hwloc_bridge_attr_s *b;
	char address[ADDRESS_MAX];
	uint32_t parent = NO_PLACE;
	int at, err = 0;

	*place = NO_PLACE;
	if (!obj || obj->type != HWLOC_OBJ_BRIDGE)
		return 0;
	b = &obj->attr->bridge;
	*place = (uint32_t)(uintptr_t)obj->userdata - 1;
	if (obj->userdata)
		return 0;
	err = bridge_of(r, obj->parent, &parent);
	if (err)
		return err;
	if (b->upstream_type == HWLOC_OBJ_BRIDGE_HOST)
		snprintf(address, sizeof(address), "%04x:%02x",
			 (unsigned int)b->downstream.pci.domain, b->downstream.pci.secondary_bus);
	else
		pci_address(&b->upstream.pci, address);
	at = machine_add_place(r->m, parent == NO_PLACE ? PLACE_HOST : PLACE_BRIDGE, parent,
			       address);
	if (at < 0)
		return at;
	if (parent == NO_PLACE)
		r->m->places[at].node = node_of(r, obj->parent);
	obj->userdata = (void *)((uintptr_t)at + 1);
	*place = (uint32_t)at;
	return 0;
}

static const char *info_of(hwloc_obj_t obj, const char *name)
{
	unsigned int i;

	for (i = 0; i < obj->infos_count; i++)
		if (!strcmp(obj->infos[i].name, name))
			return obj->infos[i].value;
	return NULL;
}

/* Adds the ports of a NIC. The XML of lstopo contains no rates, but a user may add Port1Rate in
 * Gbit/s. The link layer follows from the PCI class of the device. */
static int read_ports(struct reader *r, uint32_t nic, hwloc_obj_t os, uint32_t class, int is_efa)
{
	char name[32];
	const char *state, *gbit;
	uint32_t n;
	int at;

	for (n = 1; n <= NIC_PORT_MAX; n++) {
		snprintf(name, sizeof(name), "Port%uState", n);
		state = info_of(os, name);
		if (!state && n > 1)
			break;
		at = machine_add_port(r->m, nic, n);
		if (at < 0)
			continue;
		r->m->ports[at].up = !state || atoi(state) == 4;
		snprintf(name, sizeof(name), "Port%uRate", n);
		gbit = info_of(os, name);
		r->m->ports[at].mbps = gbit ? machine_rate(gbit) : 0;
		r->m->ports[at].layer = is_efa		  ? LINK_OTHER
					: class == 0x0207 ? LINK_INFINIBAND
							  : LINK_ETHERNET;
	}
	return 0;
}

static hwloc_obj_t fabric_of(hwloc_obj_t obj)
{
	hwloc_obj_t os;

	for (os = obj->io_first_child; os; os = os->next_sibling)
		if (os->type == HWLOC_OBJ_OS_DEVICE &&
		    os->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS)
			return os;
	return NULL;
}

static int read_device(struct reader *r, hwloc_obj_t obj)
{
	const struct hwloc_pcidev_attr_s *pci = &obj->attr->pcidev;
	hwloc_obj_t os = fabric_of(obj);
	char address[ADDRESS_MAX];
	uint32_t parent;
	int at, err;

	if (!os && !machine_is_gpu(pci->class_id, pci->vendor_id))
		return 0;
	err = bridge_of(r, obj->parent, &parent);
	if (err)
		return err;
	if (parent == NO_PLACE)
		return fail(-EINVAL, "a device hangs on no bridge: export it with all of them "
				     "(lstopo --whole-io)");
	pci_address(pci, address);
	at = machine_add_place(r->m, os ? PLACE_NIC : PLACE_GPU, parent, address);
	if (at < 0 || !os)
		return at < 0 ? at : 0;
	snprintf(r->m->places[at].name, sizeof(r->m->places[at].name), "%s",
		 os->name ? os->name : "");
	return read_ports(r, (uint32_t)at, os, pci->class_id, pci->vendor_id == 0x1d0f);
}

static int read_tree(struct reader *r, hwloc_obj_t obj)
{
	hwloc_obj_t child;
	int err = obj->type == HWLOC_OBJ_PCI_DEVICE ? read_device(r, obj) : 0;

	for (child = obj->first_child; child && !err; child = child->next_sibling)
		err = read_tree(r, child);
	for (child = obj->io_first_child; child && !err; child = child->next_sibling)
		err = read_tree(r, child);
	return err;
}

int machine_read_hwloc(struct machine *m, const char *path)
{
	struct reader r = {.m = m};
	int err = hwloc_load(&r.lib);

	if (err)
		return err;
	if (r.lib.topology_init(&r.t)) {
		err = fail(-ENOMEM, "no memory for libhwloc");
		goto close_library;
	}
	if ((path && r.lib.topology_set_xml(r.t, path)) ||
	    r.lib.topology_set_io_types_filter(r.t, HWLOC_TYPE_FILTER_KEEP_ALL) ||
	    r.lib.topology_load(r.t)) {
		err = path ? fail(-EINVAL, "libhwloc does not take it for XML of its own")
			   : fail(-EIO, "libhwloc cannot tell of this machine");
		goto destroy;
	}
	err = read_nodes(&r);
	if (!err)
		err = read_tree(&r, r.lib.get_obj_by_depth(r.t, 0, 0));
	if (!err) {
		read_distances(&r);
		err = machine_finish(m);
	}
destroy:
	r.lib.topology_destroy(r.t);
close_library:
	dlclose(r.lib.library);
	return err;
}
