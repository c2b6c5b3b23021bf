/* SPDX-License-Identifier: Apache-2.0 */
/* Creates the segment's file and assigns its records. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "segment/segment.h"
#include "memory/memory.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define PEERS_STEP 64u /* peer records allocated at a time */

struct segment_file {
	struct segment *s;
	int fd;					 /* -1: private memory */
	uint64_t bytes, entries_at, entry_bytes; /* kept here: the file is not trusted */
	uint32_t npeers;
	pthread_mutex_t
		lock; /* guards used and own, and the words first and records of each of s->rings */
	uint32_t used[SEGMENT_RINGS];
	struct {
		uint32_t first, n;
	} own[SEGMENT_RINGS];
};

/* ---- the file ---- */

static uint64_t page_up(uint64_t n)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (n + page - 1) / page * page;
}

static int file_new(void)
{
	char name[32];

	snprintf(name, sizeof(name), SEGMENT_PREFIX "%d", getpid());
	return memfd_open(name);
}

/* Allocates the pages of [at, at + len), so that no store faults for lack of them. */
static int file_fill(int fd, uint64_t at, uint64_t len)
{
	while (fallocate(fd, 0, (off_t)at, (off_t)len))
		if (errno != EINTR)
			return -errno;
	return 0;
}

/* Called after mmap(): from then on nobody else can write to it, if the kernel has that seal. */
static int file_seal(int fd)
{
	int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

	if (!fcntl(fd, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE))
		return 0;
	return fcntl(fd, F_ADD_SEALS, seals) ? -errno : 0;
}

static int file_map(int fd, uint64_t bytes, struct segment **s)
{
	void *p;
	int err;

	if (ftruncate(fd, (off_t)bytes))
		return -errno;
	err = file_fill(fd, 0, offsetof(struct segment, peers));
	if (err)
		return err;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	err = file_seal(fd);
	/* A forked child has no context, so it must not have the segment either. */
	if (!err && madvise(p, bytes, MADV_DONTFORK))
		err = -errno;
	if (err) {
		munmap(p, bytes);
		return err;
	}
	*s = p;
	return 0;
}

static int shared_open(struct segment_file *f, uint64_t bytes)
{
	int err = memory_file_check(bytes), fd;

	if (err)
		return err;
	fd = file_new();
	if (fd < 0)
		return fd;
	err = file_map(fd, bytes, &f->s);
	if (err) {
		close(fd);
		return err;
	}
	f->fd = fd;
	return 0;
}

static int private_open(struct segment_file *f, uint64_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return -errno;
	f->s = p;
	return 0;
}

struct segment_file *segment_open(const struct segment_params *p)
{
	struct segment_file *f = calloc(1, sizeof(*f));
	uint32_t npeers = (p->npeers + PEERS_STEP - 1) / PEERS_STEP * PEERS_STEP;
	uint64_t entries_at =
		page_up(sizeof(struct segment) + (uint64_t)npeers * sizeof(struct segment_peer));
	uint64_t bytes = page_up(entries_at + (uint64_t)SEGMENT_ENTRIES * p->entry_bytes);
	struct segment_head *h;
	int err;

	if (!f)
		return NULL;
	f->fd = -1;
	f->npeers = npeers;
	f->bytes = bytes;
	f->entries_at = entries_at;
	f->entry_bytes = p->entry_bytes;
	err = shared_open(f, bytes);
	if (err && private_open(f, bytes)) {
		free(f);
		return NULL;
	}
	pthread_mutex_init(&f->lock, NULL);
	h = &f->s->head;
	if (err)
		snprintf(h->alone, sizeof(h->alone), "no memory file: %s", errno_text(-err));
	h->version = SEGMENT_VERSION;
	h->npeers = npeers;
	h->bytes = bytes;
	h->entry_bytes = p->entry_bytes;
	h->entries_at = entries_at;
	h->incarnation = p->incarnation;
	h->opened_ns = clock_ns();
	h->pid = (uint32_t)getpid();
	h->is_inline = (uint32_t)p->is_inline;
	snprintf(h->library, sizeof(h->library), "%s", urccl_version());
	store_release(&h->magic, SEGMENT_MAGIC);
	return f;
}

