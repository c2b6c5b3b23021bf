/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: takes entries from rings, moves their bytes in chunks over eps, and posts
 * completions. One thread runs it (a progress thread, or the thread of an INLINE ring), and its
 * state is private to that thread. Other threads send it commands by mailbox, which come back when
 * they are done. It sends requests to the control thread, which come back likewise.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include "base/base.h"
#include "memory/memory.h"
#include "ring/ring.h"
#include "backend/backend.h"

#define HELLO_MAX    URCCL_NOTE_MAX
#define RINGS_MAX    256u /* per context */
#define RAIL_NUMBERS 8u /* per peer; cqe.path has as many bits */

struct engine;
struct engine_ring; /* a ring, as the engine keeps it, with its entries */
struct engine_peer; /* a peer, likewise */
struct engine_remote;
struct rail;

enum engine_cmd_type {
	/* The engine may use the named objects until the command that takes them back returns. */
	ENGINE_RING_ADD = 1, /* ring */
	ENGINE_RING_DEL,     /* ring: its entries end with -ESHUTDOWN; returns when all have
			      * ended */
	ENGINE_REGION_ADD,   /* memory, map (with it): returns the map used before, and in len the
			      * number of handle slots for which ADD cannot fail for lack of
			      * memory */
	ENGINE_REGION_DEL,   /* memory, map (without it): its entries and exports end; returns when
			      * none is left */
	ENGINE_PEER_ADD,     /* peer: entries on it wait until it is up */
	ENGINE_PEER_UP,	     /* peer, rail: entries start; a PEER_EVENT still waiting returns
			      * -ECANCELED */
	ENGINE_PEER_EVENT,   /* peer, data, len: returns when ACCEPT's ring has the event, with the
			      * ACCEPT's hello, if any, in answer and answer_len; -ECONNRESET: the
			      * peer was lost first */
	ENGINE_PEER_LOST, /* peer, cause, reason, arg: entries end with cause (graceful: as by
			   * CANCEL), LOST is posted, rails close; returns when all of that is
			   * done */
	ENGINE_PEER_DIED, /* peer: its process has ended; PEER_LOST comes later or came before */
	ENGINE_PEER_RESTARTED, /* peer: another incarnation is at its address; after its loss, new
			        * entries on the handle end with -ESTALE */
	ENGINE_PEER_CUT,       /* peer, arg 1: no port that reaches it has a link, so its entries,
			        * and new ones, end with -ENETDOWN; arg 0: a port has */
	ENGINE_PEER_IDLE,      /* peer: returns 0, or -EBUSY if something of it is under way */
	ENGINE_PEER_PAUSE,     /* peer: likewise; and if it is idle, new entries wait */
	ENGINE_PEER_RESUME,    /* peer: ends PAUSE; so does PEER_UP with a new rail, after the old
			        * one is closed */
	ENGINE_PEER_DEL,       /* peer, after PEER_LOST returned: the handle is stale from now on */
	ENGINE_RAIL_CONNECT,   /* rail: returns when it is up or has failed */
	ENGINE_RAIL_CLOSE,     /* rail: returns when it is closed; its ep may then be freed */
	ENGINE_RAIL_FENCED,    /* peer, part (its number): both ends of that rail are closed */
	ENGINE_REMOTE_ADD,     /* remote: returns len as REGION_ADD does */
	ENGINE_REMOTE_KEYS, /* remote, rail, part, data, len, grant: answers CONTROL_KEYS; or cause:
			     * no key, and arg: the owner's errno */
	ENGINE_REMOTE_DEL,  /* remote: its entries end; returns when none is left */
	ENGINE_REMOTE_REVOKE, /* remote: likewise with -EACCES; later entries fail too */
	ENGINE_REMOTE_WARM,   /* remote, part (0): returns when its memory is prefaulted */
	ENGINE_REMOTE_MAP,    /* remote, data: a struct gpu_mapping to fill; NULL: the mapping is no
			       * longer used. -EAGAIN: there is no key */
	ENGINE_EXPOSE,	      /* exposure, data: returns the key in data, its length in len, and
			       * grant */
	ENGINE_UNEXPOSE,      /* exposure */
	ENGINE_STAGE,	      /* memory of the library, pinned: the staging buffer */
	ENGINE_STOP, /* returned as the progress thread ends; no ring and no peer may be left */
};

