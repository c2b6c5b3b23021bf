/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the relay between engines: whatever they are, only exposed bytes change, each request
 * is carried out once at most, what is answered is a message that may be, and slots come back. A
 * byte of the input says what comes next: a message of as many bytes as it says, one that is well
 * formed but for what a few bytes say, or what the device and the copies did meanwhile.
 */
#include <stdlib.h>

#include "engine/post.h"
#include "fuzz.h"

#define SLOTS 8u  /* the least there are */
#define BYTES 64u /* of which the peer was given those in the middle */
#define FIRST 16u
#define GIVEN 32u

static struct engine e;
static struct mailbox control; /* that nobody looks into */
static struct urccl_params params;
static struct backend ops;
static struct device dev;
static struct ep ep;
static struct rail rail;
static struct exposure exposure;
static struct engine_peer *peer;
static struct engine_remote *source;
static struct memory *memory, *staging;
static struct extent extents[2];
static uint8_t *bytes, *slots;

static struct memory *memory_of(uint8_t *at, uint64_t len, struct extent *x)
{
	struct memory *m = calloc(1, sizeof(*m) + sizeof(m->spans[0]));

	must(!!m);
	*x = (struct extent){.addr = (uintptr_t)at, .len = len, .fd = -1};
	m->nspans = 1;
	m->len = len;
	m->spans[0] = (struct span){.len = len, .addr = (uintptr_t)at, .fd = -1, .extent = x};
	return m;
}

static void peer_begin(void)
{
	const uint64_t len = RELAY_RUN * SLOT_BYTES;
	uint32_t i;

	peer = calloc(1, sizeof(*peer));
	must(peer && !relay_make(peer));
	for (i = 0; i < LANES; i++) {
		list_init(&peer->lanes[i].link);
		chunk_queue_init(&peer->lanes[i].held);
		peer->lanes[i].number = i;
		peer->lanes[i].peer = peer;
	}
	list_init(&peer->awaited.link);
	list_init(&peer->remotes);
	peer->engine = &e;
	peer->rail = &rail;
	peer->state = PEER_UP;
	/* The key of its run, of whichever number it names first. */
	source = engine_remote_new(1, peer, &len, 1);
	must(!!source);
	source->rail_keys[0] = calloc(1, sizeof(struct rail_key));
	must(!!source->rail_keys[0]);
	source->rail_keys[0]->remote = source;
	source->parts[0].rails = 1;
	peer->relay->source = source;
	peer->relay->source_run = 1;
}

static void begin(void)
{
	uint32_t i;

	memset(&e, 0, sizeof(e));
	for (i = 0; i < LANES; i++)
		list_init(&e.lanes[i]);
	stage_init(&e.stage);
	relays_init(&e.relays);
	wheel_init(&e.wheel, 0);
	memset(&control, 0, sizeof(control));
	e.config.params = &params;
	e.config.control = &control;
	e.dead_after_ns = NSEC_PER_SEC;
	must(!handles_init(&e.grants, 16, HANDLE_INTERNAL));
	bytes = calloc(1, BYTES);
	slots = slots ? slots : calloc(SLOTS, SLOT_BYTES);
	must(bytes && slots);
	memory = memory_of(bytes, BYTES, &extents[0]);
	staging = memory_of(slots, SLOTS * (uint64_t)SLOT_BYTES, &extents[1]);
	must(!stage_open(&e, staging));
	dev.ops = &ops;
	ep = (struct ep){.dev = &dev, .owner = &rail};
	peer_begin();
	rail = (struct rail){.ep = &ep, .peer = peer, .up = 1};
	exposure = (struct exposure){.ep = &ep,
				     .peer = peer,
				     .memory = memory,
				     .off = FIRST,
				     .len = GIVEN,
				     .rights = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE,
				     .expires_ns = NEVER_NS};
	exposure.grant = handles_add(&e.grants, &exposure);
}

static void end(void)
{
	relay_reset(&e, peer);
	handles_fini(&e.grants);
	stage_close(&e.stage);
	relays_close(&e.relays);
	engine_remote_free(source);
	free(peer->relay);
	free(peer);
	free(memory);
	free(staging);
	free(bytes);
}

static void check_message(const struct chunk *c)
{
	const struct relay_answer *m = c->local;

	must(c->len <= MESSAGE_MAX && c->seg == RELAY_SEG_ANSWER && m->type == MESSAGE_RELAYED);
	must(m->word == RELAY_FINAL ? m->res <= 0 && !m->run
				    : m->word == RELAY_READY && m->run && m->slot < RELAY_RUN);
}

