/* SPDX-License-Identifier: Apache-2.0 */
/* What somebody without the secret may try at the port of a context that has one, or as somebody
 * whom it dials: no proof, replay, reflection, another hello than the one that was proved, too
 * much, too little, data connections beside the handshake. None gets in. */
#include "conn/auth.h"
#include "control/control.h"
#include "control_rig.h"

#define SECRET "known to the two of them"

static struct secret right;

static struct urccl_params with_secret(void)
{
	struct urccl_params p = rig_params();

	p.secret = SECRET;
	p.secret_len = sizeof(SECRET) - 1;
	return p;
}

/* ---- a stranger that dials ---- */

struct talk {
	struct auth auth;
	uint8_t hello[WIRE_BUF], nonce[WIRE_NONCE], proof[WIRE_HEADER + HMAC_BYTES];
	uint32_t hello_len;
	int fd;
};

static void talk_hello(struct talk *t, const struct wire_hello *h)
{
	t->hello_len = wire_put_hello(t->hello, WIRE_HELLO, h);
}

static struct wire_hello secret_hello(void)
{
	struct wire_hello h = stranger_hello();

	h.features = WIRE_HAS_SECRET;
	memset(h.nonce, 7, sizeof(h.nonce));
	return h;
}

/* Says the hello and hears the challenge. */
static void talk_begin(struct talk *t, uint16_t port)
{
	uint8_t body[WIRE_BUF];
	struct wire_header head;

	t->fd = stranger_dial(port);
	stranger_say(t->fd, wire_magic, WIRE_MAGIC);
	stranger_say(t->fd, t->hello, t->hello_len);
	head = stranger_frame(t->fd, body, 0);
	CHECK_EQ(head.type, WIRE_CHALLENGE);
	CHECK_EQ(head.len, WIRE_NONCE);
	memcpy(t->nonce, body, WIRE_NONCE);
}

static void prove(struct talk *t, const uint8_t *hello, uint32_t len)
{
	uint8_t proof[HMAC_BYTES];

	memset(&t->auth, 0, sizeof(t->auth));
	CHECK_EQ(auth_said(&t->auth, &right, hello + WIRE_HEADER, len - WIRE_HEADER), 0);
	CHECK_EQ(auth_challenge_come(&t->auth, t->nonce, WIRE_NONCE, proof), 0);
	wire_put_bytes(t->proof, WIRE_PROOF, proof, sizeof(proof));
}

static void hears_no(int fd, uint32_t code, int greeted)
{
	uint8_t body[WIRE_BUF];
	struct wire_header head = stranger_frame(fd, body, greeted);
	struct wire_refuse r;

	CHECK_EQ(head.type, WIRE_REFUSE);
	CHECK_EQ(wire_get_refuse(body, head.len, &r), 0);
	CHECK_EQ(r.code, code);
	CHECK_EQ(stranger_hear(fd, body, 1), 0);
	close(fd);
}

static void closed(int fd)
{
	uint8_t byte;

	CHECK_EQ(stranger_hear(fd, &byte, 1), 0);
	close(fd);
}

static void no_secret(uint16_t port)
{
	struct wire_hello h = stranger_hello();
	int fd = stranger_dial(port);

	stranger_say_hello(fd, &h);
	hears_no(fd, WIRE_SECRET, 0);
}

/* A proof of an earlier handshake, and what the acceptor said itself. */
static void replays(uint16_t port)
{
	struct wire_hello h = secret_hello();
	struct talk t;

	talk_hello(&t, &h);
	talk_begin(&t, port);
	prove(&t, t.hello, t.hello_len);
	close(t.fd);
	talk_begin(&t, port);
	stranger_say(t.fd, t.proof, sizeof(t.proof));
	hears_no(t.fd, WIRE_OTHER_SECRET, 1);
	talk_begin(&t, port);
	memcpy(t.proof + WIRE_HEADER, t.nonce, WIRE_NONCE);
	stranger_say(t.fd, t.proof, sizeof(t.proof));
	hears_no(t.fd, WIRE_OTHER_SECRET, 1);
}

/* Who has the secret proved another hello: somebody in between has put in addresses of its own. */
static void changes_hello(uint16_t port)
{
	struct wire_hello h = secret_hello();
	struct talk t;
	uint8_t proved[WIRE_BUF];
	uint32_t len = wire_put_hello(proved, WIRE_HELLO, &h);

	h.rails[0].addr_len = 5;
	talk_hello(&t, &h);
	talk_begin(&t, port);
	prove(&t, proved, len);
	stranger_say(t.fd, t.proof, sizeof(t.proof));
	hears_no(t.fd, WIRE_OTHER_SECRET, 1);
}

