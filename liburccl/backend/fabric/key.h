/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions, exports and keys. */
#ifndef BACKEND_FABRIC_KEY_H
#define BACKEND_FABRIC_KEY_H

#include "backend/fabric/fabric.h"

struct fabric_pinned; /* pin.c: the device's part of a pin */

/* The device's part of an export. */
struct fabric_grant {
	struct msg job, fill; /* JOB_KEY, JOB_FILL */
	struct list link;     /* in fabric_ep.grants */
	struct list expiring; /* in fabric_device.expiring: its regions are closed when it
			       * expires */
	struct fabric_ep *ep;
	uint32_t id;
	uint8_t asked, answered; /* the importer: was asked to stop; has answered */
	uint8_t job_out, closed; /* JOB_KEY is under way; is done */
	uint8_t none;		 /* it has no regions: nothing can be accessed */
	uint32_t endpoints;	 /* fabric_ep.endpoints_closed when the importer was to be asked */
	uint64_t deadline_ns;	 /* for the importer's answer; 0: not revoked */
	uint64_t expires_ns;
	struct fabric_pinned *pin; /* the pin with its regions; NULL: it has regions of its own, on
				    * its ep's data endpoint */
	struct pin range;	   /* the exported range */
	uint8_t leaves;	       /* JOB_CLOSE: the helper thread uses n and mr */
	uint8_t fill_out;      /* likewise: JOB_FILL */
	uint8_t wanted;	       /* the importer waits for its keys, from part `first` */
	uint32_t first;
	int fill_err;
	struct fabric_grant *next; /* in fabric_ep.leaving */
	uint32_t pieces;	   /* pieces of memory, one region each */
	uint32_t n;		   /* own regions; the helper thread's while job_out, fill_out, or
				    * the ep ends */
	struct fid_mr *mr[];
};

/* The device's part of a remote: rkey.v[0] points to it. */
struct fabric_key {
	struct list link; /* in fabric_ep.keys */
	uint32_t id, rights;
	uint32_t device;	       /* 1: some of it is of a GPU */
	uint64_t len, expires_ns;
	uint32_t out;		       /* operations that the provider has */
	uint32_t endpoint;	       /* number of the owner's data endpoint that the keys belong
				        * to; 0: none yet */
	uint32_t renewed, renewed_endpoint; /* parts with a new key, of this data endpoint */
	uint64_t asked_ns;
	uint32_t asked_endpoint;       /* the data endpoint that was asked about */
	uint8_t revoked;    /* by the owner */
	uint8_t unanswered; /* the owner waits for our answer that no operation is under way */
	uint8_t forgotten;  /* by the importer; freed after a proof, or by a poll */
	uint32_t n, mapped; /* parts; parts whose keys the provider has mapped */
	uint8_t *raw;	    /* raw keys, stored after the parts */
	struct fabric_part parts[]; /* len: the offset at which the part ends in the remote */
};

/* The key of a READ or WRITE. */
static inline struct fabric_key *fabric_key_of(const struct chunk *c)
{
	return (struct fabric_key *)(uintptr_t)c->key->v[0];
}

/* issue.c */
int fabric_key_lives(const struct fabric_key *k); /* 1: neither revoked nor expired */

/* memory.c */
/* Makes a region with an unused random key; endpoint: the endpoint it belongs to, if regions do. 0
 * or -errno. */
int fabric_region_open(struct fabric_device *d, struct fabric_endpoint *endpoint, void *addr,
		       uint64_t len,
		       uint64_t access, struct fid_mr **mr);
/* The same of the extent's memory, which may be of a GPU. */
int fabric_memory_open(struct fabric_device *d, struct fabric_endpoint *endpoint,
		       const struct extent *x, void *addr, uint64_t len, uint64_t access,
		       struct fid_mr **mr);
/* 1: the next of the chunk's local bytes are of a GPU. */
int fabric_is_of_gpu(const struct fabric_device *d, const struct chunk *c);
/* 1: the chunk's bytes go to memory of a GPU, here or at the peer. */
int fabric_reaches_gpu(const struct fabric_device *d, const struct chunk *c);
/* Both take the domain lock. */
int fabric_reg(struct device *dev, struct extent *extent);
int fabric_unreg(struct device *dev, struct extent *extent);
void *fabric_desc(const struct fabric_device *d, const struct chunk *c);
/* 0: the memory is read-only and the provider pins it, so a READ cannot use it. */
int fabric_writable(const struct fabric_device *d, const struct chunk *c);
uint32_t fabric_part_bytes(const struct fabric_device *d);
int fabric_part_put(const struct fabric_device *d, struct fid_mr *mr, const void *at, uint64_t len,
		    uint8_t *to);
/* Does not check it. fabric_part_raw() finds a raw key in it. */
void fabric_part_read(const uint8_t *from, struct fabric_part *p);
const uint8_t *fabric_part_raw(const uint8_t *from);
/* Turns a raw key into a number of the provider, valid until fabric_part_free(). 0 or -errno. */
int fabric_part_map(const struct fabric_device *d, const uint8_t *raw, struct fabric_part *p);
void fabric_part_free(const struct fabric_device *d, const struct fabric_part *p);

