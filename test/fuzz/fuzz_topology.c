/* SPDX-License-Identifier: Apache-2.0 */
/* A machine as text, which an operator wrote: what is taken can be written and read again as it
 * was, and every plan for it is whole. */
#include <stdlib.h>
#include "topology/topology.h"

static void check(int ok)
{
	if (!ok)
		abort();
}

static void check_plan(const struct machine *m, const struct question *q)
{
	static struct plan p;
	char text[256];
	uint32_t i;

	if (machine_plan(m, q, &p))
		return;
	check(p.n == m->nports && p.rails && p.rails <= p.n);
	for (i = 0; i < p.n; i++) {
		check(p.choices[i].port < m->nports);
		check((p.choices[i].left == LEFT_NOT) == (i < p.rails));
	}
	plan_text(m, q, &p, text, sizeof(text));
}

static void check_plans(const struct machine *m)
{
	struct question q = {.kind = FOR_ANY};
	uint32_t i;

	check_plan(m, &q);
	q.kind = FOR_NODE;
	for (i = 0; i < m->nnodes && i < 4; i++) {
		q.node = m->nodes[i].id;
		check_plan(m, &q);
	}
	q.kind = FOR_CPUS;
	for (i = 0; i < m->nnodes && i < 4; i++) {
		q.cpus = &m->nodes[i].cpus;
		check_plan(m, &q);
	}
	q.kind = FOR_GPU;
	for (i = 0; i < m->nplaces && i < 16; i++) {
		q.gpu = i;
		if (m->places[i].kind == PLACE_GPU)
			check_plan(m, &q);
	}
}

static char *text_of(const struct machine *m, size_t *len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, len);

	check(f != NULL);
	machine_write(m, f);
	check(!fclose(f));
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct machine m, again;
	char *text, *text_again;
	size_t len, len_again;

	check(!machine_init(&m));
	if (machine_read_text(&m, (const char *)data, size)) {
		check(*urccl_errmsg() != 0);
		machine_fini(&m);
		return 0;
	}
	check_plans(&m);
	text = text_of(&m, &len);
	check(!machine_init(&again) && !machine_read_text(&again, text, len));
	text_again = text_of(&again, &len_again);
	check(len == len_again && !memcmp(text, text_again, len));
	free(text);
	free(text_again);
	machine_fini(&m);
	machine_fini(&again);
	return 0;
}
