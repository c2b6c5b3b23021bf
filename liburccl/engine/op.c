/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an operation, from the moment when nothing blocks it to its one terminal CQE. */
#include "engine/post.h"
#include "engine/stats.h"

/* A timer that fires later than this was not checked in time. */
#define AWAY_NS	    (5 * NSEC_PER_MSEC)
#define ABORT_POLLS 64u /* polls in which a device must give up a chunk after CANCEL_NOW */

/* ---- completions ---- */

static uint32_t checked_flag(const struct op *op)
{
	return op->res >= 0 || op->res == -EBADMSG ? URCCL_CQE_CHECKED : 0;
}

_Static_assert((int)OP_UNQUIET == (int)URCCL_CQE_REMOTE_QUIET &&
		       (int)OP_UNFLUSHED == (int)URCCL_CQE_NOT_FLUSHED,
	       "NOT_FLUSHED copies OP_UNFLUSHED; REMOTE_QUIET is OP_UNQUIET inverted");

static uint32_t outcome_flags(const struct op *op)
{
	if (!(op->bits & (OP_IS_DATA | OP_IS_ATOMIC | OP_UNKNOWN)))
		return URCCL_KIND_OP;
	/* An atomic may have been executed while its notification failed. */
	if (op->bits & OP_UNKNOWN || (op_is_atomic(op) && op->res < 0 && op->placed))
		return URCCL_KIND_OP | URCCL_CQE_UNKNOWN | (op->bits & OP_UNFLUSHED);
	return URCCL_KIND_OP | ((op->bits ^ OP_UNQUIET) & (OP_UNQUIET | OP_UNFLUSHED));
}

static uint32_t outcome_path(const struct op *op)
{
	const struct rail *rail = op->peer ? op->peer->rail : NULL;

	if (op->path & URCCL_PATH_TRANSPORT || !rail || op->state < OP_MOVING)
		return op->path;
	return op->path | rail->path;
}

__attribute__((cold)) static void count_failure(const struct op *op)
{
	struct segment_count *c = &op_engine(op)->stats->count;

	if (op->res == -ECANCELED)
		stat_add(&c->cancelled, 1);
	else if (op->res == -ETIMEDOUT)
		stat_add(&c->timed_out, 1);
	else
		stat_add(&c->failed, 1);
}

/* Until all bytes are back and proved, any segment may be incomplete: say 0. */
static uint32_t first_unplaced(const struct op *op)
{
	return op->inflight || op->bits & OP_UNPROVED ? 0 : op->first_bad;
}

static inline void post_outcome(struct op *op, uint32_t more, int failed)
{
	struct urccl_cqe *cqe = ring_post(op->er->ring, op->sqe.flags & URCCL_SQE_NO_WAKE);

	cqe->user_data = op->sqe.user_data;
	cqe->res = op->res;
	cqe->flags = outcome_flags(op) | more;
	if (more) /* bytes under way may still land */
		cqe->flags &= ~(uint32_t)URCCL_CQE_REMOTE_QUIET;
	if (op->sqe.flags & URCCL_SQE_CHECKSUM)
		cqe->flags |= checked_flag(op);
	cqe->path = outcome_path(op);
	if (failed) {
		cqe->fail.segment = first_unplaced(op);
		cqe->fail.detail = op->detail;
	} else if (op_is_data(op)) {
		cqe->wire = op->placed;
	} else {
		cqe->handle = op->handle;
	}
}

/* A device ring counts each failure in its (GPU) lane, and posts a CQE only if a slot is free. */
__attribute__((noinline, cold)) static void post_failure(struct op *op, uint32_t more)
{
	if (device_failed(op))
		post_outcome(op, more, 1);
}

/* 1: a TIMEOUT whose end by time counts as a success. */
static int may_expire(const struct op *op)
{
	return op->sqe.opcode == URCCL_OP_TIMEOUT &&
	       op->sqe.timeout_flags & URCCL_TIMEOUT_ETIME_SUCCESS;
}

static void outcome_known(struct op *op)
{
	if (!(op->bits & OP_OUTCOME) && (op->bits & OP_CHAINED || op->res < 0))
		order_outcome(op, op->res < 0 && !(op->res == -ETIME && may_expire(op)));
	op->bits |= OP_OUTCOME;
}

