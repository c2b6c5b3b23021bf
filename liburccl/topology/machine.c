/* SPDX-License-Identifier: Apache-2.0 */
/* Builds a machine from the parts that its readers find, and sorts them. */
#include <stdlib.h>

#include "topology.h"

#define VENDOR_NVIDIA	  0x10deu
#define VENDOR_AMD	  0x1002u
#define CLASS_VGA	  0x0300u
#define CLASS_3D	  0x0302u
#define CLASS_DISPLAY	  0x0380u
#define CLASS_ACCELERATOR 0x1200u

int machine_init(struct machine *m)
{
	*m = (struct machine){
		.nodes = calloc(NODES_MAX, sizeof(*m->nodes)),
		.places = calloc(PLACES_MAX, sizeof(*m->places)),
		.ports = calloc(PORTS_MAX, sizeof(*m->ports)),
	};
	if (m->nodes && m->places && m->ports)
		return 0;
	machine_fini(m);
	return fail(-ENOMEM, "no memory for the tree of the machine");
}

void machine_fini(struct machine *m)
{
	free(m->nodes);
	free(m->places);
	free(m->ports);
	*m = (struct machine){0};
}

int machine_add_node(struct machine *m, uint32_t id)
{
	if (m->nnodes == NODES_MAX)
		return fail(-ENOSPC, "the machine has more than %u NUMA nodes", NODES_MAX);
	m->nodes[m->nnodes].id = id;
	return (int)m->nnodes++;
}

int machine_add_place(struct machine *m, enum place_kind kind, uint32_t parent, const char *address)
{
	struct place *p = &m->places[m->nplaces];

	if (m->nplaces == PLACES_MAX)
		return fail(-ENOSPC, "the machine has more than %u bridges, GPUs and NICs",
			    PLACES_MAX);
	assert(parent == NO_PLACE || parent < m->nplaces);
	*p = (struct place){.kind = (uint8_t)kind, .node = -1, .parent = parent};
	memcpy(p->address, address, strnlen(address, sizeof(p->address) - 1));
	return (int)m->nplaces++;
}

int machine_add_port(struct machine *m, uint32_t place, uint32_t number)
{
	if (m->nports == PORTS_MAX) {
		m->nleft++;
		return fail(-ENOSPC, "the NICs have more than %u ports", PORTS_MAX);
	}
	m->ports[m->nports] = (struct port){.place = place, .number = (uint8_t)number};
	return (int)m->nports++;
}

uint32_t machine_rate(const char *gbit)
{
	uint32_t mbps = 0, unit = 1000;

	for (; ascii_digit(*gbit) && mbps < 100000000; gbit++)
		mbps = mbps * 10 + (uint32_t)(*gbit - '0') * 1000;
	if (ascii_digit(*gbit))
		return 0;
	if (*gbit == '.')
		while (unit > 1 && ascii_digit(*++gbit)) {
			unit /= 10;
			mbps += (uint32_t)(*gbit - '0') * unit;
		}
	return mbps;
}

int machine_is_gpu(uint32_t class, uint32_t vendor)
{
	if (class == CLASS_VGA)
		return vendor == VENDOR_NVIDIA || vendor == VENDOR_AMD;
	return class == CLASS_3D || class == CLASS_DISPLAY || class == CLASS_ACCELERATOR;
}

int machine_node(const struct machine *m, uint32_t id)
{
	uint32_t i;

	for (i = 0; i < m->nnodes; i++)
		if (m->nodes[i].id == id)
			return (int)i;
	return -ENOENT;
}

/* ---- order ---- */

/* Returns domain, bus, device and function as one number. A host bridge has the first two alone. */
static uint64_t rank_of(const char *address)
{
	unsigned int part[4] = {0};

	if (sscanf(address, "%x:%x:%x.%x", &part[0], &part[1], &part[2], &part[3]) < 1)
		return UINT64_MAX;
	return (uint64_t)part[0] << 32 | part[1] << 16 | part[2] << 8 | part[3];
}