void segment_close(struct segment_file *f)
{
	if (!f)
		return;
	munmap(f->s, f->bytes);
	fd_close(f->fd);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

struct segment *segment_of(const struct segment_file *f)
{
	return f->s;
}

struct segment_view segment_view_own(const struct segment_file *f)
{
	return (struct segment_view){f->s, f->bytes};
}

/* ---- rings ---- */

/* The first of n free records in a row, or SEGMENT_ENTRIES. */
static uint32_t entries_find(const struct segment_file *f, uint32_t n)
{
	uint32_t at = 0, i;

	for (i = 0; i < SEGMENT_RINGS && at + n <= SEGMENT_ENTRIES; i++) {
		uint32_t first = f->own[i].first, end = first + f->own[i].n;

		if (f->own[i].n && at < end && first < at + n) {
			at = end;
			i = UINT32_MAX; /* earlier rings may overlap now */
		}
	}
	return at + n <= SEGMENT_ENTRIES ? at : SEGMENT_ENTRIES;
}

static void *entries_take(struct segment_file *f, uint32_t slot, uint32_t n)
{
	uint64_t each = f->entry_bytes, at;
	uint32_t first = entries_find(f, n);

	at = f->entries_at + first * each;
	if (first == SEGMENT_ENTRIES || (f->fd >= 0 && file_fill(f->fd, at, n * each)))
		return NULL;
	f->own[slot].first = first;
	f->own[slot].n = n;
	return memset((char *)f->s + at, 0, n * each);
}

struct segment_ring *segment_ring_take(struct segment_file *f, uint32_t id, uint32_t entries,
				       void **records)
{
	struct segment_ring *r = NULL;
	uint32_t i;

	pthread_mutex_lock(&f->lock);
	for (i = 0; i < SEGMENT_RINGS && f->used[i];)
		i++;
	if (i < SEGMENT_RINGS) {
		f->used[i] = 1;
		*records = entries_take(f, i, entries);
		r = &f->s->rings[i];
		store_relaxed(&r->entries, entries);
		store_relaxed(&r->first, f->own[i].first);
		store_relaxed(&r->records, f->own[i].n);
		store_relaxed(&r->waiting, 0);
		store_relaxed(&r->unseen, 0);
		store_relaxed(&r->taken, 0);
		store_relaxed(&r->ended, 0);
		store_relaxed(&r->all_taken, 0);
		store_relaxed(&r->all_ended, 0);
		store_release(&r->id, id);
	}
	pthread_mutex_unlock(&f->lock);
	return r;
}

void segment_ring_give(struct segment_file *f, struct segment_ring *r)
{
	uint32_t i;

	if (!r)
		return;
	i = (uint32_t)(r - f->s->rings);
	pthread_mutex_lock(&f->lock);
	store_release(&r->id, 0);
	store_relaxed(&r->records, 0);
	f->own[i].first = f->own[i].n = 0;
	f->used[i] = 0;
	pthread_mutex_unlock(&f->lock);
}

/* ---- peers ---- */

static int peers_fill(struct segment_file *f, uint32_t slot)
{
	uint64_t at = offsetof(struct segment, peers), size = sizeof(struct segment_peer);
	uint32_t from = f->s->head.peers_there, to = slot / PEERS_STEP * PEERS_STEP + PEERS_STEP;

	if (slot < from)
		return 0;
	if (f->fd >= 0 && file_fill(f->fd, at + from * size, (to - from) * size))
		return -ENOMEM;
	store_release(&f->s->head.peers_there, to);
	return 0;
}

struct segment_peer *segment_peer_take(struct segment_file *f, uint32_t handle,
				       uint64_t incarnation, const char *name, const void *id)
{
	uint32_t slot = HANDLE_SLOT(handle);
	struct segment_peer *p;

	if (slot >= f->npeers || peers_fill(f, slot))
		return NULL;
	p = &f->s->peers[slot];
	store_relaxed(&p->incarnation, incarnation);
	store_relaxed(&p->id, (uintptr_t)id);
	store_relaxed(&p->bytes[0], 0);
	store_relaxed(&p->bytes[1], 0);
	store_relaxed(&p->transport, URCCL_TRANSPORT_NONE);
	store_relaxed(&p->missed, 0);
	store_relaxed(&p->leaving, 0);
	store_relaxed(&p->watched, 0);
	store_relaxed(&p->parked, 0);
	store_relaxed(&p->state, URCCL_PEER_CONNECTING);
	snprintf(p->name, sizeof(p->name), "%s", name);
	store_release(&p->handle, handle);
	return p;
}

void segment_peer_give(struct segment_peer *p)
{
	if (p)
		store_release(&p->handle, 0);
}
