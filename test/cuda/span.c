/* SPDX-License-Identifier: Apache-2.0 */
/* Physical memory, and addresses that the program was given. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "double.h"

#define TOUCH_BYTES (16ull << 30) /* of addresses, of which a test needs few */

#define FREED_MAX   256
#define BLOCK_MARK  0x6b6c622d61647563ull

/* The last page of a block's file. */
struct tail {
	uint64_t mark, id, len;
	int gpu, handle_types;
};

struct span *double_spans;

static uint64_t ids, used[GPUS_MAX];

uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

/* ---- blocks ---- */

static struct block *block_map(int fd, const struct tail *t, bool imported)
{
	struct block *b = calloc(1, sizeof(*b));

	if (!b)
		die("no memory");
	*b = (struct block){.fd = fd,
			    .gpu = t->gpu,
			    .handle_types = t->handle_types,
			    .id = t->id,
			    .len = t->len,
			    .refs = 1,
			    .imported = imported};
	b->view = mmap(NULL, round_up(b->len, PAGE), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (b->view == MAP_FAILED)
		die("cannot map %llu bytes: %s", (unsigned long long)b->len, strerror(errno));
	return b;
}

struct block *block_new(int gpu, uint64_t len, int handle_types)
{
	struct tail t = {.mark = BLOCK_MARK, .len = len, .gpu = gpu, .handle_types = handle_types};
	int fd;

	if (len > double_words.memory || used[gpu] > double_words.memory - len)
		return NULL;
	t.id = (uint64_t)getpid() << 32 | ++ids;
	fd = memfd_create("device-memory", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)(round_up(len, PAGE) + PAGE)) ||
	    pwrite(fd, &t, sizeof(t), (off_t)round_up(len, PAGE)) != sizeof(t))
		die("cannot make a memfd of %llu bytes: %s", (unsigned long long)len,
		    strerror(errno));
	used[gpu] += len;
	return block_map(fd, &t, false);
}

struct block *block_of_fd(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	struct tail t;

	if (size < (off_t)PAGE || pread(fd, &t, sizeof(t), size - (off_t)PAGE) != sizeof(t) ||
	    t.mark != BLOCK_MARK || t.gpu >= double_words.gpus)
		return NULL;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		die("no descriptor: %s", strerror(errno));
	return block_map(fd, &t, true);
}

void block_put(struct block *b)
{
	if (--b->refs)
		return;
	munmap(b->view, round_up(b->len, PAGE));
	if (!b->imported)
		used[b->gpu] -= b->len;
	close(b->fd);
	free(b);
}

/* ---- spans ---- */

/* Right below what was reserved so last. */
static uint64_t reserve_touching(uint64_t len, uint64_t align)
{
	static uint64_t last;
	void *p;

	if (!last) {
		p = mmap(NULL, TOUCH_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			 -1, 0);
		if (p == MAP_FAILED)
			return 0;
		last = ((uint64_t)(uintptr_t)p + TOUCH_BYTES) / GRANULARITY * GRANULARITY;
	}
	return last -= round_up(len, align);
}

