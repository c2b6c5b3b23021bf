/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of a producer and a consumer on a GPU, in the order of their streams alone: the
 * producer's stream fills a buffer and sets a word, for which a WRITE waits that was there first; a
 * READ brings the bytes back and sets a word, for which the consumer's stream waits. No old word is
 * ever seen.
 *
 *	gpu_rounds ... [--rounds=N] [--late=US]		the producer begins so much later
 */
#include <stdlib.h>
#include "pair.h"
#include "cuda/stream.h"

#define WORDS 8192u
#define LEN   (8ull * WORDS)

enum { SENT, BACK };

static struct pair p;
static struct target t;
static uint64_t from, to, words, stale;
static uint64_t *made, *taken, *gate;
static void *producer, *consumer;

static uint64_t word_at(uint64_t i, uint64_t round)
{
	return round * 0x9e3779b97f4a7c15u + i;
}

static void *signal_word(uint32_t i)
{
	return (void *)(uintptr_t)(words + 8 * i);
}

static void count_stale(const uint64_t *m, uint64_t round)
{
	uint64_t i;

	for (i = 0; i < WORDS; i++)
		stale += m[i] != word_at(i, round);
}

static void streams(uint64_t round)
{
	uint64_t i;

	for (i = 0; i < WORDS; i++)
		made[i] = word_at(i, round);
	stream_wait(producer, (uintptr_t)gate, round);
	stream_copy(producer, from, (uintptr_t)made, LEN);
	stream_write(producer, words + 8 * SENT, round);
	stream_wait(consumer, words + 8 * BACK, round);
	stream_copy(consumer, (uintptr_t)taken, to, LEN);
}

static void entries(uint64_t round)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, (void *)(uintptr_t)from, LEN, 0);
	urccl_sqe_set_wait(p.a.ring, sqe, signal_word(SENT), round);
	urccl_sqe_add_flags(sqe, URCCL_SQE_LINK);
	urccl_sqe_set_data64(sqe, 1);
	sqe = side_sqe(&p.a);
	urccl_prep_read(sqe, t.remote, (void *)(uintptr_t)to, LEN, 0);
	urccl_sqe_set_signal(p.a.ring, sqe, signal_word(BACK), round);
	urccl_sqe_set_data64(sqe, 2);
	CHECK_EQ(urccl_submit(p.a.ring), 2);
}

static void one_round(uint64_t round, uint64_t late_ns)
{
	uint64_t begun = now_ns();

	streams(round);
	entries(round);
	while (now_ns() - begun < late_ns) {
		side_turn(&p.a);
		side_turn(&p.b);
	}
	gate_open(gate, round);
	CHECK_EQ(pair_end(&p, &p.a, 1).res, LEN);
	settle();
	count_stale((const uint64_t *)(const void *)t.bytes, round);
	CHECK_EQ(pair_end(&p, &p.a, 2).res, LEN);
	stream_sync(consumer);
	count_stale(taken, round);
}

static void prepare(void)
{
	from = device_alloc(LEN, 0);
	to = device_alloc(LEN, 0);
	words = device_alloc(64, 0);
	word_put(words + 8 * SENT, 0);
	word_put(words + 8 * BACK, 0);
	made = device_pinned(LEN);
	taken = device_pinned(LEN);
	gate = device_pinned(64);
	*gate = 0;
	producer = stream_open();
	consumer = stream_open();
	side_register(&p.a, (void *)(uintptr_t)from, LEN, 0);
	side_register(&p.a, (void *)(uintptr_t)to, LEN, 0);
	side_register(&p.a, signal_word(0), 64, URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	target_open(&p, &t, LEN, p.shared);
}

int main(int argc, char **argv)
{
	uint64_t rounds = 80, late_us = 0, i;

	device_load();
	stream_load();
	while (argc > 1 && (!strncmp(argv[argc - 1], "--rounds=", 9) ||
			    !strncmp(argv[argc - 1], "--late=", 7))) {
		argc--;
		if (argv[argc][2] == 'r')
			rounds = strtoull(argv[argc] + 9, NULL, 10);
		else
			late_us = strtoull(argv[argc] + 7, NULL, 10);
	}
	pair_begin(&p, argc, argv);
	prepare();
	for (i = 1; i <= rounds; i++)
		one_round(i, late_us * 1000);
	printf("%llu rounds, %llu stale words\n", (unsigned long long)rounds,
	       (unsigned long long)stale);
	CHECK_EQ(stale, 0);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
