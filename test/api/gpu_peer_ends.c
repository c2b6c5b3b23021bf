/* SPDX-License-Identifier: Apache-2.0 */
/* What the owner of memory of a GPU forbids does not happen by the relay either: rights, range and
 * expiry; and what it takes back, by REVOKE and UNREGISTER, in the middle of transfers, is left
 * alone from then on. */
#include "relay.h"

#define LEN   (4u << 20)
#define PART  (256u << 10)
#define PARTS (LEN / PART)

static struct pair p;
static uint64_t device;
static struct urccl_region region;
static uint8_t *host;

static struct urccl_remote import(uint64_t len, uint32_t rights, uint64_t ttl_ms)
{
	struct urccl_advert advert;
	struct urccl_remote remote;

	CHECK_EQ(urccl_advertise(p.b.ctx, region, 0, len, rights, ttl_ms, &advert), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &advert, 1, &remote), 0);
	return remote;
}

static int64_t move(struct urccl_remote remote, int reads, uint64_t len, uint64_t off)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	if (reads)
		urccl_prep_read(sqe, remote, host, len, off);
	else
		urccl_prep_write(sqe, remote, host, len, off);
	return pair_run(&p, &p.a, sqe).res;
}

static void rights(void)
{
	struct urccl_remote r = import(PART, URCCL_RIGHT_READ, 0);
	struct urccl_remote w = import(PART, URCCL_RIGHT_WRITE, 0);

	device_fill(device, LEN, 0, 1);
	CHECK_EQ(move(r, 0, 1000, 0), -EACCES);
	CHECK_EQ(move(w, 1, 1000, 0), -EACCES);
	CHECK_EQ(move(r, 1, 1000, PART - 999), -ERANGE);
	CHECK(device_check(device, LEN, 0, 1));
	CHECK_EQ(move(r, 1, PART, 0), PART);
	CHECK_EQ(move(w, 0, PART, 0), PART);
	CHECK(device_check(device, PART, 0, 1));
}

static void expiry(void)
{
	struct urccl_remote r = import(LEN, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE, 300);
	uint64_t end = now_ns() + 400000000;
	int64_t res = move(r, 0, PART, 0);

	CHECK(res == PART || res == -EACCES);
	while (now_ns() < end) {
		side_turn(&p.a);
		side_turn(&p.b);
	}
	device_fill(device, LEN, 0, 2);
	CHECK_EQ(move(r, 0, PART, 0), -EACCES);
	CHECK_EQ(move(r, 1, PART, 0), -EACCES);
	CHECK(device_check(device, LEN, 0, 2));
}

static void submit_all(struct urccl_remote remote)
{
	uint32_t i;

	for (i = 0; i < PARTS; i++) {
		struct urccl_sqe *sqe = side_sqe(&p.a);

		if (i & 1)
			urccl_prep_read(sqe, remote, host + i * PART, PART, i * PART);
		else
			urccl_prep_write(sqe, remote, host + i * PART, PART, i * PART);
		urccl_sqe_set_data64(sqe, 5);
	}
	CHECK_EQ(urccl_submit(p.a.ring), (int)PARTS);
}

/* After so many have ended. */
static void take_back(uint32_t after, int unregister)
{
	struct urccl_remote remote = import(LEN, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE, 0);
	struct urccl_sqe *sqe = side_sqe(&p.b);
	struct urccl_cqe cqe;
	uint32_t ended;

	submit_all(remote);
	for (ended = 0; ended < after; ended++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, PART);
	}
	if (unregister)
		urccl_prep_unregister(sqe, region);
	else
		urccl_prep_revoke(sqe, region);
	urccl_sqe_set_data64(sqe, 9);
	CHECK_EQ(urccl_submit(p.b.ring), 1);
	side_take(&p.b, &p.a, &cqe, NULL);
	CHECK_EQ(cqe.user_data, 9);
	CHECK_EQ(cqe.res, 0);
	device_fill(device, LEN, 0, 50 + after);
	for (; ended < PARTS; ended++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK(!(cqe.flags & URCCL_CQE_MORE));
		CHECK(cqe.res == PART || cqe.res == -EACCES || cqe.res == -ESTALE);
	}
	CHECK_EQ(move(remote, 0, 8, 0), unregister ? -ESTALE : -EACCES);
	CHECK(device_check(device, LEN, 0, 50 + after));
	if (unregister)
		region = side_register(&p.b, (void *)(uintptr_t)device, LEN,
				       URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
}

int main(int argc, char **argv)
{
	uint32_t i;

	relay_begin(&p, argc, argv);
	if (device_cuda.set)
		device_set("delay=200");
	device = device_alloc(LEN, 0);
	region = side_register(&p.b, (void *)(uintptr_t)device, LEN,
			       URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	host = calloc(1, LEN);
	CHECK(host);
	side_register(&p.a, host, LEN, 0);
	rights();
	expiry();
	for (i = 0; i < 16; i++)
		take_back(i % PARTS, i & 1);
	pair_close(&p);
	free(host);
	return 0;
}
