/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include "held.h"
#include "pair.h"

#define LOOKS 20u

static struct held all; /* but its fds; any thread adds */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *p);

static void *count(void *p, int64_t sign)
{
	if (p) {
		__atomic_add_fetch(&all.blocks, sign, __ATOMIC_RELAXED);
		__atomic_add_fetch(&all.bytes, sign * (int64_t)malloc_usable_size(p),
				   __ATOMIC_RELAXED);
	}
	return p;
}

void *malloc(size_t size)
{
	return count(__libc_malloc(size), 1);
}

void *calloc(size_t n, size_t size)
{
	return count(__libc_calloc(n, size), 1);
}

void *realloc(void *p, size_t size)
{
	void *to;

	count(p, -1);
	to = __libc_realloc(p, size);
	if (!to && size)
		count(p, 1);
	return count(to, 1);
}

void *memalign(size_t alignment, size_t size)
{
	return count(__libc_memalign(alignment, size), 1);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

int posix_memalign(void **p, size_t alignment, size_t size)
{
	*p = memalign(alignment, size);
	return *p ? 0 : ENOMEM;
}

void free(void *p)
{
	__libc_free(count(p, -1));
}

static int64_t pages(size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (int64_t)((len + page - 1) / page * page);
}

/* MAP_FIXED takes the place of what is there. */
void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	void *p = (void *)syscall(SYS_mmap, at, len, prot, flags, fd, off);

	if (p != MAP_FAILED && !(flags & MAP_FIXED))
		__atomic_add_fetch(&all.mapped, pages(len), __ATOMIC_RELAXED);
	return p;
}

int munmap(void *at, size_t len)
{
	int res = (int)syscall(SYS_munmap, at, len);

	if (!res)
		__atomic_sub_fetch(&all.mapped, pages(len), __ATOMIC_RELAXED);
	return res;
}
#endif

struct held held_now(void)
{
	return (struct held){.blocks = __atomic_load_n(&all.blocks, __ATOMIC_RELAXED),
			     .bytes = __atomic_load_n(&all.bytes, __ATOMIC_RELAXED),
			     .mapped = __atomic_load_n(&all.mapped, __ATOMIC_RELAXED),
			     .fds = fds_open()};
}

static void least(int64_t *a, int64_t b)
{
	*a = b < *a ? b : *a;
}

struct held held_settled(void (*turn)(void))
{
	struct held h = held_now(), now;
	uint32_t i;

	for (i = 0; i < LOOKS; i++) {
		turn();
		now = held_now();
		least(&h.blocks, now.blocks);
		least(&h.bytes, now.bytes);
		least(&h.mapped, now.mapped);
		least(&h.fds, now.fds);
	}
	return h;
}

int held_within(const struct held *h, const struct held *before)
{
	return h->blocks <= before->blocks && h->bytes <= before->bytes &&
	       h->mapped <= before->mapped && h->fds <= before->fds;
}

void held_say(const char *what, const struct held *h, const struct held *before)
{
	printf("%s: %+lld blocks, %+lld bytes, %+lld mapped, %+lld descriptors\n", what,
	       (long long)(h->blocks - before->blocks), (long long)(h->bytes - before->bytes),
	       (long long)(h->mapped - before->mapped), (long long)(h->fds - before->fds));
}

void check_held(const char *what, const struct held *before, void (*turn)(void))
{
	uint64_t late = now_ns() + PAIR_LATE_NS;
	struct held h = held_now();

	while (!held_within(&h, before) && now_ns() < late) {
		turn();
		h = held_now();
	}
	held_say(what, &h, before);
	CHECK(held_within(&h, before));
}
