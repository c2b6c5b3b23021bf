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
#define EXPORT_MAX 512u /* entries that a busy engine adds per update */

/* Handle slots that were used too often are retired, so there are more slots than peers. */
#define PEERS_MORE(n) ((n) + (n) / 4)

int stats_open(struct engine *e)
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
	e->stats = &segment_of(e->segment)->engine;
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

void engine_export_setting(struct engine *e, uint32_t i, const char *text)
{
	struct segment_head *h = &segment_of(e->segment)->head;

	assert(i < SEGMENT_SETTINGS);
	snprintf(h->settings[i], sizeof(h->settings[i]), "%s", text);
}

/* ---- the engine's thread ---- */

struct segment_entry *stats_entry(const struct engine_ring *er, uint32_t i)
{
	return &segment_of(er->engine->segment)->entries[er->stats->first + i];
}

void stats_peer(const struct engine_peer *p)
{
	uint32_t state = p->state == PEER_CONNECTING ? URCCL_PEER_CONNECTING
			 : p->state <= PEER_UP	     ? URCCL_PEER_UP
						     : URCCL_PEER_LOST;

	if (!URCCL_STATISTICS)
		return;
	if (p->rail)
		store_relaxed(&p->stats->transport, p->rail->ep->dev->ops->transport);
	store_relaxed(&p->stats->state, state);
}

/* Exports the entry from now on. */
static void op_export(struct op *op)
{
	struct segment_entry *t = op->stats;

	op->bits |= OP_EXPORTED;
	store_relaxed(&t->started_ns, op->started_ns);
	store_relaxed(&t->user_data, op->sqe.user_data);
	store_relaxed(&t->total, op->total);
	store_relaxed(&t->placed, op->placed);
	store_relaxed(&t->peer, op->peer ? op->peer->handle : 0);
	store_relaxed(&t->opcode, op->sqe.opcode);
	store_relaxed(&t->awaits, op->bits & OP_AWAITS && !list_empty(&sync_of(op)->link));
	stats_export_state(op);
}

/* Runs once per update interval; bench/cost.py counts it as such and finds it by name. */
__attribute__((noinline)) void stats_update_ahead(struct engine *e, struct chunk *const *batch,
						  uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		if ((batch[i]->kind != CHUNK_READ && batch[i]->kind != CHUNK_WRITE) ||
		    batch[i]->seg == RELAY_SEG_READ)
			continue;
		e->exported_ahead = 1;
		if (!(((struct op *)batch[i]->op)->bits & OP_EXPORTED))
			op_export(batch[i]->op);
	}
}

void stats_export_lasting(struct op *op)
{
	if (URCCL_STATISTICS)
		op_export(op);
}

/* 1: the record has a time. An entry exported in the iteration that took it has none yet. */
static int op_is_exported(const struct op *op)
{
	return op->bits & OP_EXPORTED && load_relaxed(&op->stats->started_ns);
}

/* Exports live entries, at most this many of those taken since the last update: most entries of a
 * busy engine have ended by then. */
static void export_new(struct engine *e, uint32_t most)
{
	struct op *op;

	while ((op = e->new_ops) && most--) {
		e->new_ops = op->new_next;
		op->is_new = 0;
		if (op->state != OP_FREE && op->started_ns && !op_is_exported(op))
			op_export(op);
	}
	if (!op)
		e->new_tail = &e->new_ops;
}

void stats_rail(struct rail *rail)
{
	uint32_t i;

	if (!URCCL_STATISTICS)
		return;
	for (i = 0; i < 2; i++) {
		uint64_t n = rail->came[i] - rail->counted[i];

		rail->counted[i] += n;
		stat_add(&rail->peer->stats->bytes[i == CHUNK_READ], n);
	}
}

/* 1: more bytes are under way. */
static int stats_rails(struct engine_peer *p)
{
	int busy = 0;
	uint32_t i;

	for (i = 0; i < RAILS_MAX; i++) {
		if (!p->rails[i])
			continue;
		stats_rail(p->rails[i]);
		busy |= p->rails[i]->inflight != 0;
	}
	return busy;
}

