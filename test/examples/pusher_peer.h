/* SPDX-License-Identifier: Apache-2.0 */
/* One that speaks kvcache_pusher's protocol to its decode by hand, so that it can say what a
 * pusher never would. */
#ifndef PUSHER_PEER_H
#define PUSHER_PEER_H

#include "proto.h"
#include "test.h"

#define PEER_SLOTS   3u
#define PEER_BYTES   (4u << 20) /* of page tables, of questions, and of what is written */
#define PEER_LATE_NS 20000000000ull

struct peer {
	const char *transport;
	struct urccl *ctx;
	struct urccl_ring *ring; /* what decode says; */
	struct urccl_ring *data; /*   ends of entries */
	struct urccl_peer decode;
	struct urccl_region region;
	uint8_t *post; /* page tables; questions and what is written */
	struct shape shape;
	struct side pool; /* decode's */
	struct msg_hello hello;
	struct msg_welcome welcome;
	struct urccl_remote pool_remote, asks;
	char refusal[URCCL_NOTE_MAX + 1];
};

/* Of the built-in model; notes: how many of decode's words are taken before they were looked at. */
void peer_open(struct peer *p, const char *transport, uint32_t notes);
void peer_close(struct peer *p);
/* With the first len bytes of its hello. */
void peer_connect(struct peer *p, const char *metadata, uint32_t len);
/* Takes decode's first word. */
void peer_welcomed(struct peer *p);

/* The next word of decode's, or its end; NULL after ns. It is gone with the next call. */
const struct urccl_cqe *peer_hears(struct peer *p, uint64_t ns);
/* Looks for decode's page table of the slot, without waiting. */
bool peer_has_table(struct peer *p, uint32_t slot);
const uint32_t *peer_table(const struct peer *p, uint32_t slot);
/* Until decode is lost. */
void peer_await_lost(struct peer *p);

/* Says something; its res. */
int64_t peer_says(struct peer *p, uint64_t tag, const void *payload, uint32_t len);
/* Says it n times, all at once, until decode does not hear any more. */
void peer_repeats(struct peer *p, uint32_t n, uint64_t tag, const void *payload, uint32_t len);
/* Says it behind a write that fails, so that it does not arrive. */
void peer_breaks(struct peer *p, uint64_t tag);
/* Writes the question and asks it. A question that makes sense: */
void peer_asks(struct peer *p, uint32_t slot, uint32_t id, const struct msg_ask *ask,
	       const uint32_t *pages);
struct msg_ask peer_ask(const struct peer *p, uint32_t id, uint32_t npages);
/* Writes peer_bytes() into the pool, or reads them from there; its res. */
int64_t peer_writes(struct peer *p, uint64_t off, uint32_t len);
int64_t peer_reads(struct peer *p, uint64_t off, uint32_t len);
uint8_t *peer_bytes(const struct peer *p);

#endif