static void check_read(const struct chunk *c)
{
	const uint8_t *at = c->local;

	must(c->kind == CHUNK_READ && c->memory == staging && c->len && c->len <= SLOT_BYTES);
	must(at >= slots && at + c->len <= slots + SLOTS * (size_t)SLOT_BYTES);
	must(c->off + c->len <= RELAY_RUN * (uint64_t)SLOT_BYTES);
}

/* As a device does, now and then: takes what there is, and says how that went. */
static void move(int32_t res)
{
	struct chunk *c, *next;
	uint32_t i;

	for (i = 0; i < LANES; i++) {
		for (c = chunk_queue_take(&peer->lanes[i].held); c; c = next) {
			next = c->next;
			c->ep = &ep;
			c->taken = 1;
			c->res = res;
			if (c->seg == RELAY_SEG_READ) {
				check_read(c);
				memset(c->local, 0x77, c->len);
				relay_read_out(&e, c);
			} else {
				check_message(c);
				relay_chunk_out(&e, peer, c);
			}
		}
	}
	relays_look(&e);
}

/* An allocation of its own, so that a sanitizer sees the end. */
static void raw(struct input *in)
{
	size_t n = take(in);
	uint8_t *exact = malloc(n ? n : 1);

	must(!!exact);
	n = take_bytes(in, exact, n);
	relay_message(&e, peer, exact, (uint32_t)n);
	free(exact);
}

static void made(struct input *in)
{
	struct relay_request m = {.type = MESSAGE_RELAY, .kind = (uint8_t)(1 + take(in) % 3)};

	m.seq = take(in);
	if (m.kind != RELAY_END) {
		m.grant = take(in) & 0x80 ? take(in) : exposure.grant;
		m.off = take(in) % (GIVEN + 2);
		m.len = take(in) % (GIVEN + 2);
	}
	if (m.kind == RELAY_PULL) {
		m.slot = take(in) % (RELAY_RUN + 1);
		m.run = 1;
	}
	relay_message(&e, peer, &m, sizeof(m));
}

/* One that is as it should be is done, whatever came before. */
static void honest(void)
{
	struct relay_request m = {.type = MESSAGE_RELAY,
				  .kind = RELAY_PULL,
				  .seq = peer->relay->records[0].request.seq + RELAY_WINDOW,
				  .run = 1,
				  .grant = exposure.grant,
				  .len = GIVEN};

	relay_message(&e, peer, &m, sizeof(m));
	move(0);
	must(bytes[FIRST] == 0x77 && bytes[FIRST + GIVEN - 1] == 0x77);
	must(peer->relay->records[0].state == RECORD_FINAL && !peer->relay->records[0].answer.res);
	m = (struct relay_request){.type = MESSAGE_RELAY,
				   .kind = RELAY_FETCH,
				   .seq = peer->relay->records[0].request.seq + RELAY_WINDOW,
				   .grant = exposure.grant,
				   .len = GIVEN};
	relay_message(&e, peer, &m, sizeof(m));
	must(peer->relay->records[0].state == RECORD_READY);
}

static void finish(void)
{
	struct relay_request m = {.type = MESSAGE_RELAY, .kind = RELAY_END};
	uint32_t i;

	move(0);
	for (i = 0; i < RELAY_WINDOW; i++) {
		m.seq = peer->relay->records[i].request.seq;
		if (peer->relay->records[i].used)
			relay_message(&e, peer, &m, sizeof(m));
	}
	move(0);
	move(0);
	honest();
	m.seq = peer->relay->records[0].request.seq;
	relay_message(&e, peer, &m, sizeof(m));
	move(0);
	move(0); /* READY was under way before the last word */
	must(relay_idle(peer) && !peer->relay->ask_out && !exposure.copies && !peer->relay->nreads);
	must(!peer->relay->run || !peer->relay->run->used);
	for (i = 0; i < BYTES; i++)
		must((i >= FIRST && i < FIRST + GIVEN) ? !bytes[i] || bytes[i] == 0x77 : !bytes[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	uint8_t what;

	begin();
	while (in.left) {
		what = take(&in);
		if (what & 4)
			made(&in);
		else
			raw(&in);
		if (what & 1)
			move(what & 2 ? -EIO : 0);
		/* It names another run: nobody is there to bring the key. */
		peer->relay->ask_out = 0;
		peer->relay->source = source;
		peer->relay->source_run = 1;
	}
	finish();
	end();
	return 0;
}
