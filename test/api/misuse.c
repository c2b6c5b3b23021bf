/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that a program gets wrong: without somewhere to put the answer, with handles that never
 * were or are no more, with sizes that no struct has. Each is refused with a sentence, leaves what
 * it was given alone, and the context goes on. */
#include "pair.h"

static struct pair p;
static uint8_t bytes[4096];

static void refused(int64_t res, int64_t expected, const char *part)
{
	if (res != expected || !strstr(urccl_errmsg(), part))
		fprintf(stderr, "\"%s\" has no \"%s\"\n", urccl_errmsg(), part);
	CHECK_EQ(res, expected);
	CHECK(strstr(urccl_errmsg(), part));
}

static void no_place(struct urccl *ctx, struct urccl_region region)
{
	struct urccl_range range = {.addr = (uintptr_t)bytes, .len = sizeof(bytes), .fd = -1};
	struct urccl_cqe cqe = {.res = -EIO};
	const struct urccl_advert advert = {0};
	char why[8];

	refused(urccl_open(&p.params, NULL), -EINVAL, "NULL");
	refused(urccl_ring_open(ctx, NULL, NULL), -EINVAL, "NULL");
	refused(urccl_register(ctx, &range, 1, 0, NULL), -EINVAL, "NULL");
	refused(urccl_alloc(ctx, 4096, NULL), -EINVAL, "NULL");
	refused(urccl_advertise(ctx, region, 0, 1, URCCL_RIGHT_READ, 0, NULL), -EINVAL, "NULL");
	refused(urccl_import(ctx, p.a.peer, &advert, 1, NULL), -EINVAL, "NULL");
	refused(urccl_metadata(ctx, NULL, URCCL_METADATA_MAX), -EINVAL, "NULL");
	refused(urccl_get_peer_info(ctx, p.a.peer, NULL), -EINVAL, "NULL");
	refused(urccl_get_region_info(ctx, region, NULL), -EINVAL, "NULL");
	refused(urccl_get_stats(ctx, NULL), -EINVAL, "NULL");
	refused(urccl_explain(ctx, NULL, why, sizeof(why)), -EINVAL, "NULL");
	refused(urccl_explain(ctx, &cqe, NULL, 1), -EINVAL, "NULL");
	refused(urccl_sim_open(NULL, NULL), -EINVAL, "nowhere");
	urccl_sim_freeze(NULL, 1);
	CHECK_EQ(urccl_sim_close(NULL), 0);
}

static void no_context(void)
{
	struct urccl_ring *ring = NULL;
	struct urccl_stats stats = {.size = sizeof(stats)};

	refused(urccl_ring_open(NULL, NULL, &ring), -EINVAL, "no context");
	refused(urccl_get_stats(NULL, &stats), -EINVAL, "no context");
	refused(urccl_dump(NULL, 2), -EINVAL, "no context");
	CHECK(!ring);
	urccl_ring_close(NULL);
	urccl_close(NULL);
	urccl_cqe_seen(p.a.ring, NULL);
}

static void no_such_handle(struct urccl *ctx, uint32_t id)
{
	struct urccl_peer_info peer = {.size = sizeof(peer)};
	struct urccl_region_info region = {.size = sizeof(region)};
	struct urccl_advert advert;
	struct urccl_remote remote;

	const struct urccl_peer no_peer = {1u << 30 | id};
	const struct urccl_region no_region = {2u << 30 | id};

	refused(urccl_unregister(ctx, no_region), -ESTALE, "region handle");
	refused(urccl_unimport(ctx, (struct urccl_remote){3u << 30 | id}), -ESTALE,
		"remote handle");
	refused(urccl_get_peer_info(ctx, no_peer, &peer), -ESTALE, "peer handle");
	refused(urccl_get_region_info(ctx, no_region, &region), -ESTALE, "region handle");
	refused(urccl_advertise(ctx, no_region, 0, 1, 1, 0, &advert), -ESTALE, "region handle");
	memset(&advert, 0, sizeof(advert));
	refused(urccl_import(ctx, no_peer, &advert, 1, &remote), -ESTALE, "peer handle");
}

