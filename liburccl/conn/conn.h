/* SPDX-License-Identifier: Apache-2.0 */
/* A context's settings of its control thread, and calls of other threads to it. */
#ifndef CONN_H
#define CONN_H

#include "base/base.h"
#include "memory/memory.h"
#include "backend/backend.h"
#include "engine/engine.h"

#define SCRATCH_BYTES (1u << 20) /* size of the remote that CONTROL_SCRATCH gives */

/* The secret that all peers of this context share; is_set 0: no secret, any peer may connect. */
struct secret {
	int is_set;
	struct hmac hmac;
	uint8_t key[HMAC_BYTES]; /* derived from the secret */
};

struct control_config {
	const struct urccl_params *params;
	uint64_t incarnation;
	const struct sockaddr_storage *listen; /* nlisten addresses with one port, at most
					        * LISTEN_MAX */
	uint32_t nlisten;		       /* 0: the context does not listen */
	struct device **devices;	       /* in order of preference */
	uint32_t ndevices;
	const struct secret *secret;
	struct gpu *gpu;	   /* the GPUs of the context; control_close() closes it */
	const struct clock *clock; /* the clock that adverts expire by; NULL: the real one */
	uint64_t required;	   /* transports, one bit each: peers that such a transport reaches
				    * must use it */
};

/* Calls of other threads. The caller owns the call, posts it with control_call(), and has it back
 * when `done` is 1. */
enum control_call_type {
	CALL_REQUEST = 100, /* req: the same request that an entry makes: REGISTER, UNREGISTER,
			     * REVOKE, IMPORT, FORGET */
	CALL_ALLOC,	    /* allocation: passes to the control thread */
	CALL_FREE,	    /* addr -> allocation: passes back to the caller */
	CALL_ADVERTISE,	    /* handle, off, len, rights, ttl_ms -> *advert */
	CALL_METADATA,	    /* data, n -> res: bytes */
	CALL_LISTENING,	    /* off: index; data, n -> res: bytes of text */
	CALL_PEER_INFO,	    /* handle, info */
	CALL_REGION_INFO,   /* handle, info */
	CALL_REMOTE_INFO,   /* handle, info */
	CALL_REMOTE_MAP,    /* handle -> addr */
	CALL_REMOTE_UNMAP,  /* handle */
	CALL_RING_ADD,	    /* ring */
	CALL_RING_DEL,	    /* ring: answered when the engine no longer uses it */
	CALL_SHUTDOWN,	    /* closes all peers and regions, stops the engine; answered at the
			     * end */
};

struct control_call {
	struct msg msg; /* type: enum control_call_type; res */
	uint32_t done;	/* the control thread stores 1, then wakes the futex that the caller waits
			 * on */
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
	char error[256]; /* the sentence for the caller's urccl_errmsg() */
};

#endif