uint64_t reserve(uint64_t len, uint64_t align)
{
	uint64_t at, begin;
	void *p;

	len = round_up(len, PAGE);
	if (double_words.touch)
		return reserve_touching(len, align);
	p = mmap(NULL, len + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return 0;
	at = (uint64_t)(uintptr_t)p;
	begin = round_up(at, align);
	if (begin > at)
		munmap(p, begin - at);
	if (at + align > begin)
		munmap((void *)(uintptr_t)(begin + len), at + align - begin);
	return begin;
}

struct span *span_new(enum span_kind kind, uint64_t addr, uint64_t len)
{
	struct context *c = current();
	struct span *s = calloc(1, sizeof(*s));

	if (!s)
		die("no memory");
	*s = (struct span){.next = double_spans,
			   .kind = kind,
			   .addr = addr,
			   .len = len,
			   .context = c,
			   .gpu = c ? c->gpu : 0,
			   .id = ++ids};
	double_spans = s;
	return s;
}

struct span *span_at(uint64_t addr)
{
	struct span *s;

	for (s = double_spans; s; s = s->next)
		if (addr >= s->addr && addr - s->addr < s->len)
			return s;
	return NULL;
}

bool is_device(const struct span *s)
{
	return s->kind <= SPAN_OPENED;
}

static void span_remove(struct span *s)
{
	struct span **at;

	for (at = &double_spans; *at != s; at = &(*at)->next)
		;
	*at = s->next;
	if (s->reserved)
		munmap((void *)(uintptr_t)s->reserved, s->reserved_len);
	free(s);
}

/* The oldest freed one is forgotten when there are too many: they are behind the younger ones. */
static void forget_freed(void)
{
	struct span *s, *last = NULL;
	int n = 0;

	for (s = double_spans; s; s = s->next) {
		if (s->kind == SPAN_FREED) {
			n++;
			last = s;
		}
	}
	if (n > FREED_MAX)
		span_remove(last);
}

void span_free(struct span *s)
{
	if (s->uses)
		die("0x%llx is given up while an operation on it is under way",
		    (unsigned long long)s->addr);
	if (s->block)
		block_put(s->block);
	s->block = NULL;
	if (s->kind == SPAN_MAPPING || s->kind == SPAN_REGISTERED) {
		span_remove(s);
		return;
	}
	if (!is_device(s) && mmap((void *)(uintptr_t)s->reserved, s->reserved_len, PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	s->kind = SPAN_FREED;
	forget_freed();
}

static void check_access(const struct span *s, uint64_t addr, int gpu, bool writes, const char *by)
{
	unsigned need = writes ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;

	if (s->kind == SPAN_MAPPING && (s->access[gpu] & need) != need)
		die("%s: GPU %d may not %s 0x%llx: see cuMemSetAccess()", by, gpu,
		    writes ? "write to" : "read", (unsigned long long)addr);
}

void span_hold(uint64_t addr, uint64_t len, int by_gpu, bool writes, const char *by)
{
	unsigned long long at = addr, end = addr + len;
	struct span *s = span_at(at);
	uint64_t start, all;

	if (!s && !reservation_attribute(addr, &start, &all))
		return;
	while (at < end) {
		s = span_at(at);
		if (!s && at == addr)
			die("%s: 0x%llx is reserved and not mapped", by, at);
		if (!s)
			die("%s: 0x%llx + %llu overruns what is mapped, which ends at 0x%llx", by,
			    (unsigned long long)addr, (unsigned long long)len, at);
		if (s->kind == SPAN_FREED)
			die("%s: 0x%llx was freed", by, at);
		check_access(s, at, by_gpu, writes, by);
		if (end - at > s->addr + s->len - at && s->kind != SPAN_MAPPING)
			die("%s: 0x%llx + %llu overruns an allocation of %llu bytes at 0x%llx", by,
			    (unsigned long long)addr, (unsigned long long)len,
			    (unsigned long long)s->len, (unsigned long long)s->addr);
		s->uses++;
		at = s->addr + s->len;
	}
}

void span_drop(uint64_t addr, uint64_t len)
{
	uint64_t at = addr;
	struct span *s;

	while (at < addr + len && (s = span_at(at))) {
		s->uses--;
		at = s->addr + s->len;
	}
}

uint8_t *span_view(uint64_t addr, uint64_t len, uint64_t *n)
{
	struct span *s = span_at(addr);
	uint64_t left = s ? s->addr + s->len - addr : len;

	*n = left < len ? left : len;
	return s && s->view ? s->view + (addr - s->addr) : (uint8_t *)(uintptr_t)addr;
}

void context_frees(const struct context *c)
{
	struct span *s, *next;

	for (s = double_spans; s; s = next) {
		next = s->next;
		if (s->context == c && s->kind != SPAN_FREED && !s->uses)
			span_free(s);
	}
}

uint64_t freed_place(uint64_t len)
{
	struct span *s;
	uint64_t addr = 0;

	for (s = double_spans; s && !addr; s = s->next) {
		if (s->kind == SPAN_FREED && s->len == len) {
			addr = s->addr;
			s->reserved = 0; /* its pages stay reserved */
			span_remove(s);
			return addr;
		}
	}
	return 0;
}