struct engine_cmd {
	struct msg msg;	  /* type: enum engine_cmd_type; res: 0 or -errno on return */
	struct list link; /* used by the engine */
	struct engine_ring *ring;
	struct memory *memory;
	struct memory_map *map;
	struct engine_peer *peer;
	struct rail *rail;
	struct engine_remote *remote;
	struct exposure *exposure;
	uint32_t part;	 /* index of the advert in the remote */
	uint32_t failover; /* PEER_UP: a rail that breaks does not end the peer */
	uint32_t grant;	 /* EXPOSE, REMOTE_KEYS: the name of the export in atomics */
	int32_t cause;	 /* -errno */
	uint32_t reason; /* enum reason, for records */
	uint64_t arg;	 /* for the reason; in PEER_CUT the control thread may change it at any
			  * time */
	int graceful;
	void *data;
	uint32_t len;
	uint32_t answer_len;
	uint8_t *answer; /* PEER_EVENT: room for HELLO_MAX bytes; NULL on return: none */
	void *owner; /* used by the control thread */
};

/* Requests of the engine to the control thread, embedded in the object that they concern. The
 * control thread sends each back soon, except RAIL_GROW, which takes a kernel call, and requests of
 * entries, which return when they are done or when CONTROL_DROP arrives. */
enum control_req_type {
	CONTROL_CONNECT = 64, /* data, len: target; hello, hello_len. Returns handle, or res and
			       * reason, arg */
	CONTROL_CLOSE,	      /* handle: drop one reference; returns when that is done */
	CONTROL_DROP, /* other: the request of an entry that timed out or was cancelled. Return it
		       * now, or as soon as its memory is unused, and this one too. It may have
		       * returned before */
	CONTROL_KEYS, /* remote, handle (its peer): request its keys; ENGINE_REMOTE_KEYS follow, one
		       * for each part */
	CONTROL_RAIL_DOWN,  /* rail, res: it broke; ENGINE_PEER_LOST or RAIL_CLOSE follows, and
			     * RAIL_FENCED if the peer has failover. With reason and arg[0]: give
			     * the peer up for that reason; otherwise arg[0] is a device_code() */
	CONTROL_RAIL_ADD_QPS, /* rail: its ep needs ep_add_qps(). Returns res */
	CONTROL_AWAITED,    /* handle: entries have waited for the peer for a while: ping it.
			     * arg[0] 1: a ring watches it, so ping it while it is idle, too */
	CONTROL_REGISTER,   /* data: ranges, len: their number, rights. Returns handle */
	CONTROL_UNREGISTER, /* handle */
	CONTROL_REVOKE,	    /* handle */
	CONTROL_IMPORT,	    /* handle (of the peer), data: adverts, len: their number. Returns
			     * handle */
	CONTROL_FORGET,	    /* handle */
	CONTROL_WARM,	    /* handle (of the peer): request the keys of its remotes */
	CONTROL_RESUME,	    /* handle: entries wait for the suspended peer. With reason and arg[0]:
			     * give it up for that reason */
	CONTROL_SCRATCH,    /* handle (of the peer). Returns the handle of its scratch memory */
	CONTROL_RUN,	    /* handle (of the peer), arg[0]: the number of a run of its slots.
			     * Returns the handle of the remote for the run */
	CONTROL_RUN_FORGET, /* handle (of that remote) */
	CONTROL_RUN_END,    /* handle (of the peer), arg[0]: start of its run. Ends the peer's
			     * grants of the run; returns when none is left, or with
			     * -ECONNRESET */
	CONTROL_STAGE,	    /* ENGINE_STAGE, even if no GPU memory is registered */
};

