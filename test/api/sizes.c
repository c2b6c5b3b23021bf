/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes have 64 bits: nothing, one byte, and more than 2^32 bytes in one entry, with every figure
 * of the CQE whole and the bytes at both ends where they should be. Over shm it is read, over the
 * others written.
 *
 *	api-sizes [--each] OPTIONS
 *
 * each: both ways, also of 2^31 bytes, in vectors and in pages, one segment or block of more than
 * 2^32 bytes and many that are as much together. Over sim, unless --sim= says that there are no
 * delays, all of it is less.
 */
#include "span.h"

#define RW    (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

#define PARTS 8u

enum form { RANGE, VECTOR, PAGED };

static const uint64_t gib = 1ull << 30;
static struct pair p;
static struct span here, there;
static struct urccl_region region, exposed;
static struct urccl_remote remote;

/* Of this length and a guard. */
static void begin(uint64_t len)
{
	struct urccl_advert advert;

	span_open(&here, len);
	span_open(&there, len);
	region = side_register(&p.a, here.bytes, here.len, 0);
	exposed = side_register(&p.b, there.bytes, there.len, RW);
	CHECK_EQ(urccl_advertise(p.b.ctx, exposed, 0, there.len, RW, 0, &advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &advert, 1, &remote), 0);
}

static void end(void)
{
	CHECK_EQ(urccl_unimport(p.a.ctx, remote), 0);
	CHECK_EQ(urccl_unregister(p.b.ctx, exposed), 0);
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	span_close(&here);
	span_close(&there);
}

/* The first of n, and the rest in pieces of the same length. */
static uint64_t part(uint64_t len, uint64_t first, uint32_t n, uint32_t i)
{
	uint64_t each = n > 1 ? (len - first) / (n - 1) : 0;

	if (!i)
		return first;
	return i < n - 1 ? each : len - first - each * (n - 2);
}

static void vector(struct urccl_sqe *sqe, uint64_t len, uint64_t first, uint32_t n, int reads)
{
	static struct urccl_seg segs[PARTS];
	uint64_t at = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		segs[i] = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)here.bytes + at,
					     .len = part(len, first, n, i),
					     .off = at,
					     .region = region.id,
					     .remote = remote.id};
		at += segs[i].len;
	}
	CHECK_EQ(at, len);
	if (reads)
		urccl_prep_readv(sqe, p.a.peer, segs, n);
	else
		urccl_prep_writev(sqe, p.a.peer, segs, n);
}

/* One block, and a descriptor of as many as there are behind it. */
static void paged(struct urccl_sqe *sqe, uint64_t len, uint64_t first, uint32_t n, int reads)
{
	static struct urccl_paged d[2];
	uint64_t each = part(len, first, n, 1);

	d[0] = (struct urccl_paged){.size = sizeof(d[0]), .ndims = 1, .block = first};
	d[0].dim[0] = (struct urccl_dim){.count = 1};
	d[1] = (struct urccl_paged){.size = sizeof(d[1]),
				    .ndims = 1,
				    .local_off = first,
				    .remote_off = first,
				    .block = each};
	d[1].dim[0] = (struct urccl_dim){.count = n - 1,
					 .local_stride = (int64_t)each,
					 .remote_stride = (int64_t)each};
	CHECK_EQ(first + (n - 1) * each, len);
	if (reads)
		urccl_prep_read_paged(sqe, remote, region, d, 2);
	else
		urccl_prep_write_paged(sqe, remote, region, d, 2);
}

static struct urccl_cqe run_entry(struct urccl_sqe *sqe)
{
	struct urccl_cqe cqe;

	urccl_sqe_set_deadline_us(sqe, 400000000);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK(side_take_within(&p.a, &p.b, 20 * PAIR_LATE_NS, &cqe, NULL));
	return cqe;
}

static struct urccl_cqe run(uint64_t len, int reads)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (reads)
		urccl_prep_read(sqe, remote, here.bytes, len, 0);
	else
		urccl_prep_write(sqe, remote, here.bytes, len, 0);
	urccl_sqe_set_region(sqe, region);
	return run_entry(sqe);
}

static struct urccl_cqe run_form(enum form form, uint64_t len, uint64_t first, int reads)
{
	struct urccl_sqe *sqe;

	if (form == RANGE)
		return run(len, reads);
	sqe = side_sqe(&p.a);
	if (form == VECTOR)
		vector(sqe, len, first, PARTS, reads);
	else
		paged(sqe, len, first, PARTS, reads);
	return run_entry(sqe);
}

static void move_form(enum form form, uint64_t len, uint64_t first, int reads)
{
	const struct span *from, *to;
	struct urccl_cqe cqe;

	begin(len);
	from = reads ? &there : &here;
	to = reads ? &here : &there;
	span_fill_ends(from, len, len);
	to->bytes[len] = 0xee;
	cqe = run_form(form, len, first, reads);
	CHECK_EQ(cqe.res, (int64_t)len);
	CHECK_EQ(cqe.wire, len);
	CHECK(span_ends_hold(to, len, len));
	CHECK_EQ(to->bytes[len], 0xee);
	end();
}

static void move(uint64_t len, int reads)
{
	move_form(RANGE, len, 0, reads);
}

static void small(void)
{
	int reads;

	begin(SPAN_END);
	for (reads = 0; reads < 2; reads++) {
		here.bytes[0] = 0x10;
		there.bytes[0] = 0x20;
		CHECK_EQ(run(0, reads).res, 0);
		CHECK(here.bytes[0] == 0x10 && there.bytes[0] == 0x20);
		CHECK_EQ(run(1, reads).res, 1);
		CHECK_EQ(here.bytes[0], there.bytes[0]);
		CHECK_EQ(here.bytes[0], reads ? 0x20 : 0x10);
	}
	CHECK_EQ(run(there.len + 1, 0).res, -ERANGE);
	end();
}

/* much: of the greatest piece, or of all of them. */
static void each_form(uint64_t much)
{
	const uint64_t rest = 7ull * 65537, each = much / PARTS + 17;
	enum form form;
	int reads;

	for (form = VECTOR; form <= PAGED; form++) {
		for (reads = 0; reads < 2; reads++) {
			move_form(form, much + 1 + rest, much + 1, reads);
			move_form(form, PARTS * each, each, reads);
		}
	}
}

int main(int argc, char **argv)
{
	int each = argc > 1 && !strcmp(argv[1], "--each"), reads;
	struct urccl_stats stats = {.size = sizeof(stats)};

	pair_begin(&p, argc - each, argv + each);
	small();
	/* A packet at a time, with delays, takes minutes for more. */
	if ((p.transport == URCCL_TRANSPORT_SIM && !p.faults) || PAIR_SLOW) {
		move(gib / 16 + 1, 0);
		move(gib / 16 + 1, 1);
		each_form(gib / 64);
	} else if (each) {
		for (reads = 0; reads < 2; reads++) {
			move(2 * gib - 1, reads);
			move(2 * gib, reads);
		}
		each_form(4 * gib);
	} else {
		reads = p.transport == URCCL_TRANSPORT_SHM;
		move(4 * gib + 1, reads);
		CHECK_EQ(urccl_get_stats(p.a.ctx, &stats), 0);
		CHECK_EQ(reads ? stats.bytes_read : stats.bytes_written, 4 * gib + 2);
	}
	pair_close(&p);
	return 0;
}
