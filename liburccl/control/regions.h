/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of ours and of peers, as the control thread keeps it: regions, what peers were granted of
 * them, and remotes. Part of private.h. */
#ifndef CONTROL_REGIONS_H
#define CONTROL_REGIONS_H

enum region_ending {
	REGION_ENDING = 1, /* peers hear of it, then */
	REGION_LEAVING,	   /* the engine does */
};

struct prefault;
struct region {
	struct list link; /* of control.regions, oldest first */
	struct list due;  /* of those that are to take a step */
	struct memory *memory;
	struct extent **extents;
	uint32_t nextents, nshared; /* shared: with regions that were there before */
	uint8_t key[16];	    /* of its adverts' tokens */
	uint8_t ending;		    /* enum region_ending: no new use */
	uint8_t keys_go;	    /* those of doomed grants, once all importers were told */
	struct list grants, doomed;
	uint32_t nuntold; /* doomed grants whose peer has not said that it heard */
	struct list pins; /* struct pinned */
	uint32_t ndoomed, nstuck; /* of them, those not to be given again; and of these, those
				   * that a device did not let go of: */
	int stuck;		  /* why */
	uint8_t short_told;	  /* no device was ready for the last grant, which was logged */
	struct cmd add, del;
	struct prefault *prefault; /* before it is one; then */
	struct errand pin;	   /* extents_reg(), with */
	struct control *control;
	struct trouble trouble;
	struct errand unreg; /* extents_unreg(), at its end */
	struct alarm told;	   /* REVOKE_NS */
	struct alarm alarm;	   /* CALL_NS, of calls that wait */
	struct control_req *registering, *unregistering;
	struct list revoking; /* struct control_req */
	int failed;	      /* the engine did not take it */
};

void region_register(struct control *c, struct control_req *req);
/* The context's own, for as long as it lives; NULL: no memory. */
struct region *region_own(struct control *c, const struct urccl_range *range, uint32_t rights);
void region_unregister(struct control *c, struct control_req *req);
void region_revoke(struct control *c, struct control_req *req);
void region_drop(struct control *c, struct control_req *req); /* nobody waits for it any more */
void region_late(struct region *r, struct control_req *req, int res);
void region_leave(struct control *c, struct region *r);
void region_info(struct control *c, struct control_call *call);
void region_alloc(struct control *c, struct control_call *call);
void region_free(struct control *c, struct control_call *call);
void region_step(struct control *c, struct region *r); /* something that it waited for is there */
void regions_end(struct control *c);		       /* all of them; control_step() follows */

/* ranges.c: what a program registers, as memory of a region. 0 (NULL) with *t: -errno. */
int ranges_check(const struct control *c, const struct urccl_range *ranges, uint64_t n,
		 uint64_t rights, struct trouble *t);
struct memory *ranges_memory(struct control *c, const struct urccl_range *ranges, uint32_t n,
			     uint32_t rights, struct trouble *t);
void ranges_free(struct control *c, struct memory *m);
/* The system's list of mappings, as it is now, into control.mappings. 0, -errno with *t; 1: there
 * is none, and nothing can be known. */
int ranges_list(struct control *c, struct trouble *t);
/* The k-th span by address. */
static inline struct span *ranges_span(struct memory *m, uint32_t k)
{
	return &m->spans[m->by_addr ? m->by_addr[k] : k];
}
/* The run of memory that begins with it; the first that is not of it. */
uint32_t ranges_run(struct memory *m, uint32_t k, uint64_t *addr, uint64_t *len);
/* The extents of its spans. */
int extents_get(struct control *c, struct region *r, struct trouble *t);
/* Makes those known to the devices that are not yet. Any thread, one at a time. */
int extents_reg(struct control *c, struct region *r, struct trouble *t);
int devices_slow(const struct control *c);
int extents_slow(const struct control *c, const struct region *r); /* 1: that may take a while */
/* In three steps: those that others use too are theirs alone (1: devices know some of the rest, and
 * to take it back may take a while); the devices forget the rest (any thread; 0, or -errno: some do
 * not, and it may be called again); and they are no more. */
int extents_leave(struct control *c, struct region *r);
int extents_unreg(const struct control *c, struct region *r);
void extents_free(struct control *c, struct region *r);

