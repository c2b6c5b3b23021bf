/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two ends of a measurement tell each other, as notifications: the tag says what it is,
 * the payload is one of these structs, little-endian as both ends are. A server believes no length
 * in them.
 */
#ifndef URCCL_PERF_TALK_H
#define URCCL_PERF_TALK_H

#include "end.h"

enum { TALK_VERSION = 1 };

/* Whom to dial: text or a metadata blob. */
struct whom {
	uint8_t bytes[URCCL_METADATA_MAX];
	uint32_t len;
};

enum talk {
	TALK_DATA = 0,	     /* a measured notification: counted and nothing else */
	TALK_REQUEST = 1000, /* client: struct talk_request */
	TALK_OFFER,	     /* server: struct talk_offer */
	TALK_START,	     /* client: the measured time begins; answered by TALK_RESULT */
	TALK_STOP,	     /* client: it is over; answered by TALK_RESULT */
	TALK_RESULT,	     /* server: struct talk_result */
	TALK_PING,	     /* client: answered by TALK_PONG with the same payload */
	TALK_PONG,	     /* server */
};

/* "I want memory", and what the server is to do itself where it goes both ways. */
struct talk_request {
	uint32_t version;
	uint8_t alloc, thp, bidirectional, op;
	uint64_t len; /* of the memory */
	uint64_t size, span;
	uint32_t depth, iovs, blocks, planes, table, run, cls, reserved;
	struct urccl_advert back; /* both ways: the client's memory */
};

struct talk_offer {
	int32_t err; /* 0, or -errno: nothing is offered */
	uint32_t version;
	struct urccl_advert advert;
};

/* As of now, since the server began; the client takes differences. */
struct talk_result {
	double cpu;		 /* seconds */
	uint64_t entries, bytes; /* of the server's own load */
	uint64_t notes;		 /* TALK_DATA received */
};

_Static_assert(sizeof(struct talk_request) <= URCCL_NOTE_MAX, "a request is one notification");

#endif
