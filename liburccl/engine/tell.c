/* SPDX-License-Identifier: Apache-2.0 */
/* Exports the engine's state to any thread or process, even while the engine is stuck. Readers see
 * single words, each consistent in itself. */
#include <stdio.h>
#include "engine/private.h"

_Static_assert((int)OP_WAITING == (int)SEGMENT_WAITING && (int)OP_MOVING == (int)SEGMENT_MOVING &&
		       (int)OP_FLUSHING == (int)SEGMENT_FLUSHING &&
		       (int)OP_NOTING == (int)SEGMENT_NOTING &&
		       (int)OP_ATOMIC == (int)SEGMENT_ATOMIC &&
		       (int)OP_ASKING == (int)SEGMENT_ASKING &&
		       (int)OP_PARKED == (int)SEGMENT_PARKED &&
		       (int)OP_SIGNALLING == (int)SEGMENT_SIGNALLING &&
		       (int)OP_STATES == (int)SEGMENT_STATES,
	       "readers know these states");
_Static_assert(OP_DECIDED == 1, "it is told as a byte");
#define SHOWN_MOST 512u /* entries that a busy engine adds per update */

/* Handle slots that were used too often are retired, so there are more slots than peers. */
#define PEERS_MORE(n) ((n) + (n) / 4)

int tell_open(struct engine *e)
{
	struct segment_params p = {
		.incarnation = e->config.incarnation,
		.is_inline = e->config.is_inline,
		.npeers = PEERS_MORE(e->config.params->max_peers),
	};
	struct segment_head *h;
	uint32_t i;

	e->segment = segment_open(&p);
	if (!e->segment)
		return -ENOMEM;
	e->told = &segment_of(e->segment)->engine;
	h = &segment_of(e->segment)->head;
	for (i = 0; i < e->config.ndevices && i < SEGMENT_DEVICES; i++) {
		const struct backend *ops = e->config.devices[i]->ops;

		snprintf(h->devices[i].name, sizeof(h->devices[i].name), "%s", ops->name);
		h->devices[i].transport = ops->transport;
	}
	h->ndevices = i;
	if (e->config.left_out)
		snprintf(h->left_out, sizeof(h->left_out), "%s", e->config.left_out);
	return 0;
}

void engine_tell_setting(struct engine *e, uint32_t i, const char *text)
{
	struct segment_head *h = &segment_of(e->segment)->head;

	assert(i < SEGMENT_SETTINGS);
	snprintf(h->settings[i], sizeof(h->settings[i]), "%s", text);
}

/* ---- the engine's thread ---- */

struct segment_entry *tell_record(const struct engine_ring *er, uint32_t i)
{
	return &segment_of(er->engine->segment)->entries[er->told->first + i];
}

void tell_peer(const struct engine_peer *p)
{
	uint32_t state = p->state == PEER_CONNECTING ? URCCL_PEER_CONNECTING
			 : p->state <= PEER_UP	     ? URCCL_PEER_UP
						     : URCCL_PEER_LOST;

	if (!URCCL_TELLS)
		return;
	if (p->rail)
		store_relaxed(&p->told->transport, p->rail->ep->dev->ops->transport);
	store_relaxed(&p->told->state, state);
}

/* Exports the entry from now on. */
static void show(struct op *op)
{
	struct segment_entry *t = op->told;

	op->bits |= OP_SHOWN;
	store_relaxed(&t->started_ns, op->started_ns);
	store_relaxed(&t->user_data, op->sqe.user_data);
	store_relaxed(&t->total, op->total);
	store_relaxed(&t->placed, op->placed);
	store_relaxed(&t->peer, op->peer ? op->peer->handle : 0);
	store_relaxed(&t->opcode, op->sqe.opcode);
	store_relaxed(&t->awaits, op->bits & OP_AWAITS && !list_empty(&sync_of(op)->link));
	tell_state(op);
}

/* Runs once per update interval; bench/cost.py counts it as such and finds it by name. */
__attribute__((noinline)) void tell_look_ahead(struct engine *e, struct chunk *const *batch,
					       uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if ((batch[i]->kind != CHUNK_READ && batch[i]->kind != CHUNK_WRITE) ||
		    batch[i]->seg == RELAY_SEG_READ)
			continue;
		e->told_ahead = 1;
		if (!(((struct op *)batch[i]->op)->bits & OP_SHOWN))
			show(batch[i]->op);
	}
}

void tell_lasting(struct op *op)
{
	if (URCCL_TELLS)
		show(op);
}

/* 1: the record has a time. An entry exported in the iteration that took it has none yet. */
static int knows(const struct op *op)
{
	return op->bits & OP_SHOWN && load_relaxed(&op->told->started_ns);
}

/* Exports live entries, at most this many of those taken since the last update: most entries of a
 * busy engine have ended by then. */
static void show_young(struct engine *e, uint32_t most)
{
	struct op *op;

	while ((op = e->young) && most--) {
		e->young = op->young_next;
		op->is_young = 0;
		if (op->state != OP_FREE && op->started_ns && !knows(op))
			show(op);
	}
	if (!op)
		e->young_tail = &e->young;
}

void tell_rail(struct rail *rail)
{
	uint32_t i;

	if (!URCCL_TELLS)
		return;
	for (i = 0; i < 2; i++) {
		uint64_t n = rail->came[i] - rail->told[i];

		rail->told[i] += n;
		tell_add(&rail->peer->told->bytes[i == CHUNK_READ], n);
	}
}

