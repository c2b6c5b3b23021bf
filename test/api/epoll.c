/* SPDX-License-Identifier: Apache-2.0 */
/* A program that does nothing but epoll_wait() between its turns: in 20,000 random entries no
 * wake-up is lost, and (but for an INLINE context, whose fd also asks to be driven) hardly one is
 * for nothing. */
#include <errno.h>
#include <sys/epoll.h>
#include "pair.h"
#include "random.h"

#define ENTRIES 20000u
#define DEPTH	48u
#define LEN	4096u
#define LATE_MS 20000

static struct pair p;
static struct target t;
static uint8_t local[DEPTH][LEN];
static struct urccl_region region;
static uint32_t free_slots[DEPTH], nfree, submitted, ended, notes, promised;
static uint64_t seed = 88172645463325252ull;

static uint32_t below(uint32_t n)
{
	return (uint32_t)(random_next(&seed) % n);
}

static void start(uint32_t slot)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint32_t len = 1 + below(below(4) ? 64 : LEN);

	switch (below(5)) {
	case 0:
		urccl_prep_nop(sqe);
		break;
	case 1:
		urccl_prep_timeout(sqe, below(60000), 0, 0);
		break;
	case 2:
		urccl_prep_notify(sqe, p.a.peer, slot, NULL, 0);
		promised++;
		break;
	case 3:
		urccl_prep_read(sqe, t.remote, local[slot], len, slot * LEN);
		urccl_sqe_set_region(sqe, region);
		break;
	default:
		urccl_prep_write(sqe, t.remote, local[slot], len, slot * LEN);
		urccl_sqe_set_region(sqe, region);
		break;
	}
	urccl_sqe_set_data64(sqe, slot);
	submitted++;
}

/* Ends that were there. */
static uint32_t reap_a(void)
{
	struct urccl_cqe *cqe;
	uint32_t n = 0;

	for (; (cqe = urccl_peek_cqe(p.a.ring)); n++) {
		CHECK(cqe->res >= 0 || cqe->res == -ETIME);
		free_slots[nfree++] = (uint32_t)cqe->user_data;
		ended++;
		urccl_cqe_seen(p.a.ring, cqe);
	}
	return n;
}

static uint32_t reap_b(void)
{
	struct urccl_cqe *cqe;
	uint32_t n = 0;

	for (; (cqe = urccl_peek_cqe(p.b.ring)); n++) {
		CHECK_EQ(urccl_cqe_kind(cqe), URCCL_KIND_NOTE);
		notes++;
		urccl_cqe_seen(p.b.ring, cqe);
	}
	return n;
}

/* As the header says it, for two rings in one loop. Returns CQEs taken. */
static uint32_t turn(void)
{
	uint32_t n = 0;

	do {
		n += reap_b();
	} while (urccl_arm(p.b.ring, URCCL_ARM_FOR_CQE, 0));
	do {
		n += reap_a();
		/* Now and then everything drains, so that there are sleeps of every depth. */
		if (nfree >= 1 + below(DEPTH))
			while (nfree && submitted < ENTRIES)
				start(free_slots[--nfree]);
		CHECK_GE(urccl_submit(p.a.ring), 0);
	} while (urccl_arm(p.a.ring, URCCL_ARM_FOR_CQE, 0));
	return n;
}

static void join(int epfd, struct side *s)
{
	struct epoll_event ev = {.events = EPOLLIN};

	CHECK_EQ(epoll_ctl(epfd, EPOLL_CTL_ADD, urccl_ring_fd(s->ring), &ev), 0);
}

int main(int argc, char **argv)
{
	int epfd = epoll_create1(EPOLL_CLOEXEC);
	uint32_t wakes = 0, empty = 0;
	struct epoll_event ev[2];

	pair_begin(&p, argc, argv);
	target_open(&p, &t, sizeof(local), 0);
	region = side_register(&p.a, local, sizeof(local), 0);
	for (nfree = 0; nfree < DEPTH; nfree++)
		free_slots[nfree] = nfree;
	join(epfd, &p.a);
	join(epfd, &p.b);
	turn();
	while (ended < ENTRIES || notes < promised) {
		int n = epoll_wait(epfd, ev, 2, LATE_MS);

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0) {
			urccl_dump(p.a.ctx, 2);
			urccl_dump(p.b.ctx, 2);
		}
		CHECK_GE(n, 1);
		wakes += (uint32_t)n;
		empty += !turn();
	}
	CHECK_EQ(notes, promised);
	CHECK_GE(wakes, 100);
	if (!(p.params.flags & URCCL_OPEN_INLINE))
		CHECK_LE(empty * 100, wakes);
	close(epfd);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
