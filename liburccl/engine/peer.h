/* SPDX-License-Identifier: Apache-2.0 */
/* Peers, their rails and their imported memory, used only by the engine's thread. */
#ifndef ENGINE_PEER_H
#define ENGINE_PEER_H

#include "engine/private.h"

/* The work of one peer to be posted, by urgency. Each lane gets its share of every iteration. */
struct lane {
	struct list link;	 /* in the engine's list, while there is work */
	struct list ops;	 /* entries with pieces left, in order */
	struct chunk_queue held; /* chunks that no device has taken */
	uint32_t number;
	struct engine_peer *peer;
};

/* SUSPENDED: suspended, with its rail or, later, without. Entries wait as in CONNECTING. */
enum peer_state { PEER_CONNECTING, PEER_SUSPENDED, PEER_UP, PEER_LOSING, PEER_LOST };

struct engine_peer {
	uint32_t handle;
	uint32_t state; /* enum peer_state */
	uint64_t incarnation;
	struct engine *engine; /* NULL: not added yet */
	struct list link;
	struct rail *rail;	       /* the best rail; bulk uses others too. NULL: none is up */
	struct rail *rails[RAILS_MAX]; /* all that were tried and are not closed */
	struct rail *up[RAIL_NUMBERS]; /* rails that are up */
	uint32_t nup;
	uint32_t failover; /* a rail that breaks does not end the peer */
	uint32_t fencing;  /* broken rails whose other end may not be closed: bits */
	uint32_t rails_up, rails_said, rails_news; /* rails that are up, that the program was last
						    * told of, and that may have changed since: one
						    * bit each */
	int32_t rail_res[RAIL_NUMBERS];		   /* -errno of rails that are not up */
	struct chunk_queue requeued_chunks;	   /* failed-over chunks of entries, to be
						    * posted again when possible */
	struct list requeued_ops;		   /* entries likewise */
	struct lane lanes[LANES];
	struct list waiting;  /* entries taken before it was up */
	uint32_t unfinished;  /* its entries, except multishot ones */
	uint32_t chunks;      /* its chunks */
	uint32_t bundles;     /* chunks of them with a bundle */
	uint32_t kept;	      /* entries of those whose outcome was reported before their end */
	uint32_t unflushed;   /* it may write to device memory of ours, but of those: */
	uint32_t flush_gpus;  /* bits: GPUs whose memory it may write to by a device of RDMA */
	uint32_t silent;      /* an entry ended without its answer, and no message came since */
	uint64_t used;	      /* iteration that took its last entry; read by the control thread */
	uint64_t heard;	      /* likewise, in which its last notification or atomic came */
	uint64_t heard_ns;    /* time of its last message, or when it came up */
	struct timer awaited; /* while entries wait for it: when to ping it */
	struct control_req ping;
	uint32_t pinging;
	uint32_t watch_said; /* the control thread knows that a ring watches it */
	struct control_req resume;
	uint32_t resume_asked, resume_out; /* suspended: a resume request was sent; it has not
					    * returned */
	uint32_t give_up_reason; /* the peer was given up meanwhile: the reason, and its arg */
	uint64_t give_up_arg;
	struct list remotes; /* its imported memory */
	uint64_t fence_lost[RINGS_MAX /
			    64]; /* rings whose next FENCE fails, since failures were forgotten */
	/* Entries that ended acknowledged are numbered by acked_seq. acked_scopes: scopes with
	 * unproved ones, ordered by their last number. acked_losses: how often a rail with such
	 * entries broke. */
	uint64_t acked_seq;
	struct list acked_scopes;
	uint32_t acked_losses;

