/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context's public state: one memory file of sealed size, "urccl-PID". A tool of the same user
 * finds it among the process's open descriptors and maps it read-only, even if the process is
 * stuck or stopped. Nothing is left behind when the process is gone.
 *
 * Every word has one writer and is stored whole, relaxed: each is right by itself, and two of them
 * may be of different moments. A reader trusts nothing: it checks indices, counts and texts where
 * it uses them, and the size cannot change under it.
 *
 * The engine's own records of entries are in the file, at the stride that the head gives, so an
 * entry needs no extra copy. A reader may load a word while the engine stores it, without any
 * order between the two.
 *
 * The file is sparse: the head is allocated when it is made, entries when their ring is opened,
 * peers when they connect, so that no store on the data path meets a missing page.
 */
#ifndef SEGMENT_H
#define SEGMENT_H

#include <stddef.h>
#include <stdint.h>
#include <liburccl.h>

#define SEGMENT_MAGIC	   0x746e656d67657375ull
#define SEGMENT_VERSION	   7u /* layout; readers refuse any other */
#define SEGMENT_PREFIX	   "urccl-"
#define SEGMENT_RINGS	   256u
#define SEGMENT_ENTRIES	   65536u /* in all rings */
#define SEGMENT_DEVICES	   16u
#define SEGMENT_SETTINGS   96u
#define SEGMENT_CLASSES	   3u
#define SEGMENT_CELL_BITS  4u /* 16 cells a power of two: 6 % wide */
#define SEGMENT_CELL_STEPS (1u << SEGMENT_CELL_BITS)
#define SEGMENT_CELLS	   (61u * SEGMENT_CELL_STEPS) /* for all 64-bit times */

#define SEGMENT_SLOW_NS 50000000ull

#ifndef URCCL_STATISTICS
#define URCCL_STATISTICS 1 /* 0: a build that keeps no statistics, to see what they cost */
#endif

/* A flow is the entries of one class and kind: class * SEGMENT_FLOWS + kind. */
enum segment_kind { SEGMENT_READ, SEGMENT_WRITE, SEGMENT_NOTIFY, SEGMENT_FLOWS };
#define SEGMENT_ALL_FLOWS (SEGMENT_CLASSES * SEGMENT_FLOWS)

struct segment_count {
	uint64_t taken, ended; /* in closed rings */
	uint64_t failed, cancelled, timed_out;
	uint64_t chunks, merged;
	uint64_t notes_sent, notes_received;
	uint64_t turns, sleeps, wakes;
	uint64_t slow_turns; /* took over SEGMENT_SLOW_NS */
};

/* Successful entries: bytes; at_once: how many ended in the turn that took them; cells: for the
 * others, ns from the end of that turn to the engine's last clock reading before they ended, so
 * less than a turn too few. */
struct segment_flow {
	uint64_t bytes, at_once;
	uint64_t cells[SEGMENT_CELLS];
};

enum segment_engine_state { SEGMENT_RUNS, SEGMENT_SLEEPS };

/* The engine's thread writes it. */
struct segment_engine {
	uint64_t updated_ns; /* CLOCK_MONOTONIC of its last export of itself and its rings: before
			      * each sleep, and about once a millisecond */
	uint64_t wake_at_ns; /* asleep: latest wake-up; ~0: no limit */
	uint32_t state;	     /* enum segment_engine_state */
	uint32_t chunks;     /* in flight at that export */
	uint32_t watched;    /* id of the ring that watches all peers; 0: none */
	uint32_t slots;	     /* staging slots for GPUs, 1 MiB each; 0: none */
	uint32_t slots_used; /* in use at that export */
	uint32_t slow_opcode; /* of the entry that the last slow turn served; 0: of none here */
	uint64_t slow_ns, slow_user_data; /* the time of that turn; likewise of the entry */
	struct segment_count count;
	struct segment_flow flows[SEGMENT_ALL_FLOWS];
};

/* The engine writes the counts at each export; the thread that opens the ring writes id, entries,
 * first and records. A thread that waits or dumps also writes prepared. */