static void breaks_rules(uint16_t port)
{
	static const uint8_t early[] = {32, 0, 0, 0, WIRE_PROOF, 0, 0, 0};
	static const uint8_t lengthy[] = {0xff, 0xff, 0, 0, WIRE_PROOF, 0, 0, 0};
	struct wire_hello h = secret_hello();
	uint8_t body[64] = {0};
	struct talk t;
	int fd = stranger_dial(port);

	stranger_say(fd, wire_magic, WIRE_MAGIC);
	stranger_say(fd, early, sizeof(early));
	stranger_say(fd, body, HMAC_BYTES);
	closed(fd);
	talk_hello(&t, &h);
	talk_begin(&t, port);
	stranger_say(t.fd, lengthy, sizeof(lengthy));
	closed(t.fd);
	talk_begin(&t, port); /* a byte less than a proof, and one more */
	stranger_say(t.fd, t.proof, wire_put_bytes(t.proof, WIRE_PROOF, body, HMAC_BYTES - 1));
	closed(t.fd);
	talk_begin(&t, port); /* once more */
	stranger_say(t.fd, t.hello, t.hello_len);
	closed(t.fd);
	/* A nonce that ends early. */
	t.hello[0]--;
	fd = stranger_dial(port);
	stranger_say(fd, wire_magic, WIRE_MAGIC);
	stranger_say(fd, t.hello, t.hello_len - 1);
	closed(fd);
}

/* ---- data connections ---- */

#define COOKIE 16u

static int stream_dial(uint16_t port, uint8_t link, const uint8_t *cookie)
{
	uint8_t greeting[32] = {'U', 'C', 'C', 'L', 1, 0, link, 0};
	int fd = stranger_dial(port);

	memcpy(greeting + 8, cookie, COOKIE);
	stranger_say(fd, greeting, sizeof(greeting));
	return fd;
}

static void bound_cookie(const uint8_t bond[AUTH_BOND], const struct wire_rail *rail, uint8_t link,
			 uint8_t out[COOKIE])
{
	uint8_t in[COOKIE + 1];

	memcpy(in, rail->addr + 10, COOKIE);
	in[COOKIE] = link;
	siphash128(bond, in, sizeof(in), out);
}

/* The handshake is right, and its addresses were overheard: those who were not part of it do not
 * get in, and the one who was does. */
static void streams(struct side *a)
{
	/* clang-format off */
	static const uint8_t addr[] = {
		1, 1, 1, 0, 0, 0, 64, 0, 64, 0,
		1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	};
	/* clang-format on */
	uint8_t body[WIRE_BUF], cookie[COOKIE], bond[AUTH_BOND], greeting[32], frame[64];
	struct wire_hello h = secret_hello(), ack;
	struct wire_header head;
	struct talk t;
	int strange[2], own[2], i;

	memcpy(h.rails[0].addr, addr, sizeof(addr));
	h.rails[0].addr_len = sizeof(addr);
	talk_hello(&t, &h);
	talk_begin(&t, a->port);
	prove(&t, t.hello, t.hello_len);
	stranger_say(t.fd, t.proof, sizeof(t.proof));
	head = stranger_frame(t.fd, body, 1);
	CHECK_EQ(head.type, WIRE_PROOF);
	CHECK_EQ(auth_proof_come(&t.auth, body, head.len), 0);
	head = stranger_frame(t.fd, body, 1);
	CHECK_EQ(head.type, WIRE_HELLO_ACK);
	CHECK_EQ(wire_get_hello(body, head.len, &ack), 0);
	CHECK_EQ(auth_ack_come(&t.auth, body, head.len), 0);
	CHECK_EQ(auth_bond(&t.auth, bond), 0);
	/* By the cookie of the address, and by what is another link's. */
	strange[0] = stream_dial(a->port, 0, ack.rails[0].addr + 10);
	bound_cookie(bond, &ack.rails[0], 1, cookie);
	strange[1] = stream_dial(a->port, 0, cookie);
	for (i = 0; i < 2; i++) {
		bound_cookie(bond, &ack.rails[0], (uint8_t)i, cookie);
		own[i] = stream_dial(a->port, (uint8_t)i, cookie);
	}
	for (i = 0; i < 2; i++) {
		CHECK_EQ(stranger_hear(own[i], greeting, sizeof(greeting)), sizeof(greeting));
		CHECK(memcmp(greeting + 8, addr + 10, COOKIE)); /* its own proves it as well */
	}
	stranger_say(t.fd, frame, wire_put_word(frame, WIRE_PATH, 0));
	CHECK_EQ(urccl_cqe_kind(&(struct urccl_cqe){.flags = side_next(a).flags}), URCCL_KIND_PEER);
	for (i = 0; i < 2; i++) {
		ssize_t n = recv(strange[i], greeting, 1, MSG_DONTWAIT);

		CHECK(n <= 0);
		close(strange[i]);
		close(own[i]);
	}
	close(t.fd);
}

