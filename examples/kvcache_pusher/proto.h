/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What prefill and decode say to each other. Little-endian like the rest of the ABI; every message
 * fits the 256 bytes of a notification, but for questions and page tables, which are written into
 * the other's memory by a WRITE that notifies.
 *
 *	push: CONNECT with HELLO	-> decode
 *	push				<- WELCOME, or REFUSAL with a sentence
 *	push: ASK, written		-> decode finds prefix blocks, takes pages
 *	push				<- TABLE, written
 *	push: WRITE_PAGED a layer, then DONE behind a fence -> decode checks
 *	pull: LAYER, as each is computed -> decode: READ_PAGED; FETCHED when all are there
 *	push				<- ANSWER
 *	push: ABORT instead of DONE	-> decode takes the pages back <- ANSWER
 *	push: BYE			-> decode <- STATS, then push closes
 */
#ifndef PROTO_H
#define PROTO_H

#include <stdint.h>
#include <liburccl.h>
#include "pusher.h"

#define PROTO_MAGIC	0x687375702d766bull /* "kv-push", as bytes */
#define PROTO_VERSION	2u
#define PROTO_SLOTS_MAX 64u

enum message {
	MSG_WELCOME = 1,
	MSG_REFUSAL,
	MSG_ASK,
	MSG_TABLE,
	MSG_LAYER,
	MSG_DONE,
	MSG_ABORT,
	MSG_FETCHED,
	MSG_ANSWER,
	MSG_BYE,
	MSG_STATS,
};

/* A notification's tag: what, of which slot, for which request. */
static inline uint64_t tag_make(enum message what, uint32_t slot, uint32_t id)
{
	return (uint64_t)what << 56 | (uint64_t)slot << 32 | id;
}

static inline enum message tag_what(uint64_t tag)
{
	return (enum message)(tag >> 56);
}

static inline uint32_t tag_slot(uint64_t tag)
{
	return (uint32_t)(tag >> 32) & 0xffffffu;
}

static inline uint32_t tag_id(uint64_t tag)
{
	return (uint32_t)tag;
}

struct msg_id { /* what either end says when it is connected: the first bytes of both hellos */
	uint64_t magic;
	uint32_t version;
	uint32_t reserved;
};

struct msg_hello {
	struct msg_id id;
	struct shape shape;
	uint32_t tp_prefill, tp_decode;
	uint32_t slots;	 /* requests under way at most */
	uint32_t pages;	 /* of prefill's cache */
	uint32_t pull;	 /* decode reads */
	uint32_t verify; /* prefill makes page bytes that can be checked */
	uint32_t run;	 /* the same of all contexts of one prefill; 0: it has no others */
	struct urccl_advert mailbox; /* decode writes page tables: slots x table_bytes(pages) */
	struct urccl_advert cache;   /* decode reads, if pull */
};

struct msg_welcome {
	uint32_t pages;		  /* of decode's pool */
	uint32_t verify;	  /* decode checks */
	uint32_t memory, gpu;	  /* of the pool: enum memory_kind */
	uint64_t ask_bytes;	  /* of one slot of asks */
	struct urccl_advert pool; /* prefill writes (and reads a word of), unless pull */
	struct urccl_advert asks; /* prefill writes its questions */
};

struct msg_refusal {
	char text[URCCL_NOTE_MAX];
};

/* Written into decode's slot: this, then nblocks hashes (u64), then, if pull, npages of
 * prefill's pages (u32). */
struct msg_ask {
	uint32_t id;
	uint32_t tokens, block_tokens;
	uint32_t nblocks, npages;
	uint32_t reserved;
};

/* Written into prefill's slot: this, then for each page of the request decode's page, or
 * NO_PAGE: decode has it. */
struct msg_table {
	uint32_t id;
	uint32_t npages;
	uint32_t held; /* blocks that decode has */
	uint32_t reserved;
};

struct msg_layer {
	uint32_t ready; /* layers computed so far */
};

struct msg_abort {
	uint32_t quiet; /* every write has ended with proof that nothing more lands */
};

enum verdict { VERDICT_RIGHT = 0, VERDICT_WRONG, VERDICT_ABORTED, VERDICT_FAILED };

struct msg_answer {
	uint32_t verdict;
	uint32_t wrong; /* pages, each of one layer */
};

struct msg_stats {			    /* decode's, of this pusher's requests */
	uint64_t cpu_ns;		    /* all of decode's since it came, but checking */
	uint64_t verify_ns, checked, wrong; /* pages, each of one layer */
	uint64_t evicted;		    /* blocks */
	uint64_t read_bytes, read_ns;	    /* pull: in flight */
	uint32_t path;			    /* pull: URCCL_PATH_* seen */
	uint32_t transports;		    /* pull: bits 1 << enum urccl_transport */
	uint32_t beside;		    /* cpu_ns is of other pushers' requests, too */
	uint32_t reserved;
};

static inline uint64_t table_bytes(uint32_t pages)
{
	return (sizeof(struct msg_table) + 4ull * pages + 63) & ~63ull;
}

static inline uint64_t ask_bytes(uint32_t pages)
{
	return (sizeof(struct msg_ask) + 12ull * pages + 63) & ~63ull;
}

_Static_assert(sizeof(struct msg_hello) <= URCCL_NOTE_MAX, "a hello is a CONNECT's payload");
_Static_assert(sizeof(struct msg_welcome) <= URCCL_NOTE_MAX, "a welcome is a notification's");

#endif
