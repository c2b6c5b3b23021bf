/* SPDX-License-Identifier: Apache-2.0 */
/* A program that forks while its threads move data: no child disturbs them, lives on a ring of
 * theirs, or takes anything with it when it ends. */
#include <pthread.h>
#include <sys/wait.h>
#include "pair.h"

#define LEN   65536u
#define DEPTH 16u

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FORKS 10u /* of much more memory */
#else
#define FORKS 100u
#endif

static struct pair p;
static struct target t;
static uint8_t *local;
static uint32_t stop;
static uint64_t moved;

static void post(uint32_t slot, uint64_t n)
{
	struct urccl_sqe *sqe = urccl_get_sqe(p.a.ring);

	CHECK(sqe);
	pattern_fill(local + slot * LEN, LEN, slot, n);
	urccl_prep_write(sqe, t.remote, local + slot * LEN, LEN, slot * LEN);
	urccl_sqe_set_data64(sqe, slot);
	CHECK_GE(urccl_submit(p.a.ring), 1);
}

/* Each write's bytes are looked at when it has ended. */
static void *traffic(void *arg)
{
	uint64_t version[DEPTH], n = 0;
	uint32_t slot, out;
	struct urccl_cqe *cqe;

	for (slot = 0; slot < DEPTH; slot++)
		post(slot, version[slot] = n++);
	for (out = DEPTH; out;) {
		CHECK_GE(urccl_wait(p.a.ring, &cqe, NULL), 1);
		slot = (uint32_t)cqe->user_data;
		CHECK_EQ(cqe->res, LEN);
		CHECK(pattern_holds(t.bytes + slot * LEN, LEN, slot, version[slot]));
		urccl_cqe_seen(p.a.ring, cqe);
		__atomic_fetch_add(&moved, 1, __ATOMIC_RELAXED);
		if (__atomic_load_n(&stop, __ATOMIC_RELAXED))
			out--;
		else
			post(slot, version[slot] = n++);
	}
	return arg;
}

static void child(void)
{
	struct urccl_stats stats = {.size = sizeof(stats)};

	if (urccl_get_sqe(p.a.ring) || urccl_submit(p.a.ring) != -EPERM ||
	    urccl_get_stats(p.a.ctx, &stats) != -EPERM || urccl_peek_cqe(p.b.ring))
		_exit(1);
	_exit(0);
}

int main(int argc, char **argv)
{
	uint64_t before;
	pthread_t thread;
	uint32_t i;
	int status;
	pid_t pid;

	pair_begin(&p, argc, argv);
	settle_end(&p.a);
	settle_end(&p.b);
	target_open(&p, &t, DEPTH * LEN, 1);
	local = calloc(DEPTH, LEN);
	CHECK(local);
	side_register(&p.a, local, DEPTH * LEN, 0);
	CHECK_EQ(pthread_create(&thread, NULL, traffic, NULL), 0);
	for (i = 0; i < FORKS; i++) {
		before = __atomic_load_n(&moved, __ATOMIC_RELAXED);
		pid = fork();
		CHECK(pid >= 0);
		if (!pid)
			child();
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
		/* The traffic goes on, before there is another child. */
		while (__atomic_load_n(&moved, __ATOMIC_RELAXED) == before)
			sched_yield();
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
