/* SPDX-License-Identifier: Apache-2.0 */
/* Signal-when by a word in memory of a GPU: a stream that waits for it finds the bytes of a READ;
 * it is set before the CQE can be seen, also where there is none, and starts another entry. One
 * that fails leaves it alone. */
#include "pair.h"
#include "cuda/stream.h"

#define LEN    (3u << 20)
#define PART   4096u
#define ROUNDS 20u

static struct pair p;
static struct target t;
static uint64_t device, words;
static uint8_t *pinned;

static uint64_t word(uint32_t i)
{
	return words + 8 * i;
}

static struct urccl_sqe *signals(struct urccl_sqe *sqe, uint32_t i, uint64_t value)
{
	urccl_sqe_set_signal(p.a.ring, sqe, (void *)(uintptr_t)word(i), value);
	return sqe;
}

static struct urccl_sqe *read_entry(uint64_t len)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_read(sqe, t.remote, (void *)(uintptr_t)device, len, 0);
	return sqe;
}

static struct urccl_sqe *write_entry(uint64_t len)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, (void *)(uintptr_t)device, len, 0);
	return sqe;
}

/* A stream that was there first takes the bytes on. */
static void consumer(void *stream)
{
	uint64_t i, k, len;

	for (i = 1; i <= ROUNDS; i++) {
		len = i % 4 ? PART * i : LEN;
		for (k = 0; k < len; k++)
			t.bytes[k] = device_byte(k, i);
		settle();
		stream_wait(stream, word(0), i);
		stream_copy(stream, (uintptr_t)pinned, device, len);
		CHECK_EQ(pair_run(&p, &p.a, signals(read_entry(len), 0, i)).res, (int64_t)len);
		CHECK_EQ(word_get(word(0)), i);
		stream_sync(stream);
		for (k = 0; k < len; k++)
			CHECK_EQ(pinned[k], device_byte(k, i));
	}
}

/* With a notification, in a vector, and without a CQE. */
static void others(void)
{
	struct urccl_seg segs[2] = {
		{.addr = device, .len = PART, .remote = t.remote.id},
		{.addr = device + LEN / 2, .len = PART, .off = PART, .remote = t.remote.id}};
	struct urccl_sqe *sqe = signals(write_entry(PART), 1, 1);
	struct urccl_cqe cqe;

	urccl_sqe_set_notify(p.a.ring, sqe, 9, NULL, 0);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, PART);
	CHECK(!(cqe.flags & URCCL_CQE_UNKNOWN) && cqe.flags & URCCL_CQE_REMOTE_QUIET);
	CHECK_EQ(word_get(word(1)), 1);
	sqe = side_sqe(&p.a);
	urccl_prep_writev(sqe, p.a.peer, segs, 2);
	CHECK_EQ(pair_run(&p, &p.a, signals(sqe, 1, 2)).res, 2 * PART);
	CHECK_EQ(word_get(word(1)), 2);
	urccl_sqe_add_flags(signals(write_entry(PART), 1, 3), URCCL_SQE_SKIP_SUCCESS);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	while (word_get(word(1)) != 3) {
		side_turn(&p.a);
		side_turn(&p.b);
	}
}

/* The word of the one starts the other, which was there first. */
static void chained(void)
{
	struct urccl_sqe *sqe = signals(write_entry(PART), 2, 5);

	urccl_sqe_set_data64(sqe, 2);
	urccl_sqe_set_wait(p.a.ring, sqe, (void *)(uintptr_t)word(3), 4);
	urccl_sqe_set_data64(signals(read_entry(PART), 3, 4), 1);
	CHECK_EQ(urccl_submit(p.a.ring), 2);
	CHECK_EQ(pair_end(&p, &p.a, 1).res, PART);
	CHECK_EQ(pair_end(&p, &p.a, 2).res, PART);
	CHECK_EQ(word_get(word(2)), 5);
}

static void failed(void)
{
	struct urccl_sqe *sqe = signals(read_entry(PART), 4, 1);

	urccl_sqe_set_wait(p.a.ring, sqe, (void *)(uintptr_t)word(5), 1);
	urccl_sqe_set_deadline_us(sqe, 20000);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, -ETIMEDOUT);
	CHECK_EQ(word_get(word(4)), 0);
}

int main(int argc, char **argv)
{
	uint32_t i;

	device_load();
	stream_load();
	pair_begin(&p, argc, argv);
	device = device_alloc(LEN, 0);
	words = device_alloc(64, 0);
	for (i = 0; i < 8; i++)
		word_put(word(i), 0);
	pinned = device_pinned(LEN);
	side_register(&p.a, (void *)(uintptr_t)device, LEN, 0);
	side_register(&p.a, (void *)(uintptr_t)words, 64, URCCL_RIGHT_WRITE);
	target_open(&p, &t, LEN, p.shared);
	consumer(stream_open());
	others();
	chained();
	failed();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
