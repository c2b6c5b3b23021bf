/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine as a tree, and the choice of NICs.
 *
 * A machine is read from /sys. It is read from a file instead if /sys shows too little (a virtual
 * machine whose host hides its switches), or if a test needs another machine. machine_plan() then
 * computes from the tree and the question alone. It makes no system calls and always gives the same
 * answer.
 */
#ifndef TOPOLOGY_H
#define TOPOLOGY_H

#include <stdio.h>
#include "base/base.h"

/* NUMA nodes. A GB200 machine has 34. */
#define NODES_MAX  256u
#define PLACES_MAX 4096u /* host bridges, bridges, GPUs and NICs */
/* Ports of all NICs. The library leaves out any further ports. */
#define PORTS_MAX 256u
/* "0000:18:00.0"; for a host bridge "0000:15". */
#define ADDRESS_MAX 20u
/* The value in the firmware's table (ACPI SLIT). */
#define DISTANCE_LOCAL 10u
#define NO_PLACE       UINT32_MAX

enum place_kind { PLACE_HOST, PLACE_BRIDGE, PLACE_GPU, PLACE_NIC };

/* A question combines these bits. */
enum link_layer { LINK_INFINIBAND = 1, LINK_ETHERNET = 2, LINK_OTHER = 4 };

struct place {
	uint8_t kind; /* enum place_kind */
	/* This process may not use it; it belongs to another container. */
	uint8_t hidden;
	int16_t node;		     /* Index in nodes[]; -1: not known */
	uint32_t parent;	     /* An earlier place; NO_PLACE: host bridge */
	char address[ADDRESS_MAX];   /* PCI address with its domain */
	char name[NIC_NAME_MAX + 1]; /* A NIC's name: "mlx5_0" */
};

struct port {
	uint32_t place; /* The NIC */
	uint32_t mbps;	/* 0: not known */
	uint8_t number; /* Counts from 1 */
	uint8_t up;	/* In the state "active" */
	uint8_t layer;	/* enum link_layer */
};

struct node {
	uint32_t id; /* The kernel's number */
	/* Distance to each of nodes[]. 0: not known. */
	uint8_t distance[NODES_MAX];
	struct cpus cpus; /* Empty: the node has memory alone */
};

struct machine {
	uint32_t nnodes, nplaces, nports;
	/* Ports left out because there was no room. */
	uint32_t nleft;
	struct node *nodes;
	/* Parents come before their children; children of one parent are in the order of their
	 * addresses. */
	struct place *places;
	struct port *ports; /* In the order of their places */
};

/* Makes an empty machine. Returns 0 or -ENOMEM. */
int machine_init(struct machine *m);
void machine_fini(struct machine *m);

/* ---- readers ---- */

/* Reads this machine. root is "" except in tests. Blocks on file I/O. Returns 0, or -errno with
 * fail() text. */
int machine_read_sysfs(struct machine *m, const char *root);
/* Reads a file of hwloc's XML. The text of a failure names the file. */
int machine_read_file(struct machine *m, const char *path);
/* Reads an XML file through libhwloc, or (NULL) this machine: libhwloc and its environment
 * variables may know more of it than /sys shows. -ENOENT: libhwloc is not installed; -EOPNOTSUPP:
 * the build had no header of hwloc. */
int machine_read_hwloc(struct machine *m, const char *path);

/* The steps of a reader. Each returns the index of the added element, or -ENOSPC with fail() text.
 * If a port does not fit, it is counted, and the reader may go on. */
int machine_add_node(struct machine *m, uint32_t id);
int machine_add_place(struct machine *m, enum place_kind kind, uint32_t parent,
		      const char *address);
int machine_add_port(struct machine *m, uint32_t place, uint32_t number);
/* Mbit/s of a text that begins with a rate in Gbit/s, "12.5 Gb/sec", with a point in every locale.
 * 0: no rate, or not below 1,000,000. */
uint32_t machine_rate(const char *gbit);
/* Returns whether a PCI device is a processor for computing. class lacks its last byte. */
int machine_is_gpu(uint32_t class, uint32_t vendor);
/* Completes a machine after the last step: sorts places and ports, adjusts their indices, and fills
 * in nodes that are not known. */
int machine_finish(struct machine *m);
/* Returns the index in nodes[], or -ENOENT. */
int machine_node(const struct machine *m, uint32_t id);

/* ---- nearness ---- */

/* The names of nvidia-smi(1), nearest first. */
enum nearness {
	NEAR_PIX = 1, /* At most one PCIe switch between */
	NEAR_PXB,     /* Several switches, no host bridge */
	NEAR_PHB,     /* One host bridge */
	NEAR_NODE,    /* Several host bridges of one NUMA node */
	NEAR_SYS,     /* The link between NUMA nodes */
};

enum question_kind {
	FOR_ANY,  /* Any memory of the host */
	FOR_GPU,  /* Memory of a GPU */
	FOR_NODE, /* Memory at a NUMA node */
	FOR_CPUS, /* Memory that threads on these CPUs get */
};

struct question {
	uint8_t kind;	/* enum question_kind */
	uint8_t layers; /* Bits of enum link_layer that are allowed; 0: all */
	uint8_t port;	/* rdma_port; 0: any */
	uint32_t node;	/* The kernel's number */
	uint32_t gpu;	/* A place, from machine_gpu() */
	const struct cpus *cpus;
	const char *nics; /* rdma_dev; NULL: any */
};

/* The reason why a port is not among the rails. */
enum left_out {
	LEFT_NOT,
	/* Others are nearer; the port may replace them while they are down. */
	LEFT_FAR,
	LEFT_DOWN,
	/* The device node is missing or may not be opened. */
	LEFT_HIDDEN,
	LEFT_NAMES, /* rdma_dev does not mean it */
	LEFT_PORT,  /* rdma_port is another */
	/* The transport does not work on this link layer. */
	LEFT_LAYER,
};

struct choice {
	uint32_t port;	  /* Index in machine.ports */
	uint8_t nearness; /* enum nearness */
	/* The firmware's distance. 255: not known. */
	uint8_t distance;
	uint8_t left; /* enum left_out */
};

/* First come the rails, best first: all ports at the least distance, or all that rdma_dev names.
 * Then come the ports that may replace them, nearest first, and then all others. */
struct plan {
	uint32_t n, rails;
	/* The number of GPUs with these rails, and the index of this GPU among them. */
	uint32_t sharers, share;
	struct choice choices[PORTS_MAX];
};

/* Answers a question. Returns 0. -ENODEV with fail() text: no port can be used, and the plan has a
 * reason for each; -EINVAL with fail() text: the question names a node that does not exist. */
int machine_plan(const struct machine *m, const struct question *q, struct plan *p);
/* Finds a GPU by its PCI address or, if text is a number, by its index among the GPUs that this
 * process may use. Returns its place, or -ENODEV with fail() text. */
int machine_gpu(const struct machine *m, const char *text);
enum nearness machine_near(const struct machine *m, uint32_t a, uint32_t b);

/* Writes the question, the rails in their order and the ports left out, one line for each port: "
 * 1. mlx5_0 port 1: one PCIe switch away (PIX), 400 Gbit/s, InfiniBand". Returns like
 * snprintf(). */
int plan_text(const struct machine *m, const struct question *q, const struct plan *p, char *buf,
	      size_t len);

#endif
