/* SPDX-License-Identifier: Apache-2.0 */
/* Adverts: with any byte changed an import or its first use fails, and of one that is not ours
 * nothing is said but that; rights, range and life are those that were given; a region that went
 * takes its adverts along. */
#include "control_rig.h"

#define LEN 4096u

static struct side a, b;
static uint8_t ours[LEN], theirs[LEN];
static struct urccl_peer peer;

static struct urccl_region registered(struct side *s, void *mem, uint32_t rights)
{
	struct urccl_range range = {.addr = (uint64_t)(uintptr_t)mem, .len = LEN, .fd = -1};
	struct urccl_region region;

	CHECK_EQ(urccl_register(s->ctx, &range, 1, rights, &region), 0);
	return region;
}

/* What a write (or read) of len bytes ends with, the remote being of this advert alone. */
static int64_t use(const struct urccl_advert *advert, int write, uint32_t len)
{
	struct urccl_remote remote;
	struct urccl_sqe *sqe;
	int64_t res;
	int rc = urccl_import(a.ctx, peer, advert, 1, &remote);

	if (rc)
		return rc;
	sqe = urccl_get_sqe(a.ring);
	if (write)
		urccl_prep_write(sqe, remote, ours, len, 0);
	else
		urccl_prep_read(sqe, remote, ours, len, 0);
	urccl_sqe_set_data64(sqe, 4);
	urccl_submit(a.ring);
	res = side_end_of(&a, 4);
	CHECK_EQ(urccl_unimport(a.ctx, remote), 0);
	return res;
}

static int of_another_owner(uint32_t byte)
{
	return byte >= offsetof(struct urccl_advert, incarnation) &&
	       byte < offsetof(struct urccl_advert, incarnation) + 8;
}

/* Of a region that was there, or never was. */
static void forged(const struct urccl_advert *gone)
{
	struct urccl_advert bad = *gone;

	CHECK_EQ(use(gone, 1, 16), -ESTALE);
	bad.length--;
	CHECK_EQ(use(&bad, 1, 16), -EACCES);
	bad = *gone;
	bad.region += 5;
	CHECK_EQ(use(&bad, 1, 16), -EACCES);
}

static void changed(const struct urccl_advert *good)
{
	struct urccl_advert bad;
	uint32_t i, bit;
	int64_t res;

	for (i = 0; i < sizeof(bad); i++) {
		for (bit = 0; bit < 8; bit += 7) {
			memcpy(&bad, good, sizeof(bad));
			((uint8_t *)&bad)[i] ^= (uint8_t)(1u << bit);
			res = use(&bad, 1, 16);
			CHECK(res == -EINVAL || res == -EACCES || res == -EPROTONOSUPPORT ||
			      (res == -ESTALE && of_another_owner(i)));
		}
	}
	CHECK_EQ(use(good, 1, 16), 16);
}

static void limits(struct urccl_region region)
{
	struct urccl_advert ad;

	CHECK_EQ(urccl_advertise(b.ctx, region, 0, LEN + 1, URCCL_RIGHT_WRITE, 0, &ad), -ERANGE);
	CHECK_EQ(urccl_advertise(b.ctx, region, 1, LEN, URCCL_RIGHT_WRITE, 0, &ad), -ERANGE);
	CHECK_EQ(urccl_advertise(b.ctx, region, UINT64_MAX, 2, URCCL_RIGHT_WRITE, 0, &ad), -ERANGE);
	CHECK_EQ(urccl_advertise(b.ctx, region, 0, 0, URCCL_RIGHT_WRITE, 0, &ad), -EINVAL);
	CHECK_EQ(urccl_advertise(b.ctx, region, 0, 1, 0, 0, &ad), -EINVAL);
	CHECK_EQ(urccl_advertise(b.ctx, region, 0, 1, URCCL_RIGHT_ATOMIC, 0, &ad), -EACCES);
	CHECK_EQ(urccl_advertise(b.ctx, region, LEN / 2, 64, URCCL_RIGHT_READ, 0, &ad), 0);
	CHECK_EQ(use(&ad, 0, 64), 64);
	CHECK_EQ(use(&ad, 0, 65), -ERANGE);
	CHECK_EQ(use(&ad, 1, 64), -EACCES);
}

/* Its life is over at the latest when the owner's clock has passed it: no earlier, no later use. */
static void life(struct urccl_region region)
{
	struct urccl_advert ad;
	uint64_t until = clock_ns() + 100 * NSEC_PER_MSEC;
	int64_t res;

	CHECK_EQ(urccl_advertise(b.ctx, region, 0, LEN, URCCL_RIGHT_WRITE, 100, &ad), 0);
	do {
		res = use(&ad, 1, 8);
		CHECK(res == 8 || res == -EACCES);
	} while (res == 8);
	CHECK(clock_ns() >= until - NSEC_PER_MSEC);
}

/* As long a time as can be said is not over at once: to the nanosecond, it may not fit. */
static void ages(struct urccl_region region)
{
	static const uint64_t ms[] = {UINT64_MAX, UINT64_MAX / NSEC_PER_MSEC + 1,
				      UINT64_MAX / NSEC_PER_MSEC, UINT64_MAX / NSEC_PER_MSEC - 5000,
				      1000000000000};
	struct urccl_advert ad;
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(ms); i++) {
		CHECK_EQ(urccl_advertise(b.ctx, region, 0, LEN, URCCL_RIGHT_WRITE, ms[i], &ad), 0);
		CHECK_EQ(use(&ad, 1, 8), 8);
	}
}

int case_control_advert(void)
{
	struct urccl_params p = rig_params();
	struct urccl_region region;
	struct urccl_advert ad;
	uint32_t ab, ba;

	side_open(&a, &p);
	side_open(&b, &p);
	sides_connect(&a, &b, &ab, &ba);
	peer.id = ab;
	registered(&a, ours, 0);
	region = registered(&b, theirs, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	CHECK_EQ(urccl_advertise(b.ctx, region, 0, LEN, URCCL_RIGHT_WRITE, 0, &ad), 0);
	changed(&ad);
	limits(region);
	life(region);
	ages(region);
	CHECK_EQ(urccl_unregister(b.ctx, region), 0);
	forged(&ad);
	CHECK_EQ(urccl_unregister(b.ctx, region), -ESTALE);
	CHECK_EQ(urccl_advertise(b.ctx, region, 0, 1, URCCL_RIGHT_WRITE, 0, &ad), -ESTALE);
	side_close(&a);
	side_close(&b);
	return 0;
}
