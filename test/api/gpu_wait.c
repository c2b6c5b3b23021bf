/* SPDX-License-Identifier: Apache-2.0 */
/* Start-when by a word in memory of a GPU, or by an event: an entry moves nothing before, and then
 * the bytes that were there when it came; others go by. An event that was never recorded, and one
 * that is done, hold nothing up. */
#include "pair.h"
#include "cuda/stream.h"

#define LEN    4096u
#define MANY   96u
#define RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;
static struct target t;
static uint64_t device, words;
static uint64_t *gate;
static void *pinned, *stream;
static uint8_t host[LEN];

static struct urccl_sqe *entry(uint64_t i, uint64_t data)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, (void *)(uintptr_t)(device + i * LEN), LEN, i * LEN);
	urccl_sqe_set_data64(sqe, data);
	return sqe;
}

static void waiting(uint64_t i, uint64_t value)
{
	urccl_sqe_set_wait(p.a.ring, entry(i, i), (void *)(uintptr_t)(words + 8 * i), value);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static int holds(uint64_t i, uint64_t seed)
{
	uint64_t k;

	settle();
	for (k = 0; k < LEN; k++)
		if (t.bytes[i * LEN + k] != device_byte(i * LEN + k, seed))
			return 0;
	return 1;
}

static void ends(uint64_t i, uint64_t seed)
{
	CHECK_EQ(pair_end(&p, &p.a, i).res, LEN);
	CHECK(holds(i, seed));
}

/* Another entry, which nothing holds up and no GPU has to do with. */
static void run(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_write(sqe, t.remote, host, LEN, MANY * LEN);
	urccl_sqe_set_data64(sqe, 1000);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
	CHECK_EQ(pair_end(&p, &p.a, 1000).res, LEN);
}

/* By the stand-in: until the library has looked once more. */
static void looked(const char *function)
{
	unsigned long n = device_calls(NULL, function);

	while (device_cuda.calls && device_calls(NULL, function) < n + 2)
		run();
}

static void late_word(void)
{
	device_fill(device + LEN, LEN, LEN, 1);
	waiting(1, 5);
	run();
	word_put(words + 8, 4);
	looked("cuMemcpyAsync");
	run();
	CHECK(!holds(1, 1));
	device_fill(device + LEN, LEN, LEN, 2);
	word_put(words + 8, 6);
	ends(1, 2);
	waiting(1, 6);
	ends(1, 2);
}

/* More words than a job reads. */
static void many_words(void)
{
	uint64_t i, k;

	device_fill(device, MANY * LEN, 0, 3);
	for (i = 0; i < MANY; i++) {
		word_put(words + 8 * i, 0);
		waiting(i, 7);
	}
	run();
	for (i = 0; i < MANY; i++) {
		k = i * 35 % MANY;
		word_put(words + 8 * k, 7 + i % 2);
		ends(k, 3);
	}
}

static void by_event(uint64_t i, void *event)
{
	urccl_sqe_set_wait_event(p.a.ring, entry(i, i), event);
	CHECK_EQ(urccl_submit(p.a.ring), 1);
}

static void events(void)
{
	void *event = event_open();
	uint8_t *from = pinned;
	uint64_t k;

	device_fill(device + LEN, LEN, LEN, 4);
	by_event(1, event); /* it was never recorded */
	ends(1, 4);
	for (k = 0; k < LEN; k++)
		from[k] = device_byte(LEN + k, 5);
	stream_wait(stream, (uintptr_t)gate, 1);
	stream_copy(stream, device + LEN, (uintptr_t)pinned, LEN);
	event_record(event, stream);
	by_event(1, event);
	run();
	looked("cuEventQuery");
	CHECK(holds(1, 4));
	gate_open(gate, 1);
	stream_sync(stream);
	ends(1, 5);
	by_event(1, event); /* it is done */
	ends(1, 5);
	event_close(event);
}

int main(int argc, char **argv)
{
	device_load();
	stream_load();
	pair_begin(&p, argc, argv);
	device = device_alloc(MANY * LEN, 0);
	words = device_alloc(MANY * 8, 0);
	pinned = device_pinned(LEN);
	gate = device_pinned(8);
	*gate = 0;
	stream = stream_open();
	side_register(&p.a, (void *)(uintptr_t)device, MANY * LEN, 0);
	side_register(&p.a, host, LEN, 0);
	side_register(&p.a, (void *)(uintptr_t)words, MANY * 8, RIGHTS);
	target_open(&p, &t, (MANY + 1) * LEN, p.shared);
	late_word();
	many_words();
	events();
	target_close(&p, &t);
	pair_close(&p);
	CHECK_EQ(device_calls("urccl-engine", NULL), 0);
	return 0;
}
