/* SPDX-License-Identifier: Apache-2.0 */
/* Which NICs for what, on machines of many kinds. Each machine's file says where it comes from;
 * what is expected here was worked out by hand from the file, as the remarks say. */
#include "german.h"
#include "load.h"

#define INFINIBAND LINK_INFINIBAND
#define EFA	   LINK_OTHER

struct expected {
	const char *machine, *question;
	const char *rails; /* in their order; NULL: none can be used */
	uint8_t nearness;  /* of the first */
	const char *nics;  /* rdma_dev */
	uint8_t layers, port;
};

static const struct expected all[] = {
	/* Four NICs and one GPU on a switch. */
	{"p5", "gpu 0", "rdmap79s0 rdmap80s0 rdmap81s0 rdmap82s0", .nearness = NEAR_PIX},
	{"p5", "gpu 0000:ca:00.0", "rdmap198s0 rdmap199s0 rdmap200s0 rdmap201s0",
	 .nearness = NEAR_PIX},
	{"p5", "cpus 0",
	 "rdmap79s0 rdmap80s0 rdmap81s0 rdmap82s0 rdmap96s0 rdmap97s0 rdmap98s0 "
	 "rdmap99s0 rdmap113s0 rdmap114s0 rdmap115s0 rdmap116s0 rdmap130s0 rdmap131s0 rdmap132s0 "
	 "rdmap133s0",
	 .nearness = NEAR_NODE},

	/* Four NICs and two GPUs on a switch: each GPU begins at a half. */
	{"p5en", "gpu 0", "rdmap85s0 rdmap86s0 rdmap87s0 rdmap88s0", .nearness = NEAR_PIX},
	{"p5en", "gpu 1", "rdmap87s0 rdmap88s0 rdmap85s0 rdmap86s0", .nearness = NEAR_PIX},
	{"p5en", "gpu 6", "rdmap160s0 rdmap161s0 rdmap162s0 rdmap163s0", .nearness = NEAR_PIX},

	/* Two and two; and InfiniBand ports on a switch that are for something else: of no known
	 * rate, so behind, and left out by a transport that works on EFA. */
	{"p6-b200", "gpu 2", "rdmap96s0 rdmap97s0", .nearness = NEAR_PIX},
	{"p6-b200", "gpu 3", "rdmap97s0 rdmap96s0", .nearness = NEAR_PIX},
	{"p6-b200", "gpu 4", "rdmap113s0 rdmap114s0 ibp115s0f0 ibp116s0f0", .nearness = NEAR_PIX},
	{"p6-b200", "gpu 5", "rdmap114s0 rdmap113s0", .nearness = NEAR_PIX, .layers = EFA},
	{"p6-b200", "gpu 5", "rdmap114s0 rdmap113s0", .nearness = NEAR_PIX, .nics = "^ibp"},
	{"p6-b200", "gpu 4", "ibp115s0f0 ibp116s0f0", .nearness = NEAR_PIX, .layers = INFINIBAND},
	/* From the other node: four GPUs have the same two, so the third begins at the second. */
	{"p6-b200", "gpu 0", "ibp115s0f0 ibp116s0f0", .nearness = NEAR_SYS, .layers = INFINIBAND},
	{"p6-b200", "gpu 2", "ibp116s0f0 ibp115s0f0", .nearness = NEAR_SYS, .layers = INFINIBAND},

	/* No bridge is shown: the host bridge is what they share. */
	{"p4d", "gpu 0", "rdmap16s27", .nearness = NEAR_PHB},
	{"p4d", "gpu 1", "rdmap16s27", .nearness = NEAR_PHB},
	{"p4d", "gpu 7", "rdmap160s27", .nearness = NEAR_PHB},
	{"p4d", "node 1", "rdmap144s27 rdmap160s27", .nearness = NEAR_NODE},

	/* Beside each GPU two NICs of the fast kind; host memory has the slow ones too, behind. */
	{"p6e-gb200", "gpu 1", "rdmap61s0 rdmap62s0", .nearness = NEAR_PIX},
	{"p6e-gb200", "node 0",
	 "rdmap39s0 rdmap40s0 rdmap61s0 rdmap62s0 rdmap54s0 rdmap55s0 "
	 "rdmap76s0 rdmap77s0",
	 .nearness = NEAR_NODE},

	/* One and one, several switches apart. */
	{"dgx-h100", "gpu 0", "mlx5_0", .nearness = NEAR_PXB},
	{"dgx-h100", "gpu 4", "mlx5_6", .nearness = NEAR_PXB},
	{"dgx-h100", "gpu 7", "mlx5_11", .nearness = NEAR_PXB},
	{"dgx-h100", "gpu df:00.0", "mlx5_11", .nearness = NEAR_PXB},
	/* A card's second function, which is slower as well, goes last. */
	{"dgx-h100", "node 0", "mlx5_0 mlx5_1 mlx5_3 mlx5_4 mlx5_5 mlx5_2", .nearness = NEAR_NODE},
	{"dgx-h100", "node 1", "mlx5_6 mlx5_7 mlx5_9 mlx5_10 mlx5_11", .nearness = NEAR_NODE,
	 .layers = INFINIBAND},
	/* Names are all used, the nearest first; without its own NIC a GPU has its node's. */
	{"dgx-h100", "gpu 0", "mlx5_0 mlx5_3 mlx5_6", .nearness = NEAR_PXB,
	 .nics = "mlx5_6,mlx5_3,mlx5_0"},
	{"dgx-h100", "gpu 0", "mlx5_1 mlx5_3 mlx5_4 mlx5_5 mlx5_2", .nearness = NEAR_NODE,
	 .nics = "^mlx5_0"},
	{"dgx-h100", "gpu 0", "mlx5_1 mlx5_2", .nearness = NEAR_NODE, .nics = "mlx5_1,mlx5_2"},
	{"dgx-h100", "gpu 0", NULL, .nics = "mlx4"},

	/* Its GPU 0 is the machine's fifth; the one whose NIC is another's has those of its node.
	 */
	{"dgx-h100-half", "gpu 0", "mlx5_6", .nearness = NEAR_PXB},
	{"dgx-h100-half", "gpu 3", "mlx5_6 mlx5_9 mlx5_10", .nearness = NEAR_NODE},
	{"dgx-h100-half", "node 0", "mlx5_6 mlx5_9 mlx5_10", .nearness = NEAR_SYS},
	{"dgx-h100-half", "gpu 0000:1b:00.0", "mlx5_6 mlx5_9 mlx5_10", .nearness = NEAR_SYS},

	/* Two and two below one host bridge. */
	{"dgx-a100", "gpu 0", "mlx5_0 mlx5_1", .nearness = NEAR_PXB},
	{"dgx-a100", "gpu 1", "mlx5_1 mlx5_0", .nearness = NEAR_PXB},
	{"dgx-a100", "gpu 2", "mlx5_2 mlx5_3", .nearness = NEAR_PXB},
	{"dgx-a100", "gpu 7", "mlx5_9 mlx5_8", .nearness = NEAR_PXB},
	{"dgx-a100", "node 3", "mlx5_0 mlx5_1", .nearness = NEAR_NODE},
	/* A node without NICs: those of the same socket, all at distance 12. */
	{"dgx-a100", "node 2", "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5", .nearness = NEAR_SYS},
	/* CPU 40 is the ninth of 32 on node 2, so it begins at the second of five. */
	{"dgx-a100", "cpus 40", "mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_0 mlx5_5", .nearness = NEAR_SYS},
	{"dgx-a100", "cpus 32-47,160-175", "mlx5_0 mlx5_1 mlx5_2 mlx5_3 mlx5_4 mlx5_5",
	 .nearness = NEAR_SYS},
	/* Threads of two nodes have both nodes' (nodes 1 and 3 here). */
	{"dgx-a100", "cpus 16,48", "mlx5_0 mlx5_1 mlx5_2 mlx5_3", .nearness = NEAR_NODE},

	{"hgx-h20", "gpu 3", "mlx5_3", .nearness = NEAR_PIX},
	/* The slow one belongs to the rails, at their end; the one that is down does not. */
	{"hgx-h20", "node 1", "mlx5_4 mlx5_5 mlx5_6 mlx5_7 mlx5_8", .nearness = NEAR_NODE},

	/* Four NICs for two GPUs. */
	{"two-nics-a-gpu", "gpu 0", "mlx5_0 mlx5_1 mlx5_2 mlx5_3", .nearness = NEAR_PXB},
	{"two-nics-a-gpu", "gpu 1", "mlx5_2 mlx5_3 mlx5_0 mlx5_1", .nearness = NEAR_PXB},
	{"two-nics-a-gpu", "gpu 3", "mlx5_8 mlx5_9 mlx5_6 mlx5_7", .nearness = NEAR_PXB},

	/* All that is known is the node, and that the k-th GPU of it begins at its k-th NIC; which
	 * is how they are really wired. */
	{"azure-ndv5", "gpu 0", "mlx5_ib0 mlx5_ib1 mlx5_ib2 mlx5_ib3", .nearness = NEAR_NODE},
	{"azure-ndv5", "gpu 3", "mlx5_ib3 mlx5_ib0 mlx5_ib1 mlx5_ib2", .nearness = NEAR_NODE},
	{"azure-ndv5", "gpu 0009:00:00.0", "mlx5_ib4 mlx5_ib5 mlx5_ib6 mlx5_ib7",
	 .nearness = NEAR_NODE},
	{"azure-ndv5", "gpu 7", "mlx5_ib7 mlx5_ib4 mlx5_ib5 mlx5_ib6", .nearness = NEAR_NODE},

	/* Two GPUs and two NICs of a node; memory of a GPU is a node of its own, nearer to its CPU.
	 */
	{"gb200", "gpu 0", "mlx5_0 mlx5_1", .nearness = NEAR_NODE, .layers = INFINIBAND},
	{"gb200", "gpu 1", "mlx5_1 mlx5_0", .nearness = NEAR_NODE, .layers = INFINIBAND},
	{"gb200", "gpu 0", "mlx5_0 mlx5_1 mlx5_2", .nearness = NEAR_NODE},
	{"gb200", "gpu 3", "mlx5_4 mlx5_3", .nearness = NEAR_NODE},
	{"gb200", "node 2", "mlx5_0 mlx5_1 mlx5_2", .nearness = NEAR_SYS},
	{"gb200", "node 26", "mlx5_3 mlx5_4", .nearness = NEAR_SYS},
	{"gb200", "cpus 72-143", "mlx5_3 mlx5_4", .nearness = NEAR_NODE},

	{"uneven", "gpu 2", "mlx5_2", .nearness = NEAR_PIX},
	{"uneven", "gpu 3", "mlx5_4", .nearness = NEAR_PIX},
	{"uneven", "node 1", "mlx5_4 mlx5_3", .nearness = NEAR_NODE},
	/* Node 3 has none: the other node of its half is at 12, and its two GPUs take turns. */
	{"uneven", "gpu 6", "mlx5_5 mlx5_6 mlx5_7", .nearness = NEAR_SYS},
	{"uneven", "gpu 7", "mlx5_6 mlx5_5 mlx5_7", .nearness = NEAR_SYS},

	{"mi300x", "gpu 0", "rocep9s0", .nearness = NEAR_PXB},
	{"mi300x", "gpu 7", "rocep137s0", .nearness = NEAR_PXB},
	{"mi300x", "node 1",
	 "rocep89s0 rocep105s0 rocep121s0 rocep137s0 rocep193s0f0 "
	 "rocep193s0f1",
	 .nearness = NEAR_NODE},

	/* The only host bridge, whatever the nodes; which are not known, so all are as good. */
	{"vm-flat", "gpu 0", "mlx5_0 mlx5_1", .nearness = NEAR_PHB},
	{"vm-flat", "gpu 1", "mlx5_1 mlx5_0", .nearness = NEAR_PHB},
	{"vm-flat", "node 1", "mlx5_0 mlx5_1", .nearness = NEAR_SYS},
	{"vm-nowhere", "gpu 0", "mlx5_0 mlx5_1", .nearness = NEAR_SYS},
	{"vm-nowhere", "gpu 1", "mlx5_1 mlx5_0", .nearness = NEAR_SYS},
	{"vm-nowhere", "cpus 20", "mlx5_0 mlx5_1", .nearness = NEAR_SYS},

	/* Without GPUs. Each card's first port before any's second. */
	{"storage", "node 0", "mlx5_bond_0 mlx4_0", .nearness = NEAR_NODE},
	{"storage", "node 1", "mlx5_2 mlx5_4 mlx5_3", .nearness = NEAR_NODE},
	{"storage", "any", "mlx5_bond_0 mlx5_2 mlx5_4 mlx5_3 mlx4_0", .nearness = NEAR_NODE},
	{"storage", "node 1", "mlx4_0", .nearness = NEAR_SYS, .nics = "mlx4_0"},
	{"storage", "any", NULL, .port = 2},
	{"storage", "any", NULL, .nics = "mlx4_0:2"},
	{"h100-vm", "gpu 0", .rails = NULL},
	{"h100x4-vm", "gpu 3", .rails = NULL},
	{"bare", "any", .rails = NULL},
};

