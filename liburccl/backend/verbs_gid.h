/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the queue pairs of an RDMA port are addressed: by which of its GIDs, LIDs and P_Keys. Pure
 * functions of tables that somebody else has read, so they need neither libibverbs nor a device.
 *
 * A GID of an Ethernet port stands for an IP address of one of its interfaces and a version of
 * RoCE; version 2 has IP headers and can be routed, version 1 stays on its link. Both ends of a
 * queue pair need GIDs of one kind: the same version and family, and where one end's reaches its
 * link alone so does the other's. So each end tells the other its best GID of every kind, and both
 * come to the same pair by themselves.
 */
#ifndef VERBS_GID_H
#define VERBS_GID_H

#include "base/base.h"

#define GID_BYTES 16u
#define GIDS_MAX  1024u /* of a port that are looked at; mlx5 has 256, rxe 1,024 */
#define GID_INDEX_MAX 255u /* of a queue pair's address, which has a byte for it */

enum gid_layer { /* of the port's link */
		 GID_LAYER_ETHERNET,
		 GID_LAYER_INFINIBAND,
		 GID_LAYER_OTHER, /* EFA: nothing but GIDs */
};

enum gid_type { GID_TYPE_IB, GID_TYPE_ROCE_V1, GID_TYPE_ROCE_V2 }; /* as enum ibv_gid_type */

/* Best first; told to the peer, so never renumbered. */
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
	uint32_t ifindex; /* of its interface; 0: not known, or none */
	uint8_t type;	  /* enum gid_type */
};

struct gid_port {
	const char *name;  /* for sentences: "mlx5_0 port 1" */
	uint8_t layer;	   /* enum gid_layer */
	uint8_t wants_grh; /* IBV_QPF_GRH_REQUIRED: LIDs alone do not do */
	uint16_t lid;	   /* 0: none */
	uint32_t ifindex;  /* of its own interface, which VLANs have another than; 0: not known */
	const struct gid_entry *gids; /* empty ones may be left out */
	uint32_t n;
};

struct gid_wish {
	int32_t index;			   /* rdma_gid_index: URCCL_AUTO: the best */
	const struct sockaddr_storage *to; /* this host's own address of the control connection:
					    * it or its family is preferred; NULL: no wish */
};

/* What one end tells the other. */
struct gid_end {
	uint8_t gid[GID_BYTES];
	uint16_t lid;	/* InfiniBand */
	uint8_t kind;	/* enum gid_kind */
	uint32_t index; /* in the table of that end's port */
};

/* For struct ibv_ah_attr. */
struct gid_route {
	uint8_t is_global; /* there is a GRH, and the next two mean something */
	uint8_t dgid[GID_BYTES];
	uint32_t sgid_index;
	uint16_t dlid; /* 0 on Ethernet */
};

/* The interface of the port itself, for gid_port.ifindex: that of the table's first row, which the
 * kernel keeps for its own address. 0: not known, or another network namespace's. */
uint32_t gid_own_ifindex(const struct gid_entry *gids, uint32_t n);

/* Which of the n addresses that this host's control connections have is to be gid_wish.to: one that
 * the port has a GID of, else the first that others can reach. NULL: none. */
const struct sockaddr_storage *gid_wish_to(const struct gid_port *port,
					   const struct sockaddr_storage *own, uint32_t n);

/* The best GID of each kind that the port has, best first: how many, at most GID_KINDS, or -errno
 * with fail() text: -EADDRNOTAVAIL: it has none that can be used; -EINVAL: the index that is wished
 * for is not there; -ENETDOWN: an InfiniBand port without an address, as no subnet manager gave it
 * one. */
int gid_ends(const struct gid_port *port, const struct gid_wish *wish,
	     struct gid_end out[GID_KINDS]);

/* Which of ours and which of theirs (checked here: they come from the peer) go together; the peer
 * with the same two lists in exchanged roles chooses the same two. 0, or -EHOSTUNREACH with fail()
 * text: none. */
int gid_pair(const struct gid_end *ours, uint32_t nours, const struct gid_end *theirs,
	     uint32_t ntheirs, uint32_t *our, uint32_t *their);

/* How we reach their end from ours, of one kind. */
void gid_route(const struct gid_port *port, const struct gid_end *our, const struct gid_end *their,
	       struct gid_route *route);

/* "GID 3, RoCE v2, 10.0.0.72"; "LID 7, GID 0, fe80::b859:9f03:db:f884" */
#define GID_TEXT 96u
const char *gid_text(const struct gid_end *end, char buf[GID_TEXT]);

/* Where the P_Key is in the port's table (0 in a row: it is free): wanted 0: the first that is one;
 * else that partition, as a full member (0x8000) if it can be. Index, or -ENOENT with fail() text.
 */
int pkey_index(const char *port, const uint16_t *table, uint32_t n, uint16_t wanted);

/* The table of a port as /sys/class/infiniband (root: where that is) has it, for an rdma-core that
 * cannot tell (before 32). How many rows, or -errno. Blocks. */
int gid_table_read(const char *root, const char *device, uint32_t port,
		   struct gid_entry out[GIDS_MAX]);

#endif
