/* SPDX-License-Identifier: Apache-2.0 */
/* State and calls that the files of the room share. */
#ifndef REGION_PRIVATE_H
#define REGION_PRIVATE_H

#include "region/region.h"

enum region_ending {
	REGION_ENDING = 1, /* step 1: peers are told */
	REGION_LEAVING,	   /* step 2: the engine is told */
};

struct prefault;
struct region {
	struct list link; /* in control.regions, oldest first */
	struct list due;  /* in control.due_regions */
	struct memory *memory;
	struct extent **extents;
	uint32_t nextents, nshared; /* shared: with earlier regions */
	uint8_t key[16];	    /* secret of the tokens of its adverts */
	uint8_t ending;		    /* enum region_ending: it has no new users */
	uint8_t keys_go;	    /* the keys of revoking exports end once all importers have
				     * answered */
	struct list grants, revoking_grants;
	uint32_t nrevoke_unacked; /* revoking exports whose peer has not answered REVOKE */
	struct list pins;	  /* struct pinned */
	uint32_t nrevoking, nrelease_failed; /* revoking pins, and how many of these a device did
					      * not release */
	int release_failed;		     /* -errno of that device */
	uint8_t short_logged; /* the last export failed for lack of a resource, which was
				   * logged */
	struct cmd add, del;
	struct prefault *prefault; /* touches its pages, before `pin` */
	struct work pin;	   /* extents_reg(); it uses the two members below */
	struct control *control;
	struct control_error error;
	struct work unreg;		   /* extents_unreg(), at the end */
	struct control_timer revoke_timer; /* REVOKE_NS */
	struct control_timer timer;	   /* CALL_NS, for calls that wait */
	struct control_req *registering, *unregistering;
	struct list revoking; /* struct control_req */
	int failed;	      /* -errno: the engine did not take it */
};

/* A region of the context itself, until the context ends. NULL: no memory. */
struct region *region_own(struct control *c, const struct urccl_range *range, uint32_t rights);
void region_leave(struct control *c, struct region *r);
/* Something that it waited for has happened: regions_step() takes its next step. */
void region_due(struct control *c, struct region *r);

/* ranges.c: makes the memory of a region from the ranges of a program. 0, or -errno (NULL) with
 * *t. */
int ranges_check(const struct control *c, const struct urccl_range *ranges, uint64_t n,
		 uint64_t rights, struct control_error *t);
struct memory *ranges_memory(struct control *c, const struct urccl_range *ranges, uint32_t n,
			     uint32_t rights, struct control_error *t);
void ranges_free(struct control *c, struct memory *m);
/* identity.c. Reads the current list of mappings into control.mappings. 0; -errno with *t; 1: the
 * system has no list to read. */
int ranges_list(struct control *c, struct control_error *t);
/* 1: the kernel can be asked for one mapping without its whole list. */
int ranges_can_ask(struct control *c);
/* Checks what is mapped at the run of span k now, and identifies it. known: the extent
 * that it is to share, or NULL. 0 or -errno. */
int run_check(struct control *c, struct memory *m, uint32_t k, struct extent *run,
	      const struct extent *known, struct control_error *t);
/* 1: the memory is of a file, whose file system is full. */
int ranges_full(struct control *c, uint64_t addr);
/* The k-th span by address. */
static inline struct span *ranges_span(struct memory *m, uint32_t k)
{
	return &m->spans[m->by_addr ? m->by_addr[k] : k];
}
/* The run of memory that begins with the k-th span by address. Returns the first span after it. */
uint32_t ranges_run(struct memory *m, uint32_t k, uint64_t *addr, uint64_t *len);
/* Gets an extent for each run of its spans. */
int extents_get(struct control *c, struct region *r, struct control_error *t);
/* Registers those that the devices do not know yet. Any thread, one at a time. */
int extents_reg(struct control *c, struct region *r, struct control_error *t);
/* 1: registration may take long */
int extents_slow(const struct control *c, const struct region *r);
/* The end, in three steps. extents_leave() keeps only the extents that no other region uses; 1:
 * devices know some of them, and unregistration may take long. extents_unreg() unregisters them
 * (any thread; 0, or -errno: some failed, and it may be called again). extents_free() frees
 * them. */
