/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread of a context: listens, dials, shakes hands, keeps the tables of peers,
 * regions and remotes, and tells the engine. Its state is private to it; calls of other threads
 * are messages that it answers.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include "base/base.h"
#include "memory/memory.h"
#include "backend/backend.h"
#include "engine/engine.h"

struct control;

#define SCRATCH_BYTES (1u << 20)	/* of the remote that CONTROL_SCRATCH gives */

/* What all that may connect know; is_set 0: anybody may. */
struct secret {
	int is_set;
	struct hmac hmac;
	uint8_t key[HMAC_BYTES]; /* made of it */
};

/* Takes params.secret or what secret_file holds. 0 (also where there is neither) or -errno with
 * fail() text. */
int secret_open(struct secret *s, const struct urccl_params *p);

struct control_config {
	const struct urccl_params *params;
	uint64_t incarnation;
	const struct sockaddr_storage *listen; /* nlisten of one port, at most LISTEN_MAX */
	uint32_t nlisten;		       /* 0: do not listen */
	struct device **devices;	       /* in order of preference */
	uint32_t ndevices;
	const struct secret *secret;
	struct gpu *gpu;		/* GPUs of the context; control_close() closes it */
	const struct clock *clock;	/* that adverts expire by; NULL: the real one */
	uint64_t required;		/* a bit for each transport that must be used with whom it
					 * reaches */
};

/* Opens the listener and the thread's wake-ups; the mailbox is there afterwards. 0 or -errno
 * with fail() text. */
int control_open(const struct control_config *config, struct control **control);
struct mailbox *control_mailbox(struct control *c);
/* Starts the thread; engine is where commands go. */
int control_start(struct control *c, struct engine *engine);
/* Ends the thread (CALL_SHUTDOWN came back before) and frees everything. */
void control_close(struct control *c);
/* A device's driver does not return: the thread ends if it can and says nothing more, and all
 * else stays as it is. */
void control_leave(struct control *c);

/* The first address it listens on, with the port it got; its family is AF_UNSPEC if it does not. */
void control_listen_addr(const struct control *c, struct sockaddr_storage *ss);

/* What other threads ask. The caller owns the call, posts it with control_call() and has it back
 * when `done` is 1. */
enum control_call_type {
	CALL_REQUEST = 100, /* req: REGISTER, UNREGISTER, REVOKE, IMPORT or FORGET, as
					 * an entry would ask for it */
	CALL_ALLOC,	    /* allocation: the control thread's from now on */
	CALL_FREE,	    /* addr -> allocation: the caller's again */
	CALL_ADVERTISE,	    /* handle, off, len, rights, ttl_ms -> *advert */
	CALL_METADATA,	    /* data, n -> res: bytes */
	CALL_LISTENING,	    /* off: which, data, n -> res: bytes of text */
	CALL_PEER_INFO,	    /* handle, info */
	CALL_REGION_INFO,   /* handle, info */
	CALL_REMOTE_INFO,   /* handle, info */
	CALL_REMOTE_MAP,    /* handle -> addr */
	CALL_REMOTE_UNMAP,  /* handle */
	CALL_PEER_NAME,	    /* handle -> text in data, n: for sentences; 1: it
				* closed in order, or does */
	CALL_RING_ADD,	    /* ring */
	CALL_RING_DEL,	    /* ring: back when the engine has let go */
	CALL_SHUTDOWN,	    /* close every peer, region and the engine; back when all
					 * is done */
};

struct control_call {
	struct msg msg; /* type: enum control_call_type; res */
	uint32_t done;	/* control thread: 1, then a futex wake; caller: waits on
					 * it */
	uint32_t handle;
	struct control_req req;
	uint32_t n;
	uint32_t rights;
	uint64_t off, len, ttl_ms;
	uint64_t addr;
	struct allocation *allocation;
	struct urccl_advert *advert;
	void *data;
	void *info;
	struct engine_ring *ring;
	char error[256]; /* the sentence for urccl_errmsg() of the caller */
};

/* Posts the call; it is answered later. Waiting for it is the caller's affair (context.c). */
void control_call(struct control *c, struct control_call *call);

#endif
