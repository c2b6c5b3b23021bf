/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control protocol as bytes: no I/O, no state. Little-endian. Each side first sends the magic,
 * then frames: a header {u32 length of the body, u16 type, u16 0} and the body. Every get function
 * accepts any bytes and returns 0 or -EPROTO. Every put function writes a frame with its header and
 * returns its length, at most WIRE_BUF.
 *
 * HELLO and REFUSE begin with the lowest and the highest version of their sender. These two fields,
 * the magic and the header are the same in every version.
 */
#ifndef WIRE_H
#define WIRE_H

#include "backend/backend.h"
#include "engine/engine.h"

#define WIRE_VERSION	 1u
#define WIRE_MAGIC	 8u
#define WIRE_NONCE	 32u
#define WIRE_PROOF_BYTES 32u
#define WIRE_HEADER	 8u
#define WIRE_FRAME_MAX	 16384u /* bytes of a body */
#define WIRE_BUF	 8192u	/* bytes of any frame made here */
#define WIRE_RAILS	 DEVICES_MAX

extern const uint8_t wire_magic[WIRE_MAGIC];

enum wire_type {
	WIRE_HELLO = 1, /* dialler: identity, and an ep for each rail; also to resume */
	WIRE_HELLO_ACK, /* acceptor: identity, and eps of the common transports; likewise */
	WIRE_REFUSE,	/* acceptor: refused; the connection ends */
	WIRE_PATH,	/* dialler: the named rail is up, use it */
	WIRE_READY,	/* acceptor: the program has taken the peer */
	WIRE_PING,
	WIRE_PONG,
	WIRE_BYE,     /* an orderly end follows soon */
	WIRE_KEY_REQ, /* importer: requests the key of an advert */
	WIRE_KEY_REP, /* owner: the key, or the reason for its lack */
	WIRE_REVOKE,  /* owner: the keys given so far for a region end; do not use them */
	WIRE_REVOKED, /* importer: no entry uses keys of this REVOKE or an earlier one */
	/* Idle eviction: the data path is suspended, and resumed later. */
	WIRE_SUSPEND,	  /* may it be suspended? this side is idle */
	WIRE_SUSPEND_YES, /* yes: this side is idle too, and starts nothing until the next frame */
	WIRE_SUSPEND_NO,  /* not now; after SUSPEND_YES: this side needs it after all */
	WIRE_SUSPENDED,	  /* suspend: answer SUSPENDED and close the rails; during a resume: not
			 * now */
	WIRE_RESUME,	  /* acceptor: resume request, entries wait */
	WIRE_CHALLENGE,	  /* acceptor: a nonce, to be answered with PROOF */
	WIRE_PROOF, /* both sides: a proof; the acceptor's covers the HELLO_ACK that follows */
	/* Rails are named by their number among those of one transport, in the order of HELLO. */
	WIRE_FENCE,    /* this end of the rail is closed: none of the other side's data lands here
			 * any more */
	WIRE_RAIL,     /* dialler, after both FENCEs: the new ep of the rail */
	WIRE_RAIL_ACK, /* acceptor: its ep; or FENCE: not now */
	WIRE_ACCEPTED, /* acceptor, before READY: the hello of the ACCEPT, which replaces that of
			 * HELLO_ACK */
	WIRE_PORT,     /* acceptor: a port has its link again, send RAIL */
	WIRE_TYPES
};

enum wire_code { /* in REFUSE */
		 WIRE_NO_VERSION = 1,
		 WIRE_STALE,	    /* not the incarnation that was expected */
		 WIRE_SELF,	    /* the dialler dialled itself */
		 WIRE_FULL,	    /* max_peers is reached; or, with error, a resource ran out */
		 WIRE_EXISTS,	    /* the two are connected, or a dial is under way */
		 WIRE_NO_PATH,	    /* no transport in common, or none came up */
		 WIRE_CLOSING,	    /* the context is being closed */
		 WIRE_BUSY,	    /* max_peers is reached, but a slot may become free: dial
				     * again */
		 WIRE_SECRET,	    /* a secret is required, and the dialler has none */
		 WIRE_NO_SECRET,    /* the dialler has a secret, and the acceptor has none */
		 WIRE_OTHER_SECRET, /* the two secrets differ */
};

struct wire_header {
	uint32_t len; /* bytes of the body, at most WIRE_FRAME_MAX */
	uint32_t type;
};

struct wire_rail {
	uint32_t transport; /* enum urccl_transport */
	uint32_t id;	    /* chosen by the dialler, repeated in the answer */
	uint32_t addr_len;
	uint8_t addr[EP_ADDR_MAX];
};

#define WIRE_HAS_SECRET 1u /* the sender has a secret, and requires a proof of the other side */

