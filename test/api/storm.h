/* SPDX-License-Identifier: Apache-2.0 */
/* What storm.c enters and what it knows of it. */
#ifndef API_STORM_H
#define API_STORM_H

#include "pair.h"

#define ROUND	   2500u /* entries on one network */
#define SMALL	   512u	 /* places of 1 KiB */
#define LARGE	   24u	 /* of 128 KiB */
#define PLACES	   (SMALL + LARGE)
#define MARGIN	   64u /* at the end of each, never touched */
#define WORDS	   8u
#define DEADLINE_MS 1500u
#define SLACK_MS   50u
#define WATCHING   0x3a7cull
#define TICKING	   0x71c4ull
#define REVOKING   0x4e0cull
#define DIALLING   0xd1a1ull
#define WARMING	   0x3a43ull
#define OTHER	   0x07e4ull /* CANCEL */
#define DRAINED	   0xd4a1ull
#define STALE	   0x57a1ull
#define BASE	   100000ull

struct place {
	uint64_t off, size, len;
	uint64_t version; /* of what the last entry's two buffers were overwritten with; 0: not */
	uint32_t busy, lost; /* lost: something may still land at the peer */
	uint32_t owed;	     /* by ACKED: the entry's index and 1; its bytes may not be there yet */
};

struct entry {
	struct place *place;
	struct urccl_seg segs[4];
	struct urccl_paged paged;
	uint64_t len, tick;
	uint32_t opcode, ms, promised, open, outcome, good, unknown, word, heard;
	uint32_t flags, group, peer;
	uint32_t torn;	 /* a bit of it may be flipped, and nobody looks */
	uint32_t told;	 /* of its loss, if it had ended by then, which nobody knows */
	uint32_t missed; /* its notification: the peer was closed, and nobody looked */
	uint32_t remote, cancelled;
	uint32_t own_us; /* its deadline, where it is not DEADLINE_MS */
	const struct entry *after; /* of its chain; NULL: it is the first */
	int64_t res, heard_res;
};

/* What has gone wrong in the round so far, or may on its network: nothing fails without it. */
struct causes {
	uint32_t errors, flips; /* pieces fail at a device; bits are flipped */
	uint32_t breaks;	/* rails and connections */
	uint32_t slow;		/* longer than a deadline of DEADLINE_MS */
	uint32_t frozen;	/* by the test, for a while */
	uint32_t closed;	/* entries that were entered before the peer was, the last time */
	uint32_t revoked;	/* and before its region was */
	uint32_t warm_failed;	/* a WARM, which is of the peer as well */
};

/* Of the round, but for the last line: of the whole run. */
extern struct entry entries[ROUND + 64];
extern struct pair p;
extern struct target t;
extern struct urccl_region local;
extern struct place places[PLACES];
extern uint8_t *bytes;
extern uint64_t state, ticks, submitted, ended, done[WORDS], unknown[WORDS];
extern uint32_t n, nopen, others, dialling, warming, connected, revoking, frozen, retired;
extern uint32_t draining, stale, doubtful;
extern struct causes causes;
extern uint32_t calm; /* few entries fail but by the network: what follows them succeeds */
extern uint64_t all_good, all_bad, all_notes, all_lost, all_revoked, all_restarted, all_proved,
	all_silent, all_torn;

/* Of what its buffers hold: as they were entered, and overwritten since. */
static inline uint64_t versions(const struct entry *e, uint32_t scribbled)
{
	return 2 * (uint64_t)(e - entries) + 2 + scribbled;
}

static inline int is_read(const struct entry *e)
{
	return e->opcode == URCCL_OP_READ || e->opcode == URCCL_OP_READV ||
	       e->opcode == URCCL_OP_READ_PAGED;
}

/* Ends the test unless why it failed is one of the things that were done to it. */
void check_cause(const struct entry *e, const struct urccl_cqe *cqe);

uint64_t below(uint64_t limit);
struct urccl_sqe *next_sqe(uint64_t user_data);
/* The last two buffers of a place are as the test left them. */
void look_untouched(const struct place *at);
void start(void);  /* one entry more, of any kind */
void cancel(void); /* some of the latest, or all that there is */
void drain(void);  /* then those that ended in silence are known */
void try_stale(struct urccl_peer peer, struct urccl_remote remote);
void owe_nothing(void); /* what was acknowledged is never proved any more */
void watch(void);
void tick(void); /* a millisecond is counted */
void on_a(const struct urccl_cqe *cqe);
void on_b(const struct urccl_cqe *cqe);

#endif
