/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What liburccl's promises ask of any implementation for each entry, and nothing else: two handles
 * are compared with what is in their slots; its deadline is written down, in a list that the oldest
 * leads, and taken out again; it has a number and is counted with its peer, of which it is seen
 * that it lives, for who waits behind it; and its CQE says whether the other end is quiet. With the
 * time and the timeout at hand, and no timeout but the one.
 */
#include "raw.h"

#define BATCH 1024u
#define SLOTS 64u
#define QUIET 32u

struct entry {
	struct entry *next, *prev; /* by deadline */
	struct peer *peer;
	uint64_t deadline, number;
	uint32_t remote, region, unquiet, flags;
};

struct peer {
	uint32_t lost, unfinished, waiters;
};

static struct {
	uint32_t handle;
	void *object;
} remotes[SLOTS], regions[SLOTS];
static struct entry entries[BATCH], due = {.next = &due, .prev = &due};
static struct peer peer;
static uint64_t number, refused;

static void begin(struct entry *n, uint64_t now, uint64_t timeout)
{
	uint32_t remote = n->remote % SLOTS, region = n->region % SLOTS;

	if (remotes[remote].handle != n->remote || regions[region].handle != n->region) {
		refused++;
		return;
	}
	n->peer = remotes[remote].object;
	refused += n->peer->lost;
	n->peer->unfinished++;
	n->number = number++;
	n->deadline = now + timeout;
	n->next = &due;
	n->prev = due.prev;
	due.prev->next = n;
	due.prev = n;
}

static void end(struct entry *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	n->peer->unfinished--;
	if (n->peer->waiters)
		refused++;
	n->flags = n->unquiet ^ QUIET;
}

/* By its name it is known to promises.py. Taken in one go, and ended one after the other. */
__attribute__((noinline)) static void counted(uint64_t now, uint64_t timeout)
{
	uint32_t i;

	for (i = 0; i < BATCH; i++)
		begin(&entries[i], now, timeout);
	__asm__ volatile("" ::: "memory");
	for (i = 0; i < BATCH; i++)
		end(&entries[i]);
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	uint64_t begun, before, took, best = UINT64_MAX, n = 0;
	struct raw_options options;
	struct report report;
	uint32_t i;

	raw_options(&options, argc, argv, "raw_keep: what is promised of entries, by itself");
	bench_pin(options.cpu[0]);
	for (i = 0; i < SLOTS; i++) {
		remotes[i].handle = regions[i].handle = SLOTS + i;
		remotes[i].object = regions[i].object = &peer;
	}
	for (i = 0; i < BATCH; i++)
		entries[i].remote = entries[i].region = SLOTS + i % SLOTS;
	begun = bench_now();
	do {
		before = bench_now();
		counted(before, 1000000000);
		took = bench_now() - before;
		best = took < best ? took : best;
		n += BATCH;
	} while ((double)(bench_now() - begun) < options.seconds * 1e9);
	if (refused || peer.unfinished || number != n || due.next != &due || !entries[0].flags)
		bench_die("not all of %lu entries were kept", n);
	report_open(&report, "raw_keep", options.json);
	report_metric(&report, (double)best / BATCH, "ns", "keep.each");
	report_metric(&report, (double)n, "entries", "keep.entries");
	report_close(&report);
	return 0;
}
