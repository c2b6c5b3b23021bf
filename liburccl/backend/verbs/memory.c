/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory registration, and exports to peers.
 *
 * An extent is registered once, for requests of this side. Memory that peers may access is
 * registered once more, with exactly the range and rights of an advert: a pin, which all peers with
 * that advert share. ibv_dereg_mr() revokes it: the device then admits nothing more, not even the
 * rest of a partly received WRITE. Both calls take longer for more pages, so engine threads make
 * neither. Keys belong to the protection domain: a peer that guesses a 32-bit key of another ep has
 * that ep's access. Devices choose the keys; mlx5 and rxe change a part of them at each use.
 *
 * Memory windows are not used. They would save a second pinning of the bytes if an advert covers
 * part of a region or gives fewer rights; that is done once for all peers, and not on the engine's
 * thread. But invalidating a window need not stop a WRITE that has begun: rxe checks a window at a
 * message's first packet only. A window is bound by a request on a queue pair, and takes effect
 * with its completion: memory shared by all peers would depend on the path to one of them, which
 * may break before, after, or in between. Not every device has windows, so regions would be needed
 * too.
 *
 * Peers do not learn addresses: a piece begins at its address modulo 1 GiB, so that the device can
 * use pages as large as the memory has.
 *
 * A key, little-endian: version u8, rights and VERBS_KEY_DEVICE u8, pieces u16, CRC32C of the whole
 * key with this field 0 u32, length u64, ns until it expires u64 (~0: never), first half of its
 * ep's cookie [8]; then for each piece its start in the export u64, key u32, address u32.
 */
#include <endian.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include "backend/verbs/verbs.h"

#define IOVA_MASK  ((1ull << 30) - 1)
#define KEY_HEADER 32u
#define KEY_PIECE  16u
#define PIECES_MAX ((KEY_MAX - KEY_HEADER) / KEY_PIECE)
/* Alignment of pieces if the limit is larger: pages may have this size. */
#define PIECE_ALIGN (1ull << 30)
#define PAGE	    4096ull

/* A device's registrations of an extent. */
struct verbs_mr {
	uint64_t addr, each; /* the extent is divided every `each` bytes, from addr on */
	uint32_t n;
	int by_addr;   /* no dma-buf, though the extent has one */
	int unread;    /* the CPU cannot read all of it: verbs_local.unread */
	int read_only; /* some of it is read-only */
	struct ibv_mr *mr[];
};

/* A device's registrations of a pin. */
struct verbs_pinned {
	uint32_t n;
	struct ibv_mr *mr[];
};

/* ---- registering ---- */

static struct ibv_mr *mr_ask(struct verbs_device *d, const struct extent *x, uint64_t addr,
			     uint64_t len, uint64_t iova, unsigned int access)
{
	struct ibv_mr *mr;

	errno = 0;
	if (extent_has_dmabuf(x) && d->lib.reg_dmabuf_mr)
		mr = d->lib.reg_dmabuf_mr(d->pd, x->fd_off + (addr - x->addr), len, iova, x->fd,
					  (int)access);
	else
		mr = d->lib.reg_mr_iova2(d->pd, (void *)(uintptr_t)addr, len, iova, access);
	if (!mr && !errno)
		errno = EIO;
	if (mr)
		__atomic_add_fetch(&d->mrs, 1, __ATOMIC_RELAXED);
	return mr;
}

/* Registers a part of the extent's memory. NULL, with errno. libibverbs and the kernel ignore the
 * request for relaxed ordering if they, the device or the machine do not support it; a driver that
 * does not know it may refuse it instead. */
static struct ibv_mr *mr_make(struct verbs_device *d, const struct extent *x, uint64_t addr,
			      uint64_t len, uint64_t iova, unsigned int access)
{
	struct ibv_mr *mr = mr_ask(d, x, addr, len, iova, access);

	if (!mr && access & IBV_ACCESS_RELAXED_ORDERING && (errno == EINVAL || errno == EOPNOTSUPP))
		mr = mr_ask(d, x, addr, len, iova,
			    access & ~(unsigned int)IBV_ACCESS_RELAXED_ORDERING);
	return mr;
}

/* The flag for a region's bytes, given its rights; verbs.h says why it is safe. */
static unsigned int relaxed(const struct verbs_device *d, uint32_t rights)
{
	if (d->settings.rdma_relaxed_ordering == URCCL_ALLOW_NO || rights & URCCL_RIGHT_ATOMIC)
		return 0;
	return IBV_ACCESS_RELAXED_ORDERING;
}

