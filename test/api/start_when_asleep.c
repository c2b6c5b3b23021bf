/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing rings when a word changes: a library that sleeps finds it soon all the same, while the
 * program sleeps too, in urccl_wait() or on the ring's fd. While an entry waits it is shown as one
 * that waits for a word, and the library does sleep. */
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#include "lateness.h"
#include "pair.h"

#define ROUNDS	 20u
#define LEN	 64u
#define QUIET_NS 3000000ull  /* from the submit to the store: the spinning is over */
#define SOON_NS	 50000000ull /* on a machine that is busy otherwise, */
#define BEST_NS	 (1000000ull + PAIR_SLOW * 4000000ull) /* and when it was not */

static struct pair p;
static struct target t;
static uint64_t word, stored_ns;
static uint8_t local[LEN];

static void *store_later(void *arg)
{
	uint64_t until = now_ns() + QUIET_NS;

	while (now_ns() < until)
		;
	__atomic_store_n(&stored_ns, now_ns(), __ATOMIC_RELAXED);
	__atomic_store_n(&word, *(uint64_t *)arg, __ATOMIC_RELEASE);
	return NULL;
}

/* The next CQE: by urccl_wait(), or by poll() of the fd. */
static int64_t next(int by_fd)
{
	struct pollfd fd = {.fd = urccl_ring_fd(p.a.ring), .events = POLLIN};
	struct urccl_cqe *cqe;
	int64_t res;

	while (by_fd && !urccl_cq_ready(p.a.ring)) {
		if (!urccl_arm(p.a.ring, URCCL_ARM_FOR_CQE, 0))
			CHECK_EQ(poll(&fd, 1, 20000), 1);
	}
	CHECK_GE(urccl_wait(p.a.ring, &cqe, NULL), 1);
	res = cqe->res;
	urccl_cqe_seen(p.a.ring, cqe);
	return res;
}

/* How long it took from the store on, but for the time that threads waited for a processor. */
static uint64_t round_of(uint64_t value, int by_fd)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t took, waited;
	pthread_t thread;

	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	urccl_sqe_set_wait(p.a.ring, sqe, &word, value);
	canary_reset();
	waited = waited_ns();
	CHECK_EQ(pthread_create(&thread, NULL, store_later, &value), 0);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(next(by_fd), LEN);
	took = check_within(stored_ns, SOON_NS);
	waited = waited_since(waited);
	pthread_join(thread, NULL);
	return took > waited ? took - waited : 0;
}

static int is_shown(void)
{
	char text[16384] = "";
	int fd = memfd_create("dump", MFD_CLOEXEC);

	CHECK_EQ(urccl_dump(p.a.ctx, fd), 0);
	CHECK_GE(pread(fd, text, sizeof(text) - 1, 0), 1);
	close(fd);
	return strstr(text, ", waiting for a word") != NULL;
}

static void shown(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);
	uint64_t before, late = now_ns() + PAIR_LATE_NS;
	struct urccl_wait_args ms = {.size = sizeof(ms), .timeout_ns = 1000000};

	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	urccl_sqe_set_wait(p.a.ring, sqe, &word, ~0ull);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	while (!is_shown()) {
		CHECK(!is_late(late));
		CHECK_EQ(urccl_wait(p.a.ring, NULL, &ms), -ETIME);
	}
	before = side_stats(&p.a).sleeps;
	while (side_stats(&p.a).sleeps < before + 10) {
		CHECK(!is_late(late));
		CHECK_EQ(urccl_wait(p.a.ring, NULL, &ms), -ETIME);
	}
	__atomic_store_n(&word, ~0ull, __ATOMIC_RELEASE);
	CHECK_EQ(pair_end(&p, &p.a, 0).res, LEN);
	CHECK(!is_shown());
}

/* b turns by itself, so that a may sleep. */
static void open_both(int argc, char **argv)
{
	uint32_t flags;

	pair_options(&p, argc, argv);
	flags = p.params.flags;
	if (flags & URCCL_OPEN_INLINE && p.transport == URCCL_TRANSPORT_SIM)
		SKIP("a simulated clock does not wait for who stores a word");
	p.params.flags &= ~(uint32_t)URCCL_OPEN_INLINE;
	pair_sim(&p);
	side_open(&p, &p.b);
	p.params.flags = flags;
	pair_open(&p);
}

int main(int argc, char **argv)
{
	uint64_t took, best = UINT64_MAX;
	uint32_t i;

	open_both(argc, argv);
	target_open(&p, &t, LEN, 1);
	side_register(&p.a, local, LEN, 0);
	side_register(&p.a, &word, sizeof(word), URCCL_RIGHT_READ);
	canary_start();
	for (i = 0; i < ROUNDS; i++) {
		took = round_of(i + 1, i % 2);
		best = took < best ? took : best;
	}
	CHECK_LE(best, BEST_NS);
	shown();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