struct segment_ring {
	uint32_t id; /* 0: no ring; written last */
	uint32_t entries;
	uint32_t first, records; /* its entries' records, by number; records 0: there was no room
				  * for them */
	uint32_t waiting;     /* submitted and not taken */
	uint32_t unseen;      /* CQEs */
	uint32_t taken, ended; /* entries; written each batch */
	uint64_t all_taken, all_ended; /* the same in 64 bits, at that export */
	uint32_t prepared;	       /* taken by the program and not submitted */
	uint32_t reserved;
};

/* enum op_state of the engine */
enum segment_entry_state {
	SEGMENT_FREE = 0,
	SEGMENT_WAITING,
	SEGMENT_MOVING,
	SEGMENT_FLUSHING,
	SEGMENT_NOTING,
	SEGMENT_ATOMIC,
	SEGMENT_ASKING,
	SEGMENT_PARKED,
	SEGMENT_SIGNALLING,
	SEGMENT_STATES
};

enum segment_entry_bits {
	SEGMENT_STOPPING = 1 << 0,
	SEGMENT_AWAITS = 1 << 25, /* WAITING, also for a word in memory */
};

/* The first members of struct op, the engine's record of an entry, at the same offsets. */
struct segment_entry {
	struct urccl_sqe sqe;
	uint64_t started_ns;	/* 0: it was just taken */
	uint64_t total, placed; /* bytes */
	uint64_t peer;		/* segment_peer.id, 0: none */
	uint32_t bits;		/* enum segment_entry_bits, and others of the engine */
	uint8_t state;		/* enum segment_entry_state */
};

struct segment_peer {
	uint32_t handle; /* 0: none; written last by the control thread, like incarnation, name */
	uint32_t state;	 /* engine: enum urccl_peer_state */
	uint64_t incarnation;
	uint64_t id;	    /* its address in the engine */
	uint32_t transport; /* engine: enum urccl_transport */
	uint32_t missed;    /* control thread: one that failed before it, and its errno << 8 */
	uint64_t bytes[2];  /* engine: read, written */
	uint32_t watched;   /* engine: id of the ring that watches this one; 0: none */
	uint32_t parked;    /* engine: notifications of it that no ring has yet */
	uint32_t leaving;   /* control thread: it closes, or closed, the connection in order */
	char name[76];	    /* address of its control connection */
};

struct segment_device {
	char name[16];
	uint32_t transport; /* enum urccl_transport */
	uint32_t reserved;
};

/* Written by urccl_open(), but for peers_there. */
struct segment_head {
	uint64_t magic; /* written last */
	uint32_t version;
	uint32_t npeers; /* records in peers[] */
	uint64_t bytes;	 /* size of the file */
	uint64_t incarnation;
	uint64_t opened_ns; /* CLOCK_MONOTONIC */
	uint32_t pid;	    /* in its own PID namespace */
	uint32_t is_inline;
	char library[16];
	uint32_t ndevices;
	uint32_t entry_bytes; /* stride of entries' records; the first is at: */
	uint64_t entries_at;
	struct segment_device devices[SEGMENT_DEVICES];
	char left_out[512];   /* transports that did not open, and why */
	char alone[128];      /* why no other process can read this; "" if it can */
	/* Settings other than the defaults: "listen = \"\" (params)"; an empty one ends them. */
	char settings[SEGMENT_SETTINGS][320];
	uint32_t peers_there; /* control thread: peers' records that are allocated */
	uint32_t reserved1;
};

struct segment {
	struct segment_head head;
	_Alignas(64) struct segment_engine engine;
	_Alignas(64) struct segment_ring rings[SEGMENT_RINGS];
	_Alignas(64) struct segment_peer peers[];
};

/* A segment and its verified size. */
struct segment_view {
	const struct segment *s;
	uint64_t bytes;
};

/* ---- the writer's side: make.c ---- */

struct segment_file;