/* Reports the outcome although the local buffer is not quiet yet. */
void op_report(struct op *op)
{
	if (op->bits & OP_REPORTED)
		return;
	op->bits |= OP_REPORTED;
	if (op->scope_all)
		op->peer->kept++;
	post_failure(op, URCCL_CQE_MORE);
	outcome_known(op);
}

/* The slow end: other entries wait for this one, the program was shown it, or its success is
 * signalled in a word. bench/cost.py finds it by name. */
__attribute__((noinline)) static void end_reported(struct op *op)
{
	struct engine_ring *er = op->er;

	if (op->res < 0)
		count_failure(op);
	else if (op->bits & OP_SIGNALS)
		sync_signal(op);
	if (op->bits & OP_REPORTED && op->scope_all)
		op->peer->kept--;
	outcome_known(op);
	order_leave(op);
	if (er->watched) {
		cancel_target_ended(op);
		timeouts_count(er);
		er->watched = !list_empty(&er->drains) || !list_empty(&er->cancels) ||
			      !list_empty(&er->timeouts) || er->ring->device;
	}
	if (er->ring->device)
		device_ended(op);
}

/* perf(1) takes a probe for an event of one name if it has one place in the library. */
__attribute__((noinline)) void entry_ended(const struct ring *r, uint64_t user_data, int64_t res)
{
	PROBE(entry_ended, r->pub.id, user_data, res);
}

/* The entry has no timer any more. Inlined in its callers, since most entries end there. */
static inline __attribute__((always_inline)) void op_finish(struct op *op, int64_t res)
{
	struct engine_ring *er = op->er;
	struct ring *r = er->ring;

	assert(op->state != OP_FREE && !op->inflight);
	op->res = res;
	if (!list_empty(&op->link))
		list_del(&op->link);
	if (res < 0) {
		post_failure(op, 0);
		er->completions++;
	} else if (op->sqe.flags & URCCL_SQE_SKIP_SUCCESS) {
		store_release(&r->engine_line.skipped, r->engine_line.skipped + 1);
		r->own.pending = 1;
	} else {
		post_outcome(op, 0, 0);
		er->completions++;
	}
	r->own.done++;
	entry_ended(r, op->sqe.user_data, op->res);
	if (op->bits & (OP_CHAINED | OP_MULTISHOT | OP_REPORTED) || er->watched || res < 0)
		end_reported(op);
	if (op->scope_all)
		order_leave_peer(op);
	op->peer = NULL;
	op->state = OP_FREE;
	er->free[er->nfree++] = op;
}

void op_end(struct op *op, int64_t res)
{
	if (op->deadline_ns)
		wheel_unset(&op->timer);
	op_finish(op, res);
}

void op_end_nop(struct op *op)
{
	if (op->deadline_ns)
		wheel_unset(&op->timer);
	op_finish(op, 0);
}

static void op_end_moved(struct op *op)
{
	stats_moved(op);
	if (op->deadline_ns) {
		stats_moved_later(op);
		wheel_unset(&op->timer);
	}
	op_finish(op, (int64_t)op->placed);
}

/* Data or a notification, successful: ends after setting its word in GPU memory if it has one. */
static void op_moved(struct op *op)
{
	if (!(op->bits & OP_SIGNALS_GPU)) {
		op_end_moved(op);
		return;
	}
	/* The peer has its notification: if the entry fails now, its outcome is UNKNOWN. */
	if (op->bits & OP_PROMISED)
		op->bits ^= OP_PROMISED | OP_UNKNOWN;
	if (op->bits & OP_DECIDED)
		op_end(op, op->res);
	else
		sync_signal_gpu(op);
}

/* ---- failing and stopping ---- */

/* Frees chunks of a stopped entry that no device has. */
static void lane_drop_held(struct op *op)
{
	struct lane *l = &op->peer->lanes[op->lane];
	struct chunk **at = &l->held.head, *c;

	while ((c = *at)) {
		if (c->op != op || c->kind == CHUNK_SEND || c->kind == CHUNK_FLUSH) {
			at = &c->next;
			continue;
		}
		chunk_queue_del(&l->held, at);
		chunk_drop(op_engine(op), c);
	}
}

void op_drop_chunks(struct op *op)
{
	lane_drop_held(op);
	if (op->peer->requeued_chunks.head)
		replay_drop(op);
	if (op_engine(op)->gpus)
		stage_drop(op);
}

