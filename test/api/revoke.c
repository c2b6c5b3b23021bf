/* SPDX-License-Identifier: Apache-2.0 */
/* A region's adverts are revoked: what its importers have under way fails with -EACCES, what they
 * begin later too, no byte of theirs lands after it, and the region is there all the same, for its
 * owner and for a newer advert. Once it is unregistered the old adverts give -ESTALE, also where
 * its memory is registered anew. */
#include "pair.h"

#define LEN   (4u << 20)
#define N     24u
#define TRIES 20u
#define RW    (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct target t;
static uint8_t *local;

static struct urccl_cqe moves(struct urccl_remote remote, int reads)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (reads)
		urccl_prep_read(sqe, remote, local, 64, 0);
	else
		urccl_prep_write(sqe, remote, local, 64, 0);
	return pair_run(&p, &p.a, sqe);
}

static void refused(struct urccl_remote remote)
{
	struct urccl_cqe cqe = moves(remote, 0);

	CHECK_EQ(cqe.res, -EACCES);
	check_sentence(&p.a, &cqe, "revoked");
	CHECK_EQ(moves(remote, 1).res, -EACCES);
}

static struct urccl_remote import(void)
{
	struct urccl_remote remote;

	CHECK_EQ(urccl_advertise(p.b.ctx, t.region, 0, LEN, RW, 0, &t.advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &t.advert, 1, &remote), 0);
	return remote;
}

static struct urccl_cqe revokes(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.b);

	urccl_prep_revoke(sqe, t.region);
	urccl_sqe_set_data64(sqe, 9);
	return pair_run(&p, &p.b, sqe);
}

static void unregisters(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.b);

	urccl_prep_unregister(sqe, t.region);
	urccl_sqe_set_data64(sqe, 8);
	CHECK_EQ(pair_run(&p, &p.b, sqe).res, 0);
}

static void submit_all(void)
{
	uint32_t i;

	for (i = 0; i < N; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		if (i % 3)
			urccl_prep_write(sqe, t.remote, local, LEN, 0);
		else
			urccl_prep_read(sqe, t.remote, local, LEN, 0);
		urccl_sqe_set_data64(sqe, i);
	}
	CHECK_EQ(urccl_submit(p.a.ring), N);
}

/* How many failed; the others were faster than the word of it. Where the region is gone as well,
 * some may be later than that. */
static uint32_t take_all(int is_gone)
{
	struct urccl_cqe cqe;
	uint32_t i, failed = 0;

	for (i = 0; i < N;) {
		side_take(&p.a, &p.b, &cqe, NULL);
		if (cqe.flags & URCCL_CQE_MORE)
			continue;
		i++;
		if (cqe.res == LEN)
			continue;
		failed++;
		if (is_gone && cqe.res == -ESTALE)
			continue;
		CHECK_EQ(cqe.res, -EACCES);
		check_sentence(&p.a, &cqe, "revoked");
	}
	return failed;
}

/* From its end on nothing of theirs lands. Returns how many it stopped. */
static uint32_t under_way_once(int by_call)
{
	uint32_t i, failed;

	submit_all();
	if (by_call)
		CHECK_EQ(urccl_revoke(p.b.ctx, t.region), 0);
	else
		CHECK_EQ(revokes().res, 0);
	memset(t.bytes, 0x77, LEN);
	failed = take_all(0);
	refused(t.remote);
	for (i = 0; i < LEN; i += 61)
		CHECK_EQ(t.bytes[i], 0x77);
	return failed;
}

/* On a busy machine all may have ended before: then again. */
static void under_way(int by_call)
{
	uint32_t tries = 1;

	for (; !under_way_once(by_call); tries++) {
		CHECK(tries < TRIES);
		CHECK_EQ(urccl_unimport(p.a.ctx, t.remote), 0);
		t.remote = import();
		CHECK_EQ(moves(t.remote, 0).res, 64);
	}
}

/* Imported before, never used: its first use is refused. Imported anew: it works. */
static void anew(void)
{
	struct urccl_remote unused = import(), again;

	CHECK_EQ(revokes().res, 0);
	refused(unused);
	again = import();
	CHECK_EQ(moves(again, 0).res, 64);
	CHECK_EQ(moves(again, 1).res, 64);
	refused(unused);
	CHECK_EQ(urccl_unimport(p.a.ctx, unused), 0);
	CHECK_EQ(urccl_unimport(p.a.ctx, t.remote), 0);
	t.remote = again;
}

