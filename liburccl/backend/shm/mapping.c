/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped memory of a peer: its memfds, each mapped once, and imports that use them; chunks are
 * copies into the owner's pages. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "backend/shm/shm.h"

#define REAP_BYTES (4u << 20)
#define WARM_BYTES (2u << 20)

struct shm_remote {
	struct list link; /* ep->remotes */
	uint32_t grant;
	uint32_t rights; /* 0: revoked */
	uint32_t nparts;
	uint64_t len;
	uint64_t warmed;     /* its first bytes are populated */
	struct gpu_dev *gpu; /* moves the bytes; NULL: the processor does */
	uint32_t mapped;     /* the program's kernels may access it */
	struct remote_part {
		uint64_t start, len; /* in the remote */
		uint8_t *addr;
		struct shm_mapping *view;
	} parts[];
};

static struct shm_mapping *view_find(struct shm_ep *e, uint64_t serial)
{
	struct shm_mapping *v;

	for (v = e->mappings; v < e->mappings + SHM_FILES; v++)
		if (v->serial == serial)
			return v;
	return NULL;
}

int shm_mapping_add(struct shm_ep *e, const struct shm_record *r, int fd)
{
	struct shm_mapping *v;
	struct stat st;
	uint64_t size;
	void *addr;

	if (!r->serial || r->writable > 1 || view_find(e, r->serial))
		return -EPROTO;
	v = view_find(e, 0);
	if (r->type == SHM_GPU) {
		if (v)
			shm_gpu_import(e, r, fd, v);
		return 0;
	}
	/* Missing pages may be unavailable when they are touched: SIGBUS. */
	if (!v || fd < 0 || shm_sealed(fd, 0, &size) || fstat(fd, &st) ||
	    (uint64_t)st.st_blocks * 512 < size)
		return 0;
	if (shm_map(fd, size, PROT_READ | (r->writable ? PROT_WRITE : 0), &addr))
		return 0;
	*v = (struct shm_mapping){.serial = r->serial, .addr = addr, .len = size};
	v->writable = (uint8_t)r->writable;
	return 0;
}

static void view_unused(struct shm_ep *e, struct shm_mapping *v)
{
	if (!v->users && v->gone && list_empty(&e->reap) && e->state != SHM_CLOSED)
		list_add_tail(&e->reap, &e->dev->reaping);
}

int shm_mapping_gone(struct shm_ep *e, uint64_t serial)
{
	struct shm_mapping *v = serial ? view_find(e, serial) : NULL;

	if (v) {
		v->gone = 1;
		view_unused(e, v);
	}
	return 0;
}

void shm_mapping_reap(struct shm_dev *d)
{
	struct shm_ep *e = list_first(&d->reaping, struct shm_ep, reap);
	struct shm_mapping *v;
	uint64_t piece;

	for (v = e->mappings; v < e->mappings + SHM_FILES; v++)
		if (v->serial && v->gone && !v->users)
			break;
	if (v == e->mappings + SHM_FILES) {
		list_del(&e->reap);
		return;
	}
	if (v->of_gpu) {
		shm_gpu_unmap(v);
		return;
	}
	piece = v->len < REAP_BYTES ? v->len : REAP_BYTES;
	munmap(v->addr, piece);
	v->addr += piece;
	v->len -= piece;
	if (!v->len)
		v->serial = 0;
}

void shm_mappings_drop(struct shm_ep *e)
{
	struct list *pos, *next;
	struct shm_mapping *v;

	list_for_each_safe(pos, next, &e->remotes)
		free(list_entry(pos, struct shm_remote, link));
	for (v = e->mappings; v < e->mappings + SHM_FILES; v++)
		if (v->serial && v->of_gpu)
			shm_gpu_unmap(v);
		else if (v->serial)
			munmap(v->addr, v->len);
}

/* The mapping that a part of a key names; NULL: it is missing, or gives less than the key. */
static struct shm_mapping *part_view(struct shm_ep *e, const struct shm_key *k,
				     const struct shm_part *p)
{
	struct shm_mapping *v = p->serial ? view_find(e, p->serial) : NULL;

	if (!v || v->gone || (k->rights & URCCL_RIGHT_WRITE && !v->writable))
		return NULL;
	if (v->of_gpu && !k->gpu) /* its import was not awaited */
		return NULL;
	if (!p->len || p->off > v->len || p->len > v->len - p->off)
		return NULL;
	return v;
}

/* 0; -EINPROGRESS: GPU parts are not all mapped; another -errno: one cannot be. */
static int parts_wait(struct shm_ep *e, const struct shm_key *k)
{
	struct shm_mapping *v;
	uint32_t i;
	int err;

	for (i = 0; i < k->nparts; i++) {
		v = part_view(e, k, &k->parts[i]);
		err = v && v->of_gpu ? shm_gpu_mapped(e, v) : 0;
		if (err)
			return err;
	}
	return 0;
}

