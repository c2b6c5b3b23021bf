/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine as text, for people, reports and tests:
 *
 *	node 0 cpus 0-55,112-167 distance 10 21
 *	node 1 cpus 56-111,168-223 distance 21 10
 *	host 0000:15 node 0
 *		bridge 0000:15:01.0
 *			gpu 0000:18:00.0
 *			nic 0000:17:00.0 mlx5_0
 *				port 1 up 400 infiniband
 *
 * What is indented deeper hangs on what stands above it. Distances are those to the nodes in the
 * order of their lines; a place without a node is where the one above it is; "hidden" behind a GPU
 * or NIC: this process may not use it; the rate is in Gbit/s. What follows a # is for people.
 */
#include <stdlib.h>

#include "topology.h"

#define LINE_MAX_BYTES 4096u
#define DEPTH_MAX      32u
#define BLANK	       " \t\r"

struct reader {
	struct machine *m;
	uint32_t line;
	uint32_t depth; /* of the stack */
	struct {
		size_t column;
		uint32_t place;
	} stack[DEPTH_MAX];
	uint32_t ndistances[NODES_MAX];
};

static int wrong(const struct reader *r, const char *what)
{
	return fail(-EINVAL, "line %u: %s", r->line, what);
}

/* A whole number of at most max: 0 or -EINVAL. */
static int number(const char *word, uint64_t max, uint64_t *to)
{
	char *end;

	if (!word || *word < '0' || *word > '9')
		return -EINVAL;
	errno = 0;
	*to = strtoull(word, &end, 10);
	return *end || errno || *to > max ? -EINVAL : 0;
}

/* ---- nodes ---- */

static int read_distances(struct reader *r, uint32_t node, char **rest)
{
	uint64_t d;
	char *word;

	while ((word = strtok_r(NULL, BLANK, rest))) {
		if (r->ndistances[node] == NODES_MAX || number(word, 255, &d))
			return wrong(r, "distances are wanted, from 0 to 255 each");
		r->m->nodes[node].distance[r->ndistances[node]++] = (uint8_t)d;
	}
	return 0;
}

static int read_node(struct reader *r, char **rest)
{
	uint64_t id;
	char *word;
	int node;

	if (number(strtok_r(NULL, BLANK, rest), INT16_MAX, &id))
		return wrong(r, "a node's number is wanted");
	if (machine_node(r->m, (uint32_t)id) >= 0)
		return wrong(r, "this node was there before");
	node = machine_add_node(r->m, (uint32_t)id);
	if (node < 0)
		return node;
	while ((word = strtok_r(NULL, BLANK, rest))) {
		if (!strcmp(word, "distance"))
			return read_distances(r, (uint32_t)node, rest);
		word = strcmp(word, "cpus") ? NULL : strtok_r(NULL, BLANK, rest);
		if (!word || cpus_parse(word, &r->m->nodes[node].cpus))
			return wrong(r, "cpus and a list of them, or distance is wanted");
	}
	return 0;
}

/* ---- places ---- */

static int set_node(struct reader *r, struct place *p, const char *word)
{
	uint64_t id;
	int node;

	if (number(word, INT16_MAX, &id))
		return wrong(r, "a node's number is wanted");
	node = machine_node(r->m, (uint32_t)id);
	if (node < 0)
		return wrong(r, "there is no line of that node");
	p->node = (int16_t)node;
	return 0;
}

static int set_name(struct reader *r, struct place *p, const char *word)
{
	if (!word || strlen(word) > NIC_NAME_MAX)
		return wrong(r, "a NIC's name is wanted");
	memcpy(p->name, word, strlen(word) + 1);
	return 0;
}

static int is_address(const char *word)
{
	return word && strlen(word) < ADDRESS_MAX &&
	       strspn(word, "0123456789abcdef:.") == strlen(word);
}

/* Above it is the last line that is indented less. */
static int place_above(struct reader *r, enum place_kind kind, size_t column, uint32_t *parent)
{
	while (r->depth && r->stack[r->depth - 1].column >= column)
		r->depth--;
	*parent = r->depth ? r->stack[r->depth - 1].place : NO_PLACE;
	if (kind == PLACE_HOST && *parent != NO_PLACE)
		return wrong(r, "a host bridge hangs on nothing");
	if (kind != PLACE_HOST && *parent == NO_PLACE)
		return wrong(r, "this has to hang on a host bridge");
	if (*parent != NO_PLACE && r->m->places[*parent].kind > PLACE_BRIDGE)
		return wrong(r, "nothing but ports hangs on a device");
	return r->depth == DEPTH_MAX ? wrong(r, "this lies too deep") : 0;
}

