/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two rings between two threads, as a submission and a completion ring are: 64-byte entries go one
 * way, 32-byte ones come back, one thread produces and consumes at each end, and both spin. Or both
 * ends on one thread: what an inline entry would cost that only passed through the rings.
 */
#include "raw.h"

#include <pthread.h>
#include <string.h>

enum { SLOTS = 1024 };

struct entry {
	uint64_t word[8];
};

struct completion {
	uint64_t word[4];
};

/*
 * One direction: each end keeps the other's index as it last saw it, and looks again only when it
 * has to.
 */
struct ring {
	_Alignas(128) uint64_t tail; /* producer */
	uint64_t head_seen;
	_Alignas(128) uint64_t head; /* consumer */
	uint64_t tail_seen;
	_Alignas(128) union {
		struct entry entry[SLOTS];
		struct completion completion[SLOTS];
	};
};

static struct ring down, up;
static uint64_t rounds; /* entries the echo answers before it ends */
static uint64_t burst;	/* most it takes at a time */
static struct raw_options options;

static uint64_t room(struct ring *r)
{
	uint64_t used = r->tail - r->head_seen;

	if (used == SLOTS) {
		r->head_seen = __atomic_load_n(&r->head, __ATOMIC_ACQUIRE);
		used = r->tail - r->head_seen;
	}
	return SLOTS - used;
}

static uint64_t ready(struct ring *r)
{
	if (r->head == r->tail_seen)
		r->tail_seen = __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE);
	return r->tail_seen - r->head;
}

static void produce(struct ring *r, uint64_t n)
{
	__atomic_store_n(&r->tail, r->tail + n, __ATOMIC_RELEASE);
}

static void consume(struct ring *r, uint64_t n)
{
	__atomic_store_n(&r->head, r->head + n, __ATOMIC_RELEASE);
}

static void fill_entry(uint64_t i, uint64_t value)
{
	struct entry *e = &down.entry[(down.tail + i) % SLOTS];
	int k;

	for (k = 0; k < 8; k++)
		e->word[k] = value + (uint64_t)k;
}

/* Reads the whole entry and writes the whole completion, as an engine would. */
static void answer_entry(uint64_t i)
{
	struct entry *e = &down.entry[(down.head + i) % SLOTS];
	struct completion *c = &up.completion[(up.tail + i) % SLOTS];
	int k;

	for (k = 0; k < 4; k++)
		c->word[k] = e->word[k] + e->word[k + 4];
}

/* Takes what is there, a burst at most. Not inlined: so would a library be called. */
__attribute__((noinline)) static uint64_t answer(void)
{
	uint64_t n = ready(&down), i;

	if (!n)
		return 0;
	n = n < burst ? n : burst;
	while (room(&up) < n)
		bench_relax();
	for (i = 0; i < n; i++)
		answer_entry(i);
	produce(&up, n);
	consume(&down, n);
	return n;
}

static void *echo(void *arg)
{
	uint64_t done = 0, n;

	(void)arg;
	bench_pin(options.cpu[1]);
	while (done < rounds) {
		n = answer();
		if (!n)
			bench_relax();
		done += n;
	}
	return NULL;
}

static uint64_t reap(void)
{
	uint64_t n = ready(&up), i, sum = 0;

	for (i = 0; i < n; i++)
		sum += up.completion[(up.head + i) % SLOTS].word[0];
	__asm__ volatile("" ::"r"(sum));
	if (n)
		consume(&up, n);
	return n;
}

/* Keeps depth entries under way, publishing each by itself. */
static void pipelined(uint64_t depth)
{
	uint64_t sent = 0, got = 0, n;

	while (got < rounds) {
		while (sent < rounds && sent - got < depth && room(&down)) {
			fill_entry(0, sent++);
			produce(&down, 1);
		}
		n = reap();
		got += n;
		if (!n)
			bench_relax();
	}
}

/* Sends depth entries with one publication, waits for all of them. */
static void batched(uint64_t depth)
{
	uint64_t sent = 0, got = 0, i;

	while (got < rounds) {
		while (room(&down) < depth)
			bench_relax();
		for (i = 0; i < depth; i++)
			fill_entry(i, sent + i);
		produce(&down, depth);
		sent += depth;
		while (got < sent)
			got += reap();
	}
}

/* Both ends on one thread, one entry at a time. */
static void alone(uint64_t depth)
{
	uint64_t i;

	(void)depth;
	for (i = 0; i < rounds; i++) {
		fill_entry(0, i);
		produce(&down, 1);
		answer();
		reap();
	}
}

/* Nanoseconds an entry; the number of entries is set from a short first run. */
static double measure(void (*run)(uint64_t), uint64_t depth)
{
	uint64_t goal = (uint64_t)(options.seconds * 1e9), ns = 0;
	int threaded = run != alone;
	pthread_t thread;

	for (rounds = 200000;;) {
		uint64_t start;

		memset(&down, 0, sizeof(down));
		memset(&up, 0, sizeof(up));
		rounds -= rounds % depth;
		if (threaded && pthread_create(&thread, NULL, echo, NULL))
			bench_die("cannot start a thread");
		start = bench_now();
		run(depth);
		ns = bench_now() - start;
		if (threaded)
			pthread_join(thread, NULL);
		if (ns >= goal / 2)
			return (double)ns / (double)rounds;
		rounds = (uint64_t)((double)rounds * (double)goal / (double)ns);
	}
}

int main(int argc, char **argv)
{
	static const uint64_t depths[] = {8, 32, 128};
	struct report report;
	unsigned int i;

	raw_options(
		&options, argc, argv,
		"raw_ring: two rings between two spinning threads, or both ends on one\n"
		"(--mode qd1|pipelined|batch|alone)");
	report_open(&report, "raw_ring", options.json);
	bench_pin(options.cpu[0]);
	burst = 1;
	if (raw_wanted(&options, "qd1"))
		report_metric(&report, measure(pipelined, 1), "ns", "ring.round_trip");
	if (raw_wanted(&options, "alone"))
		report_metric(&report, measure(alone, 1), "ns", "ring.alone");
	for (i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
		burst = 1;
		if (raw_wanted(&options, "pipelined"))
			report_metric(&report, 1e3 / measure(pipelined, depths[i]), "M/s",
				      "ring.pipelined.qd%lu", depths[i]);
		burst = depths[i];
		if (raw_wanted(&options, "batch"))
			report_metric(&report, 1e3 / measure(batched, depths[i]), "M/s",
				      "ring.batch.qd%lu", depths[i]);
	}
	report_close(&report);
	return 0;
}
