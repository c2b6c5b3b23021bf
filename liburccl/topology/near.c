/* SPDX-License-Identifier: Apache-2.0 */
/* Measures how near two places of a machine are. */
#include "topology.h"

/* Counts the bridges between p and top. */
static uint32_t bridges_below(const struct machine *m, uint32_t p, uint32_t top)
{
	uint32_t n = 0;

	for (p = m->places[p].parent; p != top; p = m->places[p].parent)
		n++;
	return n;
}

static int is_above(const struct machine *m, uint32_t top, uint32_t p)
{
	for (; p != NO_PLACE; p = m->places[p].parent)
		if (p == top)
			return 1;
	return 0;
}

/* Returns the lowest bridge or host bridge above both places. NO_PLACE: there is none. */
static uint32_t meeting(const struct machine *m, uint32_t a, uint32_t b)
{
	for (a = m->places[a].parent; a != NO_PLACE; a = m->places[a].parent)
		if (is_above(m, a, b))
			return a;
	return NO_PLACE;
}

/* A switch has one upstream port and several downstream ports, each a bridge. Two places on one
 * switch have its upstream port in common, and each has at most one downstream port below it. If
 * there are more bridges, there is another switch. */
enum nearness machine_near(const struct machine *m, uint32_t a, uint32_t b)
{
	uint32_t top = meeting(m, a, b);

	if (top != NO_PLACE && m->places[top].kind == PLACE_HOST)
		return NEAR_PHB;
	if (top != NO_PLACE)
		return bridges_below(m, a, top) <= 1 && bridges_below(m, b, top) <= 1 ? NEAR_PIX
										      : NEAR_PXB;
	if (m->places[a].node >= 0 && m->places[a].node == m->places[b].node)
		return NEAR_NODE;
	return NEAR_SYS;
}

static int is_digits(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text);
}

/* Compares addresses without regard to upper and lower case. "1b:00.0" is in domain 0. */
static int is_address(const char *text, const char *address)
{
	if (ascii_same(text, address, ADDRESS_MAX))
		return 1;
	return !strncmp(address, "0000:", 5) && ascii_same(text, address + 5, ADDRESS_MAX);
}

int machine_gpu(const struct machine *m, const char *text)
{
	uint32_t i, n = 0;
	int found = -1;

	for (i = 0; i < m->nplaces; i++) {
		char rank[12];

		if (m->places[i].kind != PLACE_GPU)
			continue;
		snprintf(rank, sizeof(rank), "%u", n);
		if (is_digits(text) ? !m->places[i].hidden && !strcmp(text, rank)
				    : is_address(text, m->places[i].address))
			found = (int)i;
		n += !m->places[i].hidden;
	}
	if (found >= 0)
		return found;
	return fail(-ENODEV, "there is no GPU %.32s: this process has %u", text, n);
}