static int read_place(struct reader *r, enum place_kind kind, size_t column, char **rest)
{
	char *word = strtok_r(NULL, BLANK, rest);
	uint32_t parent;
	struct place *p;
	int at, err = place_above(r, kind, column, &parent);

	if (err)
		return err;
	if (!is_address(word))
		return wrong(r, "a PCI address is wanted, in small letters");
	at = machine_add_place(r->m, kind, parent, word);
	if (at < 0)
		return at;
	p = &r->m->places[at];
	if (kind == PLACE_NIC)
		err = set_name(r, p, strtok_r(NULL, BLANK, rest));
	while (!err && (word = strtok_r(NULL, BLANK, rest))) {
		if (!strcmp(word, "node"))
			err = set_node(r, p, strtok_r(NULL, BLANK, rest));
		else if (!strcmp(word, "hidden"))
			p->hidden = 1;
		else
			err = wrong(r, "node or hidden is wanted");
	}
	r->stack[r->depth].column = column;
	r->stack[r->depth++].place = (uint32_t)at;
	return err;
}

/* ---- ports ---- */

static const struct {
	const char *name;
	uint8_t layer;
} layers[] = {
	{"infiniband", LINK_INFINIBAND},
	{"ethernet", LINK_ETHERNET},
	{"other", LINK_OTHER},
};

static int port_word(struct reader *r, struct port *p, const char *word)
{
	double gbit;
	char *end;
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(layers); i++) {
		if (strcmp(word, layers[i].name))
			continue;
		p->layer = layers[i].layer;
		return 0;
	}
	p->up |= !strcmp(word, "up");
	if (!strcmp(word, "up") || !strcmp(word, "down"))
		return 0;
	gbit = strtod(word, &end);
	if (*word < '0' || *word > '9' || *end || !(gbit <= 1e6))
		return wrong(r, "up, down, a rate in Gbit/s, or infiniband, ethernet or other is "
				"wanted");
	p->mbps = (uint32_t)(gbit * 1000 + 0.5);
	return 0;
}

static int read_port(struct reader *r, char **rest)
{
	uint32_t place = r->depth ? r->stack[r->depth - 1].place : NO_PLACE;
	struct port p = {.place = place};
	uint64_t n;
	char *word;
	int at, err = 0;

	if (place == NO_PLACE || r->m->places[place].kind != PLACE_NIC)
		return wrong(r, "a port has to stand below its NIC");
	if (number(strtok_r(NULL, BLANK, rest), NIC_PORT_MAX, &n) || !n)
		return wrong(r, "a port's number is wanted, from 1");
	p.number = (uint8_t)n;
	p.layer = LINK_OTHER;
	while (!err && (word = strtok_r(NULL, BLANK, rest)))
		err = port_word(r, &p, word);
	if (err)
		return err;
	at = machine_add_port(r->m, place, p.number);
	if (at >= 0)
		r->m->ports[at] = p;
	return 0;
}

/* ---- lines ---- */

/* A tab leads to the next eighth column. */
static size_t column_of(const char *line)
{
	size_t at = 0;

	for (; *line == ' ' || *line == '\t'; line++)
		at = *line == '\t' ? (at | 7) + 1 : at + 1;
	return at;
}

static int read_line(struct reader *r, char *line)
{
	static const char *const kinds[] = {"host", "bridge", "gpu", "nic"};
	size_t column = column_of(line);
	char *rest, *word;
	uint32_t i;

	line[strcspn(line, "#")] = 0;
	word = strtok_r(line, BLANK, &rest);
	if (!word)
		return 0;
	if (!strcmp(word, "node"))
		return read_node(r, &rest);
	if (!strcmp(word, "port"))
		return read_port(r, &rest);
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(word, kinds[i]))
			return read_place(r, (enum place_kind)i, column, &rest);
	return wrong(r, "node, host, bridge, gpu, nic or port is wanted");
}

int machine_read_text(struct machine *m, const char *text, size_t len)
{
	struct reader r = {.m = m};
	char line[LINE_MAX_BYTES];
	int err = 0;

	while (len && !err) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : len;

		r.line++;
		if (n >= sizeof(line) || memchr(text, 0, n))
			return wrong(&r, "this is no text, or too long");
		memcpy(line, text, n);
		line[n] = 0;
		err = read_line(&r, line);
		text += n + !!end;
		len -= n + !!end;
	}
	return err ? err : machine_finish(m);
}

/* ---- to text ---- */

static void write_node(const struct machine *m, const struct node *n, FILE *to)
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

static void write_port(const struct port *p, const char *indent, FILE *to)
{
	uint32_t i;

	fprintf(to, "%s\tport %u %s", indent, p->number, p->up ? "up" : "down");
	if (p->mbps)
		fprintf(to, " %g", p->mbps / 1000.0);
	for (i = 0; i < ARRAY_SIZE(layers); i++)
		if (layers[i].layer == p->layer)
			fprintf(to, " %s", layers[i].name);
	fprintf(to, "\n");
}

static void write_place(const struct machine *m, uint32_t at, FILE *to)
{
	static const char *const kinds[] = {"host", "bridge", "gpu", "nic"};
	const struct place *p = &m->places[at];
	char indent[DEPTH_MAX + 1] = "";
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

void machine_write(const struct machine *m, FILE *to)
{
	uint32_t i;

	for (i = 0; i < m->nnodes; i++)
		write_node(m, &m->nodes[i], to);
	for (i = 0; i < m->nplaces; i++)
		write_place(m, i, to);
}