struct segment_params {
	uint64_t incarnation;
	int is_inline;
	uint32_t npeers; /* most at a time */
	uint32_t entry_bytes;
};

/* Without a memory file the segment is private and head.alone says why; NULL: no memory. */
struct segment_file *segment_open(const struct segment_params *p);
void segment_close(struct segment_file *f);
struct segment *segment_of(const struct segment_file *f);
struct segment_view segment_view_own(const struct segment_file *f);
/* Any thread. A ring's record, or NULL: none is left. *records: the records of its entries, zeroed,
 * or NULL: no room for them. */
struct segment_ring *segment_ring_take(struct segment_file *f, uint32_t id, uint32_t entries,
				       void **records);
void segment_ring_give(struct segment_file *f, struct segment_ring *r);
/* Control thread. NULL: no room for another. */
struct segment_peer *segment_peer_take(struct segment_file *f, uint32_t handle,
				       uint64_t incarnation, const char *name,
				       const void *id);
void segment_peer_give(struct segment_peer *p);

/* ---- the reader's side: read.c, text.c ---- */

/* Maps the file behind fd, which may be any file. 0; -EPROTO: not a segment; -ENOTSUP: another
 * version; or -errno. */
int segment_view_open(int fd, struct segment_view *v);
void segment_view_close(struct segment_view *v);
/* The counts as urccl_get_stats() gives them. */
void segment_stats(const struct segment *s, struct urccl_stats *out);
/* Writes all of it as text; now_ns: CLOCK_MONOTONIC. */
#define SEGMENT_SLOW_TEXT 120u
/* Turns that took over SEGMENT_SLOW_NS as text. 0: there was none. */
int segment_slow(const struct segment *s, char text[SEGMENT_SLOW_TEXT]);
/* 0, or -errno if fd cannot be written. */
int segment_text(const struct segment_view *v, uint64_t now_ns, int fd);

/* One entry, checked. */
struct segment_entry_view {
	uint32_t slot, opcode, state, stopping, awaits;
	uint64_t started_ns, user_data, total, placed, peer;
};
/* Entries that the ring ever took, and how many of them have ended, with any result. */
void segment_ring_counts(const struct segment_ring *r, uint64_t *taken, uint64_t *ended);
/* 1: entry i of the ring is unfinished. */
int segment_entry_get(const struct segment_view *v, const struct segment_ring *r, uint32_t i,
		      struct segment_entry_view *out);
/* Number of the ring's entry records, cut to the table. */
uint32_t segment_ring_records(const struct segment_ring *r);
/* The handle of the peer with this id; 0: none. */
uint32_t segment_peer_handle(const struct segment_view *v, uint64_t id);
/* Number of peer records that may be in use. */
uint32_t segment_npeers(const struct segment_view *v);
const char *segment_state_name(uint32_t state);
/* Copies a text of the segment, terminated, without control characters. */
const char *segment_string(const char *from, uint32_t size, char *to, uint32_t to_size);

/* ---- latencies ---- */

/* The cell of a time, by its leading bits. SEGMENT_CELL_STEPS is added first, so that there are
 * always enough of them. */
static inline uint32_t segment_cell(uint64_t ns)
{
	uint64_t v = ns + SEGMENT_CELL_STEPS;
	uint32_t shift = 63u - (uint32_t)__builtin_clzll(v) - SEGMENT_CELL_BITS;

	return shift * SEGMENT_CELL_STEPS + (uint32_t)(v >> shift) - SEGMENT_CELL_STEPS;
}

/* The middle of a cell's times, in ns. */
uint64_t segment_cell_ns(uint32_t cell);

/* Input of a quantile. at_once: entries that ended within the turn that took them. */
struct segment_latency {
	uint64_t ended, at_once;
	uint64_t cells[SEGMENT_CELLS];
};
/* Adds a flow to it. */
void segment_latency_add(struct segment_latency *l, const struct segment *s, uint32_t flow);
/* The quantile q in ns; 0: within one turn, or nothing ended. */
uint64_t segment_quantile(const struct segment_latency *l, double q);

#endif
