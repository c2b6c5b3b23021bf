/* SPDX-License-Identifier: Apache-2.0 */
/* Start-when: an entry moves nothing before its word is there, and then what lay in its buffer when
 * the word was stored; it holds up those that ask to wait for it (LINK, DRAIN, FENCE), and nobody
 * else. What it waits for besides it waits for too. */
#include "pair.h"

#define LEN 4096u

static struct pair p;
static struct target t;
static uint8_t *local;
static uint64_t *word;

static void store(uint64_t value)
{
	settle();
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static struct urccl_sqe *entry(uint64_t data, uint32_t flags)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, local + data * LEN, LEN, data * LEN);
	urccl_sqe_add_flags(sqe, flags);
	urccl_sqe_set_data64(sqe, data);
	return sqe;
}

static void waiting(uint64_t data, uint32_t flags, uint64_t value)
{
	urccl_sqe_set_wait(p.a.ring, entry(data, flags), word, value);
}

/* It is the next to end, and well. */
static void ends(uint64_t data)
{
	CHECK_EQ(pair_end(&p, &p.a, data).res, LEN);
	settle();
	CHECK(pattern_holds(t.bytes + data * LEN, LEN, data, 1));
}

static void run(uint64_t data)
{
	entry(data, 0);
	CHECK_GE(urccl_submit(p.a.ring), 1);
	ends(data);
}

/* Later entries go by; less than the word asks for is not it, more is. */
static void alone(void)
{
	pattern_fill(local + LEN, LEN, 1, 7);
	waiting(1, 0, 5);
	run(2);
	store(4);
	run(3);
	CHECK(!pattern_holds(t.bytes + LEN, LEN, 1, 7));
	pattern_fill(local + LEN, LEN, 1, 1);
	store(6);
	urccl_submit(p.a.ring);
	ends(1);
	waiting(1, 0, 6); /* it is there from the beginning */
	urccl_submit(p.a.ring);
	ends(1);
	store(0);
}

/* The one that follows by LINK, and what stands behind the chain. */
static void chained(void)
{
	waiting(1, URCCL_SQE_LINK, 1);
	entry(2, URCCL_SQE_LINK);
	waiting(3, 0, 1);
	run(4);
	store(1);
	ends(1);
	ends(2);
	ends(3);
	store(0);
}

static void drained(void)
{
	waiting(1, 0, 1);
	entry(2, URCCL_SQE_DRAIN);
	run(3);
	store(1);
	ends(1);
	ends(2);
	store(0);
}

/* Of one group; another's fence does not wait for it. */
static void fenced(void)
{
	waiting(1, 0, 1);
	entry(2, URCCL_SQE_FENCE);
	urccl_sqe_set_group(entry(3, URCCL_SQE_FENCE), 3);
	urccl_submit(p.a.ring);
	ends(3);
	run(4);
	store(1);
	ends(1);
	ends(2);
	store(0);
}

/* The word is there first, or what it stands behind is. */
static void both(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_timeout(sqe, 5000000, 0, 0);
	urccl_sqe_set_data64(sqe, 9);
	waiting(1, URCCL_SQE_DRAIN, 1);
	urccl_submit(p.a.ring);
	store(1);
	CHECK_EQ(pair_end(&p, &p.a, 9).res, -ETIME);
	ends(1);
	store(0);
	waiting(1, 0, 1);
	waiting(2, URCCL_SQE_DRAIN, 2);
	urccl_submit(p.a.ring);
	store(1);
	ends(1);
	run(3);
	store(2);
	ends(2);
	store(0);
}

int main(int argc, char **argv)
{
	static uint64_t memory[1 + 10 * LEN / sizeof(uint64_t)];
	uint32_t i;

	pair_begin(&p, argc, argv);
	target_open(&p, &t, 10 * LEN, 0);
	word = memory;
	local = (uint8_t *)(memory + 1);
	side_register(&p.a, memory, sizeof(memory), URCCL_RIGHT_READ);
	for (i = 0; i < 10; i++)
		pattern_fill(local + i * LEN, LEN, i, 1);
	alone();
	chained();
	drained();
	fenced();
	both();
	target_close(&p, &t);
	pair_close(&p);
	return 0;
}