/* staging.c: memory of GPUs, and the pinned memory that its bytes go through where a device does
 * not reach it. The kind of each span. 0, or -errno with *t. */
int spans_kinds(struct control *c, struct memory *m, struct trouble *t);
/* Opens the extent's GPU, and makes the staging memory with the first memory of one. Helper
 * threads. Likewise. */
int extent_gpu(struct control *c, struct extent *a, struct trouble *t);
/* Tells the engine of the staging memory, if it is new. Likewise. */
int staging_enter(struct control *c, struct trouble *t);
void staging_init(struct control *c);
void staging_fini(struct control *c); /* the engine has ended */

/* files.c: ranges that are views of a file of the program's. Finds each, or maps it, and has an
 * allocation for those that peers may map, and those mapped here. 0, or -errno with *t. */
int files_find(struct control *c, struct memory *m, struct trouble *t);
void files_hold(struct span *s, struct allocation *a); /* it lies in it */
/* Those that no region holds any more go, as do those that were found for m alone. */
void files_drop(struct control *c, struct memory *m);

/* prefault.c: back comes when no page of it is asked for any more; err and addr: where it failed.
 * NULL with *err: not begun. */
#define MSG_PREFAULTED 202 /* beside the types of commands, requests and calls */
struct prefault *prefault_start(struct control *c, struct memory *m,
				void (*back)(struct control *c, void *arg, int err, uint64_t addr),
				void *arg, int *err);
void prefault_stop(struct prefault *job); /* soon; with back */
void prefault_back(struct control *c, struct msg *msg);

/* importer.c: peers that were lost and may still have memory of ours mapped. */
/* 1: the peer of this path, whose ep is closed, is one of them: its ep is freed, path_forget()
 * leaves the path to it. */
int importer_keep(struct control *c, struct path *path);
/* Those that have let go, or (died) all, go: with the last of them p itself may. */
void importers_step(struct control *c, struct peer *p);
void importers_drop(struct control *c); /* all: the context ends */

/* revoke.c. Owner: all grants that there are now end; region_step() follows. */
void revoke_begin(struct control *c, struct region *r);
void revoke_keys(struct control *c,
		 struct region *r); /* importers have heard, or had the time to */
void revoke_expired(struct control *c, struct alarm *a);
int revoke_heard(struct control *c, struct peer *p, uint64_t number);
/* Importer. */
int revoke_come(struct control *c, struct peer *p, const struct wire_revoke *rev);

struct grant {
	struct exposure e;
	struct list of_peer, of_region;
	struct grant *hash_next;
	struct peer *peer;
	struct region *region;
	struct path *importer; /* that may still have it mapped, and keeps it; NULL: none */
	uint32_t hash;
	uint64_t expires_ms; /* of the advert */
	struct device *dev;  /* of ours, of its rail */
	struct pinned *pin;  /* where it pins */
	struct list of_pin;
	struct cmd cmd;	     /* EXPOSE or UNEXPOSE */
	uint8_t *key;	     /* what importers are told */
	uint32_t key_len;
	uint8_t waits;	    /* for the pin to be made */
	uint8_t live;	    /* the engine has it */
	uint8_t rests;	    /* its rail is gone: only atomics, and the pin, know it */
	uint8_t rail;	    /* number */
	uint8_t doomed;	    /* expired or revoked */
	struct list untold; /* of peer.untold */
	uint64_t number;    /* of the REVOKE */
	uint32_t nids;
	uint64_t ids[KEY_WINDOW]; /* KEY_REQs that wait for it */
};

/* scratch.c */
#define ADVERT_VERSION 1u
#define ADVERT_SCRATCH 1u /* kind: all of the owner's scratch memory */
void scratch_advert(uint64_t incarnation, struct urccl_advert *a); /* of the owner's */
/* What a peer asks for by it: 0 with *out, or -errno. */
int scratch_region(struct control *c, const struct urccl_advert *a, struct region **out);

void advert_make(struct control *c, struct control_call *call);
int advert_import_check(const struct urccl_advert *a, uint32_t i,
			struct trouble *t); /* of its form; 0 or -errno */
int grant_request(struct control *c, struct peer *p, const struct wire_key_req *req);
/* The engine has let go of all of the peer's (region's): frees those that no command and no
 * importer holds. 1: a command holds one. */
