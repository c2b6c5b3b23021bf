/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine tells of itself to any thread, also when its own is stuck: single words, each
 * whole, not together. */
#include <stdio.h>
#include <unistd.h>
#include "engine/private.h"

const struct failures *engine_failures(const struct engine *e)
{
	return &e->failures;
}

void engine_stats(const struct engine *e, struct urccl_stats *stats)
{
	const uint64_t *from = (const uint64_t *)(const void *)&e->stats + 1;
	uint64_t *to = (uint64_t *)(void *)stats + 1;
	size_t i, n = sizeof(*stats) / sizeof(uint64_t) - 1;

	for (i = 0; i < n; i++)
		to[i] = load_relaxed(&from[i]);
}

static void tell_stats(const struct engine *e, int fd)
{
	struct urccl_stats s;

	engine_stats(e, &s);
	dprintf(fd, "engine: turned %llu ns ago, %llu turns, %llu sleeps, %llu wakes\n",
		(unsigned long long)(clock_ns() - load_relaxed(&e->turn_ns)),
		(unsigned long long)s.turns, (unsigned long long)s.sleeps,
		(unsigned long long)s.wakes);
	dprintf(fd,
		"entries: %llu submitted, %llu completed, %llu failed, %llu cancelled, %llu timed out\n",
		(unsigned long long)s.submitted, (unsigned long long)s.completed,
		(unsigned long long)s.failed, (unsigned long long)s.cancelled,
		(unsigned long long)s.timed_out);
	dprintf(fd, "moved: %llu bytes read, %llu bytes written, %llu chunks, %llu pieces merged\n",
		(unsigned long long)s.bytes_read, (unsigned long long)s.bytes_written,
		(unsigned long long)s.chunks, (unsigned long long)s.merged);
	dprintf(fd, "notifications: %llu sent, %llu received\n", (unsigned long long)s.notes_sent,
		(unsigned long long)s.notes_received);
}

static void tell_op(const struct op *op, uint32_t i, int fd)
{
	static const char *const states[OP_STATES] = {
		[OP_WAITING] = "waiting",  [OP_MOVING] = "moving", [OP_FLUSHING] = "flushing",
		[OP_NOTING] = "notifying", [OP_ASKING] = "asking", [OP_PARKED] = "parked",
	};
	uint64_t told = load_relaxed(&op->told);
	uint32_t state = (uint32_t)(told >> 32) & 0xff;
	const char *name = opcode_name((uint32_t)(told >> 40));

	if (state == OP_FREE || state >= OP_STATES)
		return;
	dprintf(fd, "  entry %u: %s, %s%s\n", i, name ? name : "?", states[state],
		told & OP_DECIDED ? ", stopping" : "");
}

static void tell_ring(const struct engine_ring *er, int fd)
{
	const struct ring *r = er->ring;
	uint32_t i;

	dprintf(fd, "ring %u: %u submitted and not taken, %u CQEs not seen\n", r->pub.id,
		load_acquire(&r->producer_line.sq_tail) - load_acquire(&r->own.sq_head),
		load_acquire(&r->publish_line.cq_tail) - load_acquire(&r->consumer_line.cq_head));
	for (i = 0; i < er->entries; i++)
		tell_op(&er->ops[i], i, fd);
}

void engine_dump(const struct engine *e, int fd)
{
	uint32_t i;

	tell_stats(e, fd);
	for (i = 0; i < RINGS_MAX; i++) {
		const struct engine_ring *er = load_acquire(&e->ring_index[i]);

		if (er)
			tell_ring(er, fd);
	}
}