int extents_leave(struct control *c, struct region *r);
int extents_unreg(const struct control *c, struct region *r);
void extents_free(struct control *c, struct region *r);

/* staging.c: GPU memory, and the pinned staging buffer for devices that do not reach it.
 * spans_kinds() finds the kind of each span. 0, or -errno with *t. */
int spans_kinds(struct control *c, struct memory *m, struct control_error *t);
/* Opens the extent's GPU, and makes the staging buffer for the first GPU memory. Called by helper
 * threads. 0, or -errno with *t. */
int extent_gpu(struct control *c, struct extent *a, struct control_error *t);
/* Tells the engine of a new staging buffer. 0, or -errno with *t. */
int staging_enter(struct control *c, struct control_error *t);
/* Makes the advert that a peer uses to request the key of its run of slots. */
#define ADVERT_RUN 2u /* kind */
#define RUN_BYTES  (4ull << 20)
void run_advert(uint64_t incarnation, uint32_t run, struct urccl_advert *a);
/* Finds the region for such an advert. 0 with *out and the run's offset in *a, or -errno. */
int run_region(struct control *c, const struct peer *p, struct urccl_advert *a,
	       struct region **out);

/* files.c: ranges that are views of a file of the program. Finds each mapping, or makes it, and
 * adds an allocation for views that peers may map and for those mapped here. 0, or -errno with
 * *t. */
int files_find(struct control *c, struct memory *m, struct control_error *t);
void files_hold(struct span *s, struct allocation *a); /* the span lies in the allocation */
/* Releases the views of m, and frees all that no region uses any more. */
void files_drop(struct control *c, struct memory *m);

/* prefault.c: touches the pages. back() comes when no page is being touched any more; err and addr:
 * the failure and its address. NULL with *err: not started. */
struct prefault *prefault_start(struct control *c, struct memory *m,
				void (*back)(struct control *c, void *arg, int err, uint64_t addr),
				void *arg, int *err);
void prefault_stop(struct prefault *job); /* stops soon; back() follows */

/* revoke.c. Owner: ends all current exports of a region. */
void revoke_begin(struct control *c, struct region *r);
void revoke_keys(struct control *c,
		 struct region *r); /* importers have answered, or their time has passed */
void revoke_expired(struct control *c, struct control_timer *a);

struct grant {
	struct exposure e;
	struct list of_peer, of_region;
	struct grant *hash_next;
	struct peer *peer;
	struct region *region;
	struct path *importer; /* the importer that may still have it mapped, so that it is kept;
			        * NULL: none */
	uint32_t hash;
	uint64_t expires_ms; /* expiry of the advert */
	struct device *dev;  /* our device of the rail */
	struct pinned *pin;  /* NULL unless the device pins */
	struct list of_pin;
	struct cmd cmd; /* EXPOSE or UNEXPOSE */
	uint8_t *key;	/* the key that importers are sent */
	uint32_t key_len;
	uint8_t waits;		    /* waits for its pin */
	uint8_t live;		    /* the engine has it */
	uint8_t detached;	    /* its rail is closed: only atomics and the pin use it */
	uint8_t rail;		    /* number */
	uint8_t revoking;	    /* no new user: expired or revoked */
	struct list revoke_unacked; /* in peer.revoke_unacked */
	uint64_t number;	    /* number of that REVOKE */
	uint32_t nids;
	uint64_t ids[KEY_WINDOW]; /* KEY_REQs to be answered with it */
};

/* scratch.c */
#define ADVERT_VERSION 1u
#define ADVERT_SCRATCH 1u /* kind: all of the owner's scratch memory */
/* Makes the scratch advert of the owner with this incarnation. */
void scratch_advert(uint64_t incarnation, struct urccl_advert *a);
/* Finds the region for such an advert. 0 with *out, or -errno. */
int scratch_region(struct control *c, const struct urccl_advert *a, struct region **out);

int advert_import_check(const struct urccl_advert *a, uint32_t i,
			struct control_error *t); /* checks its form; 0 or -errno */