/* A container on the DGX H100 that is given GPUs 4 to 7 and three of their NICs: /sys shows it the
 * whole machine, its device nodes say what it may use. */
static void hide_half(struct machine *m)
{
	struct place *p;

	for (p = m->places; p < m->places + m->nplaces; p++)
		p->hidden = p->kind == PLACE_NIC
				    ? strcmp(p->name, "mlx5_6") && strcmp(p->name, "mlx5_9") &&
					      strcmp(p->name, "mlx5_10")
				    : p->kind == PLACE_GPU && p->node == 0;
}

static void load(struct machine *m, const char *name)
{
	int half = !strcmp(name, "dgx-h100-half");

	load_machine(m, half ? "dgx-h100" : name);
	if (half)
		hide_half(m);
}

static void ask(const struct machine *m, const char *text, struct question *q, struct cpus *cpus)
{
	const char *what = strchr(text, ' ');
	int gpu;

	if (!strncmp(text, "gpu ", 4)) {
		gpu = machine_gpu(m, what + 1);
		CHECK_GE(gpu, 0);
		q->kind = FOR_GPU;
		q->gpu = (uint32_t)gpu;
	} else if (!strncmp(text, "node ", 5)) {
		q->kind = FOR_NODE;
		q->node = (uint32_t)atoi(what + 1);
	} else if (!strncmp(text, "cpus ", 5)) {
		CHECK_EQ(cpus_parse(what + 1, cpus), 0);
		q->kind = FOR_CPUS;
		q->cpus = cpus;
	}
}

