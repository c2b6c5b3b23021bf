/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapped memory. An exposure whose range lies in sealed memfds sends them over the link before its
 * key goes the way of keys, each once an ep; the importer maps each once, and its chunks are
 * copies into the owner's pages. Where anything is in the way (no descriptors left, link full,
 * memory that is not sealed) the key names the grant alone and bytes go through the ring: every
 * key has the grant, so either side may decide so.
 *
 * A descriptor gives the whole memfd for as long as it is mapped, so what must be held against the
 * peer's will, an expiry, is left to the ring; range and the right to read are kept by the
 * importer's library, and so is the end of the exposure: it is asked to let go, and the exposure
 * ends when it says that it has, or is gone.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "backend/shm.h"

#define REAP_BYTES (4u << 20)
#define WARM_BYTES (2u << 20)

/* Where a part of an exposure lies. */
struct key_part {
	uint64_t serial; /* of the file */
	uint64_t off;	 /* in it */
	uint64_t len;
};

#define PARTS_MAX ((KEY_MAX - 32) / sizeof(struct key_part))

struct key {
	uint8_t grant[STREAM_KEY_BYTES];
	uint32_t rights;
	uint32_t nparts;  /* 0: the ring alone */
	uint64_t revokes; /* that were told before it was made */
	struct key_part parts[PARTS_MAX];
};
_Static_assert(sizeof(struct key) <= KEY_MAX, "a key fits");

struct shm_remote {
	struct list link; /* ep->remotes */
	uint32_t grant;
	uint32_t rights; /* 0: revoked */
	uint32_t nparts;
	uint64_t len;
	uint64_t warmed; /* its first bytes have their pages */
	struct remote_part {
		uint64_t start, len; /* in the remote */
		uint8_t *addr;
		struct shm_view *view;
	} parts[];
};

/* ---- owner ---- */

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

	if (extent->fd < 0 || !extent_mappable(extent, &b))
		return 0;
	mr = malloc(sizeof(*mr));
	if (!mr)
		return fail(-ENOMEM, "no memory to note which file a region lies in");
	*mr = b;
	extent->mr[dev->index] = mr;
	return 0;
}

void shm_unreg(struct device *dev, struct extent *extent)
{
	free(extent->mr[dev->index]);
	extent->mr[dev->index] = NULL;
}

