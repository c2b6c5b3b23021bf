/* SPDX-License-Identifier: Apache-2.0 */
/* REGISTER, UNREGISTER, IMPORT and WARM as entries: they do what the calls do, give the handle in
 * their CQE, and keep the order that their flags ask for. */
#include <sys/mman.h>
#include "pair.h"

#define LEN 8192u
#define RW  (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct target t;
static uint8_t *local;

static struct urccl_range range_of(void *addr, uint64_t len)
{
	return (struct urccl_range){.addr = (uintptr_t)addr, .len = len, .fd = -1};
}

static struct urccl_cqe registers(struct side *s, const struct urccl_range *r, uint32_t n,
				  uint32_t rights)
{
	struct urccl_sqe *sqe = side_sqe(s);

	urccl_prep_register(sqe, r, n, rights);
	return pair_run(&p, s, sqe);
}

static struct urccl_cqe unregisters(struct side *s, uint64_t handle)
{
	struct urccl_sqe *sqe = side_sqe(s);

	urccl_prep_unregister(sqe, (struct urccl_region){(uint32_t)handle});
	return pair_run(&p, s, sqe);
}

static struct urccl_cqe imports(const struct urccl_advert *adverts, uint32_t n)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_import(sqe, p.a.peer, adverts, n);
	return pair_run(&p, &p.a, sqe);
}

static struct urccl_cqe warms(struct urccl_peer peer)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_warm(sqe, peer);
	return pair_run(&p, &p.a, sqe);
}

static struct urccl_cqe writes(struct urccl_remote remote, const void *from, uint64_t len)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, remote, from, len, 0);
	return pair_run(&p, &p.a, sqe);
}

/* Both ends by entries alone. */
static void whole_way(void)
{
	struct urccl_range here = range_of(local, LEN), there = range_of(t.bytes, LEN);
	struct urccl_cqe ours = registers(&p.a, &here, 1, 0), theirs, remote;
	struct urccl_advert ad[2];
	struct urccl_region region;

	CHECK_EQ(ours.res, 0);
	CHECK(ours.handle);
	theirs = registers(&p.b, &there, 1, RW);
	CHECK_EQ(theirs.res, 0);
	region.id = (uint32_t)theirs.handle;
	CHECK_EQ(urccl_advertise(p.b.ctx, region, 0, 100, RW, 0, &ad[0]), 0);
	CHECK_EQ(urccl_advertise(p.b.ctx, region, 4096, 100, RW, 0, &ad[1]), 0);
	remote = imports(ad, 2);
	CHECK_EQ(remote.res, 0);
	CHECK_EQ(warms(p.a.peer).res, 0);
	pattern_fill(local, LEN, 0, 3);
	CHECK_EQ(writes((struct urccl_remote){(uint32_t)remote.handle}, local, 200).res, 200);
	CHECK(!memcmp(t.bytes, local, 100) && !memcmp(t.bytes + 4096, local + 100, 100));
	CHECK_EQ(urccl_unimport(p.a.ctx, (struct urccl_remote){(uint32_t)remote.handle}), 0);
	CHECK_EQ(unregisters(&p.b, theirs.handle).res, 0);
	CHECK_EQ(unregisters(&p.a, ours.handle).res, 0);
	CHECK_EQ(writes(t.remote, local, 8).res, -EFAULT);
}

static void bad(struct urccl_cqe cqe, int64_t res, const char *why)
{
	CHECK_EQ(cqe.res, res);
	check_sentence(&p.a, &cqe, why);
}

static void refused(void)
{
	struct urccl_range r[2] = {range_of(local, LEN), range_of((void *)4096, 16)};
	struct urccl_advert ad[2] = {t.advert, t.advert};
	struct urccl_cqe cqe;

	bad(registers(&p.a, r, 0, 0), -EINVAL, "elements");
	bad(registers(&p.a, NULL, 1, 0), -EINVAL, "elements");
	bad(registers(&p.a, r, 2, 0), -EFAULT, "range 1");
	bad(registers(&p.a, r, (1u << 20) + 1, 0), -E2BIG, "limit");
	bad(registers(&p.a, r, 1, 1u << 20), -EOPNOTSUPP, "rights");
	r[0].len = 0;
	bad(registers(&p.a, r, 1, 0), -EINVAL, "length");
	bad(unregisters(&p.a, NO_REGION), -ESTALE, "0x80012345");
	cqe = registers(&p.a, (r[0] = range_of(local, LEN), r), 1, 0);
	CHECK_EQ(unregisters(&p.a, cqe.handle).res, 0);
	bad(unregisters(&p.a, cqe.handle), -ESTALE, "no registered memory");
	bad(imports(ad, 0), -EINVAL, "elements");
	ad[1].incarnation++;
	bad(imports(ad, 2), -ESTALE, "advert 1");
	ad[1] = t.advert;
	ad[1].reserved = 1;
	bad(imports(ad, 2), -EINVAL, "damaged");
	ad[1] = t.advert;
	ad[1].version++;
	bad(imports(ad, 2), -EPROTONOSUPPORT, "version");
	bad(warms((struct urccl_peer){NO_PEER}), -ESTALE, "0x40012345");
}