int grants_free_peer(struct control *c, struct peer *p);
/* Those that the peer may have mapped are the importer's, if it is one, until */
void grants_keep(struct path *path);
void grants_free_kept(struct control *c, struct path *path);
void grants_free_region(struct control *c, struct region *r);
void grants_rest(struct peer *p, uint32_t number); /* the rail is gone */
void grant_doom(struct grant *g);		 /* not to be given again */
void grant_end(struct control *c, struct grant *g); /* one that was doomed */
void grant_pinned(struct control *c, struct grant *g, int rc); /* its pin was made, or not */

/* pins.c: ranges that a device has ready for peers, shared by the grants of all that give the same.
 * ERRAND_PIN and ERRAND_UNPIN have the pin in turn. */
#define PIN_HASH 4096u /* lists */

struct pinned {
	struct pin pin;
	struct device *dev;
	struct region *region;
	uint64_t expires_ns;
	struct list of_region, grants;
	struct pinned *hash_next, **bucket;
	struct errand errand;
	struct alarm expiry;
	uint8_t made;	/* the device has it */
	uint8_t doomed; /* not to be given again */
	uint8_t stuck;	/* the device did not let go of it */
	uint8_t held;	/* it is being looked at, and stays */
};

/* g has one, 0; -EINPROGRESS: grant_pinned() follows; -ENOMEM. */
int pin_get(struct control *c, struct grant *g);
void pin_put(struct control *c, struct grant *g);
void pins_doom(struct region *r);
void pins_again(struct control *c, struct region *r); /* those that are stuck */

struct remote {
	struct list of_peer;  /* of peer.remotes */
	struct list fetching; /* of peer.fetching */
	struct list busy;     /* of peer.busy */
	struct list revoking; /* of peer.revoking */
	uint64_t busy_seq;
	uint64_t number; /* of the REVOKE */
	uint32_t handle;
	struct peer *peer;
	struct engine_remote *engine;
	struct cmd add, del, revoke, warm, map;
	struct control_call *mapping; /* waits for map */
	struct gpu_mapping mapped;    /* what it brought */
	struct control_req *req; /* FORGET, or IMPORT */
	int failed;		 /* the engine did not take it */
	uint8_t deleting, revoked;
	uint8_t again;	     /* keys were wanted once more while some were asked for */
	uint8_t warm_wanted; /* when it has all keys */
	uint8_t rail_awaited; /* its round goes on when there is one */
	uint8_t used;	     /* its keys were wanted: a rail that comes asks for its own */
	int32_t refused;     /* by the owner: -errno */
	int32_t error;	     /* of this round, */
	uint32_t why;	     /* and the errno behind it */
	uint64_t first_id;   /* of the first KEY_REQ for it; 0: none */
	uint32_t tried;	     /* of this round: rails that are through; RAIL_NUMBERS: all */
	uint32_t first;	     /* the number of its first */
	uint32_t next;	     /* part to be asked for, of the rail after those */
	uint32_t out;	     /* parts asked for and not settled */
	uint32_t n;
	uint8_t *has; /* a part each: rails that the engine has a key for, a bit each */
	struct urccl_advert adverts[];
};

void remote_import(struct control *c, struct control_req *req);
void remote_forget(struct control *c, struct control_req *req);
void remote_info(struct control *c, struct control_call *call);
void remote_map(struct control *c, struct control_call *call); /* or unmap */
void remote_keys(struct control *c, struct control_req *req); /* CONTROL_KEYS */
int remote_key(struct control *c, struct peer *p, const struct wire_key_rep *rep);
void remote_step(struct control *c, struct remote *r);
void remote_refuse(struct control *c, struct remote *r, int err); /* it gets no keys now */
void remotes_pump(struct control *c, struct peer *p);
void remotes_end(struct control *c, struct peer *p);

/* keys.c: rounds of asking for what a remote lacks */
void keys_want(struct control *c, struct remote *r, int warm);
void keys_leave(struct control *c, struct remote *r); /* out of everything that waits for keys */
void keys_lose(struct peer *p, const struct path *path); /* those of a rail that is closed */
void keys_of_rail(struct control *c, struct peer *p);	 /* one has come: for all that was used */
void warm_req(struct control *c, struct control_req *req);
void warm_drop(struct control *c, struct control_req *req);

#endif
