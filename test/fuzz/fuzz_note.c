/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications and their acknowledgements, as a peer may send them, to an engine that sends some
 * of its own: whatever they say, each entry ends once and well only where it was acknowledged,
 * each number is told to the program once at most and as it came, and no message of ours is none.
 * A byte of the input says what happens next: a message of so many bytes as they are, a NOTE or an
 * ACK made of a few, an entry, a CANCEL, a device that gives back what it took, a program that
 * looks.
 */
#include "../unit/engine_rig.h"
#include "fuzz.h"

#define ENTRIES 16u
#define SLOTS	4u   /* events that wait for the program */
#define NUMBERS 256u /* of made NOTEs: their tag is the number behind this, which no other has */
#define MADE	0xa5a5000000000000ull
#define STOPS	0x5709ull /* CANCEL */

static struct engine_rig rig;
static uint8_t told[NUMBERS];
static uint32_t entered, ended, stopping, watching;

/* ---- what the engine says and does ---- */

static void check_message(const struct chunk *c)
{
	const struct message *m = c->local;

	must(c->kind == CHUNK_SEND && c->len <= MESSAGE_MAX && !m->reserved);
	must(m->type == MESSAGE_NOTE || m->type == MESSAGE_ACK);
	must(c->len == sizeof(*m) + m->len && m->len <= URCCL_NOTE_MAX);
	must(m->type == MESSAGE_NOTE ? m->more <= 4095 && !(m->more && m->len) : !m->len);
}

static uint32_t length(const struct list *l)
{
	const struct list *pos;
	uint32_t n = 0;

	list_for_each(pos, l)
		must(++n <= NOTE_WINDOW);
	return n;
}

static void check_state(void)
{
	const struct engine_peer *p = rig.peer;
	uint32_t i, busy = 0;

	for (i = 0; i < NOTE_WINDOW; i++) {
		busy += !!p->notes[i].busy;
		must(!p->notes[i].op || p->notes[i].busy);
	}
	must(busy == p->notes_busy);
	must(length(&p->parked_list) + length(&p->parked_free) == NOTE_WINDOW);
	for (i = 0; i < rig.ntaken; i++)
		check_message(rig.taken[i]);
}

static void on_note(const struct urccl_cqe *cqe)
{
	uint64_t number = cqe->tag - MADE;

	must(cqe->res >= -4095 && cqe->res <= (int64_t)URCCL_NOTE_MAX);
	if (number >= NUMBERS)
		return;
	must(!told[number]);
	told[number] = 1;
}

static void look(uint32_t most)
{
	struct urccl_cqe cqe;

	while (most-- && rig_cqe(&rig, &cqe)) {
		if (urccl_cqe_kind(&cqe) == URCCL_KIND_NOTE)
			on_note(&cqe);
		else if (urccl_cqe_kind(&cqe) == URCCL_KIND_LOST)
			watching -= !(cqe.flags & URCCL_CQE_MORE);
		else if (cqe.user_data == STOPS)
			stopping--;
		else if (cqe.user_data && !(cqe.flags & URCCL_CQE_MORE))
			ended++;
		must(cqe.user_data != 1 || urccl_cqe_kind(&cqe) != URCCL_KIND_OP);
		/* An entry that nobody stopped did not fail by the peer's word. */
		must(urccl_cqe_kind(&cqe) != URCCL_KIND_OP || cqe.user_data < 2 ||
		     cqe.user_data == STOPS || cqe.res == 0 || cqe.res == -ECANCELED ||
		     cqe.res == -ECONNRESET);
	}
}

/* ---- what happens ---- */

static void hear(const void *bytes, uint32_t len)
{
	uint8_t *exact = malloc(len ? len : 1);

	must(!!exact);
	memcpy(exact, bytes, len);
	rig_event(&rig, (struct event){.type = EVENT_MESSAGE,
				       .ep = &rig.ep[0],
				       .data = exact,
				       .len = len});
	rig_turns(&rig);
	free(exact);
}

