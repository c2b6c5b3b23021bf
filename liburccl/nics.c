/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses NICs by the settings and the machine's topology. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "nics.h"
#include "topology/topology.h"

#define CXI_DEVICES 4u

/* A machine, a question about it, and the answer. */
struct inquiry {
	struct machine m;
	struct cpus cpus;
	struct question q;
	struct plan plan;
};

static uint8_t layers_of(uint32_t transport)
{
	switch (transport) {
	case URCCL_TRANSPORT_IB:
		return LINK_INFINIBAND | LINK_ETHERNET;
	case URCCL_TRANSPORT_EFA:
		return LINK_OTHER;
	default:
		return 0;
	}
}

/* Asks for NICs near the program's GPU, else near the CPUs that this thread may run on. */
static int inquiry_ask(struct inquiry *in, const struct urccl_params *p)
{
	int gpu;

	in->q = (struct question){.kind = FOR_ANY, .port = p->rdma_port, .nics = p->rdma_dev};
	if (p->gpu) {
		gpu = machine_gpu(&in->m, p->gpu);
		if (gpu < 0)
			return gpu;
		in->q.kind = FOR_GPU;
		in->q.gpu = (uint32_t)gpu;
		return 0;
	}
	/* cpu_set_t is an array of words, like struct cpus. */
	if (!sched_getaffinity(0, sizeof(in->cpus.bits), (cpu_set_t *)(void *)in->cpus.bits)) {
		in->q.kind = FOR_CPUS;
		in->q.cpus = &in->cpus;
	}
	return 0;
}

/* Reads the topology from the source that the setting names. */
static int machine_read(struct machine *m, const char *topology)
{
	if (!topology)
		return machine_read_sysfs(m, "");
	if (!strcmp(topology, "hwloc"))
		return machine_read_hwloc(m, NULL);
	return machine_read_file(m, topology);
}

static int inquiry_open(struct inquiry **out, const struct urccl_params *p)
{
	struct inquiry *in = calloc(1, sizeof(*in));
	int err =
		in ? machine_init(&in->m) : fail(-ENOMEM, "no memory for the tree of the machine");

	if (err)
		goto free_inquiry;
	err = machine_read(&in->m, p->topology);
	if (!err)
		err = inquiry_ask(in, p);
	if (!err) {
		*out = in;
		return 0;
	}
	machine_fini(&in->m);
free_inquiry:
	free(in);
	return err;
}

static void inquiry_close(struct inquiry *in)
{
	machine_fini(&in->m);
	free(in);
}

/* ---- for a transport ---- */

static int is_rail(const struct plan *plan, uint32_t port)
{
	uint32_t i;

	for (i = 0; i < plan->rails; i++)
		if (plan->choices[i].port == port)
			return 1;
	return 0;
}

/* In the machine's order, not by distance: rail n is paired with a peer's rail n, and processes of
 * one machine may be near different NICs. */
static struct nic_port *rails_of(const struct inquiry *in)
{
	struct nic_port *nics = calloc(in->plan.rails, sizeof(*nics));
	uint32_t i, n = 0;

	for (i = 0; nics && i < in->m.nports && n < in->plan.rails; i++) {
		const struct port *port = &in->m.ports[i];

		if (!is_rail(&in->plan, i))
			continue;
		memcpy(nics[n].name, in->m.places[port->place].name, sizeof(nics[n].name));
		nics[n++].port = port->number;
	}
	return nics;
}

/* Slingshot NICs are not in the tree: a node has four, given to GPUs in turn, as in UCCL. */
static int cxi_choose(const struct urccl_params *p, struct device_config *config)
{
	struct inquiry *in;
	uint32_t i, before = 0;
	int err;

	if (!p->gpu || p->cxi_domain || p->cxi_device_index >= 0)
		return 0;
	err = inquiry_open(&in, p);
	if (err)
		return err;
	for (i = 0; i < in->q.gpu; i++)
		before += in->m.places[i].kind == PLACE_GPU;
	inquiry_close(in);
	config->nics = calloc(1, sizeof(*config->nics));
	if (!config->nics)
		return fail(-ENOMEM, "no memory for the list of NICs");
	config->nnics = 1;
	snprintf(config->nics->name, sizeof(config->nics->name), "cxi%u", before % CXI_DEVICES);
	return 0;
}

