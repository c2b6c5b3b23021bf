/* SPDX-License-Identifier: Apache-2.0 */
/* A segment that another process wrote, in words: each 12 bytes of the input are an offset in it
 * and a word to put there. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "segment/segment.h"

#define PEERS 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct segment *fresh(size_t len)
{
	struct segment *s = aligned_alloc(4096, len);
	uint32_t i;

	if (!s)
		abort();
	memset(s, 0, len);
	s->head.magic = SEGMENT_MAGIC;
	s->head.version = SEGMENT_VERSION;
	s->head.bytes = len;
	s->head.peers_there = PEERS;
	s->rings[0].id = 1;
	s->rings[0].told = s->rings[0].entries = 64;
	for (i = 0; i < 64; i++)
		s->entries[i].state = (uint8_t)i;
	return s;
}

/* Near the beginnings of the tables, where the words are that others depend on. */
static size_t place(uint32_t at, size_t len)
{
	static const size_t begins[] = {
		0,
		offsetof(struct segment, engine),
		offsetof(struct segment, rings),
		offsetof(struct segment, entries),
		sizeof(struct segment),
	};

	at &= 0x7fffffff;
	return (begins[at % 5] + at / 5 % 1024 * 8) % (len - 8) & ~(size_t)7;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t len = sizeof(struct segment) + PEERS * sizeof(struct segment_peer);
	static struct segment *s;
	static int null = -1;
	struct segment_view v;
	uint64_t word, zero = 0;
	uint32_t at;
	size_t i;

	if (!s) {
		s = fresh((len + 4095) & ~(size_t)4095);
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	}
	for (i = 0; i + 12 <= size; i += 12) {
		memcpy(&at, data + i, 4);
		memcpy(&word, data + i + 4, 8);
		memcpy((char *)s + place(at, len), &word, 8);
	}
	v = (struct segment_view){s, len};
	segment_text(&v, 1, null);
	for (i = 0; i + 12 <= size; i += 12) {
		memcpy(&at, data + i, 4);
		memcpy((char *)s + place(at, len), &zero, 8);
	}
	return 0;
}
