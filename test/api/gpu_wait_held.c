/* SPDX-License-Identifier: Apache-2.0 */
/* The program holds CUDA up: entries that wait for words of a GPU or for events, or are to set one,
 * are told of at their deadline, with MORE where CUDA does not return from a call for them; those
 * that it was not asked for end. Once it returns all is as before. */
#include "pair.h"
#include "cuda/stream.h"

#define LEN    4096u
#define SOON   20000u /* us */
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct target t;
static uint64_t words;
static uint8_t host[LEN];
static void *event;

static struct urccl_sqe *entry(uint64_t data, uint32_t us)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, host, LEN, 0);
	urccl_sqe_set_deadline_us(sqe, us);
	urccl_sqe_set_data64(sqe, data);
	return sqe;
}

static void on_word(uint64_t data, uint32_t us, uint64_t value)
{
	urccl_sqe_set_wait(p.a.ring, entry(data, us), (void *)(uintptr_t)words, value);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static void on_event(uint64_t data, uint32_t us)
{
	urccl_sqe_set_wait_event(p.a.ring, entry(data, us), event);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static void signals(uint64_t data, uint32_t us)
{
	urccl_sqe_set_signal(p.a.ring, entry(data, us), (void *)(uintptr_t)(words + 8), data);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static void next(uint64_t data, int64_t res)
{
	struct urccl_cqe cqe;

	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.user_data, data);
	CHECK_EQ(cqe.res, res);
	CHECK(!(cqe.flags & URCCL_CQE_MORE));
}

static unsigned long calls(const char *function)
{
	return device_calls("urccl-gpu", function);
}

/* The first n entries are told of their end, in any order; seen: a bit for each that was. */
static void all_late(uint32_t n, uint32_t seen)
{
	struct urccl_cqe cqe;

	while (seen != (1u << n) - 1) {
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK(cqe.user_data >= 1 && cqe.user_data <= n);
		CHECK_EQ(cqe.res, -ETIMEDOUT);
		CHECK_EQ(!!(cqe.flags & URCCL_CQE_MORE), cqe.user_data == 1);
		seen |= 1u << (cqe.user_data - 1);
	}
}

static void on_first_word(uint32_t us)
{
	on_word(1, us, 1);
}

static void on_first_event(uint32_t us)
{
	on_event(1, us);
}

/* The copy thread is in that call for entry 1. On a busy machine the deadline may pass before the
 * call: then it is submitted again with a later one. Returns what all_late() takes as seen. */
static uint32_t in_call(const char *function, void (*submit)(uint32_t us))
{
	unsigned long before = calls(function);
	struct urccl_cqe cqe;
	uint32_t us = SOON;

	submit(us);
	while (calls(function) == before) {
		if (!side_take_within(&p.a, &p.b, 0, &cqe, NULL))
			continue;
		CHECK_EQ(cqe.user_data, 1);
		CHECK_EQ(cqe.res, -ETIMEDOUT);
		if (cqe.flags & URCCL_CQE_MORE)
			return 1;
		submit(us *= 2);
	}
	return 0;
}

static void words_held(void)
{
	uint32_t seen;

	device_set("hold=memcpy");
	seen = in_call("cuMemcpyAsync", on_first_word);
	on_word(2, SOON, 1);
	signals(3, SOON);
	all_late(3, seen);
	device_set("hold=none");
	next(1, -ETIMEDOUT);
	on_word(1, 0, 0);
	next(1, LEN);
	signals(3, 0);
	next(3, LEN);
	CHECK_EQ(word_get(words + 8), 3);
}

static void events_held(void)
{
	uint32_t seen;

	device_set("hold=stream");
	seen = in_call("cuEventQuery", on_first_event);
	on_event(2, SOON);
	all_late(2, seen);
	device_set("hold=none");
	next(1, -ETIMEDOUT);
	on_event(1, 0);
	next(1, LEN);
}

int main(int argc, char **argv)
{
	device_load();
	stream_load();
	pair_begin(&p, argc, argv);
	words = device_alloc(LEN, 0);
	word_put(words, 0);
	word_put(words + 8, 0);
	side_register(&p.a, (void *)(uintptr_t)words, LEN, RIGHTS);
	side_register(&p.a, host, LEN, 0);
	target_open(&p, &t, LEN, p.shared);
	event = event_open();
	words_held();
	events_held();
	event_close(event);
	target_close(&p, &t);
	pair_close(&p);
	CHECK_EQ(device_calls("urccl-engine", NULL), 0);
	return 0;
}