/* As it is, but for what would be another kind's, or let a number come round again. */
static void raw(struct input *in)
{
	_Alignas(8) uint8_t bytes[256];
	uint32_t n = take(in), i;
	struct message m = {0};

	n = n < in->left ? n : (uint32_t)in->left;
	for (i = 0; i < n; i++)
		bytes[i] = take(in);
	if (n && bytes[0] >= MESSAGE_ATOMIC)
		bytes[0] = MESSAGE_NOTE;
	if (n >= sizeof(m)) {
		memcpy(&m, bytes, sizeof(m));
		m.seq &= 0xffff;
		m.tag &= m.type == MESSAGE_ACK ? ~0ull : 0xff;
		memcpy(bytes, &m, sizeof(m));
	}
	hear(bytes, n);
}

static void note(struct input *in)
{
	struct {
		struct message m;
		uint8_t payload[2 * URCCL_NOTE_MAX]; /* of some more than there may be */
	} made = {.m = {.type = MESSAGE_NOTE, .seq = take(in)}};
	uint8_t how = take(in);

	made.m.tag = MADE + made.m.seq;
	if (how & 1)
		made.m.more = how >> 1;
	else
		made.m.len = (uint16_t)(how << 1);
	hear(&made, (uint32_t)sizeof(made.m) + made.m.len);
}

/* Of numbers near to those that went. */
static void ack(struct input *in)
{
	struct message m = {.type = MESSAGE_ACK,
			    .seq = rig.peer->note_next + (uint32_t)(int8_t)take(in)};
	uint8_t tag = take(in), more = take(in);

	m.tag = tag & 1 ? ~0ull : (uint64_t)tag << (m.seq % 56);
	m.more = more & 1 ? ~0ull : (uint64_t)more << (m.seq % 56);
	hear(&m, sizeof(m));
}

static void enter(struct input *in)
{
	static const uint8_t payload[URCCL_NOTE_MAX];
	struct urccl_sqe *sqe = urccl_get_sqe(&rig.r->pub);

	if (!sqe)
		return;
	urccl_prep_notify(sqe, (struct urccl_peer){RIG_PEER}, entered, payload, take(in));
	sqe->user_data = 2 + entered++;
	rig_enter(&rig);
	rig_turns(&rig);
}

static void cancel(struct input *in)
{
	struct urccl_sqe *sqe = urccl_get_sqe(&rig.r->pub);

	if (!sqe)
		return;
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, 2 + take(in) % (entered + 1));
	sqe->user_data = STOPS;
	stopping++;
	rig_enter(&rig);
	rig_turns(&rig);
}

static void send_one(struct input *in)
{
	uint8_t how = take(in);

	if (rig.ntaken)
		rig_out(&rig, how / 2u % rig.ntaken, how & 1 ? -EIO : 0, CHUNK_QUIET);
	rig_turns(&rig);
}

static void happens(struct input *in)
{
	uint8_t what = take(in);

	switch (what % 7) {
	case 0:
		raw(in);
		break;
	case 1:
		note(in);
		break;
	case 2:
		ack(in);
		break;
	case 3:
		enter(in);
		break;
	case 4:
		cancel(in);
		break;
	case 5:
		send_one(in);
		break;
	default:
		look(what / 7u);
		break;
	}
}

static void begin(void)
{
	struct urccl_sqe *sqe;

	if (!rig.e)
		rig_engine_open(&rig, ENTRIES, SLOTS);
	memset(told, 0, sizeof(told));
	entered = ended = stopping = 0;
	rig_peer_open(&rig);
	sqe = rig_sqe(&rig, 0);
	urccl_prep_watch(sqe, (struct urccl_peer){RIG_PEER});
	sqe->user_data = 1;
	watching = 1;
	rig_enter(&rig);
	rig_turns(&rig);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};

	begin();
	while (in.left) {
		happens(&in);
		check_state();
	}
	look(UINT32_MAX);
	rig_peer_close(&rig);
	while (rig.er->nfree != ENTRIES || ended != entered || stopping || watching) {
		look(UINT32_MAX);
		rig_turns(&rig);
	}
	must(rig.r->own.done == rig.r->own.sq_head);
	return 0;
}