static void rails_of(const struct machine *m, const struct plan *p, char *to, size_t size)
{
	size_t at = 0;
	uint32_t i;

	*to = 0;
	for (i = 0; i < p->rails && at < size; i++)
		at += (size_t)snprintf(to + at, size - at, "%s%s", i ? " " : "",
				       m->places[m->ports[p->choices[i].port].place].name);
}

static int wrong(const struct machine *m, const struct expected *e)
{
	struct question q = {.nics = e->nics, .layers = e->layers, .port = e->port};
	char got[1024], text[16384];
	struct cpus cpus;
	struct plan p;
	int err;

	ask(m, e->question, &q, &cpus);
	err = machine_plan(m, &q, &p);
	rails_of(m, &p, got, sizeof(got));
	if (!e->rails && err == -ENODEV && !p.rails)
		return 0;
	if (e->rails && !err && !strcmp(got, e->rails) && p.choices[0].nearness == e->nearness)
		return 0;
	CHECK_LE(plan_text(m, &q, &p, text, sizeof(text)), sizeof(text) - 1);
	fprintf(stderr, "%s, %s, \"%s\": \"%s\" (%d) is expected\n%s", e->machine, e->question,
		e->nics ? e->nics : "", e->rails ? e->rails : "", e->nearness, text);
	return 1;
}