/* Takes back everything of the decided entry that is not under way. The rest is asked to return. */
static void op_dequeue(struct op *op)
{
	if (op->state == OP_WAITING)
		sync_leave(op);
	if (op->state != OP_MOVING || !op->inflight)
		return;
	op_drop_chunks(op);
	op_engine(op)->sweep = 1;
}

/* The peer's answer to the notification is known, or the entry was stopped. */
static void step_noting(struct op *op)
{
	if (op->note_slot == NOTE_ARRIVED && op->sqe.opcode <= URCCL_OP_NOTIFY)
		op_moved(op); /* even if it was stopped too late */
	else if (op->note_slot == NOTE_ARRIVED)
		op_end(op, (int64_t)op->placed);
	else if (op->note_slot == NOTE_LOST || note_stop(op))
		op_end(op, op->res);
}

static void atomic_leave(struct op *op)
{
	op->atomic_slot = ATOMIC_WINDOW;
	op->state = OP_MOVING;
	op_check(op);
}

/* The job that sets its word has ended, or the entry was stopped. If the job set the word all the
 * same, the entry succeeds. */
static void step_signalling(struct op *op)
{
	if (op->inflight)
		sync_signal_stop(op);
	if (op->inflight || sync_of(op)->job.res || op->bits & OP_REPORTED) {
		op_check(op);
		return;
	}
	op->bits &= ~(uint32_t)OP_UNKNOWN;
	op_end_moved(op);
}

/* The next step of an entry of the ready list. */
__attribute__((noinline)) static void op_step(struct op *op)
{
	uint32_t decided = op->bits & OP_DECIDED;

	list_del(&op->link);
	op->bits &= ~(uint32_t)OP_LISTED;
	switch (op->state) {
	case OP_NOTING:
		step_noting(op);
		return;
	case OP_SIGNALLING:
		step_signalling(op);
		return;
	case OP_ATOMIC:
		if (!decided) /* its key is there */
			atomic_start(op);
		else if (atomic_stop(op))
			atomic_leave(op);
		return;
	case OP_ASKING:
	case OP_PARKED:
		if (request_stop(op))
			op_end(op, op->res);
		return;
	default:
		break;
	}
	if (decided)
		op_dequeue(op);
	if (decided || op->bits & OP_DONE_CURSOR)
		op_check(op);
	else if (op->state == OP_WAITING)
		op_begin(op);
	else /* its keys are there */
		lane_add_op(op);
}

void op_stop(struct op *op, int res, uint32_t reason, uint64_t arg)
{
	op_fail(op, res, reason, arg, 0, 0);
	if (op->state != OP_FREE && op->bits & OP_LISTED)
		op_step(op);
}

void op_abort(struct op *op)
{
	if (op->state != OP_FREE && op->bits & OP_LISTED)
		op_step(op);
	if (op->state == OP_FREE || (op->bits & OP_ABORTED))
		return;
	op->bits |= OP_ABORTED;
	if (op->state == OP_NOTING) {
		note_abort(op);
		op_end(op, op->res);
		return;
	}
	if (op->state == OP_ATOMIC) {
		atomic_abort(op);
		atomic_leave(op);
		return;
	}
	if (op->state == OP_FLUSHING) { /* the flush may never return */
		list_del(&op->link);
		op->state = OP_MOVING;
	}
	op_engine(op)->sweep = 1;
	op_check(op);
}

__attribute__((noinline)) uint32_t op_run_listed(struct engine *e)
{
	uint32_t n = 0;

	for (; !list_empty(&e->ready); n++)
		op_step(list_first(&e->ready, struct op, link));
	return n;
}

/* ---- moving ---- */

static void begin_note(struct op *op)
{
	if (!(op->sqe.flags & URCCL_SQE_FENCE)) {
		note_start(op);
		return;
	}
	op->bits |= OP_DONE_CURSOR;
	op->state = OP_MOVING;
	op_check(op);
}

/* Data whose memory could not be looked up when it was taken. */
static void begin_late(struct op *op)
{
	if (cursor_lookup(op))
		return;
	op->state = OP_MOVING;
	lane_add_op(op);
}

void op_begin_other(struct op *op)
{
	struct engine_peer *p = op->peer;

	if (!p || op->sqe.opcode == URCCL_OP_WATCH || op->sqe.opcode == URCCL_OP_IMPORT) {
		request_start(op);
	} else if (p->state < PEER_UP) {
		list_add_tail(&op->link, &p->waiting);
		if (p->state == PEER_SUSPENDED)
			peer_ask_resume(p);
	} else {
		peer_awaited(op_engine(op), p);
		if (op->sqe.opcode == URCCL_OP_WARM)
			request_start(op);
		else if (op->sqe.opcode == URCCL_OP_NOTIFY)
			begin_note(op);
		else if (op_is_atomic(op))
			atomic_start(op);
		else
			begin_late(op);
	}
	if (op->bits & OP_LISTED) /* it has failed, or ended at once */
		op_step(op);
}

