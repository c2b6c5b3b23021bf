/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of an engine, used only by its thread. Members called "stats" are in the context's
 * segment, which other threads and processes read.
 */
#ifndef ENGINE_PRIVATE_H
#define ENGINE_PRIVATE_H

#include <pthread.h>
#include "engine/engine.h"
#include "engine/probe.h"
#include "segment/segment.h"
#include "engine/message.h"
#include "engine/timer.h"
#include "engine/stage.h"
#include "engine/bundle.h"
#include "engine/relay.h"
#include "engine/sync.h"

#define CHUNKS_SHARED 4096u /* chunks of an engine that all peers share */
#define CHUNKS_ALONE  1024u /* further chunks, only for peers that have none */
#define CHUNKS_MAX    (CHUNKS_SHARED + CHUNKS_ALONE)
#define RAILS_MAX    16u   /* per peer: at most one for each device of the context */
#define EVENTS_BATCH 128u
#define POST_BATCH   64u
#define HELD_BATCH   8u /* chunks posted again at a time, after a device was full */
#define LOOK_BYTES   (1u << 20) /* bytes posted after which the clock is read: a post may copy */
#define GRACE_NS \
	(20 * NSEC_PER_MSEC) /* time after the deadline for the peer to confirm that no more bytes
			      * land */
#define STOP_GRACE_NS (100 * NSEC_PER_MSEC) /* the same time if a call waits for the entry's end */

enum timer_kind { TIMER_OP, TIMER_PEER };

enum lane_number { LANE_CONTROL, LANE_LATENCY, LANE_SMALL, LANE_BULK, LANES };

/* The ring that receives the events of a peer, or of all peers. */
struct watch {
	struct engine_ring *er; /* NULL: none */
	uint64_t user_data;
	struct op *op; /* the WATCH; NULL: a CONNECT or ACCEPT with URCCL_SQE_WATCH asked */
};

/* Rounds of direct.c. */
struct direct {
	uint64_t begun, done; /* number of the last one; one at a time is under way */
	uint32_t gpus;	      /* bits: GPUs that a round is for, */
	uint32_t out;	      /* whose jobs of this round are not done, */
	uint32_t failed;      /* whose last ones failed */
	struct gpu_job jobs[GPUS_MAX];
};

/* Entries of one flow that succeeded in the same iteration: the statistics add them together. */
struct stats_batch {
	struct segment_flow *flow;
	uint32_t what; /* first bytes of their SQEs: opcode, dtype, flags */
	uint32_t ended;
	uint64_t bytes;
	uint64_t started_ns; /* start of the last entry that lived longer than the iteration that
			      * took it */
	uint32_t later;	     /* entries that started at that time and lived as long */
};

struct engine_ring {
	struct ring *ring;
	struct engine *engine;
	struct list link;
	uint32_t index; /* among the engine's rings; RINGS_MAX: not added */
	uint32_t entries;
	struct op *ops;
	struct ask *asks; /* one for each op */
	struct sync *syncs; /* likewise */
	struct op **free; /* a stack */
	uint32_t nfree;
	uint64_t seq;
	uint32_t multishots;   /* taken multishot entries: DRAIN does not wait for them */
	uint32_t watched;      /* drains, timeouts and cancels may not all be empty */
	uint64_t completions;  /* CQEs counted by TIMEOUT */
	struct op *chain_prev; /* the last entry, if it has LINK and is unfinished */
	uint32_t chain_failed, chain_open, closing;
	struct list drains, timeouts, cancels;
	struct list messages;	   /* MSG_RING entries that wait for an event slot of this ring */
	struct list messages_link; /* in the engine's list, while there are some */
	struct list device_link;   /* likewise, of a device ring */
	struct scope *scopes;
	struct scope **scope_hash;
	uint32_t nscopes, scope_mask, failures_kept, acked_kept;
	struct list scopes_idle;
	struct scope *last_scope;
	struct segment_ring *stats, own_stats;
	struct op *own_ops; /* used if the segment has no room */
};

struct engine {
	struct engine_config config;
	struct mailbox mailbox;
	pthread_t thread;
	uint32_t started;
	int epfd;
	int timerfd; /* INLINE: wakes the program's epoll at the next deadline */
	struct clock_member member; /* member of a simulated clock */
	uint32_t holds;		    /* it holds that clock, for keys or for the verdict on a broken
				     * rail */
	uint32_t entered;	    /* entries taken, as of the last report to that clock */
	uint64_t now;
	uint64_t iterations;
	uint64_t sleeps; /* number of sleeps */
	uint32_t slow_mask; /* mask: a busy engine checks everything in iterations where these bits
			  * are 0 */
	uint32_t clock_skips; /* idle iterations to come that do not read the clock */
	uint32_t has_mapped;  /* 1: a remote was mapped here, so small entries may be copied */
	uint32_t immediate_left; /* bytes that entries may still move as they are taken, in this
			       * iteration */
	uint64_t given;	 /* bytes posted since the clock was read */
	uint32_t rails; /* rails of all devices: without any, most iterations poll no device */
	uint32_t stopping;
	struct engine_cmd *stop;
	struct engine_cmd leave; /* engine_leave() */
	uint64_t idle_since;
	uint64_t starved_ns; /* time since when an event waits and no program took CQEs; 0:
			      * unknown */
	uint64_t heads;	     /* sum of all rings' heads at that time */
	uint64_t timer_set; /* INLINE: the current setting of timerfd */
	uint32_t coarse;    /* epoll_pwait2() is not available */
	uint32_t worked;    /* INLINE: the last iteration did work, so the next may too */
	uint64_t default_timeout_ns, dead_after_ns, spin_ns;