struct control_call;

struct control_req {
	struct msg msg;	  /* type: enum control_req_type */
	struct list link; /* used by the control thread */
	uint32_t handle;  /* names a peer, a region or a remote */
	const void *data; /* CONNECT, REGISTER, IMPORT: the program's */
	uint64_t len;
	const void *hello;
	uint32_t hello_len;
	struct control_req *other;
	struct engine_remote *remote;
	struct rail *rail;
	uint32_t reason; /* enum reason of a failure */
	uint64_t arg[3];
	uint64_t rights;
	uint64_t turn;		   /* used by the control thread: last remote that WARM waits for */
	void *owner;		   /* used by the control thread: the object that has it; NULL:
				    * none */
	struct control_call *call; /* the call that asks, instead of an engine; NULL: none */
};

/* 1: the owner refused the key. */
static inline int key_refused(int res)
{
	return res == -EACCES || res == -ESTALE || res == -EOPNOTSUPP;
}

/* 1: the refusal is final. Otherwise the next entry asks again: for a revoked advert the owner
 * answers -EACCES while the region exists, and -ESTALE after that. */
static inline int key_final(int res, int revoked)
{
	return key_refused(res) && !(revoked && res == -EACCES);
}

/* An ep in use for a peer. The control thread makes it. The engine uses it from RAIL_CONNECT until
 * RAIL_CLOSE returns. Members marked (e) belong to the engine. */
struct rail {
	struct ep *ep;
	struct engine_peer *peer;
	uint32_t number; /* number among the peer's rails, below RAIL_NUMBERS: for cqe.path and RAIL
			  * events */
	int active;	 /* this side connects actively */
	uint32_t addr_len;
	uint8_t addr[EP_ADDR_MAX];     /* the peer's ep */
	struct sockaddr_storage via;   /* the peer's host and port */
	struct engine_cmd *connecting; /* (e) the command to answer when it is up or has failed */
	uint32_t up, ending, closed;   /* (e) */
	uint32_t path;		       /* (e) cqe.path of chunks that it carried */
	uint32_t down_out;	       /* (e) `down` has not returned */
	struct control_req down;       /* (e) */
	uint32_t grow_out;	       /* (e) `grow` has not returned */
	struct control_req grow;       /* (e) */
	uint32_t inflight;	       /* (e) chunks that the device has */
	uint64_t inflight_bytes;       /* (e) their bytes */
	uint64_t window;	       /* (e) bulk bytes that may be under way */
	uint64_t came;		       /* (e) bytes that came out */
	uint64_t *bytes;	       /* (e) likewise of the peer, by enum chunk_kind */
	/* (e) begin of the measurement, bytes that had come out then, most bytes under way
	 * since. */
	uint64_t measured_ns, measured_from, measured_most;
	/* (e) If the peer has several rails: measured bytes per second, from these: bytes that came
	 * out, time with bytes under way, time with enough bytes under way, and the end of both
	 * times. */
	uint64_t rate, rate_bytes, rate_busy_ns, rate_loaded_ns, rate_mark_ns;
	uint64_t gathered_bytes; /* (e) bytes about to be posted */
	uint64_t up_ns;		 /* (e) time when it came up */
	/* (e) Entries for the next flush, and those of the flush under way. unproved: WRITEs
	 * acknowledged since the last flush; proving: those before the flush under way. acked,
	 * acked_proving: entries among them that have ended. proved_seq: all such entries of the
	 * peer up to this number are proved; proving_seq: will be. */
	struct list flush_link; /* in the engine's list while flush_wait is not empty and no flush
				 * is under way */
	struct list flush_wait, flushing;
	struct chunk flush;
	uint32_t flush_busy, flush_tries;
	uint32_t unproved, proving, acked, acked_proving;
	uint64_t proved_seq, proving_seq;
};