	struct watch watch;
	struct list pending_link; /* in the engine's list of peers with something to deliver */
	int64_t lost_res;
	uint32_t lost_reason;
	uint64_t lost_arg;
	int32_t lost_cause;	/* the result of its entries */
	uint64_t lost_ns;	/* clock at its loss */
	uint32_t handle_given;	/* the program has its handle, from a PEER event or its CONNECT */
	uint32_t lost_unposted; /* LOST must be posted, */
	uint32_t lost_due;	/* and its time has come */
	uint32_t closing;	/* LOSING: its rails are closing */
	uint32_t restarted;	/* another incarnation is at its address */
	uint32_t cut;		/* 1: it has no rail, and no port that reaches it has a link */

	struct list note_waiters;	      /* entries that wait for a slot of the window */
	struct failed_note_list failed_notes; /* failed notifications: likewise */
	struct note_slot *notes;	      /* NOTE_WINDOW */
	uint32_t note_next;
	uint32_t notes_busy;

	uint32_t seen;			      /* highest number received */
	uint64_t delivered, dropped, arrived; /* state of the last NOTE_STATES numbers, one bit
					       * each */
	struct parked_note *parked;	      /* NOTE_WINDOW records */
	struct list parked_free, parked_list;
	uint32_t ack_due, ack_sending;
	struct chunk ack_chunk;
	struct message ack;

	struct atomics *atomics; /* allocated for this peer */
	struct relay *relay;	 /* likewise; NULL: neither side relayed memory of the other yet */
	uint64_t run_public;	 /* engine_peer_run(); any thread reads it */

	struct segment_peer *stats, own_stats;
};

struct remote_part {
	uint64_t start, len;
	uint32_t rails; /* rails that have a key for it, one bit each */
	uint32_t grant; /* its name in atomics, on any rail; 0: unknown */
};

/* One rail's key for a part. */
struct rail_key {
	struct rkey key;
	struct engine_remote *remote;
	struct rail *rail; /* the rail of the key: rails of other transports have the same
			    * numbers */
	uint32_t resolved; /* the device has the key, which must be forgotten later */
};

struct engine_remote {
	uint32_t handle;
	struct engine_peer *peer;
	struct list of_peer;
	uint64_t len;
	uint32_t gpu;	      /* 1: a GPU of this side moves its bytes on some rail */
	uint32_t host;	      /* 1: the bytes of some part are moved without a GPU */
	uint32_t relayed;     /* 1: some part is relayed on some rail */
	uint32_t has_address; /* the program has its address: ENGINE_REMOTE_MAP */
	uint32_t importing;   /* ENGINE_REMOTE_KEYS commands that wait for the device */
	uint32_t asked;	      /* keys were requested */
	uint32_t keys; /* parts with a key; read by any thread, which reads mapped after it */
	uint32_t nkeys[RAIL_NUMBERS];		  /* parts with a key of this rail */
	struct rail_key *rail_keys[RAIL_NUMBERS]; /* one for each part; NULL: none yet */
	uint32_t mapped; /* parts that the importer accesses without asking the owner */
	int32_t failed;	 /* -errno: no key will ever come; else 0 */
	uint32_t why;	 /* the owner's errno for the last missing key */
	uint32_t deleting, revoked;
	struct list waiters; /* entries that wait for keys */
	struct control_req req;
	uint32_t req_out;
	void *owner;
	uint32_t nparts;
	struct remote_part parts[];
};

/* ---- lookups. NULL: the handle is stale ---- */

static inline struct engine_peer *peer_get(const struct engine *e, uint32_t handle)
{
	uint32_t slot = HANDLE_SLOT(handle);
	struct engine_peer *p = slot < e->npeer_slots ? e->peer_slots[slot] : NULL;

	return p && p->handle == handle ? p : NULL;
}

static inline struct engine_remote *remote_get(const struct engine *e, uint32_t handle)
{
	uint32_t slot = HANDLE_SLOT(handle);
	struct engine_remote *r = slot < e->nremotes ? e->remotes[slot] : NULL;

	return r && r->handle == handle && !r->deleting ? r : NULL;
}

static inline uint32_t rail_bit(const struct rail *rail)
{
	return 1u << rail->number;
}

