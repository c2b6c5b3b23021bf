/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the queue pairs of an RDMA port are addressed: the choice among its GIDs, LIDs and P_Keys.
 * Pure functions of tables that the caller has read: they need neither libibverbs nor a device.
 *
 * A GID of an Ethernet port stands for an IP address of one of its interfaces and a version of
 * RoCE. Version 2 has IP headers and can be routed; version 1 stays on its link. Both ends of a
 * queue pair need GIDs of one kind: of the same version and family, and both link-local or both
 * not. So each end sends its best GID of every kind, and both compute the same pair.
 */
#ifndef VERBS_GID_H
#define VERBS_GID_H

#include "base/base.h"

#define GID_BYTES 16u
#define GIDS_MAX  1024u /* per port, at most; mlx5 has 256, rxe 1,024 */
#define GID_INDEX_MAX 255u /* largest index in the address of a queue pair, which has one byte for
			    * it */

enum gid_layer { /* the port's link layer */
		 GID_LAYER_ETHERNET,
		 GID_LAYER_INFINIBAND,
		 GID_LAYER_OTHER, /* EFA: GIDs only */
};

enum gid_type { GID_TYPE_IB, GID_TYPE_ROCE_V1, GID_TYPE_ROCE_V2 }; /* as enum ibv_gid_type */

/* Best first; sent to the peer, so never renumbered. */
enum gid_kind {
	GID_V2_IPV4 = 1,
	GID_V2_IPV6,
	GID_V2_LINK4, /* 169.254.0.0/16 */
	GID_V2_LINK6, /* fe80::/10 */
	GID_V1_IPV4,
	GID_V1_IPV6,
	GID_V1_LINK4,
	GID_V1_LINK6,
	GID_INFINIBAND,
	GID_OTHER,
	GID_KINDS
};

struct gid_entry { /* a row of the port's table */
	uint8_t gid[GID_BYTES];
	uint32_t index;
	uint32_t ifindex; /* its interface; 0: unknown, or none */
	uint8_t type;	  /* enum gid_type */
};

struct gid_port {
	const char *name;  /* for messages: "mlx5_0 port 1" */
	uint8_t layer;	   /* enum gid_layer */
	uint8_t wants_grh; /* IBV_QPF_GRH_REQUIRED: LIDs alone do not suffice */
	uint16_t lid;	   /* 0: none */
	uint32_t ifindex;  /* the port's own interface, which differs from those of VLANs; 0:
			    * unknown */
	const struct gid_entry *gids; /* rows without a GID may be missing */
	uint32_t n;
};

struct gid_wish {
	int32_t index;			   /* rdma_gid_index; URCCL_AUTO: choose the best */
	const struct sockaddr_storage *to; /* this host's address of the control connection: the
					    * choice prefers it, or its family; NULL: no
					    * preference */
};

/* The part of an address that one end sends for one GID. */
struct gid_end {
	uint8_t gid[GID_BYTES];
	uint16_t lid;	/* InfiniBand */
	uint8_t kind;	/* enum gid_kind */
	uint32_t index; /* in the table of that end's port */
};

/* For struct ibv_ah_attr. */
struct gid_route {
	uint8_t is_global; /* there is a GRH, and the next two members are valid */
	uint8_t dgid[GID_BYTES];
	uint32_t sgid_index;
	uint16_t dlid; /* 0 on Ethernet */
};

/* The port's own interface, for gid_port.ifindex: that of the table's first row, which the kernel
 * reserves for it. 0: unknown, or in another network namespace. */
uint32_t gid_own_ifindex(const struct gid_entry *gids, uint32_t n);

/* Chooses gid_wish.to among the n addresses of this host's control connections: one that the port
 * has a GID of, otherwise the first one that other hosts can reach. NULL: none. */
const struct sockaddr_storage *gid_wish_to(const struct gid_port *port,
					   const struct sockaddr_storage *own, uint32_t n);

/* Lists the port's best GID of each kind, best first. Returns their number, at most GID_KINDS, or
 * -errno with fail() text. -EADDRNOTAVAIL: it has no usable GID; -EINVAL: the requested index is
 * empty; -ENETDOWN: an InfiniBand port to which no subnet manager has given an address. */
int gid_ends(const struct gid_port *port, const struct gid_wish *wish,
	     struct gid_end out[GID_KINDS]);

/* Chooses one of ours and one of theirs (checked here, since they come from the peer). The peer,
 * with both lists exchanged, chooses the same two. 0, or -EHOSTUNREACH with fail() text: no pair
 * fits. */
int gid_pair(const struct gid_end *ours, uint32_t nours, const struct gid_end *theirs,
	     uint32_t ntheirs, uint32_t *our, uint32_t *their);

/* Computes the route from our end to theirs, which is of the same kind. */
void gid_route(const struct gid_port *port, const struct gid_end *our, const struct gid_end *their,
	       struct gid_route *route);

/* "GID 3, RoCE v2, 10.0.0.72"; "LID 7, GID 0, fe80::b859:9f03:db:f884" */
#define GID_TEXT 96u
const char *gid_text(const struct gid_end *end, char buf[GID_TEXT]);

/* The index of the P_Key in the port's table (rows with 0 are free). wanted 0: the first P_Key;
 * otherwise that partition, as a full member (0x8000) if possible. -ENOENT with fail() text: there
 * is none. */
int pkey_index(const char *port, const uint16_t *table, uint32_t n, uint16_t wanted);

/* Reads a port's table from /sys/class/infiniband (root: its path), for an rdma-core without a call
 * for it (before 32). Returns the number of rows, or -errno. Blocks. */
int gid_table_read(const char *root, const char *device, uint32_t port,
		   struct gid_entry out[GIDS_MAX]);

#endif