/* The owner's own use of it is no business of the importers. */
static void ours(void)
{
	static uint8_t there[64];
	struct urccl_region region = side_register(&p.a, there, 64, RW);
	struct urccl_advert ad;
	struct urccl_remote remote;
	struct urccl_sqe *sqe;

	CHECK_EQ(urccl_advertise(p.a.ctx, region, 0, 64, RW, 0, &ad), 0);
	CHECK_EQ(urccl_import(p.b.ctx, p.b.peer, &ad, 1, &remote), 0);
	CHECK_EQ(revokes().res, 0);
	sqe = side_sqe(&p.b);
	urccl_prep_write(sqe, remote, t.bytes, 64, 0);
	CHECK_EQ(pair_run(&p, &p.b, sqe).res, 64);
	CHECK(!memcmp(there, t.bytes, 64));
	CHECK_EQ(urccl_unimport(p.b.ctx, remote), 0);
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
}

static void stale(void)
{
	struct urccl_region none = {NO_REGION};
	struct urccl_sqe *sqe = side_sqe(&p.b);
	struct urccl_cqe cqe;

	CHECK_EQ(urccl_revoke(p.b.ctx, none), -ESTALE);
	CHECK(strstr(urccl_errmsg(), "0x80012345"));
	urccl_prep_revoke(sqe, none);
	cqe = pair_run(&p, &p.b, sqe);
	CHECK_EQ(cqe.res, -ESTALE);
	check_sentence(&p.b, &cqe, "0x80012345");
}

static void gone(struct urccl_remote remote)
{
	struct urccl_cqe cqe = moves(remote, 0);

	CHECK_EQ(cqe.res, -ESTALE);
	check_sentence(&p.a, &cqe, "unregistered");
	CHECK_EQ(moves(remote, 1).res, -ESTALE);
}

/* One that was used, one that was not, one that met the revocation alone; and the memory is
 * registered anew. */
static void registered_anew(void)
{
	struct urccl_remote unused = import(), met = import(), again;

	CHECK_EQ(moves(met, 0).res, 64);
	CHECK_EQ(revokes().res, 0);
	refused(met);
	CHECK_EQ(urccl_unimport(p.a.ctx, t.remote), 0);
	t.remote = import();
	CHECK_EQ(moves(t.remote, 0).res, 64);
	unregisters();
	t.region = side_register(&p.b, t.bytes, LEN, RW);
	again = import();
	CHECK_EQ(moves(again, 0).res, 64);
	memset(t.bytes, 0x55, LEN);
	gone(unused);
	gone(met);
	gone(t.remote);
	CHECK_EQ(t.bytes[0], 0x55);
	CHECK_EQ(urccl_unimport(p.a.ctx, unused), 0);
	CHECK_EQ(urccl_unimport(p.a.ctx, met), 0);
	CHECK_EQ(urccl_unimport(p.a.ctx, t.remote), 0);
	t.remote = again;
}

/* Revoked and unregistered at once: both are told when it is so. */
static void both(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.b);

	submit_all();
	urccl_prep_revoke(sqe, t.region);
	urccl_sqe_set_data64(sqe, 1);
	sqe = side_sqe(&p.b);
	urccl_prep_unregister(sqe, t.region);
	urccl_sqe_set_data64(sqe, 2);
	CHECK_EQ(urccl_submit(p.b.ring), 2);
	CHECK_EQ(pair_end(&p, &p.b, 1).res, 0);
	CHECK_EQ(pair_end(&p, &p.b, 2).res, 0);
	take_all(1);
	gone(t.remote);
	CHECK_EQ(urccl_unimport(p.a.ctx, t.remote), 0);
}

static void run(int shared)
{
	int is_inline = p.params.flags & URCCL_OPEN_INLINE;

	target_open(&p, &t, LEN, shared);
	CHECK_EQ(moves(t.remote, 0).res, 64);
	under_way(0);
	anew();
	/* An INLINE importer does not answer while this thread is in the owner's call. */
	if (!is_inline)
		under_way(1);
	CHECK_EQ(urccl_unimport(p.a.ctx, t.remote), 0);
	t.remote = import();
	ours();
	CHECK_EQ(urccl_unimport(p.a.ctx, t.remote), 0);
	t.remote = import();
	registered_anew();
	both();
}

int main(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	local = calloc(1, LEN);
	CHECK(local);
	side_register(&p.a, local, LEN, 0);
	stale();
	run(0);
	run(1);
	pair_close(&p);
	return 0;
}
