/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "conn/auth.h"

static int hmac_of(const struct auth *a, const uint8_t key[HMAC_BYTES], const void *data,
		   size_t len, uint8_t out[HMAC_BYTES])
{
	return hmac_sha256(&a->secret->hmac, key, HMAC_BYTES, data, len, out);
}

static int hmac_word(const struct auth *a, const uint8_t key[HMAC_BYTES], const char *word,
		     uint8_t out[HMAC_BYTES])
{
	return hmac_of(a, key, word, strlen(word), out);
}

static int chain_add(struct auth *a, const void *data, uint32_t len)
{
	uint8_t next[HMAC_BYTES];
	int err = hmac_of(a, a->chain, data, len, next);

	if (!err)
		memcpy(a->chain, next, sizeof(next));
	return err;
}

static int auth_fail(struct auth *a, int err)
{
	a->stage = AUTH_FAILED;
	return err;
}

/* The message fits this stage and has the expected length. */
static int auth_is_expected(const struct auth *a, enum auth_stage stage, uint32_t len,
			    uint32_t expected)
{
	return a->stage == stage && len == expected;
}

static int auth_begin(struct auth *a, const struct secret *s, const uint8_t *hello, uint32_t len)
{
	assert(a->stage == AUTH_NEW && s->is_set);
	a->secret = s;
	memcpy(a->chain, s->key, sizeof(a->chain));
	return chain_add(a, hello, len);
}

static int acceptor_proof(const struct auth *a, const uint8_t *ack, uint32_t len,
			  uint8_t proof[HMAC_BYTES])
{
	uint8_t key[HMAC_BYTES];
	int err = hmac_of(a, a->chain, ack, len, key);

	return err ? err : hmac_word(a, key, "acceptor", proof);
}

/* ---- dialler ---- */

int auth_said(struct auth *a, const struct secret *s, const uint8_t *hello, uint32_t len)
{
	int err = auth_begin(a, s, hello, len);

	if (err)
		return auth_fail(a, err);
	a->stage = AUTH_SAID;
	return 0;
}

int auth_challenge_come(struct auth *a, const uint8_t *body, uint32_t len,
			uint8_t proof[HMAC_BYTES])
{
	int err =
		auth_is_expected(a, AUTH_SAID, len, WIRE_NONCE) ? chain_add(a, body, len) : -EPROTO;

	if (!err)
		err = hmac_word(a, a->chain, "dialler", proof);
	if (err)
		return auth_fail(a, err);
	a->stage = AUTH_ANSWERED;
	return 0;
}

int auth_proof_come(struct auth *a, const uint8_t *body, uint32_t len)
{
	if (!auth_is_expected(a, AUTH_ANSWERED, len, HMAC_BYTES))
		return auth_fail(a, -EPROTO);
	memcpy(a->proof, body, len);
	a->stage = AUTH_PROVED;
	return 0;
}

int auth_ack_come(struct auth *a, const uint8_t *ack, uint32_t len)
{
	uint8_t proof[HMAC_BYTES];
	int err;

	/* An acceptor that answers without a PROOF does not have the secret. */
	if (a->stage != AUTH_PROVED)
		return auth_fail(a, -EACCES);
	err = acceptor_proof(a, ack, len, proof);
	if (!err && !equal_const_time(proof, a->proof, sizeof(proof)))
		err = -EACCES;
	if (err)
		return auth_fail(a, err);
	a->stage = AUTH_DONE;
	return 0;
}

/* ---- acceptor ---- */

int auth_hello_come(struct auth *a, const struct secret *s, const uint8_t *hello, uint32_t len,
		    uint8_t nonce[WIRE_NONCE])
{
	int err = auth_begin(a, s, hello, len);

	if (!err)
		err = random_bytes(nonce, WIRE_NONCE);
	if (!err)
		err = chain_add(a, nonce, WIRE_NONCE);
	if (err)
		return auth_fail(a, err);
	a->stage = AUTH_CHALLENGED;
	return 0;
}

int auth_dialler_come(struct auth *a, const uint8_t *body, uint32_t len)
{
	uint8_t proof[HMAC_BYTES];
	int err;

	if (!auth_is_expected(a, AUTH_CHALLENGED, len, HMAC_BYTES))
		return auth_fail(a, -EPROTO);
	err = hmac_word(a, a->chain, "dialler", proof);
	if (!err && !equal_const_time(proof, body, sizeof(proof)))
		err = -EACCES;
	if (err)
		return auth_fail(a, err);
	a->stage = AUTH_DONE;
	return 0;
}

int auth_answer(struct auth *a, const uint8_t *ack, uint32_t len, uint8_t proof[HMAC_BYTES])
{
	assert(a->stage == AUTH_DONE);
	return acceptor_proof(a, ack, len, proof);
}

/* ---- both ---- */

int auth_bond(const struct auth *a, uint8_t bond[AUTH_BOND])
{
	uint8_t key[HMAC_BYTES];
	int err;

	assert(a->stage == AUTH_DONE);
	err = hmac_word(a, a->chain, "bond", key);
	memcpy(bond, key, AUTH_BOND);
	return err;
}

void auth_free(struct auth *a)
{
	if (!a)
		return;
	explicit_bzero(a, sizeof(*a));
	free(a);
}