/* A descriptor for the peer, which is to be closed if it is not the span's own. */
static int file_fd(const struct span *s, uint32_t writable)
{
	char path[64];
	int fd;

	if (writable)
		return s->fd;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", s->fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int file_send(struct shm_ep *e, const struct shm_file *f, const struct span *s)
{
	struct shm_record r = {.type = SHM_FILE, .serial = f->serial, .writable = f->writable};
	int fd = file_fd(s, f->writable), err;

	if (fd < 0)
		return fd;
	err = shm_link_send(e, &r, fd);
	if (fd != s->fd)
		close(fd);
	return err;
}

/* The file that backs the span, sent to the peer if it has not got it; NULL: it cannot be had. */
static struct shm_file *file_show(struct shm_ep *e, const struct span *s,
				  const struct shm_backing *b, uint32_t writable)
{
	struct shm_file *f, *free_slot = NULL;

	for (f = e->files; f < e->files + SHM_FILES; f++) {
		if (!f->serial)
			free_slot = free_slot ? free_slot : f;
		else if (f->dev == b->dev && f->ino == b->ino && f->writable == writable)
			return f;
	}
	f = free_slot;
	if (!f)
		return NULL;
	*f = (struct shm_file){.dev = b->dev, .ino = b->ino, .writable = writable};
	e->serial += e->serial == UINT64_MAX ? 2 : 1;
	f->serial = e->serial;
	if (!file_send(e, f, s))
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
	/* If it is lost the peer keeps an unused view until the ep ends. */
	if (e->sock >= 0)
		shm_link_send(e, &r, -1);
}

/* Takes back one user for each part. */
static void parts_put(struct shm_ep *e, const struct key_part *parts, uint32_t n)
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

/* Adds the span's share of the range: to the part before where they touch in one file. Returns how
 * many parts there are now; 0: no way. */
static uint32_t part_add(struct shm_ep *e, const struct exposure *x, uint32_t span,
			 struct key_part *parts, uint32_t n)
{
	const struct span *s = &x->memory->spans[span];
	const struct shm_backing *b = s->extent->mr[e->dev->dev.index];
	uint64_t from = s->start > x->off ? s->start : x->off;
	uint64_t span_end = s->start + s->len, end = x->off + x->len;
	struct shm_file *f = NULL;
	struct key_part *p;

	if (b && n < PARTS_MAX)
		f = file_show(e, s, b, !!(x->rights & URCCL_RIGHT_WRITE));
	if (!f)
		return 0;
	end = end < span_end ? end : span_end;
	p = n ? &parts[n - 1] : NULL;
	if (p && p->serial == f->serial && p->off + p->len == s->fd_off + (from - s->start)) {
		p->len += end - from;
		return n;
	}
	f->users++;
	parts[n] = (struct key_part){f->serial, s->fd_off + (from - s->start), end - from};
	return n + 1;
}

static uint32_t span_index(const struct memory *m, uint64_t off)
{
	return (uint32_t)(memory_span(m, off) - m->spans);
}

/* How many parts the range has, their files sent; 0: the ring must do. Unexpose finds the same
 * parts again, since files that are shown stay where they are. */
static uint32_t parts_make(struct shm_ep *e, const struct exposure *x, struct key_part *parts)
{
	const struct memory *m = x->memory;
	uint32_t i, n = 0, now;

	/* Atomics are the owner's to carry out: for those alone nothing is mapped. */
	if (!x->len || x->expires_ns != NEVER_NS ||
	    !(x->rights & (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)))
		return 0;
	for (i = span_index(m, x->off); i < m->nspans && m->spans[i].start < x->off + x->len; i++) {
		now = part_add(e, x, i, parts, n);
		if (!now) {
			parts_put(e, parts, n);
			return 0;
		}
		n = now;
	}
	return n;
}

/* struct exposure.scratch: whether the peer maps the memory; else which revocation took it back. */
#define MAPPED UINT64_MAX

int shm_expose(struct exposure *x, void *key, uint32_t key_max)
{
	struct shm_ep *e = container_of(x->ep, struct shm_ep, ep);
	struct key k = {.rights = x->rights, .revokes = e->revokes};
	int n;

	if (key_max < sizeof(k))
		return -ENOSPC;
	n = stream_expose(&e->dev->grants, x, k.grant, sizeof(k.grant));
	if (n < 0)
		return n;
	if (shm_link_proved(e) && !e->dev->by_owner)
		k.nparts = parts_make(e, x, k.parts);
	x->scratch = k.nparts ? MAPPED : 0;
	n = (int)(offsetof(struct key, parts) + k.nparts * sizeof(k.parts[0]));
	memcpy(key, &k, (size_t)n);
	return n;
}

/* Asks the peer to let go. 0, or -errno: not now. */
static int mapped_revoke(struct shm_ep *e, struct exposure *x)
{
	struct shm_record r = {.type = SHM_REVOKE, .serial = e->revokes + 1, .len = x->id};
	struct key_part parts[PARTS_MAX];
	uint32_t n;
	int err = shm_link_send(e, &r, -1);

	if (err)
		return err;
	x->scratch = ++e->revokes;
	n = parts_make(e, x, parts);
	/* One user each of this finding and one of the exposure. */
	parts_put(e, parts, n);
	parts_put(e, parts, n);
	return 0;
}

/* Ends the grant at once; then waits for the word of a peer that has the memory mapped. */
int shm_unexpose(struct exposure *x)
{
	struct shm_ep *e = container_of(x->ep, struct shm_ep, ep);
	uint32_t w;

	stream_unexpose(&e->dev->grants, x);
	for (w = 0; w < SHM_WAYS; w++)
		stream_revoke(&e->streams[w], x);
	if (!x->scratch || e->sock < 0)
		return 0;
	if (x->scratch == MAPPED && mapped_revoke(e, x))
		return -EINPROGRESS;
	return x->scratch > e->revokes_done ? -EINPROGRESS : 0;
}

int shm_view_revoked(struct shm_ep *e, uint64_t number)
{
	if (number < e->revokes_done || number > e->revokes)
		return -EPROTO;
	e->revokes_done = number;
	return 0;
}

/* ---- importer ---- */

static struct shm_view *view_find(struct shm_ep *e, uint64_t serial)
{
	struct shm_view *v;

	for (v = e->views; v < e->views + SHM_FILES; v++)
		if (v->serial == serial)
			return v;
	return NULL;
}

int shm_view_add(struct shm_ep *e, const struct shm_record *r, int fd)
{
	struct shm_view *v;
	struct stat st;
	uint64_t size;
	void *addr;

	if (!r->serial || r->writable > 1 || view_find(e, r->serial))
		return -EPROTO;
	v = view_find(e, 0);
	/* Pages that are not there yet might not be had when they are touched. */
	if (!v || fd < 0 || shm_sealed(fd, 0, &size) || fstat(fd, &st) ||
	    (uint64_t)st.st_blocks * 512 < size)
		return 0;
	if (shm_map(fd, size, PROT_READ | (r->writable ? PROT_WRITE : 0), &addr))
		return 0;
	*v = (struct shm_view){.serial = r->serial, .addr = addr, .len = size};
	v->writable = (uint8_t)r->writable;
	return 0;
}

static void view_unused(struct shm_ep *e, struct shm_view *v)
{
	if (!v->users && v->gone && list_empty(&e->reap) && e->state != SHM_CLOSED)
		list_add_tail(&e->reap, &e->dev->reaping);
}

int shm_view_gone(struct shm_ep *e, uint64_t serial)
{
	struct shm_view *v = serial ? view_find(e, serial) : NULL;

	if (v) {
		v->gone = 1;
		view_unused(e, v);
	}
	return 0;
}

void shm_view_reap(struct shm_dev *d)
{
	struct shm_ep *e = list_first(&d->reaping, struct shm_ep, reap);
	struct shm_view *v;
	uint64_t piece;

	for (v = e->views; v < e->views + SHM_FILES; v++)
		if (v->serial && v->gone && !v->users)
			break;
	if (v == e->views + SHM_FILES) {
		list_del(&e->reap);
		return;
	}
	piece = v->len < REAP_BYTES ? v->len : REAP_BYTES;
	munmap(v->addr, piece);
	v->addr += piece;
	v->len -= piece;
	if (!v->len)
		v->serial = 0;
}

void shm_views_drop(struct shm_ep *e)
{
	struct list *pos, *next;
	struct shm_view *v;

	list_for_each_safe(pos, next, &e->remotes)
		free(list_entry(pos, struct shm_remote, link));
	for (v = e->views; v < e->views + SHM_FILES; v++)
		if (v->serial)
			munmap(v->addr, v->len);
}

/* 1: every part lies in a view, and together they are the remote. */
static int parts_map(struct shm_ep *e, const struct key *k, uint64_t len, struct shm_remote *r)
{
	uint32_t write = k->rights & URCCL_RIGHT_WRITE;
	const struct key_part *p;
	struct shm_view *v;
	uint64_t start = 0;
	uint32_t i;

	for (i = 0; i < k->nparts; i++) {
		p = &k->parts[i];
		v = p->serial ? view_find(e, p->serial) : NULL;
		if (!v || v->gone || (write && !v->writable))
			return 0;
		if (!p->len || p->off > v->len || p->len > v->len - p->off || p->len > len - start)
			return 0;
		r->parts[i] = (struct remote_part){start, p->len, v->addr + p->off, v};
		start += p->len;
	}
	return start == len;
}

int shm_import(struct ep *ep, const void *key, uint32_t key_len, uint64_t len, struct rkey *rkey)
{
	struct shm_ep *e = container_of(ep, struct shm_ep, ep);
	struct shm_remote *r;
	struct key k;
	uint32_t i;
	int err;

	if (key_len < offsetof(struct key, parts) || key_len > sizeof(k))
		return -EPROTO;
	memcpy(&k, key, key_len);
	if (k.nparts > PARTS_MAX ||
	    key_len != offsetof(struct key, parts) + k.nparts * sizeof(k.parts[0]))
		return -EPROTO;
	err = stream_import(k.grant, sizeof(k.grant), len, rkey);
	rkey->v[1] = 0;
	if (err || !k.nparts || e->dev->by_owner)
		return err;
	/* Its files were sent before the key was; so, perhaps, was its end. */
	shm_link_recv(e);
	if (k.revokes < e->revoked_unseen)
		return 0;
	r = calloc(1, sizeof(*r) + k.nparts * sizeof(r->parts[0]));
	if (!r || !parts_map(e, &k, len, r)) {
		free(r);
		return 0;
	}
	r->grant = (uint32_t)rkey->v[0];
	r->rights = k.rights;
	r->nparts = k.nparts;
	r->len = len;
	for (i = 0; i < r->nparts; i++)
		r->parts[i].view->users++;
	list_add_tail(&r->link, &e->remotes);
	rkey->v[1] = (uintptr_t)r;
	rkey->mapped = 1;
	return 0;
}

void shm_forget(struct ep *ep, struct rkey *rkey)
{
	struct shm_ep *e = container_of(ep, struct shm_ep, ep);
	struct shm_remote *r = shm_remote(rkey);
	uint32_t i;

	if (!r)
		return;
	rkey->v[1] = 0;
	for (i = 0; i < r->nparts; i++) {
		r->parts[i].view->users--;
		view_unused(e, r->parts[i].view);
	}
	list_del(&r->link);
	free(r);
}

/* No copy is under way: chunks of it come out with -EACCES when it is their turn. */
int shm_view_revoke(struct shm_ep *e, const struct shm_record *rec)
{
	struct list *pos;
	uint32_t found = 0;

	if (rec->serial != e->revoked + 1)
		return -EPROTO;
	e->revoked = rec->serial;
	list_for_each(pos, &e->remotes) {
		struct shm_remote *r = list_entry(pos, struct shm_remote, link);

		if (r->grant != rec->len)
			continue;
		r->rights = 0;
		found = 1;
	}
	if (!found)
		e->revoked_unseen = rec->serial;
	shm_view_tell(e);
	return 0;
}

void shm_view_tell(struct shm_ep *e)
{
	struct shm_record r = {.type = SHM_REVOKED, .serial = e->revoked};

	if (e->revoked_told == e->revoked || e->sock < 0)
		return;
	if (shm_link_send(e, &r, -1))
		shm_ep_warm(e); /* again at the next look */
	else
		e->revoked_told = e->revoked;
}

int shm_remote_check(const struct shm_remote *r, const struct chunk *c)
{
	uint32_t right = c->kind == CHUNK_READ ? URCCL_RIGHT_READ : URCCL_RIGHT_WRITE;

	if (c->off > r->len || c->len > r->len - c->off)
		return -ERANGE;
	return r->rights & right ? 0 : -EACCES;
}

static const struct remote_part *part_at(const struct shm_remote *r, uint64_t off);

/* Whether the kernel can be asked or not, copies find their pages then. */
int shm_warm(struct ep *ep, struct rkey *rkey)
{
	struct shm_remote *r = shm_remote(rkey);
	const struct remote_part *p;
	uint64_t in, len;

	(void)ep;
	if (!r || !r->rights || r->warmed == r->len)
		return 0;
	p = part_at(r, r->warmed);
	in = r->warmed - p->start;
	len = p->len - in < WARM_BYTES ? p->len - in : WARM_BYTES;
	(void)memory_populate((uintptr_t)p->addr + in, len);
	r->warmed += len;
	return r->warmed == r->len ? 0 : -EINPROGRESS;
}

static const struct remote_part *part_at(const struct shm_remote *r, uint64_t off)
{
	uint32_t low = 0, high = r->nparts, mid;

	while (high - low > 1) {
		mid = low + (high - low) / 2;
		if (r->parts[mid].start <= off)
			low = mid;
		else
			high = mid;
	}
	return &r->parts[low];
}

/* What was taken is what is there now: the bytes are read back from their place. */
static int copy_checked(void *to, const void *from, uint64_t len)
{
	uint32_t sum = crc32c(0, from, len);

	memcpy(to, from, len);
	return crc32c(0, to, len) == sum ? 0 : -EBADMSG;
}

int shm_remote_copy(const struct shm_remote *r, struct chunk *c, uint32_t max)
{
	uint64_t left = c->len - c->scratch[0], run;
	const struct remote_part *p;
	uint8_t *local, *there, *to, *from;

	if (left > max)
		left = max;
	for (; left; left -= run) {
		p = part_at(r, c->off + c->scratch[0]);
		there = p->addr + (c->off + c->scratch[0] - p->start);
		local = (uint8_t *)c->local + c->scratch[0];
		run = p->len - (c->off + c->scratch[0] - p->start);
		run = run < left ? run : left;
		to = c->kind == CHUNK_WRITE ? there : local;
		from = c->kind == CHUNK_WRITE ? local : there;
		if (!c->checksum)
			memcpy(to, from, run);
		else if (copy_checked(to, from, run))
			return -EBADMSG;
		c->scratch[0] += run;
	}
	return c->scratch[0] == c->len;
}
