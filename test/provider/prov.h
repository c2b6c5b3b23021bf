/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A provider for libfabric with the habits of devices that are not here: a library for its
 * FI_PROVIDER_PATH, named "urccl_test", or as one of those whose habits it has. What it asks of its
 * user, and what it puts its user through, is in one environment variable (words.c). It holds its
 * user to what he was asked: who touches memory that is not registered, leaves out a bind or an
 * enable, reuses a context that is in flight, calls from two threads at once where he may not, or
 * closes what is in use is told so on stderr, and aborted.
 *
 * An endpoint (FI_EP_RDM, FI_MSG and FI_RMA) is a datagram socket of this machine, named like it.
 * A transfer goes in pieces, each answered by the target (wire.c). Nothing moves by itself: whoever
 * reads a completion queue, or asks whether he may sleep on it, drives the endpoints that are bound
 * to it (FI_PROGRESS_MANUAL), or all of the domain, the target's side of others' reads and writes
 * too. So a process that is stopped answers nobody.
 *
 * One lock a domain, held by each call from its beginning to its end, in the order in which they
 * come; with threading=domain who finds it taken broke the rule.
 */
#ifndef PROV_H
#define PROV_H

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#undef container_of /* theirs is base.h's too */
#include "base/base.h"

#define PROV_NAME   "urccl_test"
#define NAME_BYTES  24u	   /* of an endpoint: a string and its end */
#define RAW_BYTES   24u	   /* of a key that does not fit a number */
#define PIECE_BYTES 16384u /* that a datagram carries */
#define TX_SIZE	    256u   /* operations of an endpoint */
#define RANGES_MAX  4u	   /* of an operation */
#define KEY_LISTS   1024u

