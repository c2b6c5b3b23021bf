/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges that are views of a file: a memfd of the program. The mapping at the address of such a
 * range must be that part of the file, shared, since peers map the file without asking this
 * process. If nothing is mapped there, the library maps it for as long as a region holds it.
 *
 * Ranges that touch, in memory and in the file, are one view with one descriptor. A range inside a
 * known view is part of it. A range that overlaps a view without lying in it is treated like any
 * other memory, and peers do not map it.
 */
#include <sys/mman.h>

#include "region/private.h"

struct view {
	int fd;
	uint64_t addr, len, off;
	uint32_t index; /* index of its first range by address */
};

/* 1: an allocation overlaps part of the view. */
static int is_overlapped(struct control *c, const struct view *v)
{
	const struct allocation *a;

	list_for_each_entry(a, &c->allocations, link) {
		if (v->addr < a->addr + a->len && a->addr < v->addr + v->len)
			return 1;
	}
	return 0;
}

static int view_refused(struct control_error *t, int res, const struct view *v)
{
	if (res == -ENOMEM)
		return error_set(t, res, REASON_NO_MEMORY, sizeof(struct allocation), 0, 0);
	return error_set(t, res, REASON_RANGE_FD_MAP, v->index, v->addr, (uint64_t)-res);
}

static int view_add(struct control *c, const struct view *v, enum allocation_kind kind,
		    struct control_error *t)
{
	struct allocation *a;
	int res = memory_file(v->fd, v->addr, v->len, v->off, kind, &a);

	if (res)
		return view_refused(t, res, v);
	if (a->fd < 0 && kind == ALLOCATION_VIEW)
		memory_free(a); /* nothing to record for this view */
	else
		list_add_tail(&a->link, &c->allocations);
	return 0;
}

static int view_find(struct control *c, const struct view *v, struct control_error *t)
{
	struct stat file;
	int prot, there, res;

	if (fstat(v->fd, &file))
		return error_set(t, -errno, REASON_RANGE_FD_DUP, (uint64_t)v->fd, (uint64_t)errno,
				 0);
	if (v->off > (uint64_t)file.st_size || v->len > (uint64_t)file.st_size - v->off)
		return error_set(t, -ERANGE, REASON_RANGE_FD_SIZE, v->index, (uint64_t)file.st_size,
				 0);
	res = ranges_list(c, t);
	if (res)
		return res < 0 ? res : 0;
	there = mappings_view(&c->mappings, v->addr, v->len, &file, v->off, &prot);
	if (there < 0)
		return error_set(t, there, REASON_RANGE_FD_MAPPED, v->index, v->addr, 0);
	if (!there)
		return view_add(c, v, ALLOCATION_MAPPED, t);
	if (prot != (PROT_READ | PROT_WRITE) || is_overlapped(c, v))
		return 0;
	return view_add(c, v, ALLOCATION_VIEW, t);
}

int files_find(struct control *c, struct memory *m, struct control_error *t)
{
	uint32_t k = 0;
	int res = 0;

	while (k < m->nspans && !res) {
		const struct span *s = ranges_span(m, k);
		struct view v = {.fd = s->fd, .off = s->fd_off, .index = (uint32_t)(s - m->spans)};

		k = ranges_run(m, k, &v.addr, &v.len);
		if (v.fd >= 0 && !s->is_dmabuf)
			res = view_find(c, &v, t);
	}
	return res;
}

void files_hold(struct span *s, struct allocation *a)
{
	if (a->kind == ALLOCATION_OURS)
		return;
	a->users++;
	s->file = a;
}

void files_drop(struct control *c, struct memory *m)
{
	struct allocation *a;
	uint32_t i;

	for (i = 0; i < m->nspans; i++)
		if (m->spans[i].file)
			m->spans[i].file->users--;
	list_for_each_entry_safe(a, &c->allocations, link) {
		if (a->kind == ALLOCATION_OURS || a->users)
			continue;
		list_del(&a->link);
		memory_free(a);
	}
}
