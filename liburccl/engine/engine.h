/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: takes entries off rings, moves their bytes in chunks over eps, posts completions. One
 * thread runs it (a progress thread, or an INLINE ring's own), and everything in it is private to
 * that thread: other threads speak to it by commands in its mailbox, which it sends back when they
 * are done, and it speaks to the control thread by requests, which come back likewise.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include "base/base.h"
#include "memory/memory.h"
#include "ring/ring.h"
#include "backend/backend.h"

#define HELLO_MAX    URCCL_NOTE_MAX
#define RINGS_MAX    256u /* of a context */
#define RAIL_NUMBERS 8u /* of a peer: as many as a path has bits for */

struct engine;
struct engine_ring; /* a ring as the engine sees it: its entries */
struct engine_peer; /* a peer likewise */
struct engine_remote;
struct rail;

enum engine_cmd_type {
	/* What is named is lent to the engine until the command that takes it back returns. */
	ENGINE_RING_ADD = 1, /* ring */
	ENGINE_RING_DEL,     /* ring: its entries end with -ESHUTDOWN; back when all have ended */
	ENGINE_REGION_ADD,   /* memory, map (with it): back with the map that was in use before and,
				in len, how many slots of handles cannot fail for want of memory */
	ENGINE_REGION_DEL,   /* memory, map (without): entries on it end, exposures end; back when
				quiet */
	ENGINE_PEER_ADD,     /* peer: entries on it wait until it is up */
	ENGINE_PEER_UP,	     /* peer, rail: entries move; PEER_EVENT still held: -ECANCELED */
	ENGINE_PEER_EVENT,   /* peer, data, len: back when ACCEPT's ring has the event, with its
				hello if it has one in answer, answer_len; -ECONNRESET: lost first
				*/
	ENGINE_PEER_LOST, /* peer, cause, reason, arg: entries end with cause (graceful: as CANCEL
			   * would), LOST is posted, rails close; back when all that is done */
	ENGINE_PEER_DIED, /* peer: its process has ended; PEER_LOST follows, or went before */
	ENGINE_PEER_RESTARTED, /* peer: another incarnation is at its address; once it is lost, new
				  entries on the handle end with -ESTALE */
	ENGINE_PEER_CUT,       /* peer, arg: 1: no port that leads there has a link: entries and
				  new ones end with -ENETDOWN; 0: no longer */
	ENGINE_PEER_IDLE,      /* peer: back with 0, or -EBUSY: something of it is under way */
	ENGINE_PEER_PAUSE,     /* peer: the same, and if it is idle entries wait, until */
	ENGINE_PEER_RESUME,    /* peer: this, or PEER_UP with a new rail once the old is closed */
	ENGINE_PEER_DEL,       /* peer, after LOST came back: the handle is stale from now on */
	ENGINE_RAIL_CONNECT,   /* rail: back when it is up or has failed */
	ENGINE_RAIL_CLOSE,     /* rail: back when it is closed and its ep may be freed */
	ENGINE_RAIL_FENCED,    /* peer, part (its number): both ends of that rail are closed */
	ENGINE_REMOTE_ADD,     /* remote: back with len, likewise */
	ENGINE_REMOTE_KEYS, /* remote, rail, part, data, len, grant: answers CONTROL_KEYS, or cause:
			       no key, and arg: an errno, what its owner said */
	ENGINE_REMOTE_DEL,  /* remote: its entries end; back when none is left */
	ENGINE_REMOTE_REVOKE, /* remote: the same with -EACCES, and later ones too */
	ENGINE_REMOTE_WARM,   /* remote, part (0): back when its memory is there to be used */
	ENGINE_REMOTE_MAP,    /* remote, data: struct gpu_mapping, filled when it is back; NULL: it
				 is not used any more. -EAGAIN: there is no key */
	ENGINE_EXPOSE,	      /* exposure, data: back with the key in data, its length in len, and
				 grant */
	ENGINE_UNEXPOSE,      /* exposure */
	ENGINE_STAGE,	      /* memory: of the library and pinned, for bytes of GPUs */
	ENGINE_STOP, /* the progress thread ends after this came back; no ring, no peer left */
};

struct engine_cmd {
	struct msg msg;	  /* type: enum engine_cmd_type; res: 0 or -errno when it is back */
	struct list link; /* the engine's */
	struct engine_ring *ring;
	struct memory *memory;
	struct memory_map *map;
	struct engine_peer *peer;
	struct rail *rail;
	struct engine_remote *remote;
	struct exposure *exposure;
	uint32_t part;	 /* of the remote: index of its advert */
	uint32_t replays; /* PEER_UP: a rail that breaks does not end the peer */
	uint32_t grant;	 /* EXPOSE, REMOTE_KEYS: with the key, what atomics name the exposure by */
	int32_t cause;	 /* -errno */
	uint32_t reason; /* enum reason, for records */
	uint64_t arg;	 /* of the reason; of PEER_CUT: the control thread's, also meanwhile */
	int graceful;
	void *data;
	uint32_t len;
	uint32_t answer_len;
	uint8_t *answer; /* PEER_EVENT: room for HELLO_MAX bytes; NULL when it is back: none */
	void *owner; /* the control thread's */
};

/* Requests of the engine to the control thread. They are embedded in what they speak of; the
 * control thread sends each back, always soon, but RAIL_GROW when a kernel call is done; those that
 * entries ask for when they are done, or CONTROL_DROP says that nobody waits any more. */
enum control_req_type {
	CONTROL_CONNECT = 64, /* data, len: whom to dial; hello, hello_len. Back: handle, or res and
				 reason, arg */
	CONTROL_CLOSE,	      /* handle: drop one reference; back when that is done */
	CONTROL_DROP, /* other: what an entry asked for that timed out or was cancelled: send it
		       * back now, or as soon as its memory is left alone, and this (other may be
		       * back already) */
	CONTROL_KEYS, /* remote, handle (its peer): fetch its keys; ENGINE_REMOTE_KEYS follow for
			 each part */
	CONTROL_RAIL_DOWN,  /* rail, res: it broke; ENGINE_PEER_LOST or RAIL_CLOSE follow, and
			     * RAIL_FENCED where the peer replays. With reason and arg[0]: the
			     * peer is given up for that; else arg[0] is a device_code() */
	CONTROL_RAIL_GROW,  /* rail: its ep asks for ep_grow(). Back: res */
	CONTROL_AWAITED,    /* handle: the peer has been awaited for a while: ping it */
	CONTROL_REGISTER,   /* data: ranges, len: how many, rights. Back: handle */
	CONTROL_UNREGISTER, /* handle */
	CONTROL_REVOKE,	    /* handle */
	CONTROL_IMPORT,	    /* handle (of the peer), data: adverts, len: how many. Back: handle */
	CONTROL_FORGET,	    /* handle */
	CONTROL_WARM,	    /* handle (of the peer): fetch the keys of its remotes */
	CONTROL_WANT,	    /* handle: entries wait for the paused peer. With reason and arg[0]:
			     * it is given up for that */
	CONTROL_SCRATCH,    /* handle (of the peer). Back: handle of its memory to measure with */
	CONTROL_RUN,	    /* handle (of the peer), arg[0]: the number of a run of its slots. Back:
			     * handle of the remote that it is */
	CONTROL_RUN_FORGET, /* handle (of that remote) */
	CONTROL_RUN_END,    /* handle (of the peer), arg[0]: where its run begins. The peer's grants
			     * of it end; back when it has none, or with -ECONNRESET */
	CONTROL_STAGE,	    /* ENGINE_STAGE, also where no memory of a GPU is registered */
};

struct control_call;

struct control_req {
	struct msg msg;	  /* type: enum control_req_type */
	struct list link; /* the control thread's */
	uint32_t handle;  /* of a peer, a region or a remote */
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
	uint64_t turn;		   /* the control thread's: up to which WARM waits */
	void *owner;		   /* the control thread's: what it waits for; NULL: nothing */
	struct control_call *call; /* the call that asks, not an engine; NULL: none */
};

/* The owner's own word on a key. */
static inline int key_refused(int res)
{
	return res == -EACCES || res == -ESTALE || res == -EOPNOTSUPP;
}

/* It stays so for ever. Else the next entry asks again: of what it has revoked the owner says
 * -EACCES for as long as it has the region, and -ESTALE from then on. */
static inline int key_final(int res, int revoked)
{
	return key_refused(res) && !(revoked && res == -EACCES);
}

/* An ep in use for a peer. The control thread makes it, the engine has it from RAIL_CONNECT until
 * RAIL_CLOSE came back. */
struct rail {
	struct ep *ep;
	struct engine_peer *peer;
	uint32_t number; /* among the peer's, below RAIL_NUMBERS: for path and RAIL events */
	int active;	 /* this side dials */
	uint32_t addr_len;
	uint8_t addr[EP_ADDR_MAX];     /* the peer's ep */
	struct sockaddr_storage via;   /* the peer's host */
	struct engine_cmd *connecting; /* the engine's: the command it still holds */
	uint32_t up, ending, closed;   /* the engine's */
	uint32_t path;		       /* the engine's: of what goes by it */
	uint32_t down_out;	       /* the engine's: down is not back */
	struct control_req down;       /* the engine's */
	uint32_t grow_out;	       /* the engine's: grow is not back */
	struct control_req grow;       /* the engine's */
	uint32_t inflight;	       /* the engine's: chunks taken and not out */
	uint64_t inflight_bytes;       /* the engine's */
	uint64_t window;	       /* the engine's: bulk bytes that may be on their way */
	uint64_t came[2]; /* the engine's: bytes that came out, by enum chunk_kind: READ, WRITE */
	uint64_t told[2]; /* the engine's: of them, those that were told */
	/* The engine's: since when, what had come then, and the most that was on its way. */
	uint64_t measured_ns, measured_from, measured_most;
	/* The engine's, where the peer has several: bytes that it carries a second, and measured
	 * for that: bytes that came out, while it was busy for so long, and had enough to do for so
	 * long, up to this time. */
	uint64_t rate, rate_bytes, rate_busy_ns, rate_loaded_ns, rate_mark_ns;
	uint64_t gathered_bytes; /* the engine's: about to be posted */
	uint64_t up_ns;		 /* the engine's: since when it is up */
	/* The engine's: entries for the next flush, and those of the one on its way; WRITEs since
	 * the last flush that came out as acknowledged only; those before the flush that is on its
	 * way; of both the entries that have ended so; and up to which number all those of the peer
	 * are proved by it, and will be. */
	struct list flush_link; /* in the engine's, while flush_wait is not empty and none is out */
	struct list flush_wait, flushing;
	struct chunk flush;
	uint32_t flush_busy, flush_tries;
	uint32_t unproved, proving, acked, acked_proving;
	uint64_t proved_seq, proving_seq;
};

/* What the data path is told at open. */
struct engine_config {
	const struct urccl_params *params;
	struct mailbox *control; /* where requests go */
	struct device **devices; /* owned by the engine's thread from engine_start to ENGINE_STOP */
	uint32_t ndevices;
	int is_inline;
	uint64_t incarnation;
	const char *left_out; /* transports that did not open, and why; "": none */
	struct gpu *gpu;      /* GPUs of the context */
	struct clock *clock;  /* INLINE: a simulated one that it goes by; NULL: the real one */
};

/* ---- control thread, or the thread that opens ---- */

int engine_open(const struct engine_config *config,
		struct engine **engine); /* 0 or -errno with fail() text */
int engine_start(struct engine *e);	 /* starts the progress thread; nothing if INLINE */
void engine_close(struct engine *e);	 /* after ENGINE_STOP came back (INLINE: was driven) */
/* A device's driver does not return: the thread ends, and everything else stays as it is. */
void engine_leave(struct engine *e);
struct mailbox *engine_mailbox(struct engine *e);
int engine_fd(const struct engine *e); /* INLINE: the ring's fd */
void engine_drive(void *engine);       /* INLINE: one turn */
void engine_pass(struct engine *e);    /* INLINE, nothing to do: a simulated clock goes on */
int engine_sleep(void *engine,
		 uint64_t ns); /* INLINE: until there is something to do; 0 or -EINTR */

int engine_ring_new(struct engine *e, struct ring *ring, struct engine_ring **out);
void engine_ring_free(struct engine_ring *er);
struct ring *engine_ring_ring(struct engine_ring *er);

/* name: its address, for dumps. NULL: no memory. */
struct engine_peer *engine_peer_new(struct engine *e, uint32_t handle, uint64_t incarnation,
				    const char *name);
void engine_peer_free(struct engine_peer *p);
/* Of two peers, the one that an entry of ours named later has the greater number; any thread. */
uint64_t engine_peer_used(const struct engine_peer *p);
/* Likewise, that notified us or had an atomic carried out by us later. In turns, as ep.used. */
uint64_t engine_peer_heard(const struct engine_peer *p);
/* The number of the run of slots that it may read, and where it begins in the peers' half of the
 * staging memory; 0: none. Likewise. */
uint32_t engine_peer_run(const struct engine_peer *p, uint64_t *off);
/* A transport did not come up with it; err -errno, 0: the peer did not want it. */
void engine_peer_missed(struct engine_peer *p, uint32_t transport, int err);
/* A remote of nparts adverts whose lengths are lens. */
struct engine_remote *engine_remote_new(uint32_t handle, struct engine_peer *peer,
					const uint64_t *lens, uint32_t nparts);
void engine_remote_free(struct engine_remote *r);
/* The control thread's pointer, for CONTROL_KEYS. */
void engine_remote_set_owner(struct engine_remote *r, void *owner);
void *engine_remote_owner(const struct engine_remote *r);
enum urccl_enforced engine_remote_enforced(const struct engine_remote *r); /* any thread */

/* ---- any thread, also beside a stuck engine ---- */

void engine_stats(const struct engine *e, struct urccl_stats *stats);
/* Before it is started: one for dumps, by number from 0 on. */
void engine_tell_setting(struct engine *e, uint32_t i, const char *text);
int engine_dump(const struct engine *e, int fd); /* 0 or -errno: fd takes nothing */
const struct failures *engine_failures(const struct engine *e);

#endif
