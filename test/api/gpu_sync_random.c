/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that wait for words of a GPU or events and set words there, in any mix, some of which
 * never come, with deadlines and CANCELs at any time. Each ends once: well only if what it waits
 * for has come, and then its word is set; else its word is as it was. After the end nobody sets the
 * word any more. */
#include <stdlib.h>
#include "pair.h"
#include "cuda/stream.h"

#define LEN    4096u
#define PARTS  32u
#define CANARY 0xca9a5eull

static struct pair p;
static struct target t;
static uint64_t device, words; /* a word to wait for and one to set of each part */
static uint64_t *gate;
static void *stream, *events[PARTS];
static uint32_t state = 7;
static struct part {
	uint32_t waits, by_event, signals, comes, came, ended, more;
} parts[PARTS];

static uint32_t next(uint32_t n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % n;
}

static uint64_t wait_word(uint32_t i)
{
	return words + 16 * i;
}

static uint64_t signal_word(uint32_t i)
{
	return words + 16 * i + 8;
}

/* Events come with the round's gate, words one by one. */
static void come(uint32_t i, uint64_t round)
{
	if (parts[i].came || !parts[i].comes || parts[i].by_event)
		return;
	parts[i].came = 1;
	word_put(wait_word(i), round);
}

static void submit(uint32_t i, uint64_t round)
{
	static const uint32_t us[] = {50, 500, 5000, 20000};
	struct part *e = &parts[i];
	struct urccl_sqe *sqe = side_sqe(&p.a);
	void *at = (void *)(uintptr_t)(device + i * LEN);

	*e = (struct part){.waits = next(4) != 0,
			   .by_event = next(3) == 0,
			   .signals = next(2),
			   .comes = next(3) != 0};
	if (next(2))
		urccl_prep_read(sqe, t.remote, at, LEN, i * LEN);
	else
		urccl_prep_write(sqe, t.remote, at, LEN, i * LEN);
	if (e->waits && e->by_event)
		urccl_sqe_set_wait_event(p.a.ring, sqe, events[i]);
	else if (e->waits)
		urccl_sqe_set_wait(p.a.ring, sqe, (void *)(uintptr_t)wait_word(i), round);
	if (e->signals)
		urccl_sqe_set_signal(p.a.ring, sqe, (void *)(uintptr_t)signal_word(i), round);
	if (next(4) == 0 || (!e->comes && !e->by_event))
		urccl_sqe_set_deadline_us(sqe, us[next(4)]);
	if (next(4) == 0)
		come(i, round);
	urccl_sqe_set_data64(sqe, 100 + i);
}

static void cancel(uint32_t i)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, 100 + i);
	urccl_sqe_set_data64(sqe, 1);
	CHECK_GE(urccl_submit(p.a.ring), 1);
}

static void ended(const struct urccl_cqe *cqe, uint64_t round)
{
	uint32_t i = (uint32_t)cqe->user_data - 100;
	struct part *e = &parts[i];
	uint64_t value = word_get(signal_word(i));

	CHECK(cqe->res == LEN || cqe->res == -ETIMEDOUT || cqe->res == -ECANCELED);
	CHECK(cqe->res != LEN || !e->waits || e->came);
	if (!e->more)
		CHECK_EQ(value, cqe->res == LEN && e->signals ? round : CANARY);
	word_put(signal_word(i), CANARY + 1);
	e->ended++;
}

/* Something happens to an entry that may have ended. */
static void happen(uint32_t n, uint64_t round)
{
	uint32_t i = next(n);

	come(i, round);
	if (next(6) == 0)
		cancel(i);
}

static void one_round(uint64_t round)
{
	uint32_t n = 1 + next(PARTS), left = n, i;
	struct urccl_cqe cqe;

	stream_wait(stream, (uintptr_t)gate, round);
	for (i = 0; i < n; i++) {
		word_put(signal_word(i), CANARY);
		event_record(events[i], stream);
		submit(i, round);
	}
	CHECK_GE(urccl_submit(p.a.ring), (int)n);
	for (i = 0; i < n; i++)
		parts[i].came |= parts[i].by_event; /* soon */
	gate_open(gate, round);
	stream_sync(stream);
	while (left) {
		happen(n, round);
		if (!side_take_within(&p.a, &p.b, 100000, &cqe, NULL) || cqe.user_data < 100)
			continue;
		if (cqe.flags & URCCL_CQE_MORE)
			parts[cqe.user_data - 100].more = 1;
		else
			ended(&cqe, round);
		left -= !(cqe.flags & URCCL_CQE_MORE);
	}
	while (side_take_within(&p.a, &p.b, 1000, &cqe, NULL))
		CHECK(cqe.user_data < 100);
	for (i = 0; i < n; i++) {
		CHECK_EQ(parts[i].ended, 1);
		CHECK_EQ(word_get(signal_word(i)), CANARY + 1);
	}
}

int main(int argc, char **argv)
{
	uint64_t rounds = 12, i;

	device_load();
	stream_load();
	if (argc > 1 && !strncmp(argv[argc - 1], "--rounds=", 9))
		rounds = strtoull(argv[--argc] + 9, NULL, 10);
	pair_begin(&p, argc, argv);
	device = device_alloc(PARTS * LEN, 0);
	words = device_alloc(PARTS * 16, 0);
	for (i = 0; i < PARTS; i++) {
		word_put(wait_word((uint32_t)i), 0);
		events[i] = event_open();
	}
	gate = device_pinned(8);
	*gate = 0;
	stream = stream_open();
	side_register(&p.a, (void *)(uintptr_t)device, PARTS * LEN, 0);
	side_register(&p.a, (void *)(uintptr_t)words, PARTS * 16,
		      URCCL_RIGHT_READ | URCCL_RIGHT_WRITE);
	target_open(&p, &t, PARTS * LEN, p.shared);
	for (i = 1; i <= rounds; i++)
		one_round(i);
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
