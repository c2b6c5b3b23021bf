/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapped memory. An exposure whose range lies in sealed memfds sends them over the link before its
 * key, each once per ep; the importer maps each once, and its chunks are copies into the owner's
 * pages. If that fails (no descriptors left, link full, memory that is not sealed) the key names
 * the grant alone and bytes go through the ring: every key has the grant, so either side may
 * decide so.
 *
 * A descriptor gives the whole memfd for as long as it is mapped, so an expiry, which must hold
 * against the peer's will, is left to the ring. The importer's library enforces the range, the
 * right to read and the end of the exposure: the owner asks it to let go, and the exposure ends
 * once it confirms or is gone. A peer without the right to write gets a read-only descriptor. As a
 * process of the same user can open the file anew, memory that must not be mapped is left to the
 * ring.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "backend/shm/shm.h"

static int extent_mappable(const struct extent *a, struct shm_backing *b)
{
	struct stat st;
	uint64_t size;

	if (shm_sealed(a->fd, 0, &size) || fstat(a->fd, &st))
		return 0;
	if (a->fd_off > size || a->len > size - a->fd_off)
		return 0;
	b->dev = st.st_dev;
	b->ino = st.st_ino;
	return 1;
}

int shm_reg(struct device *dev, struct extent *extent)
{
	struct shm_backing b = {0}, *mr;

	if (extent->kind == GPU_MEMORY_DEVICE)
		shm_gpu_reg(extent, &b);
	if (!b.share.how && (extent->fd < 0 || !extent_mappable(extent, &b)))
		return 0;
	mr = malloc(sizeof(*mr));
	if (!mr) {
		shm_gpu_unreg(&b);
		return fail(-ENOMEM, "no memory to note which file a region lies in");
	}
	*mr = b;
	extent->mr[dev->index] = mr;
	return 0;
}

int shm_unreg(struct device *dev, struct extent *extent)
{
	struct shm_backing *b = extent->mr[dev->index];

	if (b)
		shm_gpu_unreg(b);
	free(b);
	extent->mr[dev->index] = NULL;
	return 0;
}

/* A descriptor to send to the peer. The caller closes it unless it is the span's own. */
static int file_fd(const struct span *s, uint32_t writable)
{
	return writable ? s->fd : memfd_reader(s->fd);
}

static int file_send(struct shm_ep *e, const struct shm_file *f, const struct span *s,
		     const struct shm_backing *b)
{
	struct shm_record r = {.type = SHM_FILE, .serial = f->serial, .writable = f->writable};
	int fd, err;

	if (b->share.how)
		return shm_gpu_send(e, f->serial, b);
	fd = file_fd(s, f->writable);
	if (fd < 0)
		return fd;
	err = shm_link_send(e, &r, fd);
	if (fd != s->fd)
		close(fd);
	return err;
}

/* The file, if the peer was sent it and still has it, else NULL. */
static struct shm_file *file_find(struct shm_ep *e, const struct shm_backing *b, uint32_t writable)
{
	struct shm_file *f;

	for (f = e->files; f < e->files + SHM_FILES; f++)
		if (f->serial && f->dev == b->dev && f->ino == b->ino && f->writable == writable)
			return f;
	return NULL;
}

/* The file that backs the span, sent to the peer if needed; NULL: it cannot be sent. */
static struct shm_file *file_show(struct shm_ep *e, const struct span *s,
				  const struct shm_backing *b, uint32_t writable)
{
	struct shm_file *f = file_find(e, b, writable);

	if (f)
		return f;
	for (f = e->files; f < e->files + SHM_FILES && f->serial; f++)
		;
	if (f == e->files + SHM_FILES)
		return NULL;
	*f = (struct shm_file){.dev = b->dev, .ino = b->ino, .writable = writable};
	e->serial += e->serial == UINT64_MAX ? 2 : 1;
	f->serial = e->serial;
	if (!file_send(e, f, s, b))
		return f;
	f->serial = 0;
	return NULL;
}

static void file_put(struct shm_ep *e, struct shm_file *f)
{
	struct shm_record r = {.type = SHM_GONE, .serial = f->serial};

	if (--f->users)
		return;
	f->serial = 0;
	/* If this fails the peer keeps an unused mapping until the ep ends. */
	if (e->sock >= 0)
		shm_link_send(e, &r, -1);
}

/* Drops one user per part. */
static void parts_put(struct shm_ep *e, const struct shm_part *parts, uint32_t n)
{
	struct shm_file *f;
	uint32_t i;

	for (i = 0; i < n; i++)
		for (f = e->files; f < e->files + SHM_FILES; f++)
			if (f->serial == parts[i].serial) {
				file_put(e, f);
				break;
			}
}

/* How parts_make() looks for files. */
enum parts_of {
	PARTS_SHOW, /* for a new exposure: sends files, and adds a user per part */
	PARTS_FIND, /* for an existing exposure */
};

/* Adds the span's share of the range, merged with the part before if adjacent in one file. Returns
 * how many parts there are now; 0: not possible. */
static uint32_t part_add(struct shm_ep *e, const struct exposure *x, uint32_t span,
			 struct shm_part *parts, uint32_t n, enum parts_of of)
{
	const struct span *s = &x->memory->spans[span];
	const struct shm_backing *b = s->extent->mr[e->dev->dev.index];
	uint64_t from = s->start > x->off ? s->start : x->off;
	uint64_t span_end = s->start + s->len, end = x->off + x->len;
	struct shm_file *f = NULL;
	uint32_t writable = !!(x->rights & URCCL_RIGHT_WRITE);
	struct shm_part *p;
	uint64_t in_file;

