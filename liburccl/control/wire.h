/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control protocol as bytes: no I/O, no state. Little-endian. A connection begins with the
 * magic, from either side, then come frames: a header {u32 length of the body, u16 type, u16 0} and
 * the body. Every get function accepts any bytes and returns 0 or -EPROTO; every put function fills
 * a frame, header included, and returns its length, at most WIRE_BUF.
 *
 * HELLO and REFUSE begin with the least and the greatest version that their sender speaks; these,
 * the magic and the header stay the same in every version.
 */
#ifndef WIRE_H
#define WIRE_H

#include "backend/backend.h"
#include "engine/engine.h"

#define WIRE_VERSION	  1u
#define WIRE_MAGIC	  8u
#define WIRE_NONCE	  32u
#define WIRE_PROOF_BYTES  32u
#define WIRE_HEADER	  8u
#define WIRE_FRAME_MAX	  16384u /* bytes of a body */
#define WIRE_BUF	  8192u	 /* bytes of any frame made here */
#define WIRE_RAILS	  DEVICES_MAX

extern const uint8_t wire_magic[WIRE_MAGIC];

enum wire_type {
	WIRE_HELLO = 1, /* dialler: who I am, where my eps are; again from cold */
	WIRE_HELLO_ACK, /* acceptor: who I am, the eps of the transports we share; likewise */
	WIRE_REFUSE,	/* acceptor: no; ends the connection */
	WIRE_PATH,	/* dialler: this rail is up, use it */
	WIRE_READY,	/* acceptor: the program has taken the peer */
	WIRE_PING,
	WIRE_PONG,
	WIRE_BYE,	/* the connection ends soon, in order */
	WIRE_KEY_REQ,	/* importer: the key of this advert, please */
	WIRE_KEY_REP,	/* owner: here it is, or why not */
	WIRE_REVOKE,	/* owner: keys given so far for this region end, use them no more */
	WIRE_REVOKED,	/* importer: nothing is on its way that uses those of this REVOKE, or of any
		       * before it */
	/* The data path goes while nobody needs it, and comes back. */
	WIRE_COOL,     /* may it go? nothing of mine is under way */
	WIRE_COOL_YES, /* nothing of mine either, and nothing begins until you have said more */
	WIRE_COOL_NO,  /* not now; after a YES: I need it after all */
	WIRE_COLD,     /* it goes, say so too and close it; on the way back: not now, close it */
	WIRE_WANT,     /* acceptor: entries wait, HELLO please */
	WIRE_CHALLENGE, /* acceptor: prove with this that you have the secret */
	WIRE_PROOF,	/* both: here it is; the acceptor's is of the HELLO_ACK that follows */
	/* Rails come and go by their number: of those of the one transport that HELLO names, in
	 * its order. */
	WIRE_FENCE,	/* my end of that rail is closed: nothing of yours lands by it any more */
	WIRE_RAIL,	/* dialler, after both: my new ep of that rail */
	WIRE_RAIL_ACK,	/* acceptor: and mine; or FENCE: not now */
	WIRE_ACCEPTED,	/* acceptor, before READY: my ACCEPT's hello, in place of
			 * that of HELLO_ACK */
	WIRE_PORT,	/* acceptor: a port of mine has its link again, RAIL please */
	WIRE_TYPES
};

enum wire_code { /* of a REFUSE */
		 WIRE_NO_VERSION = 1,
		 WIRE_STALE,	    /* not the incarnation that was expected */
		 WIRE_SELF,	    /* the dialler dialled itself */
		 WIRE_FULL,	    /* max_peers is reached, or (error) something has run out */
		 WIRE_EXISTS,	    /* a connection of the two is there or on its way */
		 WIRE_NO_PATH,	    /* no transport in common, or none came up */
		 WIRE_CLOSING,	    /* the context is being closed */
		 WIRE_BUSY,	    /* max_peers is reached by some who may not stay: come again */
		 WIRE_SECRET,	    /* a secret is wanted, and the dialler has none */
		 WIRE_NO_SECRET,    /* the dialler has a secret, and there is none here */
		 WIRE_OTHER_SECRET, /* the dialler's is another one */
};

struct wire_header {
	uint32_t len; /* of the body, at most WIRE_FRAME_MAX */
	uint32_t type;
};

struct wire_rail {
	uint32_t transport; /* enum urccl_transport */
	uint32_t id;	    /* the dialler's, in the answer too */
	uint32_t addr_len;
	uint8_t addr[EP_ADDR_MAX];
};

