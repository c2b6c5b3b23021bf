/* SPDX-License-Identifier: Apache-2.0 */
/* What a NIC writes to memory of a device takes another way than what it writes to the host's, so
 * that a byte of the host's that was read does not prove it to be there. Writes to two devices and
 * to the host by turns, more than a queue pair has places for: each that is completed has reached
 * its device, whatever it asked for; and what a notification follows has so when the notification
 * is seen. Over devices that are made up, where it does only when something reads there:
 * SHIM=posted=2. Where the peer may not read, it comes all the same, and nobody says when. */
#include "device.h"

#define N      96u
#define LEN    640u
#define ROUNDS 20u

enum place { DEVICE, OTHER, HOST, PLACES };

static struct pair p;
static struct device device[HOST];
static struct target host;
static struct urccl_remote remote[PLACES];
static uint8_t *bytes[PLACES];
static uint8_t local[N * LEN];

static enum place place_of(uint32_t i)
{
	return (enum place)(i / 5 % 2 ? i % PLACES : i / 10 % PLACES);
}

static void check(uint32_t i, uint64_t version)
{
	CHECK(pattern_holds(bytes[place_of(i)] + i * LEN, LEN, i, version));
}

static struct urccl_sqe *write_at(uint32_t i, uint32_t flags, uint64_t version)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	pattern_fill(local + i * LEN, LEN, i, version);
	urccl_prep_write(sqe, remote[place_of(i)], local + i * LEN, LEN, i * LEN);
	urccl_sqe_set_class(sqe, i % 4 ? URCCL_CLASS_BULK : URCCL_CLASS_LATENCY);
	urccl_sqe_add_flags(sqe, flags);
	urccl_sqe_set_data64(sqe, i);
	return sqe;
}

/* All at once. */
static void completed(uint64_t version)
{
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < N; i++)
		write_at(i, 0, version);
	CHECK_EQ(urccl_submit(p.a.ring), N);
	for (i = 0; i < N; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, LEN);
		CHECK_EQ(!!(cqe.flags & URCCL_CQE_NOT_FLUSHED),
			 place_of((uint32_t)cqe.user_data) != HOST);
		check((uint32_t)cqe.user_data, version);
	}
}

/* As many as b has events for, told one by one, or by one that follows all. */
static void notified(uint64_t version, int each)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint32_t i, n = 32;

	for (i = 0; i < n; i++) {
		sqe = write_at(i, URCCL_SQE_ACKED, version);
		if (each)
			urccl_sqe_set_notify(p.a.ring, sqe, i, NULL, 0);
	}
	if (!each) {
		sqe = side_sqe(&p.a);
		urccl_prep_notify(sqe, p.a.peer, 0, NULL, 0);
		urccl_sqe_add_flags(sqe, URCCL_SQE_FENCE);
	}
	CHECK_EQ(urccl_submit(p.a.ring), (int)(n + !each));
	for (i = 0; i < (each ? n : 1); i++) {
		side_take(&p.b, &p.a, &cqe, NULL);
		CHECK_EQ(urccl_cqe_kind(&cqe), URCCL_KIND_NOTE);
		if (each)
			check((uint32_t)cqe.tag, version);
	}
	for (i = 0; i < n && !each; i++)
		check(i, version);
	for (i = 0; i < n + !each; i++) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_GE(cqe.res, 0);
	}
}

static void import(enum place place, uint32_t rights, struct urccl_remote *r)
{
	struct urccl_advert ad;

	CHECK_EQ(urccl_advertise(p.b.ctx, device[place].region, 0, N * LEN, rights, 0, &ad), 0);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &ad, 1, r), 0);
}

static void unreadable(void)
{
	struct urccl_remote r;
	struct urccl_sqe *sqe = side_sqe(&p.a);
	struct urccl_cqe cqe;

	import(DEVICE, URCCL_RIGHT_WRITE, &r);
	urccl_prep_write(sqe, r, local, LEN, 0);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, LEN);
	CHECK(cqe.flags & URCCL_CQE_NOT_FLUSHED);
}

int main(int argc, char **argv)
{
	uint32_t i;

	pair_begin(&p, argc, argv);
	device_needs();
	target_open(&p, &host, N * LEN, 0);
	side_register(&p.a, local, sizeof(local), 0);
	for (i = 0; i < HOST; i++) {
		device_open(&device[i], &p.b, 0x10000u * (i + 1), N * LEN);
		import((enum place)i, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE, &remote[i]);
		bytes[i] = device[i].bytes;
	}
	remote[HOST] = host.remote;
	bytes[HOST] = host.bytes;
	for (i = 0; i < ROUNDS; i++) {
		completed(3 * i + 1);
		notified(3 * i + 2, 0);
		notified(3 * i + 3, 1);
	}
	unreadable();
	target_close(&p, &host);
	for (i = 0; i < HOST; i++)
		device_close(&device[i], &p.b);
	pair_close(&p);
	return 0;
}
