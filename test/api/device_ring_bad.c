/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel must not push, and any bytes at all: each ends with an error, which the word of its
 * lane has, and does no harm. A CQE names lane and index, as long as there is room for CQEs. Calls
 * that cannot be are refused. */
#include "lanes.h"

#define ENTRIES 8u
#define EVENTS	4u
#define RANDOM	(PAIR_SLOW ? 2000u : 20000u)
#define LEN	4096u
#define LANE	2u /* of 3 */

static struct pair p;
static struct target t;
static struct urccl_device_ring ring;
static uint8_t bytes[LEN];

static struct urccl_sqe a_write(void)
{
	struct urccl_sqe sqe;

	urccl_prep_write(&sqe, t.remote, bytes, LEN, 0);
	return sqe;
}

/* Its CQE, which may come after the words. */
static struct urccl_cqe fails(struct urccl_dev_lane *l, const struct urccl_sqe *sqe)
{
	struct side s = {.ctx = p.a.ctx, .ring = ring.ring};
	struct urccl_cqe cqe;
	int res = lane_run(l, sqe);

	side_take(&s, NULL, &cqe, NULL);
	CHECK(res < 0);
	CHECK_EQ(cqe.res, res);
	CHECK_EQ(cqe.flags & URCCL_CQE_MORE, 0);
	CHECK_EQ(cqe.user_data, (uint64_t)LANE << 32 | (uint32_t)(l->pushed - 1));
	CHECK_EQ(l->words->failed, l->pushed << 16 | (uint32_t)-res);
	return cqe;
}

static void refused(struct urccl_dev_lane *l, struct urccl_sqe sqe, int res, const char *sentence)
{
	struct urccl_cqe cqe = fails(l, &sqe);

	CHECK_EQ(cqe.res, res);
	check_sentence(&p.a, &cqe, sentence);
}

static void works(struct urccl_dev_lane *l)
{
	struct urccl_sqe sqe = a_write();

	CHECK_EQ(lane_run(l, &sqe), 0);
}

static void refused_ops(struct urccl_dev_lane *l)
{
	struct urccl_sqe sqe = a_write();
	uint32_t op;

	for (op = URCCL_OP_READV; op < URCCL_OP_LAST; op++) {
		if (op == URCCL_OP_NOTIFY || op == URCCL_OP_FETCH_ADD)
			continue;
		memset(&sqe, 0, sizeof(sqe));
		sqe.opcode = (uint8_t)op;
		(void)fails(l, &sqe);
	}
	urccl_prep_readv(&sqe, p.a.peer, (const void *)8, 1);
	refused(l, sqe, -EINVAL, "a device ring does not take this readv");
	urccl_prep_write_paged(&sqe, t.remote, (struct urccl_region){0}, (const void *)8, 1);
	refused(l, sqe, -EINVAL, "does not take this write_paged");
	urccl_prep_cmp_swap(&sqe, t.remote, 0, 0, 0);
	refused(l, sqe, -EINVAL, "does not take this cmp_swap");
	urccl_prep_notify(&sqe, p.a.peer, 1, (const void *)8, 8);
	refused(l, sqe, -EINVAL, "does not take this notify");
	sqe.opcode = URCCL_OP_UNPREPARED;
	refused(l, sqe, -EINVAL, "opcode 255 is not known");
	works(l);
}

static void refused_fields(struct urccl_dev_lane *l)
{
	static const uint16_t flags[] = {URCCL_SQE_LINK, URCCL_SQE_DRAIN, URCCL_SQE_SKIP_SUCCESS,
					 URCCL_SQE_NO_WAKE, URCCL_SQE_EXT};
	struct urccl_sqe sqe;
	uint32_t i;

	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		sqe = a_write();
		sqe.flags = flags[i];
		refused(l, sqe, -EINVAL, "does not take this write");
	}
	sqe = a_write();
	sqe.group = 1;
	refused(l, sqe, -EINVAL, "group 0");
	sqe = a_write();
	sqe.reserved = 1;
	refused(l, sqe, -EINVAL, "must be 0");
	sqe = a_write();
	sqe.addr = 8;
	refused(l, sqe, -EFAULT, "register them first");
	sqe.addr = ~0ull >> 2;
	refused(l, sqe, -EFAULT, "register them first");
	sqe = a_write();
	sqe.off = LEN - 1;
	refused(l, sqe, -ERANGE, "pass the end of the remote");
	sqe = a_write();
	sqe.len = ~0ull;
	(void)fails(l, &sqe);
	sqe = a_write();
	sqe.remote = NO_REMOTE;
	refused(l, sqe, -ESTALE, "names no imported memory");
	works(l);
}