/* key.c */
int fabric_expose(struct exposure *exposure, void *key, uint32_t key_max);
int fabric_unexpose(struct exposure *exposure);
void fabric_grants_ask(struct fabric_ep *e);
int fabric_import(struct ep *ep, const void *key, uint32_t key_len, uint64_t len,
		  struct rkey *rkey);
/* Maps all raw keys, at first use. 0 or -errno. */
int fabric_key_map(const struct fabric_device *d, struct fabric_key *k);
/* Asks the peer for missing keys. */
void fabric_import_ask(struct ep *ep, struct rkey *rkey);
/* now 0: calls no provider; a later poll does. */
void fabric_forget(struct ep *ep, struct rkey *rkey, int now);
void fabric_key_free(struct fabric_ep *e, struct fabric_key *k);
/* Helper thread; as fabric_endpoint_close(). */
int fabric_grant_close(struct fabric_grant *g);
void fabric_grant_closed(struct fabric_grant *g);	     /* its JOB_KEY is done */
void fabric_grant_revoked(struct fabric_ep *e, uint32_t id); /* MESSAGE_REVOKED came */
void fabric_key_revoke(struct fabric_ep *e, uint32_t id);    /* MESSAGE_REVOKE came */
/* Answers MESSAGE_REVOKE for revoked keys that no operation uses. */
void fabric_keys_answer(struct fabric_ep *e);
void fabric_grants_close(struct fabric_ep *e);		     /* closes all that are revoked */
void fabric_grants_tick(struct fabric_device *d);
/* Makes one missing region on the current data endpoint. 1: more are missing; 0; or -errno, after
 * which it may have some. */
int fabric_grant_fill(struct fabric_device *d, struct fabric_grant *g);
uint32_t fabric_key_pieces(const struct fabric_device *d); /* that fit into a key */

/* pin.c: both of these take the domain lock. */
int fabric_pin(struct device *dev, struct pin *pin);
int fabric_unpin(struct device *dev, struct pin *pin);
uint32_t fabric_pin_pieces(const struct fabric_pinned *p);
const uint8_t *fabric_pin_parts(const struct fabric_pinned *p);
int fabric_pin_close(struct fabric_pinned *p); /* helper thread; as fabric_endpoint_close() */
/* The pieces of memory of a range; 0 if it gives no rights. Does not use pin.mr. */
uint32_t fabric_range_pieces(const struct pin *p);
/* Makes regions until there are `most`; endpoint: the endpoint they belong to, if regions do. 0, or
 * -errno, after which some may exist. */
int fabric_range_open(struct fabric_device *d, struct fabric_endpoint *endpoint,
		      const struct pin *p,
		      struct fid_mr **mr, uint32_t *n, uint32_t most);
/* Writes the parts of n pieces for a peer; mr NULL: only their lengths. */
int fabric_range_parts(const struct fabric_device *d, const struct pin *p, struct fid_mr **mr,
		       uint32_t first, uint32_t n, uint8_t *to);
int fabric_range_close(struct fid_mr **mr, uint32_t *n); /* as fabric_endpoint_close() */

/* bound.c */
void fabric_bound_fill(struct fabric_grant *g);	  /* lets the helper thread make missing regions */
void fabric_bound_filled(struct fabric_grant *g); /* its JOB_FILL is done */
void fabric_bound_leave(struct fabric_ep *e);	  /* before JOB_CLOSE */
int fabric_bound_close(struct fabric_ep *e);	  /* helper thread; as fabric_endpoint_close() */
void fabric_bound_left(struct fabric_ep *e);	  /* after JOB_CLOSE */
/* ASK or KEYS came. 0 or -EPROTO. */
int fabric_bound_received(struct fabric_ep *e, enum fabric_message type, uint32_t id,
		      const uint8_t *data, uint32_t len);
/* 0: its keys belong to another data endpoint; asks for new ones. */
int fabric_bound_ready(struct fabric_ep *e, struct fabric_key *k);

/* lock.c: the domain lock */
void fabric_lock_init(struct fabric_device *d);
void fabric_lock_free(struct fabric_device *d);
/* Control thread, helper thread, work items. */
void fabric_domain_lock(struct fabric_device *d);
void fabric_domain_unlock(struct fabric_device *d);
/* The backend's functions, each under the domain lock. */
int fabric_locked_ep_open(struct device *dev, struct ep **ep, void *addr, uint32_t *addr_len);
void fabric_locked_ep_free(struct ep *ep);
int fabric_locked_import(struct ep *ep, const void *key, uint32_t key_len, uint64_t len,
		       struct rkey *rkey);
void fabric_locked_forget(struct ep *ep, struct rkey *rkey);
uint32_t fabric_locked_post(struct ep *ep, struct chunk **chunks, uint32_t n);
uint32_t fabric_locked_poll(struct device *dev, struct event *events, uint32_t n);
int fabric_locked_arm(struct device *dev);

#endif
