/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of atomics between engines, and what is done on their word: whatever they are, only the
 * exposed words change, each number is carried out once at most, and what is answered is a message
 * that may be. A byte of the input says how the next message is made: of as many bytes as it says,
 * as they are, or well formed, with a few bytes for each request.
 */
#include <stdlib.h>

#include "engine/post.h"

#define WORDS	   4u /* of which the peer was given those in the middle */
#define MADE_BYTES 5u /* of input for a request */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct engine e;
static struct device dev;
static struct ep ep;
static struct rail rail;
static struct exposure exposure;
static struct engine_peer *peer;
static uint64_t *words;
static struct memory *memory;

static void same(int yes)
{
	if (!yes)
		abort();
}

static void begin(void)
{
	uint32_t i;

	memset(&e, 0, sizeof(e));
	for (i = 0; i < LANES; i++)
		list_init(&e.lanes[i]);
	same(!handles_init(&e.grants, 16, HANDLE_INTERNAL));
	peer = calloc(1, sizeof(*peer));
	same(!!peer);
	peer->atomics = calloc(1, sizeof(*peer->atomics));
	words = calloc(WORDS, sizeof(*words));
	memory = calloc(1, sizeof(*memory) + sizeof(memory->spans[0]));
	same(peer->atomics && words && memory);
	ep = (struct ep){.dev = &dev, .owner = &rail};
	rail = (struct rail){.ep = &ep, .peer = peer, .up = 1};
	atomics_init(peer->atomics);
	for (i = 0; i < LANES; i++) {
		list_init(&peer->lanes[i].link);
		chunk_queue_init(&peer->lanes[i].held);
		peer->lanes[i].number = i;
		peer->lanes[i].peer = peer;
	}
	peer->engine = &e;
	peer->rail = &rail;
	peer->state = PEER_UP;
	memory->nspans = 1;
	memory->len = WORDS * sizeof(*words);
	memory->spans[0] = (struct span){.len = memory->len, .addr = (uintptr_t)words, .fd = -1};
	exposure = (struct exposure){.ep = &ep,
				     .peer = peer,
				     .memory = memory,
				     .off = 8,
				     .len = 16,
				     .rights = URCCL_RIGHT_ATOMIC,
				     .expires_ns = NEVER_NS};
	exposure.grant = handles_add(&e.grants, &exposure);
}

static void end(void)
{
	handles_fini(&e.grants);
	free(peer->atomics);
	free(peer);
	free(memory);
	free(words);
}

static void check_answer(const struct chunk *c)
{
	const struct atomic_head *h = c->local;
	const struct atomic_answer *m = (const void *)(h + 1);
	uint32_t i;

	same(c->kind == CHUNK_SEND && c->len <= MESSAGE_MAX && h->type == MESSAGE_ANSWER);
	same(h->n && c->len == sizeof(*h) + h->n * sizeof(*m));
	for (i = 0; i < h->n; i++)
		same(m[i].res <= 0 && (m[i].res || m[i].old != ~0ull));
}

/* As a device does, now and then: takes what is to be sent, and says how that went. */
static void send_all(int32_t res)
{
	struct lane *l = &peer->lanes[LANE_CONTROL];
	struct chunk *c, *next;

	for (c = chunk_queue_take(&l->held); c; c = next) {
		next = c->next;
		check_answer(c);
		c->taken = 1;
		c->res = res;
		atomic_chunk_out(peer, c);
	}
}

/* Adds of 1 alone say how often something was done. */
static void once(void)
{
	struct {
		struct atomic_head h;
		struct atomic_request m;
	} add = {{.type = MESSAGE_ATOMIC, .n = 1},
		 {.seq = 7, .grant = exposure.grant, .off = 8, .operand = 1, .kind = ATOMIC_ADD}};
	uint64_t before = words[2];
	uint32_t used = peer->atomics->records[7].used &&
			(int32_t)(7 - peer->atomics->records[7].answer.seq) <= 0;

	atomic_message(&e, peer, &add, sizeof(add));
	atomic_message(&e, peer, &add, sizeof(add));
	same(words[2] == before + !used);
}

/* An allocation of its own, so that a sanitizer sees the end. */
static size_t raw(const uint8_t *data, size_t size)
{
	size_t n = data[0] < size - 1 ? data[0] : size - 1;
	uint8_t *exact = malloc(n ? n : 1);

	same(!!exact);
	memcpy(exact, data + 1, n);
	atomic_message(&e, peer, exact, (uint32_t)n);
	free(exact);
	return 1 + n;
}

static size_t made(const uint8_t *data, size_t size)
{
	struct {
		struct atomic_head h;
		struct atomic_request m[REQUESTS_EACH];
	} msg = {.h = {.type = MESSAGE_ATOMIC}};
	size_t n = 1;

	while (msg.h.n < REQUESTS_EACH && n + MADE_BYTES <= size) {
		struct atomic_request *m = &msg.m[msg.h.n++];

		m->seq = data[n];
		m->kind = (uint8_t)(ATOMIC_ADD + data[n + 1] % 3);
		if (m->kind != ATOMIC_DROP) {
			m->grant = data[n + 1] & 0x80 ? data[n + 2] : exposure.grant;
			m->off = data[n + 2] & 0x80 ? (uint64_t)-data[n + 3] : data[n + 3] % 24;
			m->operand = data[n + 4] % 2;
			m->swap = m->kind == ATOMIC_SWAP ? data[n + 4] : 0;
		}
		n += MADE_BYTES;
	}
	atomic_message(&e, peer, &msg, (uint32_t)(sizeof(msg.h) + msg.h.n * sizeof(msg.m[0])));
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n;

	begin();
	while (size > 1) {
		n = data[0] & 4 ? made(data, size) : raw(data, size);
		if (data[0] & 1)
			send_all(data[0] & 2 ? -EIO : 0);
		data += n;
		size -= n;
	}
	once();
	send_all(0);
	same(!words[0] && !words[3]);
	end();
	return 0;
}