static int peer_answers(const struct op *op)
{
	return op->peer && op->peer->state <= PEER_LOSING && op->peer->rail &&
	       !(op->bits & (OP_ABORTED | OP_REQUEUED));
}

/* Chunks were acknowledged, but perhaps not placed yet: one flush per batch proves that they are.
 * If none can, the entry begins again or fails. */
static void op_prove(struct op *op)
{
	if (!(op->bits & OP_REQUEUED) && flush_begin(op))
		return;
	if (op_requeue(op))
		return;
	if (op->sqe.flags & URCCL_SQE_NO_REPLAY)
		op_fail(op, -ECONNRESET, REASON_NO_REPLAY, 0, 0, 0);
	else
		op_fail(op, -ECONNRESET, REASON_PEER_RESET, ECONNRESET, 0, 0);
}

static int wants_flush(const struct op *op)
{
	if (!(op->bits & OP_UNQUIET) || (op->bits & (OP_FLUSHED | OP_REQUEUED)) == OP_FLUSHED ||
	    !op->flush_key || op_reads(op))
		return 0;
	if (op->bits & OP_DECIDED)
		return peer_answers(op);
	return !(op->sqe.flags & URCCL_SQE_ACKED) || op->bits & OP_PROMISED || !flush_may_wait(op);
}

/* The next step of a decided entry, all of whose chunks are back. */
static void check_decided(struct op *op)
{
	if (op->bits & OP_REQUEUED && op_requeue(op))
		return;
	if (wants_flush(op) && flush_begin(op))
		return;
	if (op->bits & OP_PROMISED)
		note_fail(op);
	op_end(op, op->res);
}

static void end_acked(struct op *op)
{
	if (op->bits & OP_UNQUIET && !op_reads(op))
		flush_defer(op);
	op_moved(op);
}

static void promise(struct op *op)
{
	if (!flush_fenced(op))
		note_start(op);
}

static __attribute__((noinline)) void next_step(struct op *op)
{
	/* Flushes, acknowledgements, answers and requests to the control thread return later, even
	 * after the deadline. */
	const uint32_t goes_on =
		1u << OP_WAITING | 1u << OP_MOVING | 1u << OP_PARKED | 1u << OP_SIGNALLING;

	if (op->inflight || !(goes_on & 1u << op->state))
		return;
	if (op->bits & OP_LISTED) { /* this is the step that it waits for */
		list_del(&op->link);
		op->bits &= ~(uint32_t)OP_LISTED;
	}
	if (op->bits & OP_DECIDED) {
		check_decided(op);
		return;
	}
	if (op->state != OP_MOVING || !(op->bits & OP_DONE_CURSOR))
		return;
	if (wants_flush(op))
		op_prove(op);
	else if (op->bits & OP_PROMISED)
		promise(op);
	else
		end_acked(op);
}

void op_check(struct op *op)
{
	const uint32_t open = OP_DECIDED | OP_UNQUIET | OP_PROMISED | OP_SIGNALS_GPU;

	if (!op->inflight && op->state == OP_MOVING &&
	    (op->bits & (open | OP_DONE_CURSOR)) == OP_DONE_CURSOR)
		op_end_moved(op); /* as for most entries */
	else
		next_step(op);
}

/* ---- deadlines ---- */

/* 1: the timer fires late, so this thread did not run (or nobody called, INLINE). The silence of
 * the peer or the device means nothing then: their messages may be unread. This excuse is
 * granted once before op_abort(), and once more after it. */
static int was_away(struct op *op)
{
	uint64_t due = op->timer.tick << WHEEL_TICK_SHIFT;

	if ((op->bits & OP_EXCUSED) || op_engine(op)->now < due + AWAY_NS)
		return 0;
	op->bits |= OP_EXCUSED;
	return 1;
}

/* The number of polls since the start. One sleep counts as ABORT_POLLS of them: it begins when
 * there is no work, and a device, a timer or the mailbox ends it. */
static uint32_t engine_polls(const struct engine *e)
{
	return (uint32_t)(e->iterations + ABORT_POLLS * e->sleeps);
}

