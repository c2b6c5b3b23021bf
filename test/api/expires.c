/* SPDX-License-Identifier: Apache-2.0 */
/* An advert expires while an access by it is under way: its initiator (INLINE, b) began it and is
 * not driven any more until then. When it goes on, nothing of its write lands, nothing of what the
 * memory holds now is read, and the entry says why it failed. */
#include <stdlib.h>
#include "meet.h"

#define LEN	(32ull << 20) /* more than sockets and rings hold */
#define RW	(URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)
#define OLD	0x11
#define WRITTEN 0x22
#define NEW	0x33
#define UNREAD	0x44
#define PAGES	(LEN / 4096)
#define TURNS	3u
#define PAUSE	(100 * 1000000ull)

static struct pair p;
static uint8_t *owned, *local, *before;
static struct urccl_region region;
static uint64_t until; /* the advert has expired by then */

/* The last turn is after end, however late this thread has a processor. */
static void owner_turns(uint64_t end)
{
	int more;

	do {
		more = now_ns() < end;
		settle();
		side_turn(&p.a);
	} while (more);
}

/* How many pages of it some of the write was in, when the advert had expired. */
static uint64_t landed(void)
{
	uint64_t i, n = 0;

	for (i = 0; i < LEN; i += LEN / PAGES)
		n += before[i] == WRITTEN;
	return n;
}

/* An advert that has just been used. */
static struct urccl_remote advertise(uint64_t ttl_ms)
{
	struct urccl_advert advert;
	struct urccl_remote remote;
	struct urccl_sqe *sqe;

	CHECK_EQ(urccl_advertise(p.a.ctx, region, 0, LEN, RW, ttl_ms, &advert), 0);
	until = now_ns() + ttl_ms * 1000000 + PAUSE;
	CHECK_EQ(urccl_import(p.b.ctx, p.b.peer, &advert, 1, &remote), 0);
	sqe = side_sqe(&p.b);
	urccl_prep_read(sqe, remote, local, 1, 0);
	pair_run(&p, &p.b, sqe);
	return remote;
}

/* Some of it, and not all, is under way. 0: the time may have been up before. */
static int begin(struct urccl_remote remote, int reads)
{
	struct urccl_sqe *sqe = side_sqe(&p.b);
	uint32_t i;

	if (reads)
		urccl_prep_read(sqe, remote, local, LEN, 0);
	else
		urccl_prep_write(sqe, remote, local, LEN, 0);
	urccl_sqe_set_deadline_us(sqe, 60000000);
	urccl_sqe_set_data64(sqe, 9);
	CHECK_EQ(urccl_submit(p.b.ring), 1);
	for (i = 0; i < TURNS; i++) {
		side_turn(&p.b);
		owner_turns(now_ns() + PAUSE / 50);
	}
	return now_ns() + PAUSE < until;
}

/* It goes on. */
static void end(int reads)
{
	struct urccl_cqe cqe = pair_end(&p, &p.b, 9);

	CHECK(reads || landed());
	CHECK_EQ(cqe.res, -EACCES);
	check_sentence(&p.b, &cqe, "has expired");
}

static void written(void)
{
	end(0);
	CHECK(!memcmp(owned, before, LEN));
}

static void read_back(void)
{
	memset(owned, NEW, LEN);
	settle();
	end(1);
	CHECK(!memchr(local, NEW, LEN));
}

static void one(int reads, uint64_t ttl_ms)
{
	struct urccl_remote remote;
	int begun;

	CHECK_LE(ttl_ms, 30000);
	memset(owned, OLD, LEN);
	memset(local, reads ? UNREAD : WRITTEN, LEN);
	remote = advertise(ttl_ms);
	local[0] = local[1];
	begun = begin(remote, reads);
	owner_turns(until);
	settle();
	memcpy(before, owned, LEN);
	if (!begun)
		pair_end(&p, &p.b, 9);
	else if (reads)
		read_back();
	else
		written();
	CHECK_EQ(urccl_unimport(p.b.ctx, remote), 0);
	if (!begun)
		one(reads, 2 * ttl_ms);
}

int main(int argc, char **argv)
{
	owned = malloc(LEN);
	local = malloc(LEN);
	before = malloc(LEN);
	CHECK(owned && local && before);
	pair_begin_idle(&p, argc, argv);
	region = side_register(&p.a, owned, LEN, RW);
	side_register(&p.b, local, LEN, RW);
	one(0, 500);
	one(1, 500);
	pair_close(&p);
	return 0;
}
