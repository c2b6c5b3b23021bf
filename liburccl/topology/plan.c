/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the NICs for a memory. Each port gets a distance: its nearness (enum nearness), and
 * between NUMA nodes the distance that the firmware reports. The rails are all usable ports with
 * the least distance.
 *
 * The order of the rails matters twice: small entries use the first rails, and a program that wants
 * one NIC takes the first. A faster port comes before a slower one, a card's first port before its
 * second; otherwise the order of the tree decides. GPUs that have the same rails begin at different
 * rails, so that two GPUs and two NICs on one switch use one NIC each until there is enough work
 * for both. The tree alone decides at which rail a GPU begins, so all containers get the same
 * result.
 */
#include "topology.h"

#define NOT_KNOWN 255u

/* ---- distance ---- */

/* Returns the distance that the firmware reports between two nodes. If the firmware reports none,
 * the nodes count as far apart. */
static uint8_t between(const struct machine *m, int from, int to)
{
	uint8_t d;

	if (from < 0 || to < 0)
		return NOT_KNOWN;
	d = m->nodes[from].distance[to];
	if (from == to)
		return DISTANCE_LOCAL;
	return d ? d : NOT_KNOWN - 1;
}

static void from_node(const struct machine *m, int node, const struct place *nic, struct choice *c)
{
	c->distance = between(m, node, nic->node);
	c->nearness = c->distance == DISTANCE_LOCAL && node == nic->node ? NEAR_NODE : NEAR_SYS;
}

static void from_gpu(const struct machine *m, uint32_t gpu, uint32_t nic, struct choice *c)
{
	c->nearness = (uint8_t)machine_near(m, gpu, nic);
	c->distance = c->nearness == NEAR_SYS ? between(m, m->places[gpu].node, m->places[nic].node)
					      : DISTANCE_LOCAL;
}

static int touches(const struct cpus *a, const struct cpus *b)
{
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(a->bits); i++)
		if (a->bits[i] & b->bits[i])
			return 1;
	return 0;
}

/* Uses the nearest of the nodes on whose CPUs the threads may run. */
static void from_cpus(const struct machine *m, const struct cpus *cpus, const struct place *nic,
		      struct choice *c)
{
	struct choice one;
	uint32_t i;

	c->nearness = NEAR_SYS;
	c->distance = NOT_KNOWN;
	for (i = 0; i < m->nnodes; i++) {
		if (!touches(cpus, &m->nodes[i].cpus))
			continue;
		from_node(m, (int)i, nic, &one);
		if (one.distance < c->distance) {
			c->nearness = one.nearness;
			c->distance = one.distance;
		}
	}
}

static void choice_measure(const struct machine *m, const struct question *q, struct choice *c)
{
	uint32_t nic = m->ports[c->port].place;
	const struct place *p = &m->places[nic];

	c->nearness = NEAR_NODE;
	c->distance = DISTANCE_LOCAL;
	switch (q->kind) {
	case FOR_GPU:
		from_gpu(m, q->gpu, nic, c);
		break;
	case FOR_NODE:
		from_node(m, machine_node(m, q->node), p, c);
		break;
	case FOR_CPUS:
		from_cpus(m, q->cpus, p, c);
		break;
	default:
		break;
	}
}

/* ---- ports that may be used ---- */

/* Collects the names of all NICs in their order and returns their number. *at: the index of the
 * port's NIC. */
static uint32_t names_of(const struct machine *m, uint32_t port, const char *names[PORTS_MAX],
			 uint32_t *at)
{
	uint32_t i, n = 0;

	for (i = 0; i < m->nports; i++) {
		if (i && m->ports[i].place == m->ports[i - 1].place)
			continue;
		if (m->ports[i].place == m->ports[port].place)
			*at = n;
		names[n++] = m->places[m->ports[i].place].name;
	}
	return n;
}

static int is_meant(const struct machine *m, const struct question *q, uint32_t port)
{
	const char *names[PORTS_MAX];
	uint32_t at = 0, n = names_of(m, port, names, &at);

	return nic_matches(q->nics, names, n, at, m->ports[port].number);
}

static uint8_t left_out(const struct machine *m, const struct question *q, uint32_t i)
{
	const struct port *port = &m->ports[i];

	if (q->nics && !is_meant(m, q, i))
		return LEFT_NAMES;
	if (q->port && q->port != port->number)
		return LEFT_PORT;
	if (m->places[port->place].hidden)
		return LEFT_HIDDEN;
	if (q->layers && !(q->layers & port->layer))
		return LEFT_LAYER;
	return port->up ? LEFT_NOT : LEFT_DOWN;
}

/* ---- order ---- */

/* Returns the number of earlier ports on the same card. Ports are on one card if their PCI
 * addresses have the same domain, bus and device. */
static uint32_t rank_on_card(const struct machine *m, uint32_t port)
{
	const char *address = m->places[m->ports[port].place].address;
	size_t len = strcspn(address, ".");
	uint32_t i, rank = 0;

	for (i = 0; i < port; i++)
		rank += !strncmp(m->places[m->ports[i].place].address, address, len + 1);
	return rank;
}