#define WIRE_HAS_SECRET 1u /* the dialler can prove that it has one, and wants a proof */

struct wire_hello {			   /* HELLO and HELLO_ACK */
	uint32_t version_min, version_max; /* HELLO_ACK: both the one chosen */
	uint64_t incarnation;		   /* the sender's, not 0 */
	uint64_t expected;		   /* HELLO: the receiver's, 0: any */
	uint32_t host;			   /* the sender's machine, 0: not known */
	uint32_t key_window;		   /* KEY_REQs that the sender takes unanswered, not 0 */
	uint32_t features;		   /* WIRE_HAS_SECRET, or 0 */
	uint8_t nonce[WIRE_NONCE];	   /* with WIRE_HAS_SECRET */
	uint32_t port;			   /* HELLO: where the sender can be dialled at the address
					    * that it comes from, 0: nowhere */
	uint32_t note_len;
	uint8_t note[HELLO_MAX];
	uint32_t nrails;
	struct wire_rail rails[WIRE_RAILS]; /* HELLO: best first */
};

struct wire_refuse {
	uint32_t version_min, version_max;
	uint32_t code;	      /* enum wire_code */
	uint64_t incarnation; /* the sender's */
	uint64_t transports;  /* of the sender: a bit for each enum urccl_transport */
	uint32_t error;	      /* what stands behind the code, an errno; 0: nothing */
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
	uint32_t grant; /* what atomics name the memory by; not 0 where there is a key */
	uint32_t len;
	const uint8_t *key; /* in the body, or the caller's */
};

struct wire_revoke {
	uint64_t number; /* of the sender's REVOKEs to this peer, from 1 */
	uint64_t upto;	 /* the last KEY_REQ that it had seen */
	uint32_t region; /* as adverts name it */
};

int wire_get_header(const uint8_t head[WIRE_HEADER], struct wire_header *h);

uint32_t wire_put_hello(uint8_t *buf, uint32_t type, const struct wire_hello *h);
/* Also -EPROTONOSUPPORT: well begun, but its versions do not meet ours; only the versions are
 * filled. */
int wire_get_hello(const uint8_t *body, uint32_t len, struct wire_hello *h);

uint32_t wire_put_refuse(uint8_t *buf, const struct wire_refuse *r);
int wire_get_refuse(const uint8_t *body, uint32_t len, struct wire_refuse *r);

/* Types with one number: PATH (rail id), FENCE, PING and PONG (cookie), REVOKED; READY, BYE, COOL,
 * COOL_YES, COOL_NO, COLD and WANT (0). */
uint32_t wire_put_word(uint8_t *buf, uint32_t type, uint64_t word);
int wire_get_word(const uint8_t *body, uint32_t len, uint64_t *word);

/* RAIL and RAIL_ACK; id is the rail's number. */
uint32_t wire_put_rail(uint8_t *buf, uint32_t type, const struct wire_rail *rail);
int wire_get_rail(const uint8_t *body, uint32_t len, struct wire_rail *rail);

/* CHALLENGE, PROOF and ACCEPTED: so many bytes. */
uint32_t wire_put_bytes(uint8_t *buf, uint32_t type, const void *bytes, uint32_t len);

uint32_t wire_put_key_req(uint8_t *buf, const struct wire_key_req *r);
int wire_get_key_req(const uint8_t *body, uint32_t len, struct wire_key_req *r);
uint32_t wire_put_key_rep(uint8_t *buf, const struct wire_key_rep *r);
int wire_get_key_rep(const uint8_t *body, uint32_t len, struct wire_key_rep *r);

uint32_t wire_put_revoke(uint8_t *buf, const struct wire_revoke *r);
int wire_get_revoke(const uint8_t *body, uint32_t len, struct wire_revoke *r);

/* ---- the metadata blob: how to dial a context ---- */

#define METADATA_VERSION 1u
#define METADATA_HOSTS 16u
#define METADATA_MAX   320u

struct metadata {
	uint64_t incarnation; /* not 0 */
	uint32_t port;
	uint32_t nhosts; /* not 0 */
	struct metadata_host {
		uint32_t family; /* 4 or 6 */
		uint8_t addr[16];
	} hosts[METADATA_HOSTS]; /* to be tried in this order */
};

uint32_t metadata_put(uint8_t *buf, const struct metadata *m);
/* 0, -EPROTONOSUPPORT (of a newer version) or -EINVAL: any byte of it was changed. */
int metadata_get(const uint8_t *blob, uint64_t len, struct metadata *m);

#endif
