/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine as a tree, and which NICs are best for what.
 *
 * A machine is read from /sys, or from a file where /sys tells less than there is (a virtual
 * machine whose host hides its switches) or tells of another machine (a test). What follows from it
 * is pure: machine_plan() looks at the tree and at the question alone, asks nothing of the system
 * and gives the same answer for ever.
 */
#ifndef TOPOLOGY_H
#define TOPOLOGY_H

#include <stdio.h>
#include "base/base.h"

#define NODES_MAX      256u  /* NUMA nodes; GB200 has 34 */
#define PLACES_MAX     4096u /* host bridges, bridges, GPUs and NICs */
#define PORTS_MAX      256u  /* of all NICs; what is beyond is left out */
#define ADDRESS_MAX    20u   /* "0000:18:00.0", a host bridge "0000:15" */
#define DISTANCE_LOCAL 10u   /* as in the firmware's table (ACPI SLIT) */
#define NO_PLACE       UINT32_MAX

enum place_kind { PLACE_HOST, PLACE_BRIDGE, PLACE_GPU, PLACE_NIC };

enum link_layer { LINK_INFINIBAND = 1, LINK_ETHERNET = 2, LINK_OTHER = 4 }; /* bits of a question */

struct place {
	uint8_t kind;		     /* enum place_kind */
	uint8_t hidden;		     /* this process may not use it: another container's */
	int16_t node;		     /* place in nodes[]; -1: not known */
	uint32_t parent;	     /* an earlier one; NO_PLACE: host bridges */
	char address[ADDRESS_MAX];   /* of PCI, with its domain */
	char name[NIC_NAME_MAX + 1]; /* of a NIC: "mlx5_0" */
};

struct port {
	uint32_t place; /* its NIC */
	uint32_t mbps;	/* 0: not known */
	uint8_t number; /* from 1 */
	uint8_t up;	/* active */
	uint8_t layer;	/* enum link_layer */
};

struct node {
	uint32_t id;		     /* the kernel's */
	uint8_t distance[NODES_MAX]; /* from it to nodes[i]; 0: not known */
	struct cpus cpus;	     /* may be empty: memory alone */
};

struct machine {
	uint32_t nnodes, nplaces, nports;
	uint32_t nleft; /* ports that there was no room for */
	struct node *nodes;
	struct place *places; /* parents before children; of one parent in the order of addresses */
	struct port *ports;   /* in the order of places */
};

/* An empty one: 0 or -ENOMEM. */
int machine_init(struct machine *m);
void machine_fini(struct machine *m);

/* ---- to read one ---- */

/* This machine: root is "" but in tests. Blocks on files. 0 or -errno with fail() text. */
int machine_read_sysfs(struct machine *m, const char *root);
/* A file of hwloc's XML; the sentence names it. */
int machine_read_file(struct machine *m, const char *path);
/* By libhwloc: a file of its XML, or (NULL) this machine, which it and its environment variables
 * may know better than /sys does. -ENOENT: there is no libhwloc; -EOPNOTSUPP: built without its
 * header. */
int machine_read_hwloc(struct machine *m, const char *path);

/* The reader's steps; each gives the index of what it added, or -ENOSPC with fail() text. A port
 * for which there is no room is counted, and the machine is good without it. */
int machine_add_node(struct machine *m, uint32_t id);
int machine_add_place(struct machine *m, enum place_kind kind, uint32_t parent,
		      const char *address);
int machine_add_port(struct machine *m, uint32_t place, uint32_t number);
/* What computes, by PCI's class (without its last byte) and vendor. */
int machine_is_gpu(uint32_t class, uint32_t vendor);
/* Puts places in their order, lets children be where their parents are, and those be right. */
int machine_finish(struct machine *m);
int machine_node(const struct machine *m, uint32_t id); /* its place in nodes[], or -ENOENT */

/* ---- what is near what ---- */

/* As nvidia-smi(1) names it, nearest first. */
enum nearness {
	NEAR_PIX = 1, /* at most one PCIe switch between */
	NEAR_PXB,     /* several, and no host bridge */
	NEAR_PHB,     /* the host bridge */
	NEAR_NODE,    /* several host bridges of one NUMA node */
	NEAR_SYS,     /* the way between NUMA nodes */
};

enum question_kind {
	FOR_ANY,  /* any memory of the host */
	FOR_GPU,  /* its memory */
	FOR_NODE, /* memory at a NUMA node */
	FOR_CPUS, /* memory that threads on these CPUs get */
};

struct question {
	uint8_t kind;	/* enum question_kind */
	uint8_t layers; /* enum link_layer, those that will do; 0: all */
	uint8_t port;	/* rdma_port; 0: any */
	uint32_t node;	/* the kernel's number */
	uint32_t gpu;	/* place, from machine_gpu() */
	const struct cpus *cpus;
	const char *nics; /* rdma_dev; NULL: any */
};

/* Why a port is not among the rails. */
enum left_out {
	LEFT_NOT,
	LEFT_FAR, /* others are nearer; goes when they are down */
	LEFT_DOWN,
	LEFT_HIDDEN, /* its device node is not there or may not be opened */
	LEFT_NAMES,  /* rdma_dev does not mean it */
	LEFT_PORT,   /* rdma_port is another */
	LEFT_LAYER,  /* of a link that the transport does not work on */
};

struct choice {
	uint32_t port;	  /* of machine.ports */
	uint8_t nearness; /* enum nearness */
	uint8_t distance; /* NEAR_SYS: as the firmware has it; 255: not known */
	uint8_t left;	  /* enum left_out */
};

/* First the rails, best first: all that are least far, or all that are named; then what could take
 * their place, nearest first; then the rest. */
struct plan {
	uint32_t n, rails;
	uint32_t sharers, share; /* of GPUs with these rails: how many there are, which of them
				  * this is */
	struct choice choices[PORTS_MAX];
};

/* -ENODEV with fail() text: no port can be used (the plan says why of each); -EINVAL: the question
 * asks for a node that is not there. */
int machine_plan(const struct machine *m, const struct question *q, struct plan *p);
/* Which of n ports (at most 32, those that a context has open) are nearest to memory at a NUMA
 * node, as the kernel numbers it: bits. One that the machine does not show is far. 0: none is
 * shown, or the node is not. */
uint32_t machine_nearest(const struct machine *m, uint32_t node, const struct nic_port *ports,
			 uint32_t n);
/* A GPU's place by its address, or (a number) by its rank among those that this process may use: or
 * -ENODEV with fail() text.
 */
int machine_gpu(const struct machine *m, const char *text);
enum nearness machine_near(const struct machine *m, uint32_t a, uint32_t b);

/* What the question asks, in which order the rails stand, and what was left out; a line for each
 * port: "  1. mlx5_0 port 1: one PCIe switch away (PIX), 400 Gbit/s, InfiniBand". snprintf's way. */
int plan_text(const struct machine *m, const struct question *q, const struct plan *p, char *buf,
	      size_t len);

#endif
