/* SPDX-License-Identifier: Apache-2.0 */
/* Regions, exposures and keys. */
#ifndef BACKEND_FABRIC_KEY_H
#define BACKEND_FABRIC_KEY_H

#include "backend/fabric.h"

struct fabric_pinned; /* fabric_pin.c: what the device made of a pin */

/* Of an exposure. */
struct fabric_grant {
	struct msg job, fill; /* JOB_KEY, JOB_FILL */
	struct list link;     /* fabric_ep.grants */
	struct list expiring; /* fabric_device.expiring: its keys go by themselves */
	struct fabric_ep *ep;
	uint32_t id;
	uint8_t asked, answered; /* the peer, to let go */
	uint8_t job_out, closed; /* the regions are closed */
	uint8_t none;		 /* it has none: nothing of it can be reached */
	uint32_t ways;		 /* fabric_ep.ways_closed when it was to be asked */
	uint64_t deadline_ns;	 /* for its answer; 0: it is not revoked */
	uint64_t expires_ns;
	struct fabric_pinned *pin; /* whose regions they are; NULL: its own, of its ep's way */
	struct pin range;	   /* what it covers */
	uint8_t leaves;	       /* the helper has n and mr: JOB_CLOSE */
	uint8_t fill_out;      /* likewise: JOB_FILL */
	uint8_t wanted;	       /* the importer waits for its keys, from part first on */
	uint32_t first;
	int fill_err;
	struct fabric_grant *next; /* of those */
	uint32_t pieces;	   /* of memory, each of which has a region */
	uint32_t n;		   /* its own; the helper's while job_out or fill_out, or the ep
				    * ends */
	struct fid_mr *mr[];
};

/* Of a remote: what rkey.v[0] points to. */
struct fabric_key {
	struct list link; /* fabric_ep.keys */
	uint32_t id, rights;
	uint64_t len, expires_ns;
	uint32_t out;		       /* operations that the provider has */
	uint32_t way;		       /* of the owner's, whose regions' keys these are; 0: it has
					* none yet */
	uint32_t renewed, renewed_way; /* parts that are of this one */
	uint64_t asked_ns;
	uint32_t asked_way;	       /* for those of which that was */
	uint8_t revoked;    /* says its owner */
	uint8_t unanswered; /* who waits for our word that nothing is out */
	uint8_t forgotten;  /* here, and waits for a proof, or for a poll */
	uint32_t n, mapped; /* parts, and those whose keys the provider knows */
	uint8_t *raw;	    /* these keys, where they are no numbers: behind the parts */
	struct fabric_part parts[]; /* len is where the part ends in the remote */
};

/* Of a chunk that moves. */
static inline struct fabric_key *fabric_key_of(const struct chunk *c)
{
	return (struct fabric_key *)(uintptr_t)c->key->v[0];
}

/* fabric_issue.c */
int fabric_key_lives(const struct fabric_key *k); /* it is not revoked, nor over */

/* fabric_memory.c */
/* A region with a random key that nobody has, of that way where regions are. 0 or -errno. */
int fabric_region_open(struct fabric_device *d, struct fabric_way *way, void *addr, uint64_t len,
		       uint64_t access, struct fid_mr **mr);
int fabric_reg(struct device *dev, struct extent *extent);
int fabric_unreg(struct device *dev, struct extent *extent);
void *fabric_desc(const struct fabric_device *d, const struct chunk *c);
/* 0: it is mapped to be read alone, and the provider pins it: a READ cannot land there. */
int fabric_writable(const struct fabric_device *d, const struct chunk *c);
uint32_t fabric_part_bytes(const struct fabric_device *d);
int fabric_part_put(const struct fabric_device *d, struct fid_mr *mr, const void *at, uint64_t len,
		    uint8_t *to);
/* Not checked; and where its key begins that is no number. */
void fabric_part_read(const uint8_t *from, struct fabric_part *p);
const uint8_t *fabric_part_raw(const uint8_t *from);
/* Such a key becomes a number of the provider's, until free. 0 or -errno. */
int fabric_part_map(const struct fabric_device *d, const uint8_t *raw, struct fabric_part *p);
void fabric_part_free(const struct fabric_device *d, const struct fabric_part *p);

/* fabric_key.c */
int fabric_expose(struct exposure *exposure, void *key, uint32_t key_max);
int fabric_unexpose(struct exposure *exposure);
void fabric_grants_ask(struct fabric_ep *e);
int fabric_import(struct ep *ep, const void *key, uint32_t key_len, uint64_t len,
		  struct rkey *rkey);