/* If the path is kept as an importer, it keeps the exports that its peer may have mapped, until
 * grants_free_kept(). */
void grants_keep(struct path *path);
void grants_free_kept(struct control *c, struct path *path);
void grants_free_region(struct control *c, struct region *r);
void grant_set_revoking(struct grant *g);		       /* gets no new users */
void grant_end(struct control *c, struct grant *g);	       /* ends a revoking one */
void grant_pinned(struct control *c, struct grant *g, int rc); /* the pin was made (0) or not */

/* Now, in ms of the clock of this context's adverts (expires_ms). */
uint64_t owner_ms(const struct control *c);
/* 1: the engine has its command, or it waits for its pin. */
int grant_busy(const struct grant *g);
/* Finds or makes the export of the advert's range by the path. NULL with *err. */
struct grant *grant_for(struct control *c, struct path *path, struct region *r,
			const struct urccl_advert *a, int *err);
/* Answers a KEY_REQ. G: the export; NULL if status is not 0. */
void key_answer(struct control *c, struct peer *p, uint64_t id, int status, const struct grant *g);

/* pins.c: ranges that a device has pinned for peers, shared by the exports of the same range. The
 * work items WORK_PIN and WORK_UNPIN use the pin in turn. */
struct pinned {
	struct pin pin;
	struct device *dev;
	struct region *region;
	uint64_t expires_ns;
	struct list of_region, grants;
	struct pinned *hash_next, **bucket;
	struct work work;
	struct control_timer expiry;
	uint8_t made;		/* the device has pinned it */
	uint8_t revoking;	/* gets no new users */
	uint8_t release_failed; /* the device did not unpin it */
	uint8_t held;		/* in use by a loop: must not be freed */
};

/* 0: g has a pin; -EINPROGRESS: grant_pinned() follows; -ENOMEM. */
int pin_get(struct control *c, struct grant *g);
void pin_put(struct control *c, struct grant *g);
void pins_set_revoking(struct region *r);
/* Tries again to unpin those that are stuck. */
void pins_retry(struct control *c, struct region *r);

struct remote {
	struct list of_peer;  /* in peer.remotes */
	struct list fetching; /* in peer.fetching */
	struct list busy;     /* in peer.busy */
	struct list revoking; /* in peer.revoking */
	uint64_t busy_seq;
	uint64_t number; /* number of that REVOKE */
	uint32_t handle;
	struct peer *peer;
	struct engine_remote *engine;
	struct cmd add, del, revoke, warm, map;
	struct control_call *mapping; /* the call that `map` answers */
	struct gpu_mapping mapped;    /* the mapping that it made */
	struct control_req *req;      /* FORGET, or IMPORT not yet answered */
	int failed;		      /* -errno: the engine did not take it */
	uint8_t deleting, revoked;
	uint8_t again;	      /* keys were requested again during a round */
	uint8_t warm_wanted;  /* touch its pages when it has all keys */
	uint8_t rail_awaited; /* the round continues when the peer has a rail */
	uint8_t used;	      /* keys were requested: each new rail requests its own */
	int32_t refused;      /* -errno: the owner refused it */
	int32_t error;	      /* -errno of this round, */
	uint32_t why;	      /* and the errno behind it */
	uint64_t first_id;    /* number of its first KEY_REQ; 0: none */
	uint32_t tried;	      /* rails done in this round; RAIL_NUMBERS: all */
	uint32_t first;	      /* number of the first rail in this round */
	uint32_t next;	      /* the next part to request for the current rail */
	uint32_t out;	      /* parts requested, without an answer yet */
	uint32_t n;
	uint8_t *has; /* for each part, the rails that the engine has a key for, one bit each */
	struct urccl_advert adverts[];
};

void remote_step(struct control *c, struct remote *r);
/* Ends its requests with this error. */
void remote_refuse(struct control *c, struct remote *r, int err);

/* keys.c: rounds of requests for the keys that a remote lacks. */
void keys_request(struct control *c, struct remote *r, int warm);
/* Removes it from all lists of remotes that wait for keys. */
void keys_leave(struct control *c, struct remote *r);

#endif