static int as_near(const struct choice *a, const struct choice *b)
{
	return a->nearness == b->nearness && a->distance == b->distance;
}

/* Returns whether a comes before b. */
static int is_better(const struct machine *m, const struct choice *a, const struct choice *b)
{
	uint32_t ra, rb;

	if (a->left != b->left)
		return a->left < b->left;
	if (!as_near(a, b))
		return a->nearness != b->nearness ? a->nearness < b->nearness
						  : a->distance < b->distance;
	if (m->ports[a->port].mbps != m->ports[b->port].mbps)
		return m->ports[a->port].mbps > m->ports[b->port].mbps;
	ra = rank_on_card(m, a->port);
	rb = rank_on_card(m, b->port);
	return ra != rb ? ra < rb : a->port < b->port;
}

static void sort_choices(const struct machine *m, struct plan *p)
{
	struct choice c;
	uint32_t i, j;

	for (i = 0; i < p->n; i++) {
		c = p->choices[i];
		for (j = i; j && is_better(m, &c, &p->choices[j - 1]); j--)
			p->choices[j] = p->choices[j - 1];
		p->choices[j] = c;
	}
}

/* ---- the plan before its rotation ---- */

static void choose(const struct machine *m, const struct question *q, struct plan *p)
{
	uint32_t i;

	p->n = m->nports;
	p->rails = p->sharers = p->share = 0;
	for (i = 0; i < p->n; i++) {
		p->choices[i] = (struct choice){.port = i};
		p->choices[i].left = left_out(m, q, i);
		choice_measure(m, q, &p->choices[i]);
	}
	sort_choices(m, p);
	for (i = 0; i < p->n && p->choices[i].left == LEFT_NOT; i++) {
		if (nic_names(q->nics) || as_near(&p->choices[i], &p->choices[0]))
			p->rails++;
		else
			p->choices[i].left = LEFT_FAR;
	}
}

/* ---- the rotation ---- */

static int same_rails(const struct plan *a, const struct plan *b)
{
	uint32_t i;

	if (a->rails != b->rails || !as_near(&a->choices[0], &b->choices[0]))
		return 0;
	for (i = 0; i < a->rails; i++)
		if (a->choices[i].port != b->choices[i].port)
			return 0;
	return 1;
}

/* Counts the GPUs for which the same rails are equally near, and those of them before this GPU.
 * GPUs of other containers count too. */
static void share_gpus(const struct machine *m, const struct question *q, struct plan *p)
{
	struct question other = *q;
	struct plan plan;

	for (other.gpu = 0; other.gpu < m->nplaces; other.gpu++) {
		if (m->places[other.gpu].kind != PLACE_GPU)
			continue;
		choose(m, &other, &plan);
		if (!same_rails(p, &plan))
			continue;
		p->share += other.gpu < q->gpu;
		p->sharers++;
	}
}

/* Threads that may run on part of a node begin at the rail that corresponds to the position of
 * their first CPU in the node. */
static void share_cpus(const struct machine *m, const struct question *q, struct plan *p)
{
	const struct node *node;
	uint32_t i, cpu;

	for (i = 0; i < m->nnodes && !touches(q->cpus, &m->nodes[i].cpus); i++)
		;
	if (i == m->nnodes)
		return;
	node = &m->nodes[i];
	for (cpu = 0; cpu < CPUS_MAX; cpu++)
		p->sharers += node->cpus.bits[cpu / 64] >> cpu % 64 & 1;
	for (cpu = 0; cpu < CPUS_MAX && !(q->cpus->bits[cpu / 64] >> cpu % 64 & 1); cpu++)
		p->share += node->cpus.bits[cpu / 64] >> cpu % 64 & 1;
}

/* Rotates the rails that are as fast and as near as the first one. */
static void rotate(const struct machine *m, struct plan *p)
{
	struct choice first[PORTS_MAX];
	uint32_t i, n = 1, by;

	while (n < p->rails && as_near(&p->choices[n], &p->choices[0]) &&
	       m->ports[p->choices[n].port].mbps == m->ports[p->choices[0].port].mbps)
		n++;
	if (!p->sharers || p->share >= p->sharers)
		return;
	by = (uint32_t)((uint64_t)p->share * n / p->sharers);
	memcpy(first, p->choices, n * sizeof(*first));
	for (i = 0; i < n; i++)
		p->choices[i] = first[(i + by) % n];
}

int machine_plan(const struct machine *m, const struct question *q, struct plan *p)
{
	if (q->kind == FOR_NODE && machine_node(m, q->node) < 0)
		return fail(-EINVAL, "this machine has no NUMA node %u", q->node);
	choose(m, q, p);
	if (!p->rails)
		return fail(-ENODEV, "none of the %u ports of RDMA devices can be used", p->n);
	if (q->kind == FOR_GPU)
		share_gpus(m, q, p);
	if (q->kind == FOR_CPUS)
		share_cpus(m, q, p);
	rotate(m, p);
	return 0;
}
