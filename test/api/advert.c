/* SPDX-License-Identifier: Apache-2.0 */
/* What an advert gives is all that it gives: its rights, its range, its time; several make one
 * offset space; and it ends with its region, its context and the connection. */
#include "meet.h"

#define LEN 4096u
#define RW  (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct target t;
static uint8_t local[LEN], before[LEN];

static struct urccl_cqe move(struct urccl_remote remote, int reads, uint64_t off, uint64_t len)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (reads)
		urccl_prep_read(sqe, remote, local, len, off);
	else
		urccl_prep_write(sqe, remote, local, len, off);
	return pair_run(&p, &p.a, sqe);
}

static void refused(struct urccl_remote remote, int reads, uint64_t off, uint64_t len, int64_t res,
		    const char *why)
{
	struct urccl_cqe cqe = move(remote, reads, off, len);

	CHECK_EQ(cqe.res, res);
	check_sentence(&p.a, &cqe, why);
	CHECK(!memcmp(t.bytes, before, LEN));
}

static struct urccl_advert advert_of(uint64_t off, uint64_t len, uint32_t rights, uint64_t ttl_ms)
{
	struct urccl_advert advert;

	CHECK_EQ(urccl_advertise(p.b.ctx, t.region, off, len, rights, ttl_ms, &advert), 0);
	return advert;
}

static struct urccl_remote import(const struct urccl_advert *adverts, uint32_t n)
{
	struct urccl_remote remote = {0};

	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, adverts, n, &remote), 0);
	return remote;
}

static void rights(void)
{
	struct urccl_advert r = advert_of(0, LEN, URCCL_RIGHT_READ, 0);
	struct urccl_advert w = advert_of(0, LEN, URCCL_RIGHT_WRITE, 0), none;
	struct urccl_remote read_only = import(&r, 1), write_only = import(&w, 1);
	struct urccl_region region;

	refused(read_only, 0, 0, 64, -EACCES, "right");
	CHECK_EQ(move(read_only, 1, 0, LEN).res, LEN);
	CHECK(!memcmp(local, before, LEN));
	refused(write_only, 1, 0, 64, -EACCES, "right");
	CHECK_EQ(move(write_only, 0, 0, 64).res, 64);
	CHECK_EQ(urccl_advertise(p.b.ctx, t.region, 0, LEN, 0, 0, &none), -EINVAL);
	CHECK_EQ(urccl_advertise(p.b.ctx, t.region, 0, LEN, 1u << 7, 0, &none), -EINVAL);
	region = side_register(&p.b, before, LEN, URCCL_RIGHT_READ);
	CHECK_EQ(urccl_advertise(p.b.ctx, region, 0, LEN, RW, 0, &none), -EACCES);
	CHECK(strstr(urccl_errmsg(), "rights"));
	CHECK_EQ(urccl_unregister(p.b.ctx, region), 0);
}

static void bounds(void)
{
	struct urccl_advert part = advert_of(1000, 500, RW, 0), none;
	struct urccl_remote remote = import(&part, 1);

	CHECK_EQ(move(remote, 1, 0, 500).res, 500);
	CHECK(!memcmp(local, before + 1000, 500));
	CHECK_EQ(move(remote, 0, 0, 500).res, 500);
	refused(remote, 0, 0, 501, -ERANGE, "remote");
	refused(remote, 0, 500, 1, -ERANGE, "remote");
	refused(remote, 1, UINT64_MAX, 2, -ERANGE, "remote");
	CHECK_EQ(urccl_advertise(p.b.ctx, t.region, 1, LEN, RW, 0, &none), -ERANGE);
	CHECK_EQ(urccl_advertise(p.b.ctx, t.region, UINT64_MAX, 2, RW, 0, &none), -ERANGE);
	CHECK_EQ(urccl_advertise(p.b.ctx, t.region, 0, 0, RW, 0, &none), -EINVAL);
}

/* Once before its first use, once after. */
static void time_up(void)
{
	struct urccl_advert soon = advert_of(0, LEN, RW, 1), later = advert_of(0, LEN, RW, 60);
	struct urccl_remote unused = import(&soon, 1), used = import(&later, 1);
	uint64_t until = now_ns() + 100000000;
	int64_t res = move(used, 1, 0, 64).res;

	CHECK(res == 64 || res == -EACCES);
	while (now_ns() < until)
		side_silent(&p.a, &p.b, 1000000);
	refused(unused, 0, 0, 64, -EACCES, "expired");
	refused(used, 0, 0, 64, -EACCES, "expired");
}

static void joined(void)
{
	struct urccl_advert three[] = {advert_of(3000, 1000, RW, 0), advert_of(0, 10, RW, 0),
				       advert_of(500, 2000, RW, 0)};
	struct urccl_remote remote = import(three, 3);

	CHECK_EQ(move(remote, 1, 0, 3010).res, 3010);
	CHECK(!memcmp(local, before + 3000, 1000));
	CHECK(!memcmp(local + 1000, before, 10));
	CHECK(!memcmp(local + 1010, before + 500, 2000));
	pattern_fill(local, 300, 0, 77);
	CHECK_EQ(move(remote, 0, 900, 300).res, 300);
	CHECK(!memcmp(t.bytes + 3900, local, 100) && !memcmp(t.bytes, local + 100, 10));
	CHECK(!memcmp(t.bytes + 500, local + 110, 190));
	memcpy(before, t.bytes, LEN);
	refused(remote, 0, 3000, 11, -ERANGE, "remote");
}

static void of_another(void)
{
	struct urccl_remote remote = {0};
	struct urccl_advert mine;
	struct urccl_region region = side_register(&p.a, local, LEN, RW);

	CHECK_EQ(urccl_advertise(p.a.ctx, region, 0, LEN, RW, 0, &mine), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &mine, 1, &remote), -ESTALE);
	CHECK(strstr(urccl_errmsg(), "another context"));
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &mine, 0, &remote), -EINVAL);
	CHECK_EQ(urccl_import(p.a.ctx, (struct urccl_peer){NO_PEER}, &mine, 1, &remote), -ESTALE);
}

static void ends(void)
{
	struct urccl_advert old = advert_of(0, LEN, RW, 0), none;
	struct urccl_remote used = import(&old, 1), unused = import(&old, 1), remote = {0};

	CHECK_EQ(move(used, 1, 0, 64).res, 64);
	CHECK_EQ(urccl_unregister(p.b.ctx, t.region), 0);
	refused(used, 0, 0, 64, -ESTALE, "unregistered");
	refused(unused, 0, 0, 64, -ESTALE, "unregistered");
	CHECK_EQ(urccl_advertise(p.b.ctx, t.region, 0, LEN, RW, 0, &none), -ESTALE);
	side_close(&p.b);
	CHECK_EQ(side_event(&p.a, NULL, URCCL_KIND_LOST, NULL).res, 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &old, 1, &remote), -ECONNRESET);
	CHECK_EQ(side_drop(&p.a, NULL, p.a.peer.id), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &old, 1, &remote), -ESTALE);
}

int main(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	target_open(&p, &t, LEN, 0);
	pattern_fill(before, LEN, 0, 5);
	memcpy(t.bytes, before, LEN);
	side_register(&p.a, local, LEN, 0);
	memcpy(local, before, LEN);
	rights();
	memcpy(local, before + 1000, 500);
	bounds();
	time_up();
	joined();
	of_another();
	ends();
	side_close(&p.a);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
