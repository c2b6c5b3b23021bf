/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a plan as text. */
#include "topology.h"

static void add_node(struct text *t, const struct machine *m, int node)
{
	if (node >= 0)
		text_add(t, "NUMA node %u", m->nodes[node].id);
	else
		text_add(t, "a NUMA node that is not known");
}

/* ---- the question ---- */

static void add_cpus(struct text *t, const struct cpus *cpus)
{
	uint32_t i, n = 0, first = CPUS_MAX;

	for (i = 0; i < CPUS_MAX; i++) {
		if (!(cpus->bits[i / 64] >> i % 64 & 1))
			continue;
		first = n++ ? first : i;
	}
	if (n == 1)
		text_add(t, "a thread on CPU %u", first);
	else
		text_add(t, "threads on %u CPUs", n);
}

static void add_question(struct text *t, const struct machine *m, const struct question *q)
{
	switch (q->kind) {
	case FOR_GPU:
		text_add(t, "GPU %s", m->places[q->gpu].address);
		break;
	case FOR_NODE:
		text_add(t, "memory at NUMA node %u", q->node);
		break;
	case FOR_CPUS:
		add_cpus(t, q->cpus);
		break;
	default:
		text_add(t, "any memory of this host");
		break;
	}
}

/* ---- the nearness of a port ---- */

static void add_far(struct text *t, const struct machine *m, const struct question *q,
		    const struct choice *c)
{
	int there = m->places[m->ports[c->port].place].node;

	if (c->distance >= 254 &&
	    (there < 0 || (q->kind == FOR_GPU && m->places[q->gpu].node < 0))) {
		text_add(t, "how near is not known: the firmware does not say");
		return;
	}
	text_add(t, "at ");
	add_node(t, m, there);
	if (c->distance < 254)
		text_add(t, ", distance %u", c->distance);
	text_add(t, q->kind == FOR_GPU ? " (SYS)" : "");
}

static void add_nearness(struct text *t, const struct machine *m, const struct question *q,
			 const struct choice *c)
{
	int there = m->places[m->ports[c->port].place].node;

	switch (c->nearness) {
	case NEAR_PIX:
		text_add(t, "one PCIe switch away (PIX)");
		break;
	case NEAR_PXB:
		text_add(t, "several PCIe switches away (PXB)");
		break;
	case NEAR_PHB:
		text_add(t, "on the same host bridge (PHB)");
		break;
	case NEAR_NODE:
		if (q->kind == FOR_ANY && there < 0)
			text_add(t, "its NUMA node is not known");
		else
			text_add(t, "at ");
		if (q->kind != FOR_ANY || there >= 0)
			add_node(t, m, there);
		text_add(t, q->kind == FOR_GPU ? " as well (NODE)" : "");
		break;
	default:
		add_far(t, m, q, c);
		break;
	}
}

/* ---- a port ---- */

static void add_link(struct text *t, const struct port *p)
{
	uint32_t rest = p->mbps % 1000;
	int digits = 3;

	while (rest && rest % 10 == 0) {
		rest /= 10;
		digits--;
	}
	if (rest)
		text_add(t, ", %u.%0*u Gbit/s", p->mbps / 1000, digits, rest);
	else if (p->mbps)
		text_add(t, ", %u Gbit/s", p->mbps / 1000);
	if (p->layer == LINK_INFINIBAND)
		text_add(t, ", InfiniBand");
	else if (p->layer == LINK_ETHERNET)
		text_add(t, ", Ethernet");
}

static const char *why_left(uint8_t left)
{
	switch (left) {
	case LEFT_FAR:
		return "not used while nearer ones are";
	case LEFT_DOWN:
		return "not used: the port is down";
	case LEFT_HIDDEN:
		return "not used: this process may not open it";
	case LEFT_NAMES:
		return "not used: rdma_dev does not name it";
	case LEFT_PORT:
		return "not used: rdma_port is another";
	default:
		return "not used: its link is of another kind";
	}
}

static void add_choice(struct text *t, const struct machine *m, const struct question *q,
		       const struct choice *c)
{
	const struct port *port = &m->ports[c->port];

	text_add(t, "%s port %u: ", m->places[port->place].name, port->number);
	add_nearness(t, m, q, c);
	add_link(t, port);
	if (c->left)
		text_add(t, "; %s", why_left(c->left));
}

int plan_text(const struct machine *m, const struct question *q, const struct plan *p, char *buf,
	      size_t len)
{
	struct text t = {buf, len, 0};
	uint32_t i;

	if (len)
		*buf = 0;
	text_add(&t, "NICs for ");
	add_question(&t, m, q);
	if (q->kind == FOR_GPU && p->sharers > 1 && p->rails > 1)
		text_add(&t, " (%u of %u that share %u rails, each beginning at another)",
			 p->share + 1, p->sharers, p->rails);
	text_add(&t, "%s\n", p->rails ? ":" : ": none can be used");
	for (i = 0; i < p->n; i++) {
		if (i < p->rails)
			text_add(&t, "  %u. ", i + 1);
		else
			text_add(&t, "  -  ");
		add_choice(&t, m, q, &p->choices[i]);
		text_add(&t, "\n");
	}
	if (m->nleft)
		text_add(&t, "  and %u ports more, which are left out\n", m->nleft);
	return (int)t.len;
}