/* Nobody takes CQEs: as many are there as have room. All have failed all the same. */
static void random_bytes(struct urccl_dev_lane *l)
{
	uint64_t seed = p.seed | 1, first = l->pushed, w[8];
	struct urccl_sqe sqe;
	uint32_t i, k;

	for (i = 0; i < RANDOM; i++) {
		for (k = 0; k < 8; k++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			w[k] = seed ^ seed >> 29;
		}
		memcpy(&sqe, w, sizeof(sqe));
		if (i % 2) {
			sqe.opcode %= URCCL_OP_LAST;
			sqe.remote = t.remote.id;
			sqe.flags &= 3u << URCCL_SQE_CLASS_SHIFT;
			sqe.reserved = sqe.group = sqe.region = sqe.dtype = 0;
		}
		if (!urccl_dev_room(l))
			CHECK(lane_wait(l) < 0);
		(void)urccl_dev_push(l, &sqe);
	}
	CHECK_EQ(l->pushed - first, RANDOM);
	CHECK(lane_wait(l) < 0);
	works(l);
	CHECK_GE(urccl_cq_ready(ring.ring), 2 * ENTRIES);
	CHECK_LE(urccl_cq_ready(ring.ring), ring.ring->cq_mask + 1 - EVENTS);
	urccl_cq_advance(ring.ring, urccl_cq_ready(ring.ring));
	sqe = a_write();
	sqe.group = 1;
	refused(l, sqe, -EINVAL, "group 0");
}

static void refused_calls(void)
{
	struct urccl_device_ring_params params = URCCL_INIT(urccl_device_ring_params);
	struct urccl_device_ring none;

	CHECK_EQ(urccl_submit(ring.ring), -EPERM);
	params.lanes = URCCL_DEVICE_LANES_MAX + 1;
	CHECK_EQ(urccl_device_ring_open(p.a.ctx, &params, &none), -EINVAL);
	params.lanes = 1;
	params.entries = 24;
	CHECK_EQ(urccl_device_ring_open(p.a.ctx, &params, &none), -EINVAL);
	params.entries = 2;
	params.device = 1;
	CHECK_EQ(urccl_device_ring_open(p.a.ctx, &params, &none), -ENODEV);
	CHECK_SAYS(urccl_errmsg(), "GPU 0 is not to be had");
	CHECK_EQ(urccl_device_ring_open(p.a.ctx, NULL, NULL), -EINVAL);
}

static void refused_inline(void)
{
	struct urccl_device_ring none;
	struct side s;

	p.params.flags |= URCCL_OPEN_INLINE;
	side_open(&p, &s);
	CHECK_EQ(urccl_device_ring_open(s.ctx, NULL, &none), -EINVAL);
	CHECK_SAYS(urccl_errmsg(), "INLINE");
	side_close(&s);
}

int main(int argc, char **argv)
{
	struct urccl_dev_lane l;

	pair_options(&p, argc, argv);
	p.params.event_slots = EVENTS;
	pair_open(&p);
	target_open(&p, &t, LEN, p.shared);
	side_register(&p.a, bytes, LEN, URCCL_RIGHT_READ);
	ring = lanes_open(&p.a, LANE + 1, ENTRIES);
	CHECK_EQ(urccl_device_ring_busy(&ring, 1), 0);
	l = urccl_dev_open(ring, LANE);
	works(&l);
	refused_ops(&l);
	refused_fields(&l);
	random_bytes(&l);
	refused_calls();
	refused_inline();
	urccl_ring_close(ring.ring);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
