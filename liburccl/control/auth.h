/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two contexts prove to each other that they have the same secret, as bytes: no I/O. Each handshake
 * has a chain of keys, each the HMAC-SHA256 of what was said under the one before:
 *
 *	HELLO		dialler, with a nonce		k1 = HMAC(secret, HELLO)
 *	CHALLENGE	acceptor, a nonce		k2 = HMAC(k1, nonce)
 *	PROOF		dialler				HMAC(k2, "dialler")
 *	PROOF		acceptor			HMAC(HMAC(k2, HELLO_ACK), "acceptor")
 *	HELLO_ACK	acceptor
 *	bond						HMAC(k2, "bond"), of the data connections
 *
 * So a proof is worth nothing in another handshake (both nonces), in the other direction (the
 * roles), or for other hellos, with their versions and addresses, than both sides saw. A hello is
 * longer than any of the three words. What is said before the dialler's PROOF costs the acceptor
 * one struct auth.
 */
#ifndef AUTH_H
#define AUTH_H

#include "control/control.h"
#include "control/wire.h"

#define AUTH_BOND EP_BOND

enum auth_stage {
	AUTH_NEW,
	AUTH_SAID,	 /* dialler: HELLO went */
	AUTH_ANSWERED,	 /* dialler: its PROOF went */
	AUTH_TOLD,	 /* dialler: the acceptor's PROOF is here, HELLO_ACK is not */
	AUTH_CHALLENGED, /* acceptor: CHALLENGE went */
	AUTH_MET,	 /* the other side has the secret */
	AUTH_FAILED
};

/* One handshake, on one side. */
struct auth {
	enum auth_stage stage;
	const struct secret *secret;
	uint8_t chain[HMAC_BYTES];
	uint8_t proof[HMAC_BYTES]; /* dialler: the acceptor's */
	struct wire_hello hello; /* acceptor: what is answered when the dialler has proved itself */
};

/* Each gives 0 or -errno, and then the handshake has failed: -EPROTO: not now, or not so; -EACCES:
 * that is not the proof; -ENOMEM, or as random_bytes(). Bodies of frames are as they came. */

/* The dialler's, in this order. */
int auth_said(struct auth *a, const struct secret *s, const uint8_t *hello, uint32_t len);
int auth_challenge_come(struct auth *a, const uint8_t *body, uint32_t len,
			uint8_t proof[HMAC_BYTES]);
int auth_proof_come(struct auth *a, const uint8_t *body, uint32_t len);
int auth_ack_come(struct auth *a, const uint8_t *ack, uint32_t len);

/* The acceptor's. */
int auth_hello_come(struct auth *a, const struct secret *s, const uint8_t *hello, uint32_t len,
		    uint8_t nonce[WIRE_NONCE]);
int auth_dialler_come(struct auth *a, const uint8_t *body, uint32_t len);
int auth_answer(struct auth *a, const uint8_t *ack, uint32_t len, uint8_t proof[HMAC_BYTES]);

/* A key for this pair of connections alone, once they have met. */
int auth_bond(const struct auth *a, uint8_t bond[AUTH_BOND]);
void auth_free(struct auth *a); /* NULL is fine */

#endif
