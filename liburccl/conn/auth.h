/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two contexts prove to each other that they share a secret. This file handles bytes and does no
 * I/O. Each handshake has a chain of keys: each key is the HMAC-SHA256 of the next message under
 * the key before.
 *
 *   HELLO      dialler, with a nonce    k1 = HMAC(secret, HELLO)
 *   CHALLENGE  acceptor, a nonce        k2 = HMAC(k1, nonce)
 *   PROOF      dialler                  HMAC(k2, "dialler")
 *   PROOF      acceptor                 HMAC(HMAC(k2, HELLO_ACK), "acceptor")
 *   HELLO_ACK  acceptor
 *   bond                                HMAC(k2, "bond"), for the data connections
 *
 * A proof is therefore void in another handshake (both nonces), in the other direction (the roles),
 * and for hellos with other versions or addresses. No hello can be taken for one of the three
 * words, since it is longer. Before the dialler's PROOF, a handshake costs the acceptor one struct
 * auth.
 */
#ifndef AUTH_H
#define AUTH_H

#include "conn/conn.h"
#include "conn/wire.h"

#define AUTH_BOND EP_BOND

enum auth_stage {
	AUTH_NEW,
	AUTH_SAID,	 /* dialler: HELLO was sent */
	AUTH_ANSWERED,	 /* dialler: our PROOF was sent */
	AUTH_PROVED,	 /* dialler: the acceptor's PROOF arrived, HELLO_ACK has not */
	AUTH_CHALLENGED, /* acceptor: CHALLENGE was sent */
	AUTH_DONE,	 /* the other side has proved that it has the secret */
	AUTH_FAILED
};

/* One handshake, on one side. */
struct auth {
	enum auth_stage stage;
	const struct secret *secret;
	uint8_t chain[HMAC_BYTES];
	uint8_t proof[HMAC_BYTES]; /* dialler: the acceptor's */
	struct wire_hello hello;   /* acceptor: the HELLO to answer after the dialler's proof */
};

/* Each returns 0, or -errno; after an error the handshake has failed. -EPROTO: the message is out
 * of order or malformed; -EACCES: the proof is wrong; -ENOMEM, or as random_bytes(). The arguments
 * are bodies of frames exactly as sent or received. */

/* The dialler calls these, in this order. */
int auth_said(struct auth *a, const struct secret *s, const uint8_t *hello, uint32_t len);
int auth_challenge_come(struct auth *a, const uint8_t *body, uint32_t len,
			uint8_t proof[HMAC_BYTES]);
int auth_proof_come(struct auth *a, const uint8_t *body, uint32_t len);
int auth_ack_come(struct auth *a, const uint8_t *ack, uint32_t len);

/* The acceptor calls these, in this order. */
int auth_hello_come(struct auth *a, const struct secret *s, const uint8_t *hello, uint32_t len,
		    uint8_t nonce[WIRE_NONCE]);
int auth_dialler_come(struct auth *a, const uint8_t *body, uint32_t len);
int auth_answer(struct auth *a, const uint8_t *ack, uint32_t len, uint8_t proof[HMAC_BYTES]);

/* A key for the data connections of this pair alone, after AUTH_DONE. */
int auth_bond(const struct auth *a, uint8_t bond[AUTH_BOND]);
void auth_free(struct auth *a); /* NULL is fine */

#endif
