/* SPDX-License-Identifier: Apache-2.0 */
/* A segment that another process wrote, in words: each 12 bytes of the input are an offset in it
 * and a word to put there. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "segment/segment.h"

#define PEERS	64u
#define AT	(sizeof(struct segment) + PEERS * sizeof(struct segment_peer))
#define SIZE	(AT + SEGMENT_ENTRIES * sizeof(struct segment_entry))
#define NEAR	1024u /* words */
#define RECORDS 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void set_ring(struct segment *s, uint32_t number, uint32_t first)
{
	struct segment_entry *entries = (void *)((char *)s + AT);
	struct segment_ring *r = &s->rings[number];
	uint32_t i;

	r->id = number + 1;
	r->first = first;
	r->records = r->entries = RECORDS;
	for (i = 0; i < RECORDS; i++)
		entries[first + i].state = (uint8_t)i;
}

/* Rings, entries and peers at both ends of their tables, and no byte behind the last entry. */
static struct segment *fresh(void)
{
	struct segment *s = aligned_alloc(_Alignof(struct segment), SIZE);

	if (!s)
		abort();
	memset(s, 0, SIZE);
	s->head.magic = SEGMENT_MAGIC;
	s->head.version = SEGMENT_VERSION;
	s->head.bytes = SIZE;
	s->head.entries_at = AT;
	s->head.entry_bytes = sizeof(struct segment_entry);
	s->head.peers_there = PEERS;
	set_ring(s, 0, 0);
	set_ring(s, SEGMENT_RINGS - 1, SEGMENT_ENTRIES - RECORDS);
	s->peers[0].handle = s->peers[PEERS - 1].handle = 1;
	return s;
}

/* By the two highest bits: near the beginning of a table, where those words are that others depend
 * on, near its end, or anywhere in it. */
static size_t place(uint32_t at)
{
	static const size_t begins[] = {
		0,
		offsetof(struct segment, engine),
		offsetof(struct segment, rings),
		offsetof(struct segment, peers),
		AT,
		SIZE,
	};
	uint32_t number = at & 0x3fffffff, table = number % 5;
	size_t words = (begins[table + 1] - begins[table]) / 8;
	size_t near = words < NEAR ? words : NEAR, word = number / 5;

	switch (at >> 30) {
	case 3:
		word %= words;
		break;
	case 2:
		word = words - 1 - word % near;
		break;
	default:
		word %= near;
		break;
	}
	return begins[table] + word * 8;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct segment *s, *untouched;
	static int null = -1;
	struct segment_view v;
	uint32_t at;
	size_t i;

	if (!s) {
		s = fresh();
		untouched = fresh();
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	}
	for (i = 0; i + 12 <= size; i += 12) {
		memcpy(&at, data + i, 4);
		memcpy((char *)s + place(at), data + i + 4, 8);
	}
	v = (struct segment_view){s, SIZE};
	segment_text(&v, 1, null);
	for (i = 0; i + 12 <= size; i += 12) {
		memcpy(&at, data + i, 4);
		memcpy((char *)s + place(at), (char *)untouched + place(at), 8);
	}
	return 0;
}
