/* SPDX-License-Identifier: Apache-2.0 */
/* urccl_measure(): measures the path to a peer, with entries on a ring of its own between its own
 * memory and the peer's scratch memory. */
#include <stdio.h>
#include <stdlib.h>

#include "context.h"

#define EXCHANGES      32u
#define EXCHANGES_MOST 4096u
#define BURST_BYTES    (16ull << 20)
#define BURST_NS       (50 * NSEC_PER_MSEC)
#define WORD	       8u
#define PIECE	       (256u << 10) /* bytes of an entry of a burst */
#define DEPTH	       4u	    /* entries of a burst in flight */

_Static_assert(SCRATCH_BYTES % PIECE == 0 && DEPTH * PIECE <= SCRATCH_BYTES, "pieces lie apart");

struct probe {
	struct urccl *ctx;
	struct urccl_peer peer;
	struct context_ring *cr;
	struct urccl_region region;
	struct urccl_remote remote;
	uint8_t *local; /* PIECE bytes */
	uint64_t deadline;
	uint32_t path, piece;
};

/* ---- entries ---- */

static uint32_t us_left(const struct probe *w)
{
	uint64_t now = clock_ns(), us = now < w->deadline ? (w->deadline - now) / NSEC_PER_USEC : 0;

	return us < 1 ? 1 : us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

static void probe_post(struct probe *w, int reads, uint32_t len)
{
	struct urccl_ring *ring = &w->cr->ring->pub;
	struct urccl_sqe *sqe = urccl_get_sqe(ring);
	uint64_t off = (uint64_t)(w->piece++ % DEPTH) * PIECE;

	assert(sqe);
	if (reads)
		urccl_prep_read(sqe, w->remote, w->local, len, off);
	else
		urccl_prep_write(sqe, w->remote, w->local, len, off);
	urccl_sqe_set_region(sqe, w->region);
	urccl_sqe_set_deadline_us(sqe, us_left(w));
	urccl_submit(ring);
}

static int explain(const struct probe *w, const struct urccl_cqe *cqe)
{
	char why[256];
	struct failure f;

	/* An older owner takes the advert of its scratch memory for a forged one. */
	if (cqe->res == -EACCES)
		return fail(-EOPNOTSUPP,
			    "peer 0x%x gives no memory to measure with: its liburccl "
			    "is older",
			    w->peer.id);
	if (failures_get(engine_failures(w->ctx->engine), cqe->fail.detail, &f))
		return fail((int)cqe->res, "%s", errno_text((int)-cqe->res));
	failure_text(&f, NULL, why, sizeof(why));
	return fail((int)cqe->res, "%s", why);
}

/* Waits until an entry ends: its bytes, or -errno with fail() text. */
static int64_t probe_take(struct probe *w)
{
	struct urccl_ring *ring = &w->cr->ring->pub;
	struct urccl_cqe *cqe, copy;
	int n;

	do {
		do {
			n = urccl_wait(ring, &cqe, NULL);
		} while (n == -EINTR);
		if (n < 0)
			return n;
		copy = *cqe;
		urccl_cqe_seen(ring, cqe);
	} while (copy.flags & URCCL_CQE_MORE);
	if (copy.res < 0)
		return explain(w, &copy);
	w->path |= copy.path;
	return copy.res;
}

/* ---- measurements ---- */

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int exchanges(struct probe *w, uint64_t *times, uint32_t n)
{
	uint64_t began;
	int64_t res;
	uint32_t i;

	for (i = 0; i < n; i++) {
		began = clock_ns();
		probe_post(w, 0, WORD);
		res = probe_take(w);
		if (res < 0)
			return (int)res;
		times[i] = clock_ns() - began;
	}
	qsort(times, n, sizeof(*times), by_size);
	return 0;
}

/* Keeps up to DEPTH entries in flight until a->bytes are posted or a->burst_ns is over, then waits
 * for all. */
static int probe_burst(struct probe *w, int reads, const struct urccl_measure_args *a,
		       uint64_t *bytes, uint64_t *ns)
{
	uint64_t began = clock_ns(), left = a->bytes, now;
	uint32_t out = 0;
	int64_t res = 0, err = 0;

	*bytes = 0;
	do {
		while (left && out < DEPTH && !err) {
			uint32_t len = left < PIECE ? (uint32_t)left : PIECE;

			probe_post(w, reads, len);
			left -= len;
			out++;
		}
		res = probe_take(w);
		out--;
		now = clock_ns();
		if (res < 0)
			err = res;
		else
			*bytes += (uint64_t)res;
		if (now - began >= a->burst_ns)
			left = 0;
	} while (out || (left && !err));
	*ns = now - began;
	return (int)err;
}

static int bursts(struct probe *w, const struct urccl_measure_args *a,
		  struct urccl_measurement *out)
{
	int err = probe_burst(w, 0, a, &out->written, &out->write_ns);

	return err ? err : probe_burst(w, 1, a, &out->read, &out->read_ns);
}

/* The first entries fetch the key and fault in pages: they do not count. */
static int probe_measure(struct probe *w, const struct urccl_measure_args *a,
			 struct urccl_measurement *out)
{
	struct urccl_measure_args once = {.bytes = DEPTH * PIECE, .burst_ns = NEVER_NS};
	uint64_t *times = calloc(a->exchanges, sizeof(*times));
	struct urccl_measurement ignored;
	int bulk = !(a->flags & URCCL_MEASURE_NO_BURST), err;

	if (!times)
		return fail(-ENOMEM, "no memory for %u times", a->exchanges);
	err = exchanges(w, times, 1);
	if (!err)
		err = exchanges(w, times, a->exchanges);
	out->exchanges = a->exchanges;
	out->rtt_min_ns = times[0];
	out->rtt_median_ns = times[a->exchanges / 2];
	free(times);
	if (!err && bulk)
		err = bursts(w, &once, &ignored);
	if (!err && bulk)
		err = bursts(w, a, out);
	out->path = w->path;
	return err;
}

/* In an INLINE context this thread runs the engine. */
static int measure_driven(struct probe *w, const struct urccl_measure_args *a,
			  struct urccl_measurement *out)
{
	int err;

	if (!w->ctx->is_inline)
		return probe_measure(w, a, out);
	err = context_drive_begin(w->ctx);
	if (err)
		return err;
	err = probe_measure(w, a, out);
	context_drive_end(w->ctx);
	return err;
}

/* ---- memory and ring ---- */

static int probe_open(struct probe *w)
{
	struct urccl_range range = {.addr = (uint64_t)(uintptr_t)w->local, .len = PIECE, .fd = -1};
	struct control_req scratch = {.msg.type = CONTROL_SCRATCH, .handle = w->peer.id};
	int err = context_request(w->ctx, scratch, &w->remote.id);

	if (!err)
		err = urccl_register(w->ctx, &range, 1, 0, &w->region);
	return err ? err : context_ring_open(w->ctx, &w->cr);
}

/* Frees all that is open. Keeps the text for urccl_errmsg(). */
static void probe_close(struct probe *w)
{
	char said[256];

	snprintf(said, sizeof(said), "%s", urccl_errmsg());
	if (w->cr)
		context_ring_close(w->cr);
	if (w->region.id)
		urccl_unregister(w->ctx, w->region);
	if (w->remote.id)
		urccl_unimport(w->ctx, w->remote);
	free(w->local);
	fail(0, "%s", said);
}

static int probe_mapped(const struct probe *w, struct urccl_measurement *out)
{
	struct urccl_remote_info info = {.size = sizeof(info)};
	int err = urccl_get_remote_info(w->ctx, w->remote, &info);

	out->mapped = info.enforced == URCCL_ENFORCED_BY_IMPORTER;
	return err;
}

static int args_read(struct urccl_measure_args *a, const struct urccl_measure_args *args)
{
	int err;

	*a = (struct urccl_measure_args){.size = sizeof(*a)};
	err = args ? copy_sized(a, sizeof(*a), args, "struct urccl_measure_args") : 0;
	if (err)
		return err;
	if (a->reserved || a->flags & ~(uint32_t)URCCL_MEASURE_NO_BURST)
		return fail(-EINVAL, "flags 0x%x of a probe: URCCL_MEASURE_NO_BURST is possible",
			    a->flags);
	if (a->exchanges > EXCHANGES_MOST)
		return fail(-EINVAL, "%u exchanges: %u are possible", a->exchanges, EXCHANGES_MOST);
	a->exchanges = a->exchanges ? a->exchanges : EXCHANGES;
	a->bytes = a->bytes ? a->bytes : BURST_BYTES;
	a->burst_ns = a->burst_ns ? a->burst_ns : BURST_NS;
	return 0;
}

int urccl_measure(struct urccl *ctx, struct urccl_peer peer, const struct urccl_measure_args *args,
		  struct urccl_measurement *probe)
{
	struct probe w = {.ctx = ctx, .peer = peer};
	struct urccl_measurement all = {.size = sizeof(all)};
	struct urccl_measure_args a;
	int err = context_check_out(ctx, probe);

	if (!err)
		err = args_read(&a, args);
	if (err)
		return err;
	w.deadline = clock_ns() + ctx->settings.p.deadline_ms * NSEC_PER_MSEC;
	w.local = aligned_alloc(4096, PIECE);
	if (!w.local)
		return fail(-ENOMEM, "no memory for %u bytes", PIECE);
	memset(w.local, 0, PIECE);
	err = probe_open(&w);
	if (!err)
		err = measure_driven(&w, &a, &all);
	if (!err)
		err = probe_mapped(&w, &all);
	probe_close(&w);
	return err ? err : fill_sized(probe, &all, sizeof(all), "struct urccl_measurement");
}
