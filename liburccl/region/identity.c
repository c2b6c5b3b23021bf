/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mappings of memory that is to be registered. A region that was left registered may name
 * memory that is gone. If other memory was mapped at its address since, an extent or a file that is
 * found by address alone would move the bytes of the old one. A file may also lack pages: the
 * processor that touches them gets SIGBUS, even if a peer asked for it.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "region/private.h"

int ranges_can_ask(struct control *c)
{
	if (c->mappings.fd < 0 && mappings_open(&c->mappings))
		return 0;
	if (c->mappings.reads)
		return 0;
	mappings_anew(&c->mappings);
	return 1;
}

/* The file stays open, since opening it takes longer than a query. */
int ranges_list(struct control *c, struct control_error *t)
{
	int rc = 0;

	if (c->mappings.fd < 0)
		rc = mappings_open(&c->mappings);
	else
		mappings_anew(&c->mappings);
	if (rc == -ENOENT || rc == -EACCES || rc == -EPERM)
		return 1;
	if (rc)
		*t = (struct control_error){rc, REASON_RANGE_UNKNOWN, {(uint64_t)-rc, 0, 0}};
	return rc;
}

static int run_refuse(struct control_error *t, int res, uint32_t reason, const struct span *s,
		      const struct memory *m, uint64_t addr)
{
	*t = (struct control_error){res, reason, {(uint64_t)(s - m->spans), addr, 0}};
	return res;
}

/* Fills in the identity of the mapping at the run's first byte, unless nothing is mapped there. */
static void run_identify(struct mappings *maps, struct extent *run)
{
	if (!mappings_find(maps, run->addr) || maps->start > run->addr)
		return;
	run->mapping_end = maps->end;
	run->major = maps->major;
	run->minor = maps->minor;
	run->inode = maps->inode;
	run->file_off = maps->inode ? maps->offset + (run->addr - maps->start) : 0;
}

/* An extent may have several mappings: nothing is known of those behind its first. */
static int is_same(const struct extent *run, const struct extent *known)
{
	uint64_t off = known->inode ? known->file_off + (run->addr - known->addr) : 0;

	return !run->mapping_end || run->addr >= known->mapping_end ||
	       (run->inode == known->inode && run->major == known->major &&
		run->minor == known->minor && run->file_off == off);
}

static int is_view(struct mappings *maps, const struct extent *run)
{
	struct stat file;
	int prot;

	return fstat(run->fd, &file) ||
	       mappings_view(maps, run->addr, run->len, &file, run->fd_off, &prot) == 1;
}

/* 1: a file lacks pages of the run; *at: in the mapping that begins there. */
static int run_lacks_pages(struct mappings *maps, const struct extent *run, uint64_t *at)
{
	uint64_t end = run->addr + run->len, next;
	int fd, lacks = 0;

	for (*at = run->addr; *at < end; *at = next) {
		if (!mappings_find(maps, *at) || maps->start > *at)
			return 0;
		next = maps->end < end ? maps->end : end;
		if (!maps->shared || !maps->inode)
			continue;
		fd = mapping_open(maps);
		if (fd < 0)
			continue;
		lacks = file_lacks_pages(fd, maps->offset + (*at - maps->start), next - *at);
		close(fd);
		if (lacks)
			return 1;
	}
	return 0;
}

/* 1: pages of the run may be slow to have; *at: in the mapping that begins there. */
static int run_is_slow(struct mappings *maps, const struct extent *run, uint64_t *at)
{
	uint64_t end = run->addr + run->len;

	for (*at = run->addr; *at < end; *at = maps->end) {
		if (!mappings_find(maps, *at) || maps->start > *at)
			return 0;
		if (!mapping_in_memory(maps))
			return 1;
	}
	*at = run->addr;
	return memory_by_userfaultfd(run->addr, run->len);
}

int run_check(struct control *c, struct memory *m, uint32_t k, struct extent *run,
	      const struct extent *known, struct control_error *t)
{
	const struct span *s = ranges_span(m, k);
	struct mappings *maps = &c->mappings;
	int checks = c->config.params->resident == URCCL_RESIDENT_CHECK;
	uint64_t at;

	if (run->is_dmabuf || run->kind == GPU_MEMORY_DEVICE)
		return 0;
	/* The whole list is long: it is read for files of the program alone, and for memory that
	 * peers may use, whose rights were looked up in it. */
	if (!ranges_can_ask(c) &&
	    ((!checks && !s->file && (known || !m->rights)) || ranges_list(c, t)))
		return 0;
	run_identify(maps, run);
	if (run->fd >= 0 ? !is_view(maps, run) : known && !is_same(run, known))
		return run_refuse(t, -ESTALE, REASON_RANGE_STALE, s, m, run->addr);
	if (checks && run_is_slow(maps, run, &at))
		return run_refuse(t, -EACCES, REASON_RANGE_SLOW, s, m, at);
	if (!known && run->fd < 0 && run_lacks_pages(maps, run, &at))
		return run_refuse(t, -EFAULT, REASON_RANGE_HOLES, s, m, at);
	return 0;
}

int ranges_full(struct control *c, uint64_t addr)
{
	int fd, full;

	if (!ranges_can_ask(c) || !mappings_find(&c->mappings, addr))
		return 0;
	fd = mapping_open(&c->mappings);
	if (fd < 0)
		return 0;
	full = file_system_full(fd);
	close(fd);
	return full;
}