/* A chain of them: each begins when the one before has succeeded; what fails ends the rest. */
static void chained(void)
{
	struct urccl_range good = range_of(local, LEN), none = range_of((void *)4096, 16);
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint64_t handle;

	sqe = side_sqe(&p.a);
	urccl_prep_register(sqe, &good, 1, 0);
	urccl_sqe_add_flags(sqe, URCCL_SQE_LINK);
	urccl_sqe_set_data64(sqe, 1);
	sqe = side_sqe(&p.a);
	urccl_prep_import(sqe, p.a.peer, &t.advert, 1);
	urccl_sqe_add_flags(sqe, URCCL_SQE_LINK);
	urccl_sqe_set_data64(sqe, 2);
	sqe = side_sqe(&p.a);
	urccl_prep_warm(sqe, p.a.peer);
	urccl_sqe_set_data64(sqe, 3);
	CHECK_EQ(urccl_submit(p.a.ring), 3);
	cqe = pair_end(&p, &p.a, 1);
	CHECK_EQ(cqe.res, 0);
	handle = cqe.handle;
	cqe = pair_end(&p, &p.a, 2);
	CHECK_EQ(cqe.res, 0);
	CHECK_EQ(pair_end(&p, &p.a, 3).res, 0);
	CHECK_EQ(urccl_unimport(p.a.ctx, (struct urccl_remote){(uint32_t)cqe.handle}), 0);
	sqe = side_sqe(&p.a);
	urccl_prep_register(sqe, &none, 1, 0);
	urccl_sqe_add_flags(sqe, URCCL_SQE_LINK);
	urccl_sqe_set_data64(sqe, 3);
	sqe = side_sqe(&p.a);
	urccl_prep_unregister(sqe, (struct urccl_region){(uint32_t)handle});
	urccl_sqe_set_data64(sqe, 4);
	CHECK_EQ(urccl_submit(p.a.ring), 2);
	CHECK_EQ(pair_end(&p, &p.a, 3).res, -EFAULT);
	CHECK_EQ(pair_end(&p, &p.a, 4).res, -ECANCELED);
	sqe = side_sqe(&p.a);
	urccl_prep_unregister(sqe, (struct urccl_region){(uint32_t)handle});
	urccl_sqe_add_flags(sqe, URCCL_SQE_SKIP_SUCCESS);
	sqe = side_sqe(&p.a);
	urccl_prep_nop(sqe);
	urccl_sqe_add_flags(sqe, URCCL_SQE_DRAIN);
	urccl_sqe_set_data64(sqe, 5);
	CHECK_EQ(urccl_submit(p.a.ring), 2);
	CHECK_EQ(pair_end(&p, &p.a, 5).res, 0);
	bad(unregisters(&p.a, handle), -ESTALE, "no registered memory");
}

/* All of the ring at once: each ends, and each region is another. */
static void many(void)
{
	enum { N = 64 };
	struct urccl_range r[N];
	struct urccl_cqe cqe;
	uint64_t handles[N];
	uint32_t i, j;

	for (i = 0; i < N; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		r[i] = range_of(local + i * 64, 64);
		urccl_prep_register(sqe, &r[i], 1, 0);
		urccl_sqe_set_data64(sqe, i);
	}
	CHECK_EQ(urccl_submit(p.a.ring), N);
	for (i = 0; i < N; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, 0);
		handles[cqe.user_data] = cqe.handle;
	}
	for (i = 0; i < N; i++)
		for (j = 0; j < i; j++)
			CHECK_NE(handles[i], handles[j]);
	for (i = 0; i < N; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		urccl_prep_unregister(sqe, (struct urccl_region){(uint32_t)handles[i]});
	}
	CHECK_EQ(urccl_submit(p.a.ring), N);
	for (i = 0; i < N; i++)
		CHECK_EQ(pair_end(&p, &p.a, 0).res, 0);
}

int main(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	local = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(local != MAP_FAILED);
	target_open(&p, &t, LEN, 0);
	whole_way();
	refused();
	chained();
	many();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