	struct list rings, peers, commands, exposures;
	struct heap expiring; /* exports that the engine ends, by expiry */
	struct list expired;  /* exports that expired while peers have them mapped */
	uint64_t expired_ns;  /* time of the next try for those; NEVER_NS: there are none */
	struct engine_ring *ring_index[RINGS_MAX];
	struct list lanes[LANES]; /* lanes of peers with work */
	struct list ready; /* entries without blockers left, or that failed before they started */
	struct list flushes;	     /* rails that need a flush */
	uint32_t flush_full;	     /* a device had no room for one */
	struct list pending;	     /* peers with notifications or LOST to post */
	struct list pending_accepts; /* PEER_EVENT commands */
	struct list messages;	     /* rings with MSG_RING entries that wait for a slot */
	struct list words;	     /* awaited words: struct sync */
	struct list signals;	     /* SIGNALLING: likewise */
	struct direct direct;
	struct list device_rings;
	uint32_t device_busy; /* a device ring asks for no sleep, as last read */
	uint64_t pushed_ns;   /* time when the last entry was taken from a lane */
	uint64_t looking;	     /* looks with a list that is not empty, one bit each */
	struct op *fresh;	     /* taken in this iteration, without a timer yet */
	struct op *accept;
	struct watch watch_all;
	uint32_t wants_slots; /* an event waits for the program to take CQEs */
	uint32_t armed;	      /* sleep is announced */
	uint32_t sweep;	      /* chunks of stopped entries must be cancelled */
	uint32_t slow_work;   /* one of flushes, pending, pending_accepts, messages, words and
			       * commands may not be empty (slow_list_add()), or the stage or relays
			       * have work */
	uint32_t lanes_set;   /* one bit for each of lanes[] that may not be empty */
	uint32_t warming;     /* ENGINE_REMOTE_WARM commands: the engine does not sleep before they
			       * are done */

	struct wheel wheel;
	struct chunk *chunks;
	struct chunk *chunk_free;
	uint32_t chunks_used, chunks_max; /* chunks_max: max_inflight_ops; beyond it, only peers
					   * without a chunk get one */
	uint32_t chunk_peers; /* peers that have some */
	struct memory_map *map;
	struct stage stage;
	struct relays relays;
	struct sync_look looks[2 * GPUS_MAX]; /* two per GPU: words, events */
	struct bundles bundles;
	uint32_t gpus; /* 1: GPU memory was registered, given or imported, so each chunk is
			* checked for it */

	struct engine_region_slot {
		uint32_t handle;
		struct memory *memory;
	} * regions;			/* by slot of the handle; commands make it grow */
	struct engine_remote **remotes; /* by slot */
	struct engine_peer **peer_slots;
	uint32_t nregions, nremotes, npeer_slots;
	struct handles grants; /* exports, by their name in atomics */
	struct failed_note_pool failed_notes;

	struct segment_file *segment;
	struct segment_engine *stats;
	uint64_t update_ns;	  /* time of the next update of the statistics */
	uint64_t looked_ns;	  /* time of the last one, or of the end of a sleep after it */
	const struct op *served;  /* entry whose chunk was posted, or came back, last since then */
	uint64_t copied_data;	  /* served NULL: user_data of the entry copied as it was taken */
	uint32_t copied_opcode;	  /* likewise its opcode; 0: none was */
	struct stats_batch stats_batch;
	struct failures failures; /* any thread may read them */
	struct event events[EVENTS_BATCH];
};

/* Adds to a list that is empty in most iterations. */
static inline void slow_list_add(struct engine *e, struct list *l, struct list *to)
{
	list_add_tail(l, to);
	e->slow_work = 1;
}

static inline struct memory *region_get(const struct engine *e, uint32_t handle)
{
	uint32_t slot = HANDLE_SLOT(handle);

	return slot < e->nregions && e->regions[slot].handle == handle ? e->regions[slot].memory
								       : NULL;
}

/* The memory of len bytes at addr: the region's, or, without one, found by address. NULL: none. */
static inline struct memory *memory_find(const struct engine *e, uint32_t region, uint64_t addr,
					 uint64_t len)
{
	struct memory *m;

	if (!region)
		return e->map ? memory_map_find(e->map, addr, len) : NULL;
	m = region_get(e, region);
	return m && memory_holds(m, addr, len) ? m : NULL;
}

static inline void relay_kick(struct engine *e, struct relay *r)
{
	if (list_empty(&r->link))
		list_add_tail(&r->link, &e->relays.active);
	e->slow_work = 1;
}

/* command.c */
uint32_t run_commands(struct engine *e);
void retry_commands(struct engine *e); /* checks the commands that wait */

/* exposure.c */
/* The export of this number, if the peer has it with this right now; otherwise NULL. */
struct exposure *exposure_find(const struct engine *e, const struct engine_peer *p, uint32_t grant,
			       uint32_t right);
/* Bytes of the key, or -errno without any effect. */
int exposure_begin(struct engine *e, struct exposure *x, const struct rail *rail, void *key);
int exposure_end(struct engine *e, struct exposure *x);	  /* 0; -EINPROGRESS: call again */
/* An ep is closed (closed 1) or about to close (0), but its peer is not lost: its exports live on
 * for atomics. Exports that the device cannot end before the ep is closed stay until then. */
void exposures_detach(struct engine *e, struct ep *ep, int closed);
void exposures_end(struct engine *e, struct engine_peer *p); /* ends those without an ep */
void exposure_drop(struct engine *e, struct exposure *x); /* its ep is closed */
/* Ends expired exports: no access outlasts the expiry of its export. */
void exposures_expire(struct engine *e);
uint64_t exposures_next(struct engine *e); /* time of the next call; NEVER_NS */

#endif