/* The provider knows all of it, which it does from the first use on. 0 or -errno. */
int fabric_key_map(const struct fabric_device *d, struct fabric_key *k);
/* Asks the peer for what an imported key lacks. */
void fabric_import_ask(struct ep *ep, struct rkey *rkey);
/* now 0: without a call of the provider's, which follows. */
void fabric_forget(struct ep *ep, struct rkey *rkey, int now);
void fabric_key_free(struct fabric_ep *e, struct fabric_key *k);
int fabric_grant_close(struct fabric_grant *g);		     /* helper; as fabric_way_close() */
void fabric_grant_closed(struct fabric_grant *g);	     /* its JOB_KEY is back */
void fabric_grant_revoked(struct fabric_ep *e, uint32_t id); /* says the peer */
void fabric_key_revoke(struct fabric_ep *e, uint32_t id);    /* says the peer */
void fabric_keys_answer(struct fabric_ep *e);		     /* those that are quiet */
void fabric_grants_close(struct fabric_ep *e);		     /* of those that are revoked */
void fabric_grants_tick(struct fabric_device *d);
/* Makes a region that it lacks, on the way as it is. 1: it lacks more; 0, or -errno: it may have
 * some. */
int fabric_grant_fill(struct fabric_device *d, struct fabric_grant *g);
uint32_t fabric_key_pieces(const struct fabric_device *d); /* that a key has room for */

/* fabric_pin.c */
int fabric_pin(struct device *dev, struct pin *pin);
int fabric_unpin(struct device *dev, struct pin *pin);
uint32_t fabric_pin_pieces(const struct fabric_pinned *p);
const uint8_t *fabric_pin_parts(const struct fabric_pinned *p);
int fabric_pin_close(struct fabric_pinned *p); /* helper; as fabric_way_close() */
/* Of a range, whatever its mr: pieces of memory, 0 of one that nobody may touch. */
uint32_t fabric_range_pieces(const struct pin *p);
/* Makes regions until there are most of them, of that way where regions are. 0, or -errno: it may
 * have made some. */
int fabric_range_open(struct fabric_device *d, struct fabric_way *way, const struct pin *p,
		      struct fid_mr **mr, uint32_t *n, uint32_t most);
/* What a peer is to know of n of its pieces; without regions their lengths alone. */
int fabric_range_parts(const struct fabric_device *d, const struct pin *p, struct fid_mr **mr,
		       uint32_t first, uint32_t n, uint8_t *to);
int fabric_range_close(struct fid_mr **mr, uint32_t *n); /* as fabric_way_close() */

/* fabric_bound.c */
void fabric_bound_fill(struct fabric_grant *g);	  /* the helper is to make what it lacks */
void fabric_bound_filled(struct fabric_grant *g); /* its JOB_FILL is back */
void fabric_bound_leave(struct fabric_ep *e);	  /* before JOB_CLOSE */
int fabric_bound_close(struct fabric_ep *e);	  /* helper; as fabric_way_close() */
void fabric_bound_left(struct fabric_ep *e);	  /* after it */
/* Says the peer: 0 or -EPROTO. */
int fabric_bound_hear(struct fabric_ep *e, enum fabric_message type, uint32_t id,
		      const uint8_t *data, uint32_t len);
/* 0: its keys are of another way than ours, and are asked for. */
int fabric_bound_ready(struct fabric_ep *e, struct fabric_key *k);

/* fabric_turn.c */
void fabric_turn_init(struct fabric_device *d);
void fabric_turn_free(struct fabric_device *d);
/* Control thread, helper, errands. */
void fabric_turn_take(struct fabric_device *d);
void fabric_turn_end(struct fabric_device *d);
/* The backend's functions, each in its turn. */
int fabric_turn_reg(struct device *dev, struct extent *extent);
int fabric_turn_unreg(struct device *dev, struct extent *extent);
int fabric_turn_pin(struct device *dev, struct pin *pin);
int fabric_turn_unpin(struct device *dev, struct pin *pin);
int fabric_turn_ep_open(struct device *dev, struct ep **ep, void *addr, uint32_t *addr_len);
void fabric_turn_ep_free(struct ep *ep);
int fabric_turn_import(struct ep *ep, const void *key, uint32_t key_len, uint64_t len,
		       struct rkey *rkey);
void fabric_turn_forget(struct ep *ep, struct rkey *rkey);
uint32_t fabric_turn_post(struct ep *ep, struct chunk **chunks, uint32_t n);
uint32_t fabric_turn_poll(struct device *dev, struct event *events, uint32_t n);
int fabric_turn_arm(struct device *dev);

#endif