/* Ends the program: prints the sentence and calls abort(). */
#define DIE(...) die(__func__, __VA_ARGS__)
_Noreturn void die(const char *where, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- what it imposes: words.c ---- */

struct words {
	char name[16];
	uint64_t mr_mode, mode;
	uint32_t key_bytes; /* of a key that is a number */
	enum fi_threading threading;
	enum fi_progress progress;
	int random;	  /* order of placing and completing */
	int early;	  /* a write is acknowledged before it is placed */
	int no_delivery;  /* FI_DELIVERY_COMPLETE is refused */
	int av_initiator; /* the target's own vector is to have it */
	int no_fd;	  /* nothing to sleep on */
	uint32_t eagain;  /* percent of the posts that are told to come again */
	uint32_t cqerr;	  /* one of so many completions is an error; 0: none */
	uint32_t cut;	  /* one of so many messages ends with FI_ECANCELED; 0: none */
	uint32_t lose;	  /* likewise, completes and never comes */
	uint32_t poison, cutter;   /* bytes of what fails always, alone or with all others */
	uint32_t mute;		   /* likewise of what never ends */
	uint32_t sick;		   /* operations after which an endpoint fails all; 0: never */
	uint32_t reject;	   /* errno of a key that is not known */
	uint32_t tx_dead, rx_dead; /* completions after which a queue gives errors alone */
	uint32_t recv_dead;	   /* likewise of receives that are posted */
	uint32_t close_slow;	   /* microseconds */
	uint32_t busy;		   /* closes of an endpoint or a region that are refused */
	uint32_t mr_busy;	   /* the same of a region alone */
	uint32_t mr_again;	   /* a domain's first regions that are refused */
	uint32_t mr_slow;	   /* microseconds */
	uint32_t eps;		   /* endpoints of a domain; 0: as many as are asked for */
	int more;		   /* FI_MORE is not begun */
	int shm;		   /* endpoints are to forbid shared memory */
	int hmem;		   /* FI_HMEM, for memory of the stand-in for libcuda */
	uint32_t domains, av_slow_us;
	uint32_t broken; /* domains that cannot be opened, a bit each */
	size_t max_msg, inject;
	uint32_t iov;	   /* ranges of an operation */
	uint32_t iov_room; /* those that there is ever room for; 0: for all */
	uint64_t seed;
};

const struct words *words(void);

/* ---- objects ---- */

struct prov_domain {
	struct fid_domain fid;
	struct fid_fabric *fabric;
	uint32_t tickets, turn; /* its lock: given out, and whose turn it is */
	uint64_t random;
	uint32_t objects;  /* queues, vectors, endpoints, regions, mapped keys */
	uint32_t contexts; /* mode bits: contexts are ours while in flight */
	uint32_t refused;  /* regions, by mr_again */
	uint32_t neps;
	int matches, optimizes; /* regions, as cxi's are told to */
	struct list eps;
	struct list keys[KEY_LISTS]; /* of regions */
	struct list mapped;
};

struct region {
	struct fid_mr fid; /* mem_desc is the region itself */
	struct prov_domain *domain;
	struct list link;   /* prov_domain.keys */
	struct prov_ep *ep; /* with FI_MR_ENDPOINT, once bound */
	int enabled;
	uint32_t refused; /* closes */
	uint8_t *buf;
	uint8_t *view; /* its bytes: buf, or of a GPU */
	size_t len;
	uint64_t access, key;
	uint8_t raw[RAW_BYTES];
};

struct known { /* by a vector */
	char name[NAME_BYTES];
	int gone; /* it was removed */
};

struct prov_av {
	struct fid_av fid;
	struct prov_domain *domain;
	uint32_t eps; /* bound */
	uint32_t refused; /* closes */
	uint32_t n, room;
	struct known *names;
};

struct done { /* a completion */
	struct list link;
	struct fi_cq_err_entry what; /* err 0: it succeeded */
};

struct prov_cq {
	struct fid_cq fid;
	struct prov_domain *domain;
	enum fi_cq_format format;
	uint32_t bound; /* endpoints */
	uint32_t given; /* completions */
	uint32_t refused; /* closes */
	struct list done;
	int fd, timer; /* epoll, and what it is woken by for work left; -1 */
};

struct range {
	uint8_t *buf;
	void *desc;
	size_t len;
	uint64_t addr, key;
	uint8_t raw[RAW_BYTES];
};

struct op {		  /* of an initiator */
	struct list link; /* prov_ep.sending */
	uint32_t id;	  /* slot, and how often it was used */
	uint32_t type;	  /* enum packet_type; 0: free */
	void *context;
	struct range ranges[RANGES_MAX];
	uint32_t n; /* of them */
	uint8_t *copy; /* FI_INJECT */
	size_t len, sent, answered;
	uint64_t flags, again_ns;
	char to[NAME_BYTES];
	int begun, err;
};

struct receive {
	struct list link;
	void *context, *buf, *desc;
	size_t len;
};

struct prov_ep {
	struct fid_ep fid;
	struct prov_domain *domain;
	struct list link; /* prov_domain.eps */
	struct prov_cq *tx, *rx;
	struct prov_av *av;
	int enabled, sock;
	int no_shm;	  /* its user forbade it */
	int no_cuda, p2p; /* likewise calls of CUDA; all of memory of GPUs goes by the device */
	int more;	  /* another operation was promised */
	uint32_t posted;  /* receives, ever */
	uint32_t moved;	  /* reads and writes, ever */
	uint32_t regions; /* bound */
	uint32_t refused; /* closes */
	char name[NAME_BYTES];
	char full[NAME_BYTES]; /* whose socket had no room, lately */
	struct op ops[TX_SIZE];
	struct list sending; /* ops with pieces to go */
	struct list receives;
	struct list replies; /* to others' operations */
	struct list held;    /* others' pieces that wait for their turn */
};

/* ---- domain.c ---- */

int fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
void domain_enter(struct prov_domain *d);
void domain_leave(struct prov_domain *d);
uint64_t domain_random(struct prov_domain *d, uint64_t below);
uint64_t now_ns(void);
int no_bind(struct fid *fid, struct fid *other, uint64_t flags);
int no_control(struct fid *fid, int command, void *arg);
/* Something of it is made, by whose name the program ends if it was not told before what cxi is. */
void domain_makes(struct prov_domain *d, const char *what);

/* ---- memory.c ---- */

extern struct fi_ops_mr memory_ops;
int memory_map(struct prov_domain *d, struct fi_mr_map_raw *map);
int memory_unmap(struct prov_domain *d, uint64_t key);
/* What the key of an operation is called at the target. */
void memory_raw(struct prov_domain *d, uint64_t key, uint8_t raw[RAW_BYTES]);
/* [buf, buf + len) may be used with this descriptor, or the program ends. Returns the bytes. */
uint8_t *memory_local(const struct prov_ep *ep, const void *desc, void *buf, size_t len,
		      uint64_t access);
/* Where a peer of ep reaches; or NULL and *err. */
uint8_t *memory_remote(struct prov_ep *ep, uint64_t key, const uint8_t *raw, uint64_t addr,
		       size_t len, uint64_t access, int *err);

/* ---- queue.c ---- */

int cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);
void cq_add(struct prov_cq *cq, void *context, uint64_t flags, size_t len, int err);
int cq_trywait(struct fid_fabric *fabric, struct fid **fids, int count);

/* ---- av.c ---- */

int av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av, void *context);
const char *av_name(const struct prov_av *av, fi_addr_t addr);
int av_knows(const struct prov_av *av, const char *name);
int av_knew(const struct prov_av *av, const char *name);

/* ---- ep.c ---- */

int ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ep, void *context);
void op_end(struct prov_ep *ep, struct op *op, int err);
void ep_receive_end(struct prov_ep *ep, struct receive *r, size_t len, int err);

/* ---- wire.c ---- */

enum packet_type { PACKET_SEND = 1, PACKET_WRITE, PACKET_READ, PACKET_DATA, PACKET_ACK };

/* 1: something is left to be done that no packet will wake us for. */
int wire_progress(struct prov_ep *ep);
void wire_push(struct prov_ep *ep);
/* What was acknowledged is placed. */
void wire_place(struct prov_ep *ep);
void wire_end(struct prov_ep *ep);

#endif