/* To compare two places, is_before() goes up from the deeper one until both have the same depth,
 * and then on until their parents are the same. The order of these two ancestors decides, so each
 * subtree stays in one piece. */
static uint32_t depth_of(const struct machine *m, uint32_t p)
{
	uint32_t depth = 0;

	for (; m->places[p].parent != NO_PLACE; p = m->places[p].parent)
		depth++;
	return depth;
}

static int is_before(const struct machine *m, uint32_t a, uint32_t b)
{
	uint32_t da = depth_of(m, a), db = depth_of(m, b);
	int deeper = da > db, by_name;

	for (; da > db; da--)
		a = m->places[a].parent;
	for (; db > da; db--)
		b = m->places[b].parent;
	if (a == b)
		return !deeper;
	while (m->places[a].parent != m->places[b].parent) {
		a = m->places[a].parent;
		b = m->places[b].parent;
	}
	if (rank_of(m->places[a].address) != rank_of(m->places[b].address))
		return rank_of(m->places[a].address) < rank_of(m->places[b].address);
	by_name = strcmp(m->places[a].name, m->places[b].name);
	return by_name ? by_name < 0 : a < b;
}

/* Sorts by insertion: there are at most some hundred places, and they are nearly sorted already. */
static void sort_places(const struct machine *m, uint32_t *order)
{
	uint32_t i, j, p;

	for (i = 0; i < m->nplaces; i++) {
		p = i;
		for (j = i; j && !is_before(m, order[j - 1], p); j--)
			order[j] = order[j - 1];
		order[j] = p;
	}
}

static void reorder(struct machine *m, const uint32_t *order, uint32_t *where, struct place *places)
{
	struct port *a, *b, tmp;
	uint32_t i;

	for (i = 0; i < m->nplaces; i++)
		where[order[i]] = i;
	for (i = 0; i < m->nplaces; i++) {
		places[i] = m->places[order[i]];
		if (places[i].parent != NO_PLACE)
			places[i].parent = where[places[i].parent];
	}
	memcpy(m->places, places, m->nplaces * sizeof(*places));
	for (i = 0; i < m->nports; i++)
		m->ports[i].place = where[m->ports[i].place];
	for (b = m->ports; b < m->ports + m->nports; b++) {
		tmp = *b;
		for (a = b;
		     a > m->ports && (a[-1].place > tmp.place ||
				      (a[-1].place == tmp.place && a[-1].number > tmp.number));
		     a--)
			*a = a[-1];
		*a = tmp;
	}
}

/* ---- NUMA nodes ---- */

/* Returns the only node with CPUs, or -1. Firmware often does not report the nodes of devices (in
 * many virtual machines it reports -1 for each); if there is one node alone, the node is certain
 * nevertheless. */
static int16_t only_node(const struct machine *m)
{
	static const struct cpus none;
	int16_t only = -1;
	uint32_t i;

	for (i = 0; i < m->nnodes; i++) {
		if (m->nnodes > 1 && !memcmp(&m->nodes[i].cpus, &none, sizeof(none)))
			continue;
		if (only >= 0)
			return -1;
		only = (int16_t)i;
	}
	return only;
}

/* A place whose node is not known gets the node of its parent, else the only node. */
static void nodes_set(struct machine *m)
{
	int16_t only = only_node(m);
	uint32_t i;

	for (i = 0; i < m->nplaces; i++) {
		struct place *p = &m->places[i];

		if (p->node < 0 && p->parent != NO_PLACE)
			p->node = m->places[p->parent].node;
		if (p->node < 0)
			p->node = only;
	}
}

int machine_finish(struct machine *m)
{
	uint32_t *order = calloc(2 * PLACES_MAX, sizeof(*order));
	struct place *places = calloc(PLACES_MAX, sizeof(*places));

	if (!order || !places) {
		free(order);
		free(places);
		return fail(-ENOMEM, "no memory for the tree of the machine");
	}
	sort_places(m, order);
	reorder(m, order, order + PLACES_MAX, places);
	nodes_set(m);
	free(order);
	free(places);
	return 0;
}