/* 1: more bytes are under way. */
static int tell_rails(struct engine_peer *p)
{
	int busy = 0;
	uint32_t i;

	for (i = 0; i < RAILS_MAX; i++) {
		if (!p->rails[i])
			continue;
		tell_rail(p->rails[i]);
		busy |= p->rails[i]->inflight != 0;
	}
	return busy;
}

static void tell_peers(struct engine *e)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &e->moved) {
		struct engine_peer *p = list_entry(pos, struct engine_peer, moved_link);

		if (!tell_rails(p))
			list_del(&p->moved_link);
	}
}

/* Extends a 32-bit counter, whose current value is now, to 64 bits. */
static void count_long(uint64_t *all, uint32_t now)
{
	tell_add(all, now - (uint32_t)load_relaxed(all));
}

static void tell_rings(struct engine *e)
{
	struct list *pos;

	list_for_each(pos, &e->rings) {
		struct engine_ring *er = list_entry(pos, struct engine_ring, link);
		struct ring *r = er->ring;

		count_long(&er->told->all_taken, r->own.sq_head);
		count_long(&er->told->all_ended, r->own.done);
		ring_tell_unsubmitted(r);
		store_relaxed(&er->told->waiting, ring_submitted(r));
		store_relaxed(&er->told->unseen,
			      r->own.tail - load_relaxed(&r->consumer_line.cq_head));
	}
}

/* Adds the counts of a closed ring to the engine's. */
void tell_ring_gone(struct engine_ring *er)
{
	struct segment_ring *t = er->told;

	if (!URCCL_TELLS)
		return;
	tell_look_closely(er->engine);
	tell_ended(er);
	tell_add(&er->engine->told->count.taken, load_relaxed(&t->all_taken));
	tell_add(&er->engine->told->count.ended, load_relaxed(&t->all_ended));
	store_relaxed(&t->taken, 0);
	store_relaxed(&t->ended, 0);
	tell(&t->all_taken, 0);
	tell(&t->all_ended, 0);
}

static void tell_times(struct engine *e)
{
	struct burst *b = &e->burst;

	count_add(&b->flow->cells[segment_cell(e->now - b->started_ns)], b->later);
	b->later = 0;
}

__attribute__((noinline)) void tell_burst(struct engine *e)
{
	struct burst *b = &e->burst;

	count_add(&b->flow->at_once, b->ended - b->later);
	count_add(&b->flow->bytes, b->bytes);
	if (b->later)
		tell_times(e);
	b->ended = 0;
	b->bytes = 0;
}

__attribute__((noinline)) void tell_turn(const struct op *op)
{
	struct burst *b = &op_engine(op)->burst;

	if (b->later) {
		b->ended -= b->later;
		tell_times(op_engine(op));
	}
	b->started_ns = op->started_ns;
}

static struct segment_flow *flow_of(const struct op *op)
{
	uint32_t opcode = op->sqe.opcode, flow;

	/* Opcodes that read are odd. Invalid classes were refused. */
	flow = opcode == URCCL_OP_NOTIFY ? SEGMENT_NOTIFY : !(opcode & 1);
	flow += (op->sqe.flags >> URCCL_SQE_CLASS_SHIFT) * SEGMENT_FLOWS;
	assert(flow < SEGMENT_ALL_FLOWS);
	return &op_engine(op)->told->flows[flow];
}

__attribute__((noinline)) void tell_another(const struct op *op)
{
	struct burst *b = &op_engine(op)->burst;

	if (b->ended)
		tell_burst(op_engine(op));
	memcpy(&b->what, &op->sqe, sizeof(b->what));
	b->flow = flow_of(op);
}

static void look(struct engine *e, uint32_t most)
{
	if (!URCCL_TELLS)
		return;
	show_young(e, most);
	tell_peers(e);
	tell_rings(e);
	e->look_ns = e->now + LOOK_NS;
	e->told_ahead = 0;
	store_relaxed(&e->told->chunks, e->chunks_used);
	store_relaxed(&e->told->slots, e->stage.nslots);
	store_relaxed(&e->told->slots_used, e->stage.nslots - e->stage.nfree);
	tell(&e->told->turned_ns, e->now);
	tell(&e->told->count.turns, e->turns);
}

/* bench/cost.py finds it by name. */
__attribute__((noinline)) void tell_look(struct engine *e)
{
	look(e, SHOWN_MOST);
}

void tell_look_closely(struct engine *e)
{
	look(e, UINT32_MAX);
}

void tell_asleep(struct engine *e, uint64_t ns)
{
	if (!URCCL_TELLS)
		return;
	tell_look_closely(e);
	tell(&e->told->wake_at_ns, ns < NEVER_NS - e->now ? e->now + ns : NEVER_NS);
	tell_add(&e->told->count.sleeps, 1);
	store_relaxed(&e->told->state, SEGMENT_SLEEPS);
}

/* ---- any thread ---- */

const struct failures *engine_failures(const struct engine *e)
{
	return &e->failures;
}

void engine_stats(const struct engine *e, struct urccl_stats *stats)
{
	segment_stats(segment_of(e->segment), stats);
}

int engine_dump(const struct engine *e, int fd)
{
	struct segment_view v = segment_view_own(e->segment);

	return segment_text(&v, clock_now(e->config.clock), fd);
}
