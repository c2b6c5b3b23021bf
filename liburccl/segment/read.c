/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at a segment, which may be another process's and anything at all. */
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

	/* Of a file that can shrink, pages may go while they are read. */
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

/* ---- what is in it ---- */

void segment_stats(const struct segment *s, struct urccl_stats *out)
{
	const struct segment_count *c = &s->engine.count;
	uint32_t i, k;

	out->submitted = load_relaxed(&c->submitted);
	out->completed = load_relaxed(&c->ended);
	out->failed = load_relaxed(&c->failed);
	out->cancelled = load_relaxed(&c->cancelled);
	out->timed_out = load_relaxed(&c->timed_out);
	out->bytes_read = out->bytes_written = 0;
	for (i = 0; i < SEGMENT_CLASSES; i++) {
		const struct segment_flow *f = s->engine.flows[i];

		for (k = SEGMENT_READ; k < SEGMENT_FLOWS; k++)
			out->completed += load_relaxed(&f[k - 1].ended);
		out->bytes_read += load_relaxed(&f[SEGMENT_READ - 1].bytes);
		out->bytes_written += load_relaxed(&f[SEGMENT_WRITE - 1].bytes);
	}
	out->chunks = load_relaxed(&c->chunks);
	out->merged = load_relaxed(&c->merged);
	out->notes_sent = load_relaxed(&c->notes_sent);
	out->notes_received = load_relaxed(&c->notes_received);
	out->turns = load_relaxed(&c->turns);
	out->sleeps = load_relaxed(&c->sleeps);
	out->wakes = load_relaxed(&c->wakes);
}

uint32_t segment_ring_told(const struct segment_ring *r)
{
	uint32_t first = load_relaxed(&r->first), told = load_relaxed(&r->told);

	if (first >= SEGMENT_ENTRIES)
		return 0;
	return told <= SEGMENT_ENTRIES - first ? told : SEGMENT_ENTRIES - first;
}

int segment_entry_get(const struct segment *s, const struct segment_ring *r, uint32_t i,
		      struct segment_entry_view *out)
{
	uint32_t first = load_relaxed(&r->first);
	const struct segment_entry *e;
	uint64_t word;

	if (first >= SEGMENT_ENTRIES || i >= SEGMENT_ENTRIES - first)
		return 0;
	e = &s->entries[first + i];
	word = load_relaxed(&e->word);
	out->slot = i;
	out->peer = (uint32_t)(word >> SEGMENT_PEER_SHIFT);
	out->opcode = (uint32_t)(word >> SEGMENT_OPCODE_SHIFT) & 0xff;
	out->state = (uint32_t)(word >> SEGMENT_STATE_SHIFT) & 0xff;
	out->stopping = (uint32_t)word & SEGMENT_STOPPING;
	out->started_ns = load_relaxed(&e->started_ns);
	out->user_data = load_relaxed(&e->user_data);
	out->total = load_relaxed(&e->total);
	out->placed = load_relaxed(&e->placed);
	return out->state != SEGMENT_FREE && out->state < SEGMENT_STATES;
}

/* Looking at those that are not there would make them be there. */
uint32_t segment_npeers(const struct segment_view *v)
{
	uint64_t most = (v->bytes - sizeof(*v->s)) / sizeof(struct segment_peer);
	uint32_t there = load_acquire(&v->s->head.peers_there);

	return there < most ? there : (uint32_t)most;
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
	uint32_t shift;

	if (cell < 2 * SEGMENT_CELL_STEPS)
		return cell;
	shift = cell / SEGMENT_CELL_STEPS - 1;
	return ((uint64_t)(cell % SEGMENT_CELL_STEPS + SEGMENT_CELL_STEPS) << shift) +
	       (1ull << shift) / 2;
}

void segment_latency_add(struct segment_latency *l, const struct segment_flow *f)
{
	uint32_t i;

	/* In this order: a cell that is counted later has its entry in no sum yet. */
	for (i = 0; i < SEGMENT_CELLS; i++)
		l->cells[i] += load_relaxed(&f->cells[i]);
	l->ended += load_acquire(&f->ended);
}

uint64_t segment_quantile(const struct segment_latency *l, double q)
{
	uint64_t in_cells = 0, want = (uint64_t)((double)l->ended * q), seen;
	uint32_t i, last = 0;

	for (i = 0; i < SEGMENT_CELLS; i++)
		in_cells += l->cells[i];
	seen = l->ended > in_cells ? l->ended - in_cells : 0;
	if (seen > want)
		return 0;
	for (i = 0; i < SEGMENT_CELLS; i++) {
		seen += l->cells[i];
		if (l->cells[i])
			last = i;
		if (seen > want)
			break;
	}
	return segment_cell_ns(last);
}