static int mr_free(struct verbs_device *d, struct ibv_mr *mr)
{
	int err = abs(d->lib.dereg_mr(mr));

	/* The kernel itself has released the memory of a device that is gone, and answers only EIO
	 * then. */
	if (err && (err != EIO || !load_acquire(&d->broken)))
		return -err;
	__atomic_sub_fetch(&d->mrs, 1, __ATOMIC_RELAXED);
	return 0;
}

/* The kernel limits pinned pages, and reports ENOMEM if the limit is passed. */
static int reg_failed(const struct verbs_device *d, const struct extent *x, int err)
{
	struct rlimit limit = {.rlim_cur = RLIM_INFINITY};

	if (err == ENOMEM && !getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY)
		return fail(-ENOMEM,
			    "ib: %s cannot pin %llu bytes: the limit for locked memory is %llu "
			    "KiB (ulimit -l, LimitMEMLOCK= of systemd, --ulimit memlock=-1 of a "
			    "container)",
			    d->port.name, (unsigned long long)x->len,
			    (unsigned long long)limit.rlim_cur / 1024);
	return fail(-err, "ib: %s cannot register %llu bytes: %s", d->port.name,
		    (unsigned long long)x->len, errno_text(err));
}

/* Frees from the last one. 0, or -errno with *n still registered. */
static int mrs_free(struct verbs_device *d, struct ibv_mr **mr, uint32_t *n)
{
	int rc;

	for (; *n; --*n) {
		rc = mr_free(d, mr[*n - 1]);
		if (rc)
			return rc;
	}
	return 0;
}

/* A registration has at most max_mr_size bytes, which some devices count in pages. Longer memory is
 * divided at multiples of the largest size that fits at any address; 0: no division. */
static uint64_t cut_at(const struct verbs_device *d, uint64_t addr, uint64_t len)
{
	uint64_t max = d->port.attr.max_mr_size;

	if (!max || (len <= max && addr % PAGE <= max - len))
		return 0;
	if (max >= PIECE_ALIGN)
		return max & ~(PIECE_ALIGN - 1);
	return max >= PAGE ? max & ~(PAGE - 1) : max;
}

/* The bytes before the next division, at most len. */
static uint64_t piece_bytes(uint64_t each, uint64_t addr, uint64_t len)
{
	uint64_t run = each ? each - addr % each : len;

	return run < len ? run : len;
}

/* Checked after its pages exist: one check for each page, and no fault. */
static int is_unread(struct extent *x)
{
	if (x->read == EXTENT_READ_UNKNOWN)
		x->read = memory_readable(x->addr, x->len) ? EXTENT_READ : EXTENT_UNREAD;
	return x->read != EXTENT_READ;
}

/* The extent as this device registers it: perhaps without its dma-buf. */
static struct extent extent_as(const struct extent *x, const struct verbs_mr *m)
{
	struct extent as = *x;

	if (m && m->by_addr)
		as.fd = -1;
	return as;
}

static struct verbs_mr *mr_new(const struct verbs_device *d, const struct extent *x)
{
	uint64_t each = cut_at(d, x->addr, x->len), addr = x->addr;
	struct verbs_mr *m;

	if (each)
		addr -= addr % each;
	else
		each = x->len;
	m = malloc(sizeof(*m) + ((x->addr + x->len - 1 - addr) / each + 1) * sizeof(m->mr[0]));
	if (m)
		*m = (struct verbs_mr){.addr = addr, .each = each};
	return m;
}

/* 0, or the errno of the piece that failed, and none is left. */
static int reg_pieces(struct verbs_device *d, const struct extent *x, struct verbs_mr *m)
{
	unsigned int access = IBV_ACCESS_LOCAL_WRITE | relaxed(d, x->rights);
	uint64_t at, len;
	int err;

	for (at = x->addr; at < x->addr + x->len; at += len) {
		len = m->each - (at - m->addr) % m->each;
		len = len < x->addr + x->len - at ? len : x->addr + x->len - at;
		m->mr[m->n] = mr_make(d, x, at, len, at, access);
		/* The memory may be read-only for this process: it can still be sent. */
		if (!m->mr[m->n] && errno == EFAULT && access)
			m->mr[m->n] = mr_make(d, x, at, len, at, access = 0);
		if (m->mr[m->n]) {
			m->n++;
			continue;
		}
		err = errno;
		(void)mrs_free(d, m->mr, &m->n);
		return err;
	}
	m->read_only = !access;
	return 0;
}

