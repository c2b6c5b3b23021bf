/* SPDX-License-Identifier: Apache-2.0 */
/* The machines of this folder; where they are comes from meson. */
#ifndef LOAD_H
#define LOAD_H

#include <stdio.h>
#include <stdlib.h>
#include "topology/topology.h"
#include "test.h"

static inline void load_machine(struct machine *m, const char *name)
{
	char path[512];
	int err;

	CHECK_EQ(machine_init(m), 0);
	snprintf(path, sizeof(path), MACHINES "/%s.xml", name);
	err = machine_read_file(m, path);
	if (err == -EOPNOTSUPP || err == -ENOENT)
		SKIP(urccl_errmsg());
	if (!err)
		return;
	fprintf(stderr, "%s\n", urccl_errmsg());
	test_end(1);
}

/* ---- as text, a line for each node, place and port ---- */

static inline void write_node(const struct machine *m, const struct node *n, FILE *to)
{
	uint32_t i, last, known = 0;
	const char *sep = " cpus ";

	fprintf(to, "node %u", n->id);
	for (i = 0; i < CPUS_MAX; i++) {
		if (!(n->cpus.bits[i / 64] >> i % 64 & 1))
			continue;
		for (last = i;
		     last + 1 < CPUS_MAX && n->cpus.bits[(last + 1) / 64] >> (last + 1) % 64 & 1;)
			last++;
		fprintf(to, last > i ? "%s%u-%u" : "%s%u", sep, i, last);
		sep = ",";
		i = last;
	}
	for (i = 0; i < m->nnodes; i++)
		known |= n->distance[i];
	if (known)
		fprintf(to, " distance");
	for (i = 0; known && i < m->nnodes; i++)
		fprintf(to, " %u", n->distance[i]);
	fprintf(to, "\n");
}

static inline void write_port(const struct port *p, const char *indent, FILE *to)
{
	fprintf(to, "%s\tport %u %s", indent, p->number, p->up ? "up" : "down");
	if (p->mbps)
		fprintf(to, " %u", p->mbps / 1000);
	if (p->mbps % 1000)
		fprintf(to, ".%u", p->mbps % 1000 / 100);
	fprintf(to, p->layer == LINK_INFINIBAND ? " infiniband\n"
		    : p->layer == LINK_ETHERNET ? " ethernet\n"
						: " other\n");
}

static inline void write_place(const struct machine *m, uint32_t at, FILE *to)
{
	static const char *const kinds[] = {"host", "bridge", "gpu", "nic"};
	const struct place *p = &m->places[at];
	char indent[33] = "";
	uint32_t up, i;

	for (up = p->parent; up != NO_PLACE; up = m->places[up].parent)
		strncat(indent, "\t", sizeof(indent) - strlen(indent) - 1);
	fprintf(to, "%s%s %s", indent, kinds[p->kind], p->address);
	if (p->kind == PLACE_NIC)
		fprintf(to, " %s", p->name);
	if (p->node >= 0 && (p->parent == NO_PLACE || m->places[p->parent].node != p->node))
		fprintf(to, " node %u", m->nodes[p->node].id);
	fprintf(to, p->hidden ? " hidden\n" : "\n");
	for (i = 0; i < m->nports; i++)
		if (m->ports[i].place == at)
			write_port(&m->ports[i], indent, to);
}

static inline void machine_write(const struct machine *m, FILE *to)
{
	uint32_t i;

	for (i = 0; i < m->nnodes; i++)
		write_node(m, &m->nodes[i], to);
	for (i = 0; i < m->nplaces; i++)
		write_place(m, i, to);
}

/* It is what is expected, as text. Ends it. */
static inline void check_read(struct machine *m, const char *expected)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	CHECK(f);
	machine_write(m, f);
	CHECK_EQ(fclose(f), 0);
	if (strcmp(text, expected))
		fprintf(stderr, "read:\n%s", text);
	CHECK(!strcmp(text, expected));
	free(text);
	machine_fini(m);
}

#endif