/* ---- a stranger that is dialled ---- */

/* It sends the dialler's own proof back, or none, or makes one up. */
static void impostor(struct side *a, int manner)
{
	uint8_t body[WIRE_BUF], out[WIRE_BUF], zeros[HMAC_BYTES] = {0};
	struct wire_hello h = secret_hello();
	struct urccl_cqe cqe;
	struct wire_header head;
	char target[32], text[512];
	uint16_t port;
	int listener = stranger_listen(&port), fd;

	snprintf(target, sizeof(target), "127.0.0.1:%u", port);
	side_connect(a, target, (uint32_t)strlen(target), 5000000, 5);
	fd = accept(listener, NULL, NULL);
	CHECK(fd >= 0);
	CHECK_EQ(stranger_frame(fd, body, 0).type, WIRE_HELLO);
	stranger_say(fd, wire_magic, WIRE_MAGIC);
	if (manner) {
		stranger_say(fd, out, wire_put_bytes(out, WIRE_CHALLENGE, zeros, WIRE_NONCE));
		head = stranger_frame(fd, body, 1);
		CHECK_EQ(head.type, WIRE_PROOF);
		CHECK_EQ(head.len, HMAC_BYTES);
		stranger_say(fd, out,
			     wire_put_bytes(out, WIRE_PROOF, manner == 1 ? body : zeros,
					    HMAC_BYTES));
	}
	h.version_min = h.version_max;
	stranger_say(fd, out, wire_put_hello(out, WIRE_HELLO_ACK, &h));
	cqe = side_next(a);
	CHECK_EQ(cqe.user_data, 5);
	CHECK_EQ(cqe.res, -EACCES);
	CHECK(urccl_explain(a->ctx, &cqe, text, sizeof(text)) > 0 && strstr(text, "did not prove"));
	close(fd);
	close(listener);
}

/* ---- a handshake by itself ---- */

/* What comes out of its turn, or twice, ends it, and nothing mends it. */
static void out_of_turn(void)
{
	uint8_t hello[40] = {1}, nonce[WIRE_NONCE] = {2}, proof[HMAC_BYTES] = {3};
	struct auth a;

	memset(&a, 0, sizeof(a));
	CHECK_EQ(auth_said(&a, &right, hello, sizeof(hello)), 0);
	CHECK_EQ(auth_proof_come(&a, proof, sizeof(proof)), -EPROTO);
	CHECK_EQ(auth_challenge_come(&a, nonce, sizeof(nonce), proof), -EPROTO);
	CHECK_EQ(a.stage, AUTH_FAILED);
	memset(&a, 0, sizeof(a));
	CHECK_EQ(auth_said(&a, &right, hello, sizeof(hello)), 0);
	CHECK_EQ(auth_challenge_come(&a, nonce, sizeof(nonce), proof), 0);
	CHECK_EQ(auth_challenge_come(&a, nonce, sizeof(nonce), proof), -EPROTO);
	CHECK_EQ(auth_proof_come(&a, proof, sizeof(proof)), -EPROTO);
	CHECK_EQ(a.stage, AUTH_FAILED);
	memset(&a, 0, sizeof(a));
	CHECK_EQ(auth_hello_come(&a, &right, hello, sizeof(hello), nonce), 0);
	CHECK_EQ(auth_dialler_come(&a, proof, sizeof(proof)), -EACCES);
	CHECK_EQ(auth_dialler_come(&a, proof, sizeof(proof)), -EPROTO);
	CHECK_EQ(a.stage, AUTH_FAILED);
}

int case_control_secret(void)
{
	struct urccl_params p = with_secret();
	struct side a, b;
	uint32_t ab, ba;
	int i, err = secret_open(&right, &p);

	if (err == -EOPNOTSUPP)
		SKIP(urccl_errmsg());
	CHECK_EQ(err, 0);
	out_of_turn();
	side_open(&a, &p);
	side_open(&b, &p);
	no_secret(b.port);
	replays(b.port);
	changes_hello(b.port);
	breaks_rules(b.port);
	for (i = 0; i < 3; i++)
		impostor(&a, i);
	sides_connect(&a, &b, &ab, &ba);
	streams(&b);
	side_close(&a);
	side_close(&b);
	return 0;
}
