/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that fail while the peer is well. */
#include "sentences.h"

static struct urccl_sqe *sqe;

static void run(const char *name, int64_t res)
{
	struct urccl_cqe cqe = pair_run(&p, &p.a, sqe);

	said_entry(name, &p.a, &cqe, res);
}

static struct urccl_sqe *writes(struct urccl_remote remote, uint64_t len)
{
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, remote, local, len, 0);
	return sqe;
}

static void places(void)
{
	struct urccl_cqe cqe;

	writes(t.remote, 64)->off = t.len - 63;
	run("beyond_the_remote", -ERANGE);
	writes(t.remote, 64)->addr = 4096;
	run("not_registered", -EFAULT);
	writes(t.remote, 64)->region = region.id;
	sqe->addr += sizeof(local);
	run("outside_the_region", -ERANGE);
	writes(t.remote, 64)->region = NO_REGION;
	run("no_such_region", -ESTALE);
	writes((struct urccl_remote){NO_REMOTE}, 64);
	run("no_such_remote", -ESTALE);
	writes(t.remote, 64)->reserved = 5;
	run("unused_field", -EINVAL);
	sqe = side_sqe(&p.a);
	urccl_prep_fetch_add(sqe, t.remote, 4, 1);
	run("atomic_across", -EINVAL);
	sqe = side_sqe(&p.a);
	urccl_prep_nop(sqe);
	sqe->opcode = 200;
	run("no_such_operation", -EINVAL);
	sqe = side_sqe(&p.a);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	cqe = pair_end(&p, &p.a, 0);
	said_entry("never_prepared", &p.a, &cqe, -EINVAL);
}

static void arrays(void)
{
	static const uint32_t one[4] = {1}, two[4] = {2};
	static struct urccl_seg segs[1001];
	struct urccl_paged d = {.size = sizeof(d), .ndims = 1, .block = 64, .dim = {{.count = 4}}};

#define PAGED(name, change, res)                                        \
	do {                                                            \
		struct urccl_paged bad = d;                             \
		change;                                                 \
		sqe = side_sqe(&p.a);                                   \
		urccl_prep_write_paged(sqe, t.remote, region, &bad, 1); \
		run(name, res);                                         \
	} while (0)
	sqe = side_sqe(&p.a);
	urccl_prep_writev(sqe, p.a.peer, segs, 1001);
	run("too_many_segments", -E2BIG);
	PAGED("paged_size", bad.size = 8, -EINVAL);
	PAGED("paged_dimensions", bad.ndims = 5, -EINVAL);
	PAGED("paged_blocks", bad.dim[0].count = 1001, -E2BIG);
	PAGED("paged_bytes", bad.block = 1ull << 63, -ERANGE);
	PAGED("paged_below", bad.dim[0].local_stride = -64;
	      bad.dim[0].local_index = (uintptr_t)one, -ERANGE);
	PAGED("paged_far", bad.dim[0].remote_stride = INT64_MAX; bad.remote_off = INT64_MAX;
	      bad.dim[0].remote_index = (uintptr_t)two, -ERANGE);
	PAGED("paged_outside", bad.local_off = sizeof(local) - 1, -ERANGE);
}

static void handles(void)
{
	sqe = side_sqe(&p.a);
	urccl_prep_connect(sqe, "127.0.0.1:1", 0);
	run("nobody_to_dial", -EINVAL);
	sqe = side_sqe(&p.a);
	urccl_prep_notify(sqe, p.a.peer, 1, local, 257);
	run("long_notification", -E2BIG);
	sqe = side_sqe(&p.a);
	urccl_prep_notify(sqe, (struct urccl_peer){NO_PEER}, 1, NULL, 0);
	run("no_such_peer", -ESTALE);
	sqe = side_sqe(&p.a);
	urccl_prep_msg_ring(sqe, 4711, 1, 1, 1);
	run("no_such_ring", -ESTALE);
}

static void behind(uint32_t first, uint32_t second, const char *name)
{
	struct urccl_cqe cqe;

	writes(t.remote, 64)->off = t.len;
	urccl_sqe_add_flags(sqe, first);
	urccl_sqe_set_data64(sqe, 1);
	writes(t.remote, 64);
	urccl_sqe_add_flags(sqe, second);
	urccl_sqe_set_data64(sqe, 2);
	CHECK_EQ(urccl_submit(p.a.ring), 2);
	CHECK_EQ(pair_end(&p, &p.a, 1).res, -ERANGE);
	cqe = pair_end(&p, &p.a, 2);
	said_entry(name, &p.a, &cqe, -ECANCELED);
}

/* What the peer hears of a notification whose entry fails here. */
static void notifications(void)
{
	struct urccl_cqe cqe;

	writes(t.remote, 64)->off = t.len;
	urccl_sqe_set_notify(p.a.ring, sqe, 77, NULL, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -ERANGE);
	CHECK_EQ(side_event(&p.b, &p.a, URCCL_KIND_NOTE, NULL).res, -E2BIG); /* long_notification */
	cqe = side_event(&p.b, &p.a, URCCL_KIND_NOTE, NULL);
	said_entry("note_will_not_come", &p.b, &cqe, -ERANGE);
}

static struct urccl_remote imported(struct urccl_region r, uint32_t rights, uint64_t ttl_ms)
{
	struct urccl_remote remote;
	struct urccl_advert ad;

	CHECK_EQ(urccl_advertise(p.b.ctx, r, 0, 64, rights, ttl_ms, &ad), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &ad, 1, &remote), 0);
	return remote;
}

static void imports(const char *name, const struct urccl_advert *ad, int res)
{
	sqe = side_sqe(&p.a);
	urccl_prep_import(sqe, p.a.peer, ad, 1);
	run(name, res);
}

static void adverts(void)
{
	static uint8_t there[64];
	uint32_t rw = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;
	struct urccl_region r = side_register(&p.b, there, sizeof(there), rw);
	struct urccl_advert ad = t.advert;
	struct urccl_remote remote = imported(r, URCCL_RIGHT_READ, 0);

	writes(remote, 64);
	run("no_right_to_write", -EACCES);
	CHECK_EQ(urccl_unimport(p.a.ctx, remote), 0);
	remote = imported(r, rw, 0);
	CHECK_EQ(urccl_revoke(p.b.ctx, r), 0);
	sqe = side_sqe(&p.a);
	urccl_prep_warm(sqe, p.a.peer);
	run("warmed_after_a_revoke", -EACCES);
	CHECK_EQ(urccl_unimport(p.a.ctx, remote), 0);
	remote = imported(r, rw, 0);
	CHECK_EQ(urccl_unregister(p.b.ctx, r), 0);
	writes(remote, 64);
	run("unregistered_there", -ESTALE);
	CHECK_EQ(urccl_unimport(p.a.ctx, remote), 0);
	ad.incarnation++;
	imports("advert_of_another", &ad, -ESTALE);
	ad = t.advert;
	ad.version++;
	imports("advert_too_new", &ad, -EPROTONOSUPPORT);
	ad = t.advert;
	ad.reserved = 1;
	imports("advert_damaged", &ad, -EINVAL);
	ad = t.advert;
	ad.token[3]++;
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &ad, 1, &remote), 0);
	writes(remote, 64);
	run("advert_forged", -EACCES);
	CHECK_EQ(urccl_unimport(p.a.ctx, remote), 0);
}

void entries(void)
{
	places();
	arrays();
	handles();
	behind(URCCL_SQE_LINK, 0, "chain_broken");
	behind(0, URCCL_SQE_FENCE, "fence_broken");
	notifications();
	adverts();
}
