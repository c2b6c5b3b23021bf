/* SPDX-License-Identifier: Apache-2.0 */
/* An entry whose word in memory of a GPU never comes, or whose event, ends all the same, once, and
 * moves nothing: at its deadline, cancelled, with the region of its word, with its peer or its
 * ring. Then the word's memory is freed and the event destroyed, which nobody uses any more. */
#include "pair.h"
#include "waited.h"
#include "cuda/stream.h"

#define LEN	    4096u
#define WORD_LEN    4096u
#define CASES	    6u
#define DEADLINE_US 50000u
#define SLACK_NS    ((PAIR_SLOW ? 3 : 1) * 50000000ull)
#define RIGHTS	    (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct target t;
static uint64_t device, word, words[CASES]; /* allocations of their own */
static uint32_t ncases;
static uint64_t *gate;
static void *stream, *event;
static struct urccl_region region; /* of the word */

/* A word of its own, and an event that is behind the gate. */
static void never(void)
{
	word = words[ncases++];
	word_put(word, 0);
	region = side_register(&p.a, (void *)(uintptr_t)word, WORD_LEN, RIGHTS);
	event = event_open();
	event_record(event, stream);
}

/* A GPU frees nothing while a stream stops at the gate; the stand-in does. */
static void word_free(void)
{
	if (device_cuda.set)
		device_free(word);
}

static void ended(void)
{
	event_close(event);
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	word_free();
}

static struct urccl_sqe *waiting(uint64_t data, int by_event)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, (void *)(uintptr_t)device, LEN, 0);
	urccl_sqe_set_data64(sqe, data);
	if (by_event)
		urccl_sqe_set_wait_event(p.a.ring, sqe, event);
	else
		urccl_sqe_set_wait(p.a.ring, sqe, (void *)(uintptr_t)word, 1);
	return sqe;
}

/* Both have been taken, and wait. */
static void both(void)
{
	struct urccl_sqe *sqe;

	never();
	waiting(0, 0);
	waiting(1, 1);
	sqe = side_sqe(&p.a);
	urccl_prep_nop(sqe);
	urccl_sqe_set_data64(sqe, 99);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, 0);
}

static void ends(uint64_t data, int res, const char *why)
{
	struct urccl_cqe cqe = pair_end(&p, &p.a, data);

	CHECK_EQ(cqe.res, res);
	CHECK(cqe.flags & URCCL_CQE_REMOTE_QUIET && !(cqe.flags & URCCL_CQE_MORE));
	if (why)
		check_sentence(&p.a, &cqe, why);
}

static void late(int by_event)
{
	uint64_t start, waited;

	never();
	waited = waited_ns();
	start = now_ns();
	urccl_sqe_set_deadline_us(waiting(0, by_event), DEADLINE_US);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	ends(0, -ETIMEDOUT, by_event ? "CUDA event" : "start word");
	CHECK_LE(now_ns() - start, DEADLINE_US * 1000ull + SLACK_NS + waited_since(waited));
	ended();
}

static void cancelled(uint64_t i)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_cancel(sqe, URCCL_CANCEL_BY_USER_DATA, i);
	urccl_sqe_set_data64(sqe, 2);
	urccl_submit(p.a.ring);
	ends(i, -ECANCELED, "cancelled");
	CHECK_EQ(pair_end(&p, &p.a, 2).res, 1);
}

static void all_cancelled(void)
{
	both();
	cancelled(0);
	cancelled(1);
	ended();
}

static void unregistered(void)
{
	both();
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	word_free();
	ends(0, -ECANCELED, "unregistered");
	cancelled(1);
	event_close(event);
}

static void ring_closes(void)
{
	struct urccl_ring *ring, *first = p.a.ring;

	if (p.params.flags & URCCL_OPEN_INLINE) /* it has one */
		return;
	CHECK_EQ(urccl_ring_open(p.a.ctx, NULL, &ring), 0);
	p.a.ring = ring;
	never();
	waiting(0, 0);
	waiting(1, 1);
	CHECK_EQ(urccl_submit(ring), 2);
	urccl_ring_close(ring);
	p.a.ring = first;
	ended();
}

static void lost(void)
{
	struct urccl_cqe cqe;
	uint32_t left = 3;

	both();
	side_close(&p.b);
	while (left) {
		CHECK(side_take_within(&p.a, NULL, PAIR_LATE_NS, &cqe, NULL));
		if (urccl_cqe_kind(&cqe) != URCCL_KIND_OP || cqe.user_data > 1)
			continue;
		CHECK_EQ(cqe.res, -ECONNRESET);
		left &= ~(1u << cqe.user_data);
	}
	ended();
}

/* The first copy comes after what the library loads, and no stream may stop before that. */
static void begin(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, (void *)(uintptr_t)device, LEN, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, LEN);
	settle();
}

int main(int argc, char **argv)
{
	uint32_t i;

	device_load();
	stream_load();
	pair_begin(&p, argc, argv);
	gate = device_pinned(8);
	*gate = 0;
	stream = stream_open();
	device = device_alloc(LEN, 0);
	for (i = 0; i < CASES; i++)
		words[i] = device_alloc(WORD_LEN, 0);
	side_register(&p.a, (void *)(uintptr_t)device, LEN, 0);
	target_open(&p, &t, LEN, 0);
	begin();
	stream_wait(stream, (uintptr_t)gate, 1);
	memset(t.bytes, 0x33, LEN);
	late(0);
	late(1);
	all_cancelled();
	unregistered();
	ring_closes();
	settle();
	CHECK(t.bytes[0] == 0x33 && t.bytes[LEN - 1] == 0x33);
	lost();
	gate_open(gate, 1);
	stream_sync(stream);
	pair_close(&p);
	return 0;
}