struct wire_hello {			   /* HELLO and HELLO_ACK */
	uint32_t version_min, version_max; /* HELLO_ACK: both are the chosen version */
	uint64_t incarnation;		   /* the sender's, not 0 */
	uint64_t expected;		   /* HELLO: the receiver's, 0: any */
	uint32_t host;			   /* the sender's machine; 0: unknown */
	uint32_t key_window;		   /* unanswered KEY_REQs that the sender accepts, not 0 */
	uint32_t features;		   /* WIRE_HAS_SECRET, or 0 */
	uint8_t nonce[WIRE_NONCE];	   /* with WIRE_HAS_SECRET */
	uint32_t port;			   /* HELLO: the sender's listen port at the address that it
					    * dials from; 0: none */
	uint32_t note_len;
	uint8_t note[HELLO_MAX];
	uint32_t nrails;
	struct wire_rail rails[WIRE_RAILS]; /* HELLO: best first */
};

struct wire_refuse {
	uint32_t version_min, version_max;
	uint32_t code;	      /* enum wire_code */
	uint64_t incarnation; /* the sender's */
	uint64_t transports;  /* the sender's, one bit for each enum urccl_transport */
	uint32_t error;	      /* errno behind the code; 0: none */
	uint32_t required;    /* NO_PATH: the one transport that the sender's policy allows with
			       * the dialler; 0: any */
};

struct wire_key_req {
	uint64_t id;
	uint32_t rail; /* number */
	struct urccl_advert advert;
};

struct wire_key_rep {
	uint64_t id;
	int32_t status; /* 0, or -errno and no key */
	uint32_t grant; /* the name of the memory in atomics; not 0 if there is a key */
	uint32_t len;
	const uint8_t *key; /* points into the body, or to the caller's bytes */
};

struct wire_revoke {
	uint64_t number; /* counts the sender's REVOKEs to this peer, from 1 */
	uint64_t upto;	 /* the last KEY_REQ that the sender had received */
	uint32_t region; /* its handle, as in adverts */
};

int wire_get_header(const uint8_t head[WIRE_HEADER], struct wire_header *h);

uint32_t wire_put_hello(uint8_t *buf, uint32_t type, const struct wire_hello *h);
/* Also -EPROTONOSUPPORT: no common version; then only the versions are filled in. */
int wire_get_hello(const uint8_t *body, uint32_t len, struct wire_hello *h);

uint32_t wire_put_refuse(uint8_t *buf, const struct wire_refuse *r);
int wire_get_refuse(const uint8_t *body, uint32_t len, struct wire_refuse *r);

/* Frames with one number: PATH (rail id), FENCE, PING and PONG (cookie), REVOKED; READY, BYE,
 * SUSPEND, SUSPEND_YES, SUSPEND_NO, SUSPENDED and RESUME (0). */
uint32_t wire_put_word(uint8_t *buf, uint32_t type, uint64_t word);
int wire_get_word(const uint8_t *body, uint32_t len, uint64_t *word);

/* RAIL and RAIL_ACK; id is the rail's number. */
uint32_t wire_put_rail(uint8_t *buf, uint32_t type, const struct wire_rail *rail);
int wire_get_rail(const uint8_t *body, uint32_t len, struct wire_rail *rail);

/* CHALLENGE, PROOF and ACCEPTED: len bytes. */
uint32_t wire_put_bytes(uint8_t *buf, uint32_t type, const void *bytes, uint32_t len);

uint32_t wire_put_key_req(uint8_t *buf, const struct wire_key_req *r);
int wire_get_key_req(const uint8_t *body, uint32_t len, struct wire_key_req *r);
uint32_t wire_put_key_rep(uint8_t *buf, const struct wire_key_rep *r);
int wire_get_key_rep(const uint8_t *body, uint32_t len, struct wire_key_rep *r);

uint32_t wire_put_revoke(uint8_t *buf, const struct wire_revoke *r);
int wire_get_revoke(const uint8_t *body, uint32_t len, struct wire_revoke *r);

/* ---- the metadata blob, which tells how to dial a context ---- */

#define METADATA_VERSION 1u
#define METADATA_HOSTS	 16u
#define METADATA_MAX	 320u

struct metadata {
	uint64_t incarnation; /* not 0 */
	uint32_t port;
	uint32_t nhosts; /* not 0 */
	struct metadata_host {
		uint32_t family; /* 4 or 6 */
		uint8_t addr[16];
	} hosts[METADATA_HOSTS]; /* in the order in which to try them */
};

uint32_t metadata_put(uint8_t *buf, const struct metadata *m);
/* 0; -EPROTONOSUPPORT: of a newer version; -EINVAL: damaged. */
int metadata_get(const uint8_t *blob, uint64_t len, struct metadata *m);

#endif
