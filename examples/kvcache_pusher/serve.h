/* SPDX-License-Identifier: Apache-2.0 */
/* The decode role: the pool, the pushers, and the requests that they fill pages for. */
#ifndef SERVE_H
#define SERVE_H

#include "report.h"

#define SERVE_ENTRIES 4096u
#ifndef SERVE_PUSHERS
#define SERVE_PUSHERS 256u
#endif
#define SERVE_DOOR 8u /* entries for those that find no place, one each at a time */
/* What is left for one pusher alone: two are for listening, two are its own before its hello. */
#define SERVE_ALONE (SERVE_ENTRIES - SERVE_DOOR - 4u)

enum job_state {
	JOB_IDLE = 0,
	JOB_WAITING, /* for pages that others use */
	JOB_FILLING, /* its pages are written, or read by us */
	JOB_CHECKING,
	JOB_ANSWERED, /* the answer is under way */
};

/* What an entry is, in the top byte of its user_data; then the pusher and the slot, or (NO_PLACE,
 * SHUT) the context and the peer's handle. */
enum serve_entry {
	SENTRY_ACCEPT = 1,
	SENTRY_WORD,
	SENTRY_TAKE_BACK,
	SENTRY_CLOSE,
	SENTRY_TABLE,
	SENTRY_READ,
	SENTRY_FETCHED,
	SENTRY_ANSWER,
	SENTRY_CANCEL,
	SENTRY_NO_PLACE,
	SENTRY_SHUT,
};

struct fill { /* one request that fills pages here */
	enum job_state state;
	uint32_t index;
	uint32_t id;
	uint32_t nblocks, npages;
	struct want *wants;
	uint32_t nget;		   /* pages that decode lacks: */
	uint32_t *src, *dst;	   /*   prefill's page (pull), ours */
	struct urccl_paged *descs; /* pull: of all layers */
	uint32_t asked, fetched;   /* pull: layers whose reads began, and ended */
	bool aborted, read_failed;
	uint32_t asked_again; /* a question that came before we knew that our answer had arrived */
	uint32_t inflight;    /* entries of it that have not ended */
	uint64_t order;	      /* of arrival: who gets pages, and is checked, first */
	uint32_t block, page, chain, layer; /* where checking is */
	uint32_t wrong;			    /* pages of a layer */
	struct msg_answer answer;
};

struct pusher {
	uint32_t index, number; /* in the table; of all that ever came, from 1 */
	uint32_t context;	/* that it dialled */
	struct node *node;
	struct urccl_peer peer;
	char address[64];
	struct msg_hello hello;
	struct side cache; /* prefill's, pull */
	uint8_t *post;	   /* slots x question, then slots x page table */
	uint64_t question_bytes, table_bytes;
	struct urccl_region post_region;
	/* The pool, as this pusher may use it. It is unregistered when the pusher is gone, and then
	 * nothing of its lands any more: not if it is connected still, nor if it is frozen with the
	 * memory mapped and goes on later. */
	struct urccl_region pool_region;
	struct urccl_remote mailbox, remote_cache;
	struct fill *fills;
	uint32_t unquiet; /* blocks that it may still write to: nobody gets them until then */
	uint32_t nslots, ndescs;
	uint32_t reserved; /* entries of the ring that it may have under way */
	uint32_t inflight;
	union {
		struct msg_welcome welcome;
		struct msg_refusal refusal;
	} word;			/* payload of the first word to it as a whole */
	struct msg_stats stats; /* and of the last: we may hear of BYE before we know that the first
				 * has arrived */
	uint64_t cpu_start;	/* our CPU time when it came, but checking */
	struct busy busy;	/* pull */
	uint32_t done, wrong, aborted;
	bool refused, said_bye, lost, closing;
};

struct serve {
	const struct job *job;
	const struct options *o;
	struct node node, more[CONTEXTS_MAX - 1]; /* contexts, of one loop */
	struct side side; /* the pool */
	struct urccl_region region[CONTEXTS_MAX];
	struct pool pool;
	struct pusher *pushers[SERVE_PUSHERS];
	uint32_t npushers, came;
	uint32_t reserved; /* entries promised to pushers, and those of the door */
	uint32_t at_door;
	uint64_t *door_queue; /* user_data of those behind them */
	uint32_t door_waits, door_max;
	uint64_t orders;
	uint64_t checked, wrong, verify_cpu;
	uint32_t done, aborted, vanished;
	bool pages_back; /* since waiting requests were tried last */
	bool over;
};

/* A pusher broke the protocol: it is told to go. */
void serve_drop(struct serve *s, struct pusher *p, const char *why);
/* The entry failed because the connection broke: LOST follows and says so. */
bool serve_breaks(const struct pusher *p, const struct urccl_cqe *cqe);
uint64_t serve_data(enum serve_entry what, const struct pusher *p, uint32_t slot);
static inline uint64_t serve_door_data(enum serve_entry what, uint32_t context, uint32_t peer)
{
	return (uint64_t)what << 56 | (uint64_t)context << 32 | peer;
}

static inline struct node *serve_node(struct serve *s, uint32_t context)
{
	return context ? &s->more[context - 1] : &s->node;
}

/* ---- no place (serve_door.c) ---- */

/* Tells it so, and gives its handle back. */
void door_refuse(struct serve *s, uint32_t context, struct urccl_peer peer);
/* NO_PLACE or SHUT. */
void door_end_of_entry(struct serve *s, const struct urccl_cqe *cqe);

/* ---- requests (serve_request.c) ---- */

int fill_open(struct serve *s, struct pusher *p, struct fill *f); /* 0 or -1: no memory */
void fill_close(struct fill *f);
void fill_note(struct serve *s, struct pusher *p, struct fill *f, enum message what, uint32_t id,
	       const void *payload, uint32_t len);
void fill_end_of_entry(struct serve *s, struct pusher *p, struct fill *f, enum serve_entry what,
		       const struct urccl_cqe *cqe);
/* The pusher is gone. */
void fill_lost(struct serve *s, struct pusher *p, struct fill *f);
/* Gives pages to those that wait, in order. */
void fills_retry(struct serve *s);
/* Checks for some time. Returns true if there is more to check. */
bool fills_check(struct serve *s);

#endif