int nics_choose(const struct urccl_params *p, uint32_t transport, struct device_config *config)
{
	struct nic_port *nics = NULL;
	struct inquiry *in;
	int err;

	if (transport == URCCL_TRANSPORT_CXI)
		return cxi_choose(p, config);
	if (!layers_of(transport) || nic_places(p->rdma_dev))
		return 0;
	err = inquiry_open(&in, p);
	if (err)
		return err;
	in->q.layers = layers_of(transport);
	/* On failure the transport gives the reason, as it sees the devices of verbs. */
	if (!machine_plan(&in->m, &in->q, &in->plan)) {
		nics = rails_of(in);
		if (!nics)
			err = fail(-ENOMEM, "no memory for the list of NICs");
		config->nnics = nics ? in->plan.rails : 0;
	}
	config->nics = nics;
	inquiry_close(in);
	return err;
}

int nics_are_named(const struct urccl_params *p, uint32_t transport)
{
	const char *fabric;

	switch (transport) {
	case URCCL_TRANSPORT_IB:
	case URCCL_TRANSPORT_EFA:
		return nic_names(p->rdma_dev);
	case URCCL_TRANSPORT_FABRIC:
		fabric = p->transport ? strstr(p->transport, "fabric:") : NULL;
		return fabric && fabric[strcspn(fabric, "@,")] == '@';
	default:
		return 0;
	}
}

/* ---- text ---- */

/* "GPU 0000:1b:00.0: mlx5_0 (PIX)" */
static void add_short(struct text *t, struct inquiry *in, const char *name, const char *what)
{
	static const char *const near[] = {
		[NEAR_PIX] = "PIX",   [NEAR_PXB] = "PXB", [NEAR_PHB] = "PHB",
		[NEAR_NODE] = "NODE", [NEAR_SYS] = "SYS",
	};
	uint32_t i;

	if (machine_plan(&in->m, &in->q, &in->plan))
		return;
	text_add(t, "%s%s: ", name, what);
	for (i = 0; i < in->plan.rails; i++) {
		const struct port *port = &in->m.ports[in->plan.choices[i].port];

		text_add(t, port->number == 1 ? "%s%s" : "%s%s:%u", i ? ", " : "",
			 in->m.places[port->place].name, port->number);
	}
	text_add(t, " (%s)\n", near[in->plan.choices[0].nearness]);
}

static void add_all(struct text *t, struct inquiry *in)
{
	uint32_t i;

	in->q.kind = FOR_GPU;
	for (i = 0; i < in->m.nplaces; i++) {
		in->q.gpu = i;
		if (in->m.places[i].kind == PLACE_GPU && !in->m.places[i].hidden)
			add_short(t, in, "GPU ", in->m.places[i].address);
	}
	in->q.kind = FOR_NODE;
	for (i = 0; i < in->m.nnodes; i++) {
		char id[16];

		in->q.node = in->m.nodes[i].id;
		snprintf(id, sizeof(id), "%u", in->q.node);
		add_short(t, in, "NUMA node ", id);
	}
}

int nics_text(const struct urccl_params *p, char *buf, size_t len)
{
	struct text t = {buf, len, 0};
	struct inquiry *in;
	char *to;
	int n;

	if (inquiry_open(&in, p)) {
		text_add(&t, "NICs: %s\n", urccl_errmsg());
		return (int)t.len;
	}
	if (!in->m.nports) {
		text_add(&t, "No RDMA device is here.\n");
		inquiry_close(in);
		return (int)t.len;
	}
	machine_plan(&in->m, &in->q, &in->plan);
	to = text_room(&t, &len);
	n = plan_text(&in->m, &in->q, &in->plan, to, len);
	t.len += (size_t)n;
	add_all(&t, in);
	if (nic_places(p->rdma_dev))
		text_add(
			&t,
			"rdma_dev names NICs by their place in the verbs' list, which may be another "
			"than here: transports go by that list.\n");
	inquiry_close(in);
	return (int)t.len;
}
