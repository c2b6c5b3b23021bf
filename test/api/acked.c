/* SPDX-License-Identifier: Apache-2.0 */
/* URCCL_SQE_ACKED ends a write at the device's acknowledgement: where that comes before the bytes
 * (sim, here for every write, and ib) its CQE does not say REMOTE_QUIET, what it took is placed
 * later, and a notification that follows it comes after that. A write without the flag has its
 * bytes there at the CQE. Where the acknowledgement proves them, the flag changes nothing; nor does
 * NO_REPLAY, as long as no rail breaks. */
#include "pair.h"

#define LEN   (256u << 10) /* many packets of sim's, of each rail if it has two */
#define HALF  (LEN / 2)
#define TRIES 50u /* where a thread may look late: until bytes were missing once */

enum how { WRITES, VECTORS, PAGES, HOWS };

static struct pair p;
static struct target t;
static uint8_t local[LEN];
static struct urccl_region region;
static uint64_t version;
static uint32_t plain_flags;

/* sim's bytes come two delays after their acknowledgement, and in simulated time nobody is late. */
static void begin(int argc, char **argv)
{
	int simulated;

	pair_options(&p, argc, argv);
	simulated = p.params.flags & URCCL_OPEN_INLINE;
	if (!p.faults)
		p.faults = simulated ? "clock=simulated,early=100%,delay=20ms..20ms"
				     : "early=100%,delay=3ms..3ms";
	pair_open(&p);
	target_open(&p, &t, LEN, 0);
	region = side_register(&p.a, local, LEN, 0);
}

static int is_early(void)
{
	return p.transport == URCCL_TRANSPORT_SIM;
}

/* ThreadSanitizer is right that bytes nobody was told of may not be looked at. */
static int may_look(void)
{
	return !PAIR_SLOW || p.params.flags & URCCL_OPEN_INLINE;
}

static int is_there(void)
{
	return pattern_holds(t.bytes, LEN, 0, version);
}

/* What the entry points to is the library's until its end. */
static struct urccl_sqe *entry(enum how how, uint32_t flags)
{
	static struct urccl_seg segs[2];
	static struct urccl_paged pages;
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t i;

	memset(t.bytes, 0xee, LEN);
	pattern_fill(local, LEN, 0, ++version);
	for (i = 0; i < 2; i++)
		segs[i] = (struct urccl_seg){.addr = (uint64_t)(uintptr_t)local + i * HALF,
					     .len = HALF,
					     .off = i * HALF,
					     .region = region.id,
					     .remote = t.remote.id};
	pages = (struct urccl_paged){.size = sizeof(pages), .ndims = 1, .block = HALF};
	pages.dim[0] = (struct urccl_dim){.count = 2, .local_stride = HALF, .remote_stride = HALF};
	if (how == WRITES)
		urccl_prep_write(sqe, t.remote, local, LEN, 0);
	else if (how == VECTORS)
		urccl_prep_writev(sqe, p.a.peer, segs, 2);
	else
		urccl_prep_write_paged(sqe, t.remote, region, &pages, 1);
	urccl_sqe_add_flags(sqe, flags);
	return sqe;
}

static void plain(enum how how)
{
	struct urccl_cqe cqe = pair_run(&p, &p.a, entry(how, 0));

	CHECK_EQ(cqe.res, LEN);
	CHECK(cqe.flags & URCCL_CQE_REMOTE_QUIET);
	CHECK(is_there());
	plain_flags = cqe.flags;
}

/* Its buffer is the program's at once. 1: the bytes were not there yet. */
static int acked(enum how how)
{
	struct urccl_cqe cqe = pair_run(&p, &p.a, entry(how, URCCL_SQE_ACKED));
	int missing = 0;

	CHECK_EQ(cqe.res, LEN);
	if (cqe.flags & URCCL_CQE_REMOTE_QUIET)
		CHECK(is_there());
	else if (may_look())
		missing = !is_there();
	if (is_early() || p.transport == URCCL_TRANSPORT_IB)
		CHECK_EQ(cqe.flags, plain_flags & ~(uint32_t)URCCL_CQE_REMOTE_QUIET);
	else if (!pair_is_fabric(&p)) /* as its provider has it */
		CHECK_EQ(cqe.flags, plain_flags);
	memset(local, 0x77, LEN);
	return missing;
}

static void hear(uint64_t tag)
{
	struct urccl_cqe cqe;

	side_take(&p.b, &p.a, &cqe, NULL);
	CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_NOTE);
	CHECK_EQ(cqe.tag, tag);
	CHECK_EQ(cqe.res, 0);
	CHECK(is_there());
}

/* Whatever else is done, they come. */
static void comes(void)
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	struct urccl_cqe cqe;

	while (may_look() && !is_there()) {
		CHECK(!is_late(late));
		CHECK(!side_take_within(&p.a, &p.b, 1000000, &cqe, NULL));
	}
}

static struct urccl_sqe *fenced_notify(uint64_t tag)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_notify(sqe, p.a.peer, tag, NULL, 0);
	urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE);
	return sqe;
}

/* Behind an end that was seen. */
static void notified_later(void)
{
	CHECK_EQ(pair_run(&p, &p.a, fenced_notify(1)).res, 0);
	CHECK(is_there());
	hear(1);
}

/* With what it follows in one submit. */
static void notified(enum how how)
{
	struct urccl_sqe *sqe;

	sqe = entry(how, URCCL_SQE_ACKED);
	urccl_sqe_set_data64(sqe, 5);
	sqe = fenced_notify(2);
	urccl_sqe_set_data64(sqe, 6);
	CHECK_EQ(urccl_submit(p.a.ring), 2);
	hear(2);
	CHECK_EQ(pair_end(&p, &p.a, 5).res, LEN);
	CHECK_EQ(pair_end(&p, &p.a, 6).res, 0);
}

/* The notification is the entry's own, or that of nothing behind it: both prove. */
static void notifies(enum how how)
{
	struct urccl_sqe *sqe = entry(how, URCCL_SQE_ACKED);
	struct urccl_cqe cqe;

	urccl_sqe_set_notify(p.a.ring, sqe, 3, NULL, 0);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, LEN);
	CHECK(cqe.flags & URCCL_CQE_REMOTE_QUIET);
	CHECK(is_there());
	hear(3);
	acked(how);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, local, 0, 0);
	urccl_sqe_set_notify(p.a.ring, sqe, 4, NULL, 0);
	urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE | URCCL_SQE_NOTIFY);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 0);
	hear(4);
}

static void not_replayed(enum how how)
{
	struct urccl_cqe cqe = pair_run(&p, &p.a, entry(how, URCCL_SQE_NO_REPLAY));

	CHECK_EQ(cqe.res, LEN);
	CHECK_EQ(cqe.flags, plain_flags);
	CHECK(!(cqe.path & URCCL_PATH_REPLAYED));
	CHECK(is_there());
}

int main(int argc, char **argv)
{
	uint32_t tries, how;

	begin(argc, argv);
	for (how = 0; how < HOWS; how++) {
		plain(how);
		not_replayed(how);
		for (tries = 1; !acked(how) && is_early() && may_look(); tries++)
			CHECK_LE(tries, TRIES);
		comes();
		notified_later(); /* nothing is under way any more */
		acked(how);
		notified_later();
		notified(how);
		notifies(how);
	}
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
