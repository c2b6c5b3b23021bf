/* SPDX-License-Identifier: Apache-2.0 */
/* A ring has a producer and a consumer, who may be two threads; a context has many rings, each
 * with a thread of its own. What each thread wrote it reads back. */
#include <pthread.h>
#include <sched.h>
#include "pair.h"

#define WRITES 20000u
#define RINGS  4u
#define ROUNDS 1500u
#define SLOTS  64u
#define LEN    512u

static struct pair p;
static struct target t;
static uint64_t words[WRITES], back[WRITES];
static struct urccl_region words_region;

static void *produce(void *arg)
{
	struct urccl_sqe *sqe;
	uint32_t i;

	(void)arg;
	for (i = 0; i < WRITES; i++) {
		while (!(sqe = urccl_get_sqe(p.a.ring)))
			sched_yield();
		urccl_prep_write(sqe, t.remote, &words[i], sizeof(words[i]), 8ull * i);
		urccl_sqe_set_region(sqe, words_region);
		urccl_sqe_set_data64(sqe, i);
		if (i % 5 == 4 || i + 1 == WRITES)
			CHECK_GE(urccl_submit(p.a.ring), 1);
	}
	return NULL;
}

static void consume(void)
{
	static uint8_t seen[WRITES];
	struct urccl_cqe *cqe;
	uint32_t left;

	for (left = WRITES; left; left--) {
		CHECK_GE(urccl_wait(p.a.ring, &cqe, NULL), 1);
		CHECK_EQ(cqe->res, 8);
		CHECK(cqe->user_data < WRITES && !seen[cqe->user_data]++);
		urccl_cqe_seen(p.a.ring, cqe);
	}
}

static void two_threads(void)
{
	struct urccl_region region = side_register(&p.a, back, sizeof(back), 0);
	struct urccl_sqe *sqe;
	pthread_t producer;
	uint32_t i;

	for (i = 0; i < WRITES; i++)
		words[i] = i * 0x9e3779b97f4a7c15ull;
	words_region = side_register(&p.a, words, sizeof(words), 0);
	CHECK_EQ(pthread_create(&producer, NULL, produce, NULL), 0);
	consume();
	CHECK_EQ(pthread_join(producer, NULL), 0);
	sqe = side_sqe(&p.a);
	urccl_prep_read(sqe, t.remote, back, sizeof(back), 0);
	urccl_sqe_set_region(sqe, region);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, sizeof(back));
	CHECK(!memcmp(words, back, sizeof(back)));
}

struct worker {
	pthread_t thread;
	struct urccl_ring *ring;
	struct urccl_region region;
	uint64_t off; /* its part of the target */
	uint8_t out[SLOTS][LEN], in[SLOTS][LEN];
};

/* A slot's write and the read behind it. */
static void worker_submit(struct worker *w, uint32_t slot, uint64_t version)
{
	uint64_t off = w->off + slot * LEN;
	struct urccl_sqe *sqe = urccl_get_sqe(w->ring);

	CHECK(sqe);
	pattern_fill(w->out[slot], LEN, off, version);
	urccl_prep_write(sqe, t.remote, w->out[slot], LEN, off);
	urccl_sqe_set_region(sqe, w->region);
	urccl_sqe_add_flags(sqe, URCCL_SQE_LINK | URCCL_SQE_SKIP_SUCCESS);
	urccl_sqe_set_data64(sqe, SLOTS);
	sqe = urccl_get_sqe(w->ring);
	CHECK(sqe);
	urccl_prep_read(sqe, t.remote, w->in[slot], LEN, off);
	urccl_sqe_set_region(sqe, w->region);
	urccl_sqe_set_data64(sqe, slot);
	CHECK_EQ(urccl_submit(w->ring), 2);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	uint64_t versions[SLOTS], next = 0;
	struct urccl_cqe *cqe;
	uint32_t slot, done;

	for (slot = 0; slot < SLOTS; slot++)
		worker_submit(w, slot, versions[slot] = next++);
	for (done = 0; done < ROUNDS; done++) {
		CHECK_GE(urccl_wait(w->ring, &cqe, NULL), 1);
		slot = (uint32_t)cqe->user_data;
		CHECK_LE(slot, SLOTS - 1);
		CHECK_EQ(cqe->res, LEN);
		urccl_cqe_seen(w->ring, cqe);
		CHECK(pattern_holds(w->in[slot], LEN, w->off + slot * LEN, versions[slot]));
		if (next < ROUNDS)
			worker_submit(w, slot, versions[slot] = next++);
	}
	return NULL;
}

static void four_rings(void)
{
	static struct worker workers[RINGS];
	uint32_t i;

	for (i = 0; i < RINGS; i++) {
		struct worker *w = &workers[i];

		CHECK_EQ(urccl_ring_open(p.a.ctx, NULL, &w->ring), 0);
		w->off = (uint64_t)i * SLOTS * LEN;
		w->region = side_register(&p.a, w->out, sizeof(w->out) + sizeof(w->in), 0);
		CHECK_EQ(pthread_create(&w->thread, NULL, work, w), 0);
	}
	for (i = 0; i < RINGS; i++) {
		CHECK_EQ(pthread_join(workers[i].thread, NULL), 0);
		urccl_ring_close(workers[i].ring);
	}
}

int main(int argc, char **argv)
{
	pair_begin(&p, argc, argv);
	target_open(&p, &t, (uint64_t)RINGS * SLOTS * LEN + sizeof(words), 0);
	two_threads();
	four_rings();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