static void stats_peers(struct engine *e)
{
	struct list *pos, *tmp;

	list_for_each_safe(pos, tmp, &e->moved) {
		struct engine_peer *p = list_entry(pos, struct engine_peer, moved_link);

		if (!stats_rails(p))
			list_del(&p->moved_link);
	}
}

/* Extends a 32-bit counter, whose current value is now, to 64 bits. */
static void count_long(uint64_t *all, uint32_t now)
{
	stat_add(all, now - (uint32_t)load_relaxed(all));
}

static void stats_rings(struct engine *e)
{
	struct list *pos;

	list_for_each(pos, &e->rings) {
		struct engine_ring *er = list_entry(pos, struct engine_ring, link);
		struct ring *r = er->ring;

		count_long(&er->stats->all_taken, r->own.sq_head);
		count_long(&er->stats->all_ended, r->own.done);
		ring_export_unsubmitted(r);
		store_relaxed(&er->stats->waiting, ring_submitted(r));
		store_relaxed(&er->stats->unseen,
			      r->own.tail - load_relaxed(&r->consumer_line.cq_head));
	}
}

/* Adds the counts of a closed ring to the engine's. */
void stats_ring_closed(struct engine_ring *er)
{
	struct segment_ring *t = er->stats;

	if (!URCCL_STATISTICS)
		return;
	stats_update_all(er->engine);
	stats_ended(er);
	stat_add(&er->engine->stats->count.taken, load_relaxed(&t->all_taken));
	stat_add(&er->engine->stats->count.ended, load_relaxed(&t->all_ended));
	store_relaxed(&t->taken, 0);
	store_relaxed(&t->ended, 0);
	stat_set(&t->all_taken, 0);
	stat_set(&t->all_ended, 0);
}

static void stats_batch_times(struct engine *e)
{
	struct stats_batch *b = &e->stats_batch;

	count_add(&b->flow->cells[segment_cell(e->now - b->started_ns)], b->later);
	b->later = 0;
}

__attribute__((noinline)) void stats_batch_end(struct engine *e)
{
	struct stats_batch *b = &e->stats_batch;

	count_add(&b->flow->at_once, b->ended - b->later);
	count_add(&b->flow->bytes, b->bytes);
	if (b->later)
		stats_batch_times(e);
	b->ended = 0;
	b->bytes = 0;
}

__attribute__((noinline)) void stats_batch_started(const struct op *op)
{
	struct stats_batch *b = &op_engine(op)->stats_batch;

	if (b->later) {
		b->ended -= b->later;
		stats_batch_times(op_engine(op));
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
	return &op_engine(op)->stats->flows[flow];
}

__attribute__((noinline)) void stats_batch_start(const struct op *op)
{
	struct stats_batch *b = &op_engine(op)->stats_batch;

	if (b->ended)
		stats_batch_end(op_engine(op));
	memcpy(&b->what, &op->sqe, sizeof(b->what));
	b->flow = flow_of(op);
}

static void stats_update_some(struct engine *e, uint32_t most)
{
	if (!URCCL_STATISTICS)
		return;
	export_new(e, most);
	stats_peers(e);
	stats_rings(e);
	e->update_ns = e->now + UPDATE_NS;
	e->exported_ahead = 0;
	store_relaxed(&e->stats->chunks, e->chunks_used);
	store_relaxed(&e->stats->slots, e->stage.nslots);
	store_relaxed(&e->stats->slots_used, e->stage.nslots - e->stage.nfree);
	stat_set(&e->stats->updated_ns, e->now);
	stat_set(&e->stats->count.turns, e->iterations);
}

/* bench/cost.py finds it by name. */
__attribute__((noinline)) void stats_update(struct engine *e)
{
	stats_update_some(e, EXPORT_MAX);
}

void stats_update_all(struct engine *e)
{
	stats_update_some(e, UINT32_MAX);
}

void stats_asleep(struct engine *e, uint64_t ns)
{
	if (!URCCL_STATISTICS)
		return;
	stats_update_all(e);
	stat_set(&e->stats->wake_at_ns, ns < NEVER_NS - e->now ? e->now + ns : NEVER_NS);
	stat_add(&e->stats->count.sleeps, 1);
	store_relaxed(&e->stats->state, SEGMENT_SLEEPS);
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
