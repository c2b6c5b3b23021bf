/* SPDX-License-Identifier: Apache-2.0 */
/* A plan in words. */
#include <stdarg.h>

#include "topology.h"

struct words {
	char *buf;
	size_t len, used; /* used: also beyond len */
};

__attribute__((format(printf, 2, 3))) static void add(struct words *w, const char *fmt, ...)
{
	size_t room = w->used < w->len ? w->len - w->used : 0;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(room ? w->buf + w->used : NULL, room, fmt, args);
	va_end(args);
	w->used += n > 0 ? (size_t)n : 0;
}

static void add_node(struct words *w, const struct machine *m, int node)
{
	if (node >= 0)
		add(w, "NUMA node %u", m->nodes[node].id);
	else
		add(w, "a NUMA node that is not known");
}

/* ---- what is asked ---- */

static void add_cpus(struct words *w, const struct cpus *cpus)
{
	uint32_t i, n = 0, first = CPUS_MAX;

	for (i = 0; i < CPUS_MAX; i++) {
		if (!(cpus->bits[i / 64] >> i % 64 & 1))
			continue;
		first = n++ ? first : i;
	}
	if (n == 1)
		add(w, "a thread on CPU %u", first);
	else
		add(w, "threads on %u CPUs", n);
}

static void add_question(struct words *w, const struct machine *m, const struct question *q)
{
	switch (q->kind) {
	case FOR_GPU:
		add(w, "GPU %s", m->places[q->gpu].address);
		break;
	case FOR_NODE:
		add(w, "memory at NUMA node %u", q->node);
		break;
	case FOR_CPUS:
		add_cpus(w, q->cpus);
		break;
	default:
		add(w, "any memory of this host");
		break;
	}
}

/* ---- how a port is near ---- */

static void add_far(struct words *w, const struct machine *m, const struct question *q,
		    const struct choice *c)
{
	int there = m->places[m->ports[c->port].place].node;

	if (c->distance >= 254 &&
	    (there < 0 || (q->kind == FOR_GPU && m->places[q->gpu].node < 0))) {
		add(w, "how near is not known: the firmware does not say");
		return;
	}
	add(w, "at ");
	add_node(w, m, there);
	if (c->distance < 254)
		add(w, ", distance %u", c->distance);
	add(w, q->kind == FOR_GPU ? " (SYS)" : "");
}

static void add_nearness(struct words *w, const struct machine *m, const struct question *q,
			 const struct choice *c)
{
	int there = m->places[m->ports[c->port].place].node;

	switch (c->nearness) {
	case NEAR_PIX:
		add(w, "one PCIe switch away (PIX)");
		break;
	case NEAR_PXB:
		add(w, "several PCIe switches away (PXB)");
		break;
	case NEAR_PHB:
		add(w, "on the same host bridge (PHB)");
		break;
	case NEAR_NODE:
		if (q->kind == FOR_ANY && there < 0)
			add(w, "its NUMA node is not known");
		else
			add(w, "at ");
		if (q->kind != FOR_ANY || there >= 0)
			add_node(w, m, there);
		add(w, q->kind == FOR_GPU ? " as well (NODE)" : "");
		break;
	default:
		add_far(w, m, q, c);
		break;
	}
}

/* ---- a port ---- */

static void add_link(struct words *w, const struct port *p)
{
	if (p->mbps)
		add(w, ", %g Gbit/s", p->mbps / 1000.0);
	if (p->layer == LINK_INFINIBAND)
		add(w, ", InfiniBand");
	else if (p->layer == LINK_ETHERNET)
		add(w, ", Ethernet");
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

static void add_choice(struct words *w, const struct machine *m, const struct question *q,
		       const struct choice *c)
{
	const struct port *port = &m->ports[c->port];

	add(w, "%s port %u: ", m->places[port->place].name, port->number);
	add_nearness(w, m, q, c);
	add_link(w, port);
	if (c->left)
		add(w, "; %s", why_left(c->left));
}

int choice_text(const struct machine *m, const struct question *q, const struct choice *c,
		char *buf, size_t len)
{
	struct words w = {buf, len, 0};

	add_choice(&w, m, q, c);
	return (int)w.used;
}

int plan_text(const struct machine *m, const struct question *q, const struct plan *p, char *buf,
	      size_t len)
{
	struct words w = {buf, len, 0};
	uint32_t i;

	if (len)
		*buf = 0;
	add(&w, "NICs for ");
	add_question(&w, m, q);
	if (q->kind == FOR_GPU && p->sharers > 1 && p->rails > 1)
		add(&w, " (%u of %u that share %u rails, each beginning at another)", p->share + 1,
		    p->sharers, p->rails);
	add(&w, "%s\n", p->rails ? ":" : ": none can be used");
	for (i = 0; i < p->n; i++) {
		if (i < p->rails)
			add(&w, "  %u. ", i + 1);
		else
			add(&w, "  -  ");
		add_choice(&w, m, q, &p->choices[i]);
		add(&w, "\n");
	}
	return (int)w.used;
}
