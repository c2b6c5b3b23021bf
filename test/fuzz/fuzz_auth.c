/* SPDX-License-Identifier: Apache-2.0 */
/* A handshake with a secret, of which the other side says whatever the input says. First byte:
 * which side we are, and how much of the handshake goes as it should; then frames: a byte for the
 * type, one for the length, the body. Nobody without the secret is met, whatever comes in whatever
 * order, and a handshake that failed stays so. */
#include "conn/auth.h"
#include "fuzz.h"

/* In place of libcrypto, which would take all the time: a keyed hash that nobody guesses either. */
static unsigned char *hash(const void *digest, const void *key, int key_len,
			   const unsigned char *data, size_t len, unsigned char *out,
			   unsigned int *out_len)
{
	uint8_t half[16], twice[32];
	uint32_t i;

	(void)digest;
	must(key_len == (int)HMAC_BYTES && *out_len >= HMAC_BYTES);
	siphash128(key, data, len, half);
	for (i = 0; i < 16; i++)
		twice[i] = half[i] ^ ((const uint8_t *)key)[16 + i];
	siphash128(half, twice, 16, out);
	siphash128(out, half, 16, out + 16);
	*out_len = HMAC_BYTES;
	return out;
}

static const struct secret secret = {
	.is_set = 1,
	.hmac = {.digest = &secret, .run = hash},
	.key = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
};

static struct auth ours;
static uint8_t proof[HMAC_BYTES], nonce[WIRE_NONCE];

static int dialler(uint32_t type, const uint8_t *body, uint32_t len)
{
	switch (type % 3) {
	case 0:
		return auth_challenge_come(&ours, body, len, proof);
	case 1:
		return auth_proof_come(&ours, body, len);
	default:
		return auth_ack_come(&ours, body, len);
	}
}

static int acceptor(uint32_t type, const uint8_t *body, uint32_t len)
{
	struct wire_hello h;

	if (ours.stage != AUTH_NEW)
		return auth_dialler_come(&ours, body, len);
	if (type % 3 || wire_get_hello(body, len, &h))
		return -EPROTO;
	return auth_hello_come(&ours, &secret, body, len, nonce);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int (*come)(uint32_t, const uint8_t *, uint32_t);
	uint8_t frame[WIRE_BUF];
	struct wire_hello h = {.version_min = WIRE_VERSION,
			       .version_max = WIRE_VERSION,
			       .incarnation = 1,
			       .key_window = 1,
			       .features = WIRE_HAS_SECRET};
	uint32_t len, n, failed = 0;

	if (size < 1)
		return 0;
	memset(&ours, 0, sizeof(ours));
	len = wire_put_hello(frame, WIRE_HELLO, &h) - WIRE_HEADER;
	come = data[0] & 1 ? dialler : acceptor;
	if (data[0] & 1)
		must(!auth_said(&ours, &secret, frame + WIRE_HEADER, len));
	else if (data[0] & 2)
		must(!acceptor(0, frame + WIRE_HEADER, len));
	if (data[0] & 1 && data[0] & 2)
		must(!auth_challenge_come(&ours, nonce, sizeof(nonce), proof));
	/* Our own proof comes back. */
	if (data[0] & 1 && data[0] & 4 && ours.stage == AUTH_ANSWERED)
		must(!auth_proof_come(&ours, proof, sizeof(proof)));
	for (data++, size--; size >= 2; data += n, size -= n) {
		n = data[1] < size - 2 ? data[1] : (uint32_t)size - 2;
		/* What is no hello ends the connection before there is a handshake. */
		if (come(data[0], data + 2, n) && ours.stage == AUTH_NEW)
			break;
		failed |= ours.stage == AUTH_FAILED;
		n += 2;
		must(ours.stage != AUTH_DONE);
		must(!failed || ours.stage == AUTH_FAILED);
	}
	return 0;
}