/* Each call of a struct with a size, with a size that is none. */
static void bad_size(struct urccl *ctx, struct urccl_region region, uint32_t size)
{
	union { /* larger than any of them */
		uint32_t size;
		struct urccl_params params;
		struct urccl_ring_params ring;
		struct urccl_wait_args wait;
		struct urccl_peer_info peer;
		struct urccl_region_info region;
		struct urccl_stats stats;
	} u;
	struct urccl *other = NULL;
	struct urccl_ring *ring = NULL;

	memset(&u, 0, sizeof(u));
	u.size = size;
	refused(urccl_open(&u.params, &other), -EINVAL, "size of struct urccl_params");
	refused(urccl_ring_open(ctx, &u.ring, &ring), -EINVAL, "size of struct urccl_ring_params");
	refused(urccl_wait(p.a.ring, NULL, &u.wait), -EINVAL, "size of struct urccl_wait_args");
	refused(urccl_get_peer_info(ctx, p.a.peer, &u.peer), -EINVAL,
		"size of struct urccl_peer_info");
	refused(urccl_get_region_info(ctx, region, &u.region), -EINVAL,
		"size of struct urccl_region_info");
	refused(urccl_get_stats(ctx, &u.stats), -EINVAL, "size of struct urccl_stats");
	CHECK(!other && !ring);
	CHECK_EQ(u.size, size);
}

/* What a dead handle and an unprepared entry do is seen in CQEs. */
static void entries(struct urccl_region region)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	urccl_prep_close(sqe, (struct urccl_peer){NO_PEER});
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -ESTALE);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, (struct urccl_remote){NO_REMOTE}, bytes, 1, 0);
	urccl_sqe_set_region(sqe, region);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -ESTALE);
	sqe = side_sqe(&p.a);
	memset(sqe, 0xff, sizeof(*sqe));
	sqe->flags = 0; /* no LINK */
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	cqe = pair_end(&p, &p.a, 0);
	CHECK_EQ(cqe.res, -EINVAL);
	check_sentence(&p.a, &cqe, "never prepared: call urccl_prep_*()");
	sqe = side_sqe(&p.a);
	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, 77);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, -ENOENT);
	check_sentence(&p.a, &cqe, "no unfinished entry matched");
}

static void run_nops(struct side *s, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		urccl_prep_nop(side_sqe(s));
	CHECK_EQ(urccl_submit(s->ring), (int)n);
	CHECK_GE(urccl_wait(s->ring, NULL,
			    &(struct urccl_wait_args){.size = 24,
						      .min_n = n,
						      .timeout_ns = PAIR_LATE_NS}),
		 (int)n);
}

/* A program that takes more CQEs than are there takes those that are: its ring goes on. */
static void took_too_many(void)
{
	struct side s;
	uint32_t room;

	side_open(&p, &s);
	room = urccl_sq_space_left(s.ring);
	urccl_cq_advance(s.ring, 2);
	CHECK(!urccl_peek_cqe(s.ring));
	run_nops(&s, 3);
	CHECK_EQ(urccl_cq_ready(s.ring), 3);
	urccl_cq_advance(s.ring, UINT32_MAX);
	CHECK_EQ(urccl_cq_ready(s.ring), 0);
	CHECK_EQ(urccl_sq_space_left(s.ring), room);
	run_nops(&s, 1);
	urccl_cqe_seen(s.ring, urccl_peek_cqe(s.ring));
	urccl_cqe_seen(s.ring, &s.ring->cqes[0]);
	CHECK_EQ(urccl_cq_ready(s.ring), 0);
	CHECK_EQ(urccl_sq_space_left(s.ring), room);
	side_close(&s);
}

/* An entry that is not prepared fails, whatever its slot held, in every slot of the ring. */
static void never_prepared(void)
{
	uint32_t i, entries = p.a.ring->entries;
	struct urccl_cqe cqe;

	for (i = 0; i < 2 * entries; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		if (i < entries) {
			urccl_prep_nop(sqe);
			urccl_sqe_add_flags(sqe, URCCL_SQE_DRAIN);
			urccl_sqe_set_data64(sqe, 0x600d);
		}
		CHECK_EQ(urccl_submit(p.a.ring), 1);
		cqe = pair_end(&p, &p.a, i < entries ? 0x600d : 0);
		CHECK_EQ(cqe.res, i < entries ? 0 : -EINVAL);
	}
	check_sentence(&p.a, &cqe, "never prepared");
}

int main(int argc, char **argv)
{
	struct urccl_region region;

	pair_begin(&p, argc, argv);
	region = side_register(&p.a, bytes, sizeof(bytes), URCCL_RIGHT_READ);
	no_place(p.a.ctx, region);
	no_context();
	no_such_handle(p.a.ctx, 1);
	no_such_handle(p.a.ctx, ~0u >> 2);
	bad_size(p.a.ctx, region, 0);
	bad_size(p.a.ctx, region, 7);
	bad_size(p.a.ctx, region, ~0u);
	entries(region);
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	refused(urccl_unregister(p.a.ctx, region), -ESTALE, "region handle");
	took_too_many();
	never_prepared();
	entries((struct urccl_region){0});
	pair_close(&p);
	return 0;
}
