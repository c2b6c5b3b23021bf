/* SPDX-License-Identifier: Apache-2.0 */
/* Exports the engine's state to any thread or process, even while the engine is stuck. Readers see
 * single words, each consistent in itself. */
#include <stdio.h>
#include "engine/peer.h"
#include "engine/stats.h"

#define SAME_PLACE(a, b) (offsetof(struct op, a) == offsetof(struct segment_entry, b))
_Static_assert(SAME_PLACE(sqe, sqe) && SAME_PLACE(started_ns, started_ns) &&
		       SAME_PLACE(total, total) && SAME_PLACE(placed, placed) &&
		       SAME_PLACE(peer, peer) && SAME_PLACE(bits, bits) &&
		       SAME_PLACE(state, state) && sizeof(void *) == sizeof(uint64_t),
	       "readers know the head of an entry");

/* Handle slots that were used too often are retired, so there are more slots than peers. */
#define PEERS_MORE(n) ((n) + (n) / 4)

int stats_open(struct engine *e)
{
	struct segment_params p = {
		.incarnation = e->config.incarnation,
		.is_inline = e->config.is_inline,
		.npeers = PEERS_MORE(e->config.params->max_peers),
		.entry_bytes = sizeof(struct op),
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

/* Extends a 32-bit counter, whose current value is now, to 64 bits. */
static void count_long(uint64_t *all, uint32_t now)
{
	stat_add(all, now - (uint32_t)load_relaxed(all));
}

static void stats_rings(struct engine *e)
{
	struct engine_ring *er;

	list_for_each_entry(er, &e->rings, link) {
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
	stats_update(er->engine);
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

static struct segment_flow *flow_of(const struct engine *e, uint32_t opcode, uint32_t flags)
{
	uint32_t flow;

	/* Opcodes that read are odd. Invalid classes were refused. */
	flow = opcode == URCCL_OP_NOTIFY ? SEGMENT_NOTIFY : !(opcode & 1);
	flow += (flags >> URCCL_SQE_CLASS_SHIFT) * SEGMENT_FLOWS;
	assert(flow < SEGMENT_ALL_FLOWS);
	return &e->stats->flows[flow];
}

__attribute__((noinline)) void stats_batch_start(const struct op *op)
{
	struct stats_batch *b = &op_engine(op)->stats_batch;

	if (b->ended)
		stats_batch_end(op_engine(op));
	memcpy(&b->what, &op->sqe, sizeof(b->what));
	b->flow = flow_of(op_engine(op), op->sqe.opcode, op->sqe.flags);
}

__attribute__((noinline)) void stats_batch_start_of(struct engine *e, uint32_t what)
{
	struct stats_batch *b = &e->stats_batch;

	if (b->ended)
		stats_batch_end(e);
	b->what = what;
	b->flow = flow_of(e, what & 0xff, what >> 16);
}

/* The clock is read once in some iterations. All but one of them are short. */
static void stats_slow(struct engine *e)
{
	struct segment_engine *s = e->stats;

	stat_add(&s->count.slow_turns, 1);
	stat_set(&s->slow_ns, e->now - e->looked_ns);
	stat_set(&s->slow_user_data, e->served ? e->served->sqe.user_data : e->copied_data);
	stat_set32(&s->slow_opcode, e->served ? e->served->sqe.opcode : e->copied_opcode);
}

/* bench/cost.py finds it by name. */
__attribute__((noinline)) void stats_update(struct engine *e)
{
	if (!URCCL_STATISTICS)
		return;
	stats_rings(e);
	/* The program of an INLINE context may be away between two iterations. */
	if (e->looked_ns && e->now - e->looked_ns > SEGMENT_SLOW_NS && !e->config.is_inline)
		stats_slow(e);
	e->looked_ns = e->now;
	e->served = NULL;
	e->copied_data = e->copied_opcode = 0;
	e->update_ns = e->now + UPDATE_NS;
	store_relaxed(&e->stats->chunks, e->chunks_used);
	store_relaxed(&e->stats->slots, e->stage.nslots);
	store_relaxed(&e->stats->slots_used, e->stage.nslots - e->stage.nfree);
	stat_set(&e->stats->updated_ns, e->now);
	stat_set(&e->stats->count.turns, e->iterations);
}

void stats_asleep(struct engine *e, uint64_t ns)
{
	if (!URCCL_STATISTICS)
		return;
	stats_update(e);
	stat_set(&e->stats->wake_at_ns, ns < NEVER_NS - e->now ? e->now + ns : NEVER_NS);
	stat_add(&e->stats->count.sleeps, 1);
	store_relaxed(&e->stats->state, SEGMENT_SLEEPS);
}

/* ---- any thread ---- */

const struct failures *engine_failures(const struct engine *e)
{
	return &e->failures;
}

int engine_peer_name(const struct engine *e, uint32_t handle, char *name, uint32_t len, int *lost)
{
	struct segment_view v = segment_view_own(e->segment);
	const struct segment_peer *p = &v.s->peers[HANDLE_SLOT(handle)];
	int leaving;

	if (HANDLE_SLOT(handle) >= segment_npeers(&v) || load_acquire(&p->handle) != handle)
		return -ENOENT;
	segment_string(p->name, sizeof(p->name), name, len);
	*lost = load_relaxed(&p->state) == URCCL_PEER_LOST;
	leaving = (int)load_acquire(&p->leaving);
	return load_acquire(&p->handle) == handle ? leaving : -ENOENT;
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