	if (b && n < SHM_PARTS)
		f = of == PARTS_SHOW ? file_show(e, s, b, writable) : file_find(e, b, writable);
	if (!f)
		return 0;
	end = end < span_end ? end : span_end;
	in_file = (b->share.how ? s->addr - b->share.base : s->fd_off) + (from - s->start);
	p = n ? &parts[n - 1] : NULL;
	if (p && p->serial == f->serial && p->off + p->len == in_file) {
		p->len += end - from;
		return n;
	}
	f->users += of == PARTS_SHOW;
	parts[n] = (struct shm_part){f->serial, in_file, end - from};
	return n + 1;
}

static uint32_t span_index(const struct memory *m, uint64_t off)
{
	return (uint32_t)(memory_span(m, off) - m->spans);
}

/* Splits the range into parts and returns how many; 0: the ring must do. Unexpose finds the same
 * parts again, since files that are shown keep their slots. */
static uint32_t parts_make(struct shm_ep *e, const struct exposure *x, struct shm_part *parts,
			   enum parts_of of)
{
	const struct memory *m = x->memory;
	uint32_t i, n = 0, now;

	/* The owner executes atomics: for those rights alone nothing is mapped. */
	if (!x->len || x->expires_ns != NEVER_NS ||
	    !(x->rights & (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)))
		return 0;
	for (i = span_index(m, x->off); i < m->nspans && m->spans[i].start < x->off + x->len; i++) {
		now = part_add(e, x, i, parts, n, of);
		if (!now) {
			if (of == PARTS_SHOW)
				parts_put(e, parts, n);
			return 0;
		}
		n = now;
	}
	return n;
}

/* struct exposure.scratch. 0: the peer does not map the memory; MAPPED: it may; GONE: it may, and
 * REVOKE is still to be sent; else the number of the revocation. */
#define MAPPED UINT64_MAX
#define GONE   (UINT64_MAX - 1)

int shm_expose(struct exposure *x, void *key, uint32_t key_max)
{
	struct shm_ep *e = container_of(x->ep, struct shm_ep, ep);
	struct shm_key k = {.rights = x->rights, .revokes = e->revokes};
	int n;

	if (key_max < sizeof(k))
		return -ENOSPC;
	k.gpu = memory_has_gpu(x->memory);
	if (k.gpu && !shm_gpu_may(e))
		return -EOPNOTSUPP;
	n = stream_expose(&e->dev->grants, x, k.grant, sizeof(k.grant));
	if (n < 0)
		return n;
	if (shm_link_proved(e) && !e->dev->by_owner)
		k.nparts = parts_make(e, x, k.parts, PARTS_SHOW);
	if (k.gpu && !k.nparts) {
		stream_unexpose(&e->dev->grants, x);
		return -EOPNOTSUPP;
	}
	x->scratch = k.nparts ? MAPPED : 0;
	n = (int)(offsetof(struct shm_key, parts) + k.nparts * sizeof(k.parts[0]));
	memcpy(key, &k, (size_t)n);
	return n;
}

/* Asks the peer to let go of the memory. */
static void mapped_revoke(struct shm_ep *e, struct exposure *x)
{
	struct shm_record r = {.type = SHM_REVOKE, .serial = e->revokes + 1, .len = x->id};
	struct shm_part parts[SHM_PARTS];

	if (e->sock < 0)
		return;
	/* GONE precedes REVOKE, so that the peer first drops files of this exposure alone. */
	if (x->scratch == MAPPED)
		parts_put(e, parts, parts_make(e, x, parts, PARTS_FIND));
	x->scratch = GONE;
	/* If the link is full, the next call tries again. */
	if (!shm_link_send(e, &r, -1))
		x->scratch = ++e->revokes;
}

/* Ends the grant at once. -EINPROGRESS until a peer that maps the memory confirms. */
int shm_unexpose(struct exposure *x)
{
	struct shm_ep *e = container_of(x->ep, struct shm_ep, ep);
	uint32_t w;

	stream_unexpose(&e->dev->grants, x);
	for (w = 0; w < SHM_CHANNELS; w++)
		stream_revoke(&e->streams[w], x);
	if (!x->scratch || e->ep.died || e->said_bye || (e->hung_up && !memory_has_gpu(x->memory)))
		return 0;
	if (x->scratch >= GONE)
		mapped_revoke(e, x);
	return x->scratch <= e->revokes_done ? 0 : -EINPROGRESS;
}

static int files_used(const struct shm_ep *e)
{
	uint32_t i;

	for (i = 0; i < SHM_FILES; i++)
		if (e->files[i].users)
			return 1;
	return e->revokes != e->revokes_done;
}

int shm_files_shown(const struct shm_ep *e)
{
	return !e->hung_up && !e->said_bye && !e->ep.died && files_used(e);
}

int shm_gpu_left(const struct shm_ep *e)
{
	return e->hung_up && e->ep.gpus && !e->said_bye && !e->ep.died && files_used(e);
}

int shm_mapping_revoked(struct shm_ep *e, uint64_t number)
{
	if (number < e->revokes_done || number > e->revokes)
		return -EPROTO;
	e->revokes_done = number;
	return 0;
}
