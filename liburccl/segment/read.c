/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a segment, which may be another process's and is not trusted. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "segment/segment.h"
#include "base/base.h"

#ifndef F_GET_SEALS
#define F_GET_SEALS   1034
#define F_SEAL_SHRINK 0x0002
#endif

/* ---- the file ---- */

static int head_check(const struct segment *s, uint64_t bytes)
{
	if (load_acquire(&s->head.magic) != SEGMENT_MAGIC)
		return -EPROTO;
	if (load_relaxed(&s->head.version) != SEGMENT_VERSION)
		return -ENOTSUP;
	return load_relaxed(&s->head.bytes) == bytes ? 0 : -EPROTO;
}

int segment_view_open(int fd, struct segment_view *v)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS), err;
	void *p;

	/* A file that can shrink may lose pages while they are read. */
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) ||
	    (uint64_t)st.st_size < sizeof(struct segment))
		return -EPROTO;
	p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	v->s = p;
	v->bytes = (uint64_t)st.st_size;
	err = head_check(v->s, v->bytes);
	if (err)
		segment_view_close(v);
	return err;
}

void segment_view_close(struct segment_view *v)
{
	munmap((void *)(uintptr_t)v->s, v->bytes);
	v->s = NULL;
}

/* ---- contents ---- */

/* Extends the 32-bit counter now to 64 bits; all is its value at an earlier export. */
static uint64_t count_of(const uint64_t *all, const uint32_t *now)
{
	uint64_t n = load_relaxed(all);

	return n + (load_relaxed(now) - (uint32_t)n);
}

void segment_ring_counts(const struct segment_ring *r, uint64_t *taken, uint64_t *ended)
{
	*ended = count_of(&r->all_ended, &r->ended);
	*taken = count_of(&r->all_taken, &r->taken);
	if (*taken < *ended)
		*taken = *ended;
}

/* Sums up all rings, open and closed. */
static void count_entries(const struct segment *s, uint64_t *taken, uint64_t *ended)
{
	uint64_t t, n;
	uint32_t i;

	*taken = load_relaxed(&s->engine.count.taken);
	*ended = load_relaxed(&s->engine.count.ended);
	for (i = 0; i < SEGMENT_RINGS; i++) {
		segment_ring_counts(&s->rings[i], &t, &n);
		*taken += t;
		*ended += n;
	}
}

void segment_stats(const struct segment *s, struct urccl_stats *out)
{
	const struct segment_count *c = &s->engine.count;
	uint64_t badly, ended;
	uint32_t i;

	out->failed = load_relaxed(&c->failed);
	out->cancelled = load_relaxed(&c->cancelled);
	out->timed_out = load_relaxed(&c->timed_out);
	out->bytes_read = out->bytes_written = 0;
	for (i = 0; i < SEGMENT_CLASSES; i++) {
		const struct segment_flow *f = &s->engine.flows[i * SEGMENT_FLOWS];

		out->bytes_read += load_relaxed(&f[SEGMENT_READ].bytes);
		out->bytes_written += load_relaxed(&f[SEGMENT_WRITE].bytes);
	}
	badly = out->failed + out->cancelled + out->timed_out;
	count_entries(s, &out->submitted, &ended);
	out->completed = ended > badly ? ended - badly : 0;
	out->chunks = load_relaxed(&c->chunks);
	out->merged = load_relaxed(&c->merged);
	out->notes_sent = load_relaxed(&c->notes_sent);
	out->notes_received = load_relaxed(&c->notes_received);
	out->turns = load_relaxed(&c->turns);
	out->sleeps = load_relaxed(&c->sleeps);
	out->wakes = load_relaxed(&c->wakes);
	out->slow_turns = load_relaxed(&c->slow_turns);
}

uint32_t segment_ring_records(const struct segment_ring *r)
{
	uint32_t first = load_relaxed(&r->first), records = load_relaxed(&r->records);

	if (first >= SEGMENT_ENTRIES)
		return 0;
	return records <= SEGMENT_ENTRIES - first ? records : SEGMENT_ENTRIES - first;
}