/* The configuration of the data path. */
struct engine_config {
	const struct urccl_params *params;
	struct mailbox *control; /* receives the requests */
	struct device **devices; /* used by the engine's thread from engine_start to ENGINE_STOP */
	uint32_t ndevices;
	int is_inline;
	uint64_t incarnation;
	const char *left_out; /* transports that did not open, with reasons; "": none */
	struct gpu *gpu;      /* GPUs of the context */
	struct clock *clock;  /* INLINE: a simulated clock; NULL: the real one */
};

/* ---- control thread, or the thread that opens ---- */

int engine_open(const struct engine_config *config,
		struct engine **engine); /* 0 or -errno with fail() text */
int engine_start(struct engine *e);	 /* starts the progress thread; nothing if INLINE */
void engine_close(struct engine *e);	 /* after ENGINE_STOP returned (INLINE: it was driven) */
/* A device's driver call hangs: the thread ends if it can, everything else stays allocated. */
void engine_leave(struct engine *e);
struct mailbox *engine_mailbox(struct engine *e);
int engine_fd(const struct engine *e); /* INLINE: the ring's fd */
void engine_drive(void *engine);       /* INLINE: one iteration */
void engine_pass(struct engine *e);    /* INLINE, idle: advances a simulated clock */
int engine_sleep(void *engine,
		 uint64_t ns); /* INLINE: until there is work; 0 or -EINTR */

int engine_ring_new(struct engine *e, struct ring *ring, struct engine_ring **out);
void engine_ring_free(struct engine_ring *er);

/* name: the peer's address, for dumps. NULL: no memory. */
struct engine_peer *engine_peer_new(struct engine *e, uint32_t handle, uint64_t incarnation,
				    const char *name);
void engine_peer_free(struct engine_peer *p);
/* Time of the last entry here that named the peer, in iterations: comparable between peers. Any
 * thread. */
uint64_t engine_peer_used(const struct engine_peer *p);
/* Likewise, of the peer's last notification or atomic to us. */
uint64_t engine_peer_heard(const struct engine_peer *p);
/* The number of the run of slots that the peer may read, and the start of the run in the peers'
 * half of the staging memory. 0: none. Any thread. */
uint32_t engine_peer_run(const struct engine_peer *p, uint64_t *off);
/* Records that the peer closes the connection in order. */
void engine_peer_leaves(struct engine_peer *p);
/* Records that a transport did not come up with the peer; err -errno, 0: the peer refused it. */
void engine_peer_missed(struct engine_peer *p, uint32_t transport, int err);
/* Makes a remote of nparts adverts with these lengths. NULL: no memory. */
struct engine_remote *engine_remote_new(uint32_t handle, struct engine_peer *peer,
					const uint64_t *lens, uint32_t nparts);
void engine_remote_free(struct engine_remote *r);
/* A pointer of the control thread, for CONTROL_KEYS. */
void engine_remote_set_owner(struct engine_remote *r, void *owner);
void *engine_remote_owner(const struct engine_remote *r);
enum urccl_enforced engine_remote_enforced(const struct engine_remote *r); /* any thread */

/* ---- any thread, also beside a stuck engine ---- */

void engine_stats(const struct engine *e, struct urccl_stats *stats);
/* Stores a setting for dumps, numbered from 0. Called before engine_start(). */
void engine_export_setting(struct engine *e, uint32_t i, const char *text);
int engine_dump(const struct engine *e, int fd); /* 0, or -errno if fd does not take all of it */
const struct failures *engine_failures(const struct engine *e);
/* Any thread, without waiting. name: the peer's address. 1: it closed in order, or is about to. 0:
 * it did not, or (*lost is 0) not yet. -ENOENT. */
int engine_peer_name(const struct engine *e, uint32_t handle, char *name, uint32_t len, int *lost);

#endif