/* 1: every part lies in a mapping, and together they are the remote. */
static int parts_map(struct shm_ep *e, const struct shm_key *k, uint64_t len, struct shm_remote *r)
{
	const struct shm_part *p;
	struct shm_mapping *v;
	uint64_t start = 0;
	uint32_t i;

	for (i = 0; i < k->nparts; i++) {
		p = &k->parts[i];
		v = part_view(e, k, p);
		if (!v || p->len > len - start)
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
	struct shm_key k;
	uint32_t i;
	int err;

	if (key_len < offsetof(struct shm_key, parts) || key_len > sizeof(k))
		return -EPROTO;
	memcpy(&k, key, key_len);
	if (k.nparts > SHM_PARTS ||
	    key_len != offsetof(struct shm_key, parts) + k.nparts * sizeof(k.parts[0]))
		return -EPROTO;
	err = stream_import(k.grant, sizeof(k.grant), len, rkey);
	rkey->v[1] = 0;
	if (err || !k.nparts || e->dev->by_owner)
		return err || !k.gpu ? err : -EOPNOTSUPP;
	/* Its files were sent before the key; perhaps its revocation too. */
	shm_link_recv(e);
	if (k.revokes < e->revoked_unseen)
		return k.gpu ? -EACCES : 0;
	if (k.gpu && e->state != SHM_UP) /* chunks end with the link's error */
		return 0;
	err = k.gpu ? parts_wait(e, &k) : 0;
	if (err)
		return err == -EINPROGRESS ? err : -EOPNOTSUPP;
	r = calloc(1, sizeof(*r) + k.nparts * sizeof(r->parts[0]));
	if (!r || !parts_map(e, &k, len, r)) {
		free(r);
		return k.gpu ? -EOPNOTSUPP : 0;
	}
	r->grant = (uint32_t)rkey->v[0];
	r->rights = k.rights;
	r->nparts = k.nparts;
	r->len = len;
	for (i = 0; i < r->nparts; i++) {
		r->parts[i].view->users++;
		r->gpu = r->gpu ? r->gpu : r->parts[i].view->gpu;
	}
	list_add_tail(&r->link, &e->remotes);
	rkey->v[1] = (uintptr_t)r;
	rkey->mapped = 1;
	rkey->gpu = r->gpu != NULL;
	return 0;
}

static void views_put(struct shm_ep *e, struct shm_remote *r)
{
	uint32_t i;

	for (i = 0; i < r->nparts; i++) {
		struct shm_mapping *v = r->parts[i].view;

		r->parts[i].view = NULL;
		if (!v)
			continue;
		v->users--;
		view_unused(e, v);
	}
}

void shm_forget(struct ep *ep, struct rkey *rkey)
{
	struct shm_ep *e = container_of(ep, struct shm_ep, ep);
	struct shm_remote *r = shm_remote(rkey);

	if (!r)
		return;
	rkey->v[1] = 0;
	views_put(e, r);
	list_del(&r->link);
	free(r);
}

void shm_remotes_let_go(struct shm_ep *e)
{
	struct shm_remote *r;

	list_for_each_entry(r, &e->remotes, link) {
		if (!r->rights && r->gpu && !r->mapped)
			views_put(e, r);
	}
}

/* The processor has no copy in progress; queued chunks of the grant end with -EACCES in turn. */
int shm_mapping_revoke(struct shm_ep *e, const struct shm_record *rec)
{
	struct shm_remote *r;
	uint32_t found = 0;

	if (rec->serial != e->revoked + 1)
		return -EPROTO;
	e->revoked = rec->serial;
	list_for_each_entry(r, &e->remotes, link) {
		if (r->grant != rec->len)
			continue;
		r->rights = 0;
		found = 1;
	}
	if (!found)
		e->revoked_unseen = rec->serial;
	shm_mapping_report(e);
	return 0;
}

void shm_mapping_report(struct shm_ep *e)
{
	struct shm_record r = {.type = SHM_REVOKED, .serial = e->revoked};

	if (e->revoked_reported == e->revoked || e->sock < 0)
		return;
	if (shm_gpu_holds(e) || shm_link_send(e, &r, -1))
		shm_ep_active(e); /* retried at the next look */
	else
		e->revoked_reported = e->revoked;
}

int shm_map_remote(struct ep *ep, struct rkey *rkey, struct gpu_mapping *out)
{
	struct shm_ep *e = container_of(ep, struct shm_ep, ep);
	struct shm_remote *r = shm_remote(rkey);

	if (!r || !r->gpu || r->nparts > 1)
		return -EOPNOTSUPP;
	if (out && !r->rights)
		return -EACCES;
	if (out && !r->parts[0].view->import) /* the link has ended */
		return -EAGAIN;
	r->mapped = out != NULL;
	if (!out) {
		shm_mapping_report(e);
		return 0;
	}
	*out = (struct gpu_mapping){
		.addr = (uintptr_t)r->parts[0].addr,
		.dev = r->gpu,
		.import = r->parts[0].view->import,
	};
	gpu_import_hold(out->import);
	return 0;
}

int shm_remotes_mapped(const struct shm_ep *e, int revoked)
{
	const struct shm_remote *r;

	list_for_each_entry(r, &e->remotes, link) {
		if (r->mapped && !(revoked && r->rights))
			return 1;
	}
	return 0;
}

int shm_remote_holds(const struct shm_remote *r, const struct chunk *c)
{
	return c->off <= r->len && c->len <= r->len - c->off ? 0 : -ERANGE;
}

int shm_remote_holds_pieces(const struct shm_remote *r, const struct chunk *c)
{
	const struct chunk_piece *p;

	for (p = c->pieces; p < c->pieces + c->npieces; p++)
		if (p->off > r->len || p->len > r->len - p->off)
			return -ERANGE;
	return 0;
}

int shm_remote_allows(const struct shm_remote *r, const struct chunk *c)
{
	uint32_t right = c->kind == CHUNK_READ ? URCCL_RIGHT_READ : URCCL_RIGHT_WRITE;

	return r->rights & right ? 0 : -EACCES;
}

uint8_t *shm_remote_host(const struct shm_remote *r, enum chunk_kind kind, uint64_t off,
			 uint32_t len)
{
	uint32_t right = kind == CHUNK_READ ? URCCL_RIGHT_READ : URCCL_RIGHT_WRITE;

	if (r->gpu || r->nparts != 1 || !(r->rights & right) || len > r->len || off > r->len - len)
		return NULL;
	return r->parts[0].addr + off;
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

/* Failure does no harm: the first copy then takes the page faults. */
int shm_warm(struct ep *ep, struct rkey *rkey)
{
	struct shm_remote *r = shm_remote(rkey);
	const struct remote_part *p;
	uint64_t in, len;

	(void)ep;
	if (!r || !r->rights || r->warmed == r->len || rkey->gpu)
		return 0;
	p = part_at(r, r->warmed);
	in = r->warmed - p->start;
	len = p->len - in < WARM_BYTES ? p->len - in : WARM_BYTES;
	(void)memory_populate((uintptr_t)p->addr + in, len);
	r->warmed += len;
	return r->warmed == r->len ? 0 : -EINPROGRESS;
}

uint64_t shm_remote_at(const struct shm_remote *r, uint64_t off, uint64_t *run,
		       struct gpu_dev **gpu)
{
	const struct remote_part *p = part_at(r, off);
	uint64_t in = off - p->start;

	*run = p->len - in < *run ? p->len - in : *run;
	*gpu = r->gpu;
	return (uintptr_t)p->addr + in;
}

/* Copies to or from the mapping. */
static inline int chunk_copy(const struct chunk *c, uint8_t *there, uint8_t *local, uint64_t len)
{
	memcpy(c->kind == CHUNK_WRITE ? there : local, c->kind == CHUNK_WRITE ? local : there, len);
	return 0;
}

/* Reads the bytes back from their destination and compares checksums. */
static int copy_checked(const struct chunk *c, uint8_t *there, uint8_t *local, uint64_t len)
{
	uint32_t sum = crc32c(0, c->kind == CHUNK_WRITE ? local : there, len);

	chunk_copy(c, there, local, len);
	return crc32c(0, c->kind == CHUNK_WRITE ? there : local, len) == sum ? 0 : -EBADMSG;
}

int shm_remote_copy(const struct shm_remote *r, struct chunk *c, uint32_t *max)
{
	uint64_t at = c->scratch[0], end = c->len - at < *max ? c->len : at + *max, off, run;
	const struct remote_part *p = r->parts;
	uint8_t *local, *there;

	for (; at < end; at += run) {
		if (r->nparts > 1)
			p = part_at(r, c->off + at);
		off = c->off + at - p->start;
		run = p->len - off < end - at ? p->len - off : end - at;
		there = p->addr + off;
		local = (uint8_t *)c->local + at;
		if (c->checksum ? copy_checked(c, there, local, run)
				: chunk_copy(c, there, local, run))
			return -EBADMSG;
	}
	*max -= (uint32_t)(at - c->scratch[0]);
	c->scratch[0] = at;
	return at == c->len ? 0 : -EINPROGRESS;
}