static inline struct rail_key *key_of(const struct rkey *key)
{
	return container_of(key, struct rail_key, key);
}

/* 1: failed messages are sent again, since there is a rail or will be one. */
static inline int peer_sends(const struct engine_peer *p)
{
	return p->state == PEER_UP && (p->failover || (p->rail && p->rail->up));
}
static inline struct ep *peer_ep(const struct engine_peer *p)
{
	return p->rail ? p->rail->ep : NULL;
}

/* ask.c: requests to the control thread */
/* The simulated clock that the request holds while it is out, or NULL. */
struct clock *control_held_by(const struct engine *e, const struct control_req *req);
void control_ask(struct engine *e, struct control_req *req); /* posts the request */
void remote_fail(struct op *op, const struct engine_remote *r, int err);
void remote_waiters(struct engine_remote *r, int err); /* continue, or fail */
void remote_need_keys(struct op *op, struct engine_remote *r);
void remote_ask(struct engine_remote *r);
uint32_t key_part(const struct rail_key *k); /* index of the part that the key is for */
uint32_t key_grant(const struct rkey *key);  /* the owner's number for the key's grant */
void peer_awaited(struct engine *e, struct engine_peer *p);
void peer_ask_resume(struct engine_peer *p); /* it is suspended, and an entry waits */
/* The control thread must treat the peer as lost; arg: see the REASON. */
void peer_give_up(struct engine *e, struct engine_peer *p, uint32_t reason, uint64_t arg);
void rail_report(struct engine *e, struct rail *rail, int res, uint32_t reason, uint64_t arg);

/* peer.c */
void peer_stop(struct engine *e, struct engine_peer *p);
void peer_stop_watches(struct engine *e, struct engine_peer *p);
void peer_abort(struct engine *e, struct engine_peer *p);
void peer_shorten_deadlines(struct engine *e, struct engine_peer *p);
void peer_cut(struct engine *e, struct engine_peer *p, uint32_t is_cut);
void peer_awaited_expired(struct engine *e, struct engine_peer *p);
void peer_ping_back(struct engine *e, struct control_req *req);
void rail_event(struct engine *e, const struct event *ev);
/* The control thread has answered. */
void rail_qps_added(struct control_req *req);

/* quiesce.c: 1: nothing uses it any more; called again until then */
void ring_stop(struct engine_ring *er);
int ring_is_quiet(struct engine *e, struct engine_ring *er);
int region_is_quiet(struct engine *e, struct memory *m);
int remote_is_quiet(struct engine *e, struct engine_remote *r);
void remote_suspend(struct engine_remote *r); /* its keys ended with the rails */
void remote_forget_keys(struct engine_remote *r, struct rail *rail); /* keys of one rail */
void remote_revoke(struct engine_remote *r);
int remote_is_revoked(struct engine *e, struct engine_remote *r);

/* lost.c */
void peer_lost(struct engine *e, struct engine_cmd *cmd);
void peer_died(struct engine_peer *p); /* its rails no longer wait for an answer */
void peer_losing_expired(struct engine *e, struct engine_peer *p);
/* 0: it is lost, and LOST was posted: nothing of the peer may follow. */
int peer_is_heard(const struct engine_peer *p);
void peer_events_drop(struct engine *e, struct engine_peer *p, int res);
int peer_is_lost(struct engine *e, struct engine_peer *p);
void peer_del(struct engine *e, struct engine_peer *p);
void rail_close(struct engine *e, struct rail *rail);
int rail_is_closed(struct engine *e, struct rail *rail);

/* suspend.c: idle eviction */
int peer_idle(const struct engine_peer *p); /* 0 or -EBUSY */
int peer_pause(struct engine_peer *p);	    /* likewise */
void peer_go(struct engine_peer *p);	    /* its entries start (again) */
void peer_resume_back(struct control_req *req);
void peer_forget_keys(struct engine_peer *p); /* its rail is about to close */

#endif