/* A port goes down: what is as near as can be without it; it comes up: as before. */
static void test_down(void)
{
	struct machine m;
	struct question q = {.kind = FOR_GPU};
	struct plan p;
	char got[256];

	load_machine(&m, "hgx-h20");
	q.gpu = (uint32_t)machine_gpu(&m, "3");
	m.ports[3].up = 0;
	CHECK_EQ(machine_plan(&m, &q, &p), 0);
	rails_of(&m, &p, got, sizeof(got));
	CHECK(!strcmp(got, "mlx5_0 mlx5_1 mlx5_2"));
	CHECK_EQ(p.choices[0].nearness, NEAR_NODE);
	m.ports[3].up = 1;
	CHECK_EQ(machine_plan(&m, &q, &p), 0);
	rails_of(&m, &p, got, sizeof(got));
	CHECK(!strcmp(got, "mlx5_3"));
	/* Then what would take its place, nearest first, and last what is down. */
	CHECK_EQ(p.choices[1].left, LEFT_FAR);
	CHECK_EQ(p.choices[1].nearness, NEAR_NODE);
	CHECK_EQ(p.choices[p.n - 2].nearness, NEAR_SYS);
	CHECK_EQ(p.choices[p.n - 1].left, LEFT_DOWN);
	machine_fini(&m);
}

static void test_refused(void)
{
	struct question q = {.kind = FOR_NODE, .node = 7};
	struct machine m;
	struct plan p;

	load_machine(&m, "hgx-h20");
	CHECK_EQ(machine_plan(&m, &q, &p), -EINVAL);
	CHECK(strstr(urccl_errmsg(), "no NUMA node 7"));
	CHECK_EQ(machine_gpu(&m, "8"), -ENODEV);
	CHECK_EQ(machine_gpu(&m, "0000:ff:00.0"), -ENODEV);
	CHECK_EQ(machine_gpu(&m, ""), -ENODEV);
	machine_fini(&m);
}

int main(void)
{
	struct machine m = {0};
	uint32_t i;
	int bad = 0;

	german_begin();
	for (i = 0; i < ARRAY_SIZE(all); i++) {
		if (!i || strcmp(all[i].machine, all[i - 1].machine)) {
			machine_fini(&m);
			load(&m, all[i].machine);
		}
		bad += wrong(&m, &all[i]);
	}
	machine_fini(&m);
	CHECK_EQ(bad, 0);
	test_down();
	test_refused();
	return 0;
}