/* Without a dma-buf the module nvidia_peermem of the kernel finds the pages of a GPU. */
int verbs_reg(struct device *dev, struct extent *x)
{
	struct verbs_device *d = verbs_device(dev);
	struct verbs_mr *m = mr_new(d, x);
	struct extent as;
	int err;

	if (!m)
		return fail(-ENOMEM, "ib: no memory for an extent's registrations");
	err = reg_pieces(d, x, m);
	if (err && x->kind == GPU_MEMORY_DEVICE && extent_has_dmabuf(x)) {
		m->by_addr = 1;
		as = extent_as(x, m);
		err = reg_pieces(d, &as, m);
	}
	if (err) {
		free(m);
		return reg_failed(d, x, err);
	}
	m->unread = x->is_dmabuf || x->kind == GPU_MEMORY_DEVICE || is_unread(x);
	x->mr[dev->index] = m;
	return 0;
}

int verbs_unreg(struct device *dev, struct extent *x)
{
	struct verbs_mr *m = x->mr[dev->index];
	int rc = m ? mrs_free(verbs_device(dev), m->mr, &m->n) : 0;

	if (rc)
		return rc;
	x->mr[dev->index] = NULL;
	free(m);
	return 0;
}

void *verbs_pages(struct verbs_device *d, size_t len, unsigned int access, struct ibv_mr **mr)
{
	int theirs = access & IBV_ACCESS_REMOTE_READ;
	struct extent x = {.fd = -1, .len = len};
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	if (p == MAP_FAILED) {
		fail(-ENOMEM, "ib: no memory for messages");
		return NULL;
	}
	*mr = mr_make(d, &x, (uintptr_t)p, len, theirs ? 0 : (uintptr_t)p, access);
	if (*mr)
		return p;
	err = errno;
	munmap(p, len);
	reg_failed(d, &x, err);
	return NULL;
}

void verbs_pages_free(struct verbs_device *d, void *pages, size_t len, struct ibv_mr *mr)
{
	if (!pages)
		return;
	(void)mr_free(d, mr);
	munmap(pages, len);
}

/* ---- local bytes of a chunk ---- */

void verbs_local_at(struct verbs_local *l, const struct chunk *c, uint32_t at)
{
	l->memory = c->memory;
	l->addr = (uintptr_t)c->local + at;
	l->off = 0;
	l->unread = l->read_only = 0;
	if (c->memory->nspans > 1)
		l->off = memory_offset(c->memory, (uintptr_t)c->local, c->len) + at;
}

uint32_t verbs_local_next(struct verbs_local *l, uint32_t index, uint32_t max, struct ibv_sge *sge)
{
	const struct span *s = l->memory->spans;
	uint64_t run, at, left;
	const struct verbs_mr *m;

	if (l->memory->nspans > 1)
		s = memory_span(l->memory, l->off);
	m = s->extent->mr[index];
	if (!m || l->addr < s->addr || l->addr - s->addr >= s->len)
		return 0;
	run = s->len - (l->addr - s->addr);
	at = l->addr - m->addr;
	left = m->each - at % m->each;
	run = run < left ? run : left;
	run = run < max ? run : max;
	l->unread |= m->unread;
	l->read_only |= m->read_only;
	sge->addr = l->addr;
	sge->length = (uint32_t)run;
	sge->lkey = m->mr[at / m->each]->lkey;
	l->addr += run;
	l->off += run;
	return (uint32_t)run;
}

int verbs_writable(const struct chunk *c, uint32_t index)
{
	struct verbs_local l;
	struct ibv_sge sge;
	uint32_t at, n;

	verbs_local_at(&l, c, 0);
	for (at = 0; at < c->len && !l.read_only; at += n) {
		n = verbs_local_next(&l, index, c->len - at, &sge);
		assert(n);
	}
	return !l.read_only;
}

/* ---- pins and exports ---- */

