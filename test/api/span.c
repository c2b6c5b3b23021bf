/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>
#include "span.h"

#define WINDOW (8ull << 20)

static void put(uint8_t *at, uint64_t len, int fd)
{
	void *m = mmap(at, len, PROT_READ | PROT_WRITE,
		       MAP_FIXED | MAP_NORESERVE |
			       (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED),
		       fd, 0);

	CHECK(m == at);
}

/* Its end is the last window, which is not repeated, whatever the length. */
void span_open(struct span *s, uint64_t len)
{
	int fd = memfd_create("span", MFD_CLOEXEC);
	uint64_t off;

	CHECK(fd >= 0);
	CHECK_EQ(ftruncate(fd, WINDOW), 0);
	s->len = (len / WINDOW + 2) * WINDOW;
	s->bytes = mmap(NULL, s->len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			0);
	CHECK(s->bytes != MAP_FAILED);
	for (off = 0; off < s->len; off += WINDOW)
		put(s->bytes + off, WINDOW, off && off + 4 * WINDOW <= s->len ? fd : -1);
	close(fd);
}

void span_close(struct span *s)
{
	munmap(s->bytes, s->len);
}

void span_fill_ends(const struct span *s, uint64_t len, uint64_t version)
{
	pattern_fill(s->bytes, SPAN_END, 0, version);
	pattern_fill(s->bytes + len - SPAN_END, SPAN_END, len - SPAN_END, version);
}

int span_ends_hold(const struct span *s, uint64_t len, uint64_t version)
{
	return pattern_holds(s->bytes, SPAN_END, 0, version) &&
	       pattern_holds(s->bytes + len - SPAN_END, SPAN_END, len - SPAN_END, version);
}