static void op_start_abort(struct op *op)
{
	op->left = engine_polls(op_engine(op));
	op->bits &= ~(uint32_t)OP_EXCUSED;
	op_abort(op);
}

static void fail_late(struct op *op)
{
	uint64_t us = (op->deadline_ns - op->started_ns) / NSEC_PER_USEC;
	struct late l = late_of(op);

	switch (l.reason) {
	case REASON_DEADLINE:
	case REASON_DEADLINE_RAIL:
	case REASON_DEADLINE_ROOM:
		op_fail_midway(op, -ETIMEDOUT, l.reason, REASON_DEADLINE_LONG, us);
		return;
	default:
		op_fail(op, -ETIMEDOUT, l.reason, us, l.a, l.b);
	}
}

/* The steps after the deadline. First, the entry stops with the peer's help. After GRACE_NS,
 * op_start_abort() stops it without the peer. If the device was polled ABORT_POLLS times after
 * op_start_abort(), the outcome is reported before the end. */
void op_expired(struct op *op)
{
	struct engine *e = op_engine(op);
	uint32_t late = op->bits & OP_LATE;

	if (op->sqe.opcode == URCCL_OP_TIMEOUT) {
		list_del(&op->drain_link); /* from er->timeouts (counting CQEs) or er->drains */
		op_end(op, may_expire(op) && op->sqe.flags & URCCL_SQE_SKIP_SUCCESS ? 0 : -ETIME);
		return;
	}
	op->bits |= OP_LATE;
	if (late && was_away(op)) {
		wheel_set(&e->wheel, &op->timer,
			  e->now + (op->bits & OP_ABORTED ? NSEC_PER_MSEC : AWAY_NS));
		return;
	}
	if (late && op->bits & OP_ABORTED && engine_polls(e) - op->left >= ABORT_POLLS) {
		op_report(op); /* only the device can end the entry now */
		return;
	}
	wheel_set(&e->wheel, &op->timer, e->now + GRACE_NS);
	if (!late && (op->state != OP_NOTING || !note_expired(op))) {
		fail_late(op);
	} else if (late && !(op->bits & OP_ABORTED)) {
		if (op->peer)
			op->peer->silent = 1;
		op_start_abort(op);
	}
	if (op->state != OP_FREE && op->bits & OP_LISTED)
		op_step(op);
}

void op_shorten_deadline(struct op *op)
{
	struct engine *e = op_engine(op);
	uint64_t at = e->now + STOP_GRACE_NS;

	if (op->state == OP_FREE || op->deadline_ns <= at)
		return;
	/* If several rings close in turn, they wait for the peer's answer once, not once each. */
	if (op->peer && op->peer->silent && (op->bits & OP_DECIDED)) {
		op_start_abort(op);
		if (op->state == OP_FREE)
			return;
	}
	op->deadline_ns = at;
	wheel_unset(&op->timer);
	wheel_set(&e->wheel, &op->timer, at);
}

static uint64_t timeout_of(const struct engine *e, const struct op *op)
{
	if (op->er->closing) /* taken just now: the failure of its notification must leave soon */
		return STOP_GRACE_NS;
	if (op->sqe.opcode == URCCL_OP_TIMEOUT)
		return op->sqe.ns;
	if (op->sqe.deadline_us)
		return op->sqe.deadline_us * NSEC_PER_USEC;
	return op->bits & OP_MULTISHOT ? NEVER_NS : e->default_timeout_ns;
}

static void op_arm(struct engine *e, struct op *op)
{
	uint64_t timeout = timeout_of(e, op);

	op->started_ns = e->now;
	if (timeout >= NEVER_NS - e->now) {
		op->deadline_ns = NEVER_NS;
		return;
	}
	op->deadline_ns = e->now + timeout;
	wheel_set(&e->wheel, &op->timer, op->deadline_ns);
}

/* Starts the deadlines of entries that were taken in this iteration and still live. All share one
 * clock read; entries that ended at once need none. */
int op_arm_fresh(struct engine *e)
{
	int looked = 0;
	struct op *op;

	while ((op = e->fresh)) {
		e->fresh = op->fresh_next;
		op->is_fresh = 0;
		if (op->state == OP_FREE)
			continue;
		if (!looked)
			e->now = clock_now(e->config.clock);
		looked = 1;
		op_arm(e, op);
	}
	return looked;
}