static unsigned int access_of(uint32_t rights)
{
	unsigned int access = 0;

	if (rights & URCCL_RIGHT_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	/* Verbs require local write for remote write. */
	if (rights & URCCL_RIGHT_WRITE)
		access |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
	return access;
}

/* The bytes from offset off of the region that one registration takes, at most max. */
static uint64_t run_at(const struct verbs_device *d, const struct memory *m, uint64_t off,
		       uint64_t max, const struct extent **x, uint64_t *addr)
{
	const struct span *s = memory_span(m, off);
	uint64_t run = s->len - (off - s->start);

	*x = s->extent;
	*addr = s->addr + (off - s->start);
	return piece_bytes(cut_at(d, s->addr, s->len), *addr, run < max ? run : max);
}

static uint32_t pieces_of(const struct verbs_device *d, const struct pin *p)
{
	const struct extent *x;
	uint64_t at = 0, addr;
	uint32_t n = 0;

	while (at < p->len && n <= PIECES_MAX) {
		at += run_at(d, p->memory, p->off + at, p->len - at, &x, &addr);
		n++;
	}
	return n;
}

static void put_le32(uint8_t *p, uint32_t v)
{
	v = htole32(v);
	memcpy(p, &v, sizeof(v));
}

static void put_le64(uint8_t *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static uint32_t get_le32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}

static uint64_t get_le64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static uint64_t ns_left(const struct exposure *e)
{
	uint64_t now;

	if (e->expires_ns == NEVER_NS)
		return NEVER_NS;
	now = clock_ns();
	return e->expires_ns > now ? e->expires_ns - now : 0;
}

static void key_header(const struct exposure *e, uint32_t n, uint8_t *key)
{
	memset(key, 0, KEY_HEADER);
	key[0] = VERBS_VERSION;
	key[1] = (uint8_t)(e->rights & (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE));
	if (memory_is_device(e->pin->memory))
		key[1] |= VERBS_KEY_DEVICE;
	key[2] = (uint8_t)n;
	key[3] = (uint8_t)(n >> 8);
	put_le64(key + 8, e->len);
	put_le64(key + 16, ns_left(e));
	memcpy(key + 24, verbs_ep(e->ep)->cookie, 8);
}

/* Registers each piece. 0 or -errno. */
static int pin_pieces(struct verbs_device *d, const struct pin *p, struct verbs_pinned *made)
{
	unsigned int access = access_of(p->rights) | relaxed(d, p->memory->rights);
	const struct extent *x;
	struct extent as;
	uint64_t at, addr, run;

	for (at = 0; at < p->len; at += run) {
		run = run_at(d, p->memory, p->off + at, p->len - at, &x, &addr);
		as = extent_as(x, x->mr[d->dev.index]);
		made->mr[made->n] = mr_make(d, &as, addr, run, addr & IOVA_MASK, access);
		if (!made->mr[made->n])
			return -errno;
		made->n++;
	}
	return 0;
}

int verbs_pin(struct device *dev, struct pin *p)
{
	struct verbs_device *d = verbs_device(dev);
	uint32_t n = pieces_of(d, p);
	struct verbs_pinned *made;
	int rc;

	if (n > PIECES_MAX)
		return -ENOSPC;
	made = malloc(sizeof(*made) + n * sizeof(made->mr[0]));
	if (!made)
		return -ENOMEM;
	made->n = 0;
	rc = pin_pieces(d, p, made);
	if (!rc) {
		p->mr = made;
		return 0;
	}
	/* No peer has these keys. */
	(void)mrs_free(d, made->mr, &made->n);
	free(made);
	return rc;
}

int verbs_unpin(struct device *dev, struct pin *p)
{
	struct verbs_pinned *made = p->mr;
	int rc = mrs_free(verbs_device(dev), made->mr, &made->n);

	if (rc)
		return rc;
	p->mr = NULL;
	free(made);
	return 0;
}

static void key_pieces(const struct verbs_device *d, const struct pin *pin, uint8_t *p)
{
	const struct verbs_pinned *made = pin->mr;
	const struct extent *x;
	uint64_t at = 0, addr, run;
	uint32_t i;

	for (i = 0; i < made->n; i++, at += run, p += KEY_PIECE) {
		run = run_at(d, pin->memory, pin->off + at, pin->len - at, &x, &addr);
		put_le64(p, at);
		put_le32(p + 8, made->mr[i]->rkey);
		put_le32(p + 12, (uint32_t)(addr & IOVA_MASK));
	}
}

int verbs_expose(struct exposure *e, void *key, uint32_t key_max)
{
	uint32_t n = ((const struct verbs_pinned *)e->pin->mr)->n, len = KEY_HEADER + n * KEY_PIECE;

	if (len > key_max)
		return -ENOSPC;
	key_header(e, n, key);
	key_pieces(verbs_device(e->ep->dev), e->pin, (uint8_t *)key + KEY_HEADER);
	put_le32((uint8_t *)key + 4, crc32c(0, key, len));
	return (int)len;
}

/* The end of the pin ends it. */
int verbs_unexpose(struct exposure *e)
{
	(void)e;
	return 0;
}

/* ---- keys ---- */

/* Reads the pieces, whose starts must ascend from 0. */
static int read_pieces(struct verbs_key *k, const uint8_t *p)
{
	uint32_t i;

	for (i = 0; i < k->n; i++, p += KEY_PIECE) {
		k->piece[i].start = get_le64(p);
		k->piece[i].rkey = get_le32(p + 8);
		k->piece[i].iova = get_le32(p + 12);
		if (i ? k->piece[i].start <= k->piece[i - 1].start : k->piece[i].start)
			return -EPROTO;
	}
	return !k->n || k->piece[k->n - 1].start < k->len ? 0 : -EPROTO;
}

/* A damaged key would end the ep at its first use, so it is checked. */
static int check_key(const struct verbs_ep *e, const uint8_t *key, uint32_t key_len, uint64_t len)
{
	static const uint8_t zero[4];
	uint32_t sum;

	if (key_len < KEY_HEADER || key_len > KEY_MAX)
		return -EPROTO;
	sum = crc32c(0, key, 4);
	sum = crc32c(sum, zero, 4);
	sum = crc32c(sum, key + 8, key_len - 8);
	if (sum != get_le32(key + 4))
		return -EPROTO;
	if (key[0] != VERBS_VERSION)
		return -EPROTONOSUPPORT;
	if (key_len != KEY_HEADER + (key[2] | (uint32_t)key[3] << 8) * KEY_PIECE)
		return -EPROTO;
	if (get_le64(key + 8) != len)
		return -ERANGE;
	return memcmp(key + 24, e->peer, 8) ? -EACCES : 0;
}

int verbs_import(struct ep *ep, const void *key, uint32_t key_len, uint64_t len, struct rkey *rkey)
{
	const uint8_t *p = key;
	uint32_t n;
	uint64_t left;
	struct verbs_key *k;
	int rc = check_key(verbs_ep(ep), p, key_len, len);

	if (rc)
		return rc;
	n = p[2] | (uint32_t)p[3] << 8;
	k = malloc(sizeof(*k) + n * sizeof(k->piece[0]));
	if (!k)
		return -ENOMEM;
	left = get_le64(p + 16);
	*k = (struct verbs_key){.len = len, .expires_ns = NEVER_NS, .rights = p[1], .n = n};
	/* The owner revokes it at that time. To stop using it here avoids an error of the queue
	 * pairs. */
	if (left < NEVER_NS / 2)
		k->expires_ns = clock_ns() + left;
	rc = read_pieces(k, p + KEY_HEADER);
	if (!rc && !n && len)
		rc = -EPROTO;
	if (rc) {
		free(k);
		return rc;
	}
	list_add_tail(&k->link, &verbs_ep(ep)->keys);
	*rkey = (struct rkey){.v = {(uintptr_t)k, len}};
	return 0;
}

void verbs_forget(struct ep *ep, struct rkey *rkey)
{
	struct verbs_key *k = (struct verbs_key *)(uintptr_t)rkey->v[0];

	(void)ep;
	rkey->v[0] = 0;
	if (!k)
		return;
	list_del(&k->link);
	free(k);
}

void verbs_keys_free(struct verbs_ep *e)
{
	while (!list_empty(&e->keys)) {
		struct verbs_key *k = list_first(&e->keys, struct verbs_key, link);

		list_del(&k->link);
		free(k);
	}
}

int verbs_allowed(const struct verbs_key *k, const struct chunk *c)
{
	uint32_t right = c->kind == CHUNK_READ ? URCCL_RIGHT_READ : URCCL_RIGHT_WRITE;

	if (!k || !(k->rights & right))
		return -EACCES;
	if (k->expires_ns != NEVER_NS && clock_ns() > k->expires_ns)
		return -EACCES;
	return c->off > k->len || c->len > k->len - c->off ? -ERANGE : 0;
}
