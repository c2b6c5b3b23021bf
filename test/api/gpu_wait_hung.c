/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU hangs: an entry that waits for a word in its memory, and one whose word it is to set, are
 * told of at their deadline, with MORE; one that waits for an event ends then, and so does one that
 * nobody asked the GPU for. The close does not wait for the GPU. */
#include "pair.h"
#include "cuda/stream.h"

#define LEN	4096u
#define TIME_US 20000u
#define RIGHTS	(URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct target t;
static uint64_t device, words;

static struct urccl_sqe *entry(uint64_t data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, (void *)(uintptr_t)device, LEN, 0);
	urccl_sqe_set_deadline_us(sqe, TIME_US);
	urccl_sqe_set_data64(sqe, data);
	return sqe;
}

static void *at(uint32_t i)
{
	return (void *)(uintptr_t)(words + 8 * i);
}

/* 1: with MORE. */
static int late(uint64_t data, const char *why)
{
	struct urccl_cqe cqe;

	CHECK_EQ(urccl_submit(p.a.ring), 1);
	side_take(&p.a, &p.b, &cqe, NULL);
	CHECK_EQ(cqe.user_data, data);
	CHECK_EQ(cqe.res, -ETIMEDOUT);
	check_sentence(&p.a, &cqe, why);
	return !!(cqe.flags & URCCL_CQE_MORE);
}

/* Again while the deadline was before the GPU had been asked. */
static void words_late(void)
{
	do
		urccl_sqe_set_wait(p.a.ring, entry(2), at(0), 1);
	while (!late(2, "start word"));
	urccl_sqe_set_wait(p.a.ring, entry(3), at(1), 1);
	CHECK(!late(3, "start word"));
}

/* Likewise, or before its bytes were placed. */
static void signal_late(void)
{
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;

	do {
		sqe = entry(4);
		urccl_sqe_set_signal(p.a.ring, sqe, at(2), 1);
		CHECK_EQ(urccl_submit(p.a.ring), 1);
		side_take(&p.a, &p.b, &cqe, NULL);
		CHECK_EQ(cqe.res, -ETIMEDOUT);
	} while (!(cqe.flags & URCCL_CQE_MORE));
	check_sentence(&p.a, &cqe, "has not set its word");
}

int main(int argc, char **argv)
{
	void *stream, *event;
	uint64_t *gate, begun;

	device_load();
	stream_load();
	device_set("hang=6");
	pair_begin(&p, argc, argv);
	device = device_alloc(LEN, 0);
	words = device_alloc(LEN, 0);
	side_register(&p.a, (void *)(uintptr_t)device, LEN, 0);
	side_register(&p.a, (void *)(uintptr_t)words, LEN, RIGHTS);
	target_open(&p, &t, LEN, p.shared);
	stream = stream_open();
	gate = device_pinned(8);
	*gate = 0;
	stream_wait(stream, (uintptr_t)gate, 1);
	event = event_open();
	event_record(event, stream);
	urccl_sqe_set_wait_event(p.a.ring, entry(1), event);
	CHECK(!late(1, "CUDA event"));
	words_late();
	signal_late();
	gate_open(gate, 1);
	begun = now_ns();
	urccl_close(p.a.ctx);
	CHECK(!is_late(begun + PAIR_LATE_NS));
	CHECK(strstr(urccl_errmsg(), "a GPU has not ended"));
	test_end(0); /* without a look for leaks: the GPU was left */
}