/* The record with this number, or NULL if it would lie outside the file. */
static const struct segment_entry *entry_at(const struct segment_view *v, uint64_t number)
{
	uint64_t at = load_relaxed(&v->s->head.entries_at);
	uint64_t each = load_relaxed(&v->s->head.entry_bytes);

	if (number >= SEGMENT_ENTRIES || each < sizeof(struct segment_entry) ||
	    (at | each) % _Alignof(struct segment_entry) || at > v->bytes ||
	    (number + 1) * each > v->bytes - at)
		return NULL;
	return (const void *)((const char *)v->s + at + number * each);
}

/* The engine may write meanwhile, so each word is read once. */
__attribute__((no_sanitize("thread"))) int segment_entry_get(const struct segment_view *v,
							     const struct segment_ring *r,
							     uint32_t i,
							     struct segment_entry_view *out)
{
	const struct segment_entry *e = entry_at(v, (uint64_t)load_relaxed(&r->first) + i);
	uint32_t bits;

	if (!e)
		return 0;
	bits = load_relaxed(&e->bits);
	out->slot = i;
	out->peer = load_relaxed(&e->peer);
	out->opcode = load_relaxed(&e->sqe.opcode);
	out->state = load_relaxed(&e->state);
	out->stopping = bits & SEGMENT_STOPPING;
	out->awaits = out->state == SEGMENT_WAITING && bits & SEGMENT_AWAITS;
	out->started_ns = load_relaxed(&e->started_ns);
	out->user_data = load_relaxed(&e->sqe.user_data);
	out->total = load_relaxed(&e->total);
	out->placed = load_relaxed(&e->placed);
	return out->state != SEGMENT_FREE && out->state < SEGMENT_STATES;
}

/* Reading records beyond peers_there would allocate their pages. */
uint32_t segment_npeers(const struct segment_view *v)
{
	uint64_t most = (v->bytes - sizeof(*v->s)) / sizeof(struct segment_peer);
	uint32_t there = load_acquire(&v->s->head.peers_there);

	return there < most ? there : (uint32_t)most;
}

uint32_t segment_peer_handle(const struct segment_view *v, uint64_t id)
{
	uint32_t i, n = segment_npeers(v), handle;

	for (i = 0; i < n && id; i++) {
		handle = load_acquire(&v->s->peers[i].handle);
		if (handle && load_relaxed(&v->s->peers[i].id) == id)
			return handle;
	}
	return 0;
}

const char *segment_string(const char *from, uint32_t size, char *to, uint32_t to_size)
{
	uint32_t i;

	for (i = 0; i + 1 < to_size && i < size; i++) {
		char c = load_relaxed(&from[i]);

		if (!c)
			break;
		to[i] = (char)(c < ' ' || c > '~' ? '?' : c);
	}
	to[i] = 0;
	return to;
}

/* ---- latencies ---- */

uint64_t segment_cell_ns(uint32_t cell)
{
	uint32_t shift = cell / SEGMENT_CELL_STEPS;
	uint64_t v = (uint64_t)(cell % SEGMENT_CELL_STEPS + SEGMENT_CELL_STEPS) << shift;

	return v + (1ull << shift) / 2 - SEGMENT_CELL_STEPS;
}

void segment_latency_add(struct segment_latency *l, const struct segment *s, uint32_t flow)
{
	const struct segment_flow *f = &s->engine.flows[flow];
	uint64_t n = load_relaxed(&f->at_once);
	uint32_t i;

	l->ended += n;
	l->at_once += n;
	for (i = 0; i < SEGMENT_CELLS; i++) {
		n = load_relaxed(&f->cells[i]);
		l->cells[i] += n;
		l->ended += n;
	}
}

uint64_t segment_quantile(const struct segment_latency *l, double q)
{
	double at = (double)l->ended * q;
	/* The counts are not trusted: as a double, ended may be 2^64. */
	uint64_t rank = at < 0x1p64 ? (uint64_t)at : UINT64_MAX, seen = l->at_once;
	uint32_t i, last = 0;

	if (seen > rank || seen == l->ended)
		return 0;
	for (i = 0; i < SEGMENT_CELLS; i++) {
		seen += l->cells[i];
		if (l->cells[i])
			last = i;
		if (seen > rank)
			break;
	}
	return segment_cell_ns(last);
}
