/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over the data of an entry by elements (its range, its segments, or its blocks). Elements
 * are cut at the borders of memory and remote, and adjacent pieces are joined. Blocks are read only
 * when they are reached. */
#include "engine/peer.h"
#include "engine/stats.h"

static const struct urccl_seg *seg_at(const struct op *op, uint64_t i)
{
	return (const struct urccl_seg *)(uintptr_t)op->sqe.addr + i;
}

static const struct urccl_paged *paged_at(const struct op *op, uint64_t i)
{
	return (const struct urccl_paged *)(uintptr_t)op->sqe.addr + i;
}

int cursor_in_remote(struct op *op, const struct engine_remote *r, uint64_t off, uint64_t len)
{
	if (len <= r->len && off <= r->len - len)
		return 0;
	op_fail(op, -ERANGE, REASON_REMOTE_RANGE, len, off, r->len);
	return -ERANGE;
}

__attribute__((noinline, cold)) static void local_missing(struct op *op, uint32_t region,
							  uint64_t addr, uint64_t len)
{
	if (!region)
		op_fail(op, -EFAULT, REASON_REGION_NONE, len, addr, 0);
	else if (!region_get(op_engine(op), region))
		op_fail_handle(op, region, HANDLE_REGION, REASON_REGION_STALE);
	else
		op_fail(op, -ERANGE, REASON_REGION_RANGE, len, addr, region);
}

/* The local memory of len bytes at addr: in the named region, or found by address. NULL after
 * op_fail(). */
static struct memory *local_memory(struct op *op, uint32_t region, uint64_t addr, uint64_t len)
{
	struct memory *m = memory_find(op_engine(op), region, addr, len);

	if (!m)
		local_missing(op, region, addr, len);
	return m;
}

int cursor_lookup(struct op *op)
{
	const struct urccl_sqe *sqe = &op->sqe;

	op->memory = local_memory(op, sqe->region, sqe->addr, sqe->len);
	op->cursor.element.memory = op->memory;
	return op->memory ? 0 : -EFAULT;
}

static int open_range(struct op *op)
{
	struct element *el = &op->cursor.element;
	const struct urccl_sqe *sqe = &op->sqe;

	if (cursor_in_remote(op, op->remote, sqe->off, sqe->len))
		return -ERANGE;
	if (!sqe->len)
		return 0;
	/* A REGISTER before it in its chain may make the region. */
	if (op->blockers && !sqe->region) {
		op->memory = memory_find(op_engine(op), 0, sqe->addr, sqe->len);
		op->bits |= op->memory ? 0 : OP_LOOKUP;
		el->memory = op->memory;
	} else if (cursor_lookup(op)) {
		return -EFAULT;
	}
	el->remote = op->remote;
	el->local = sqe->addr;
	el->off = sqe->off;
	el->len = sqe->len;
	op->cursor.elements = 1;
	op->total = sqe->len;
	return 0;
}

__attribute__((noinline)) static int open_segs(struct op *op)
{
	uint64_t max = op_engine(op)->config.params->max_segs;
	int res = 0;

	if (op->sqe.len > max) {
		res = -E2BIG;
		op_fail(op, res, REASON_SEGS, op->sqe.len, max, 0);
	} else if (op->sqe.len && !op->sqe.addr) {
		res = -EINVAL;
		op_fail(op, res, REASON_ADDR_NULL, op->sqe.len * sizeof(struct urccl_seg), 0, 0);
	}
	if (res)
		op->sqe.len = 0; /* the array is invalid: CANCEL must not read it */
	return res;
}

/* The number of blocks of a descriptor, or UINT64_MAX for more than any limit. */
static uint64_t blocks_of(const struct urccl_paged *d)
{
	uint64_t n = 1;
	uint32_t k;

	for (k = 0; k < d->ndims; k++)
		if (!d->dim[k].count)
			return 0;
	for (k = 0; k < d->ndims; k++)
		if (__builtin_mul_overflow(n, d->dim[k].count, &n))
			return UINT64_MAX;
	return n;
}

static int check_descriptor(struct op *op, uint64_t i)
{
	const struct urccl_paged *d = paged_at(op, i);

	if (d->size != sizeof(*d)) {
		op_fail(op, -EINVAL, REASON_PAGED_SIZE, i, d->size, sizeof(*d));
		return -EINVAL;
	}
	if (!d->ndims || d->ndims > URCCL_DIMS_MAX) {
		op_fail(op, -EINVAL, REASON_PAGED_DIMS, i, d->ndims, URCCL_DIMS_MAX);
		return -EINVAL;
	}
	return 0;
}

__attribute__((noinline)) static int open_paged(struct op *op)
{
	uint64_t max = op_engine(op)->config.params->max_blocks, blocks = 0, bytes = 0, n, part, i;

	if (open_segs(op))
		return -EINVAL;
	op->memory = region_get(op_engine(op), op->sqe.region);
	if (!op->memory)
		return op_fail_handle(op, op->sqe.region, HANDLE_REGION, REASON_REGION_STALE);
	for (i = 0; i < op->sqe.len; i++) {
		if (check_descriptor(op, i))
			return -EINVAL;
		n = blocks_of(paged_at(op, i));
		if (__builtin_add_overflow(blocks, n, &blocks) || blocks > max) {
			op_fail(op, -E2BIG, REASON_PAGED_BLOCKS, max, 0, 0);
			return -E2BIG;
		}
		if (__builtin_mul_overflow(n, paged_at(op, i)->block, &part) ||
		    __builtin_add_overflow(bytes, part, &bytes)) {
			op_fail(op, -ERANGE, REASON_PAGED_BYTES, i, n, paged_at(op, i)->block);
			return -ERANGE;
		}
	}
	op->total = bytes;
	op->cursor.fresh = 1;
	return 0;
}

static int is_range(const struct op *op)
{
	return (op->bits & OP_IS_RANGE) != 0;
}

static int is_paged(const struct op *op)
{
	return !(op->bits & (OP_IS_RANGE | OP_IS_VECTOR));
}

int cursor_open(struct op *op)
{
	if (is_range(op))
		return open_range(op);
	return is_paged(op) ? open_paged(op) : open_segs(op);
}

static int next_seg(struct op *op)
{
	struct cursor *c = &op->cursor;
	struct element *el = &c->element;
	const struct urccl_seg *s;
	struct engine_remote *r;

	if (c->elements == op->sqe.len)
		return 0;
	s = seg_at(op, c->elements);
	r = remote_get(op_engine(op), s->remote);
	if (!r)
		return op_fail_handle(op, s->remote, HANDLE_REMOTE, REASON_REMOTE_STALE);
	if (r->peer != op->peer) {
		op_fail(op, -EXDEV, REASON_SEG_PEER, c->elements, 0, 0);
		return -EXDEV;
	}
	if (cursor_in_remote(op, r, s->off, s->len))
		return -ERANGE;
	if (s->len) {
		el->memory = local_memory(op, s->region, s->addr, s->len);
		if (!el->memory)
			return -EFAULT;
	}
	el->remote = r;
	el->local = s->addr;
	el->off = s->off;
	el->len = s->len;
	el->pos = 0;
	c->elements++;
	return 1;
}

/* Computes the sums of dimension k and the inner ones, after index k changed. */
static void paged_sum(struct cursor *c, const struct urccl_paged *d, uint32_t k)
{
	for (; k < d->ndims; k++) {
		const struct urccl_dim *dim = &d->dim[k];
		const uint32_t *li = (const uint32_t *)(uintptr_t)dim->local_index;
		const uint32_t *ri = (const uint32_t *)(uintptr_t)dim->remote_index;
		uint64_t i = c->index[k];

		c->local_sum[k] = (k ? c->local_sum[k - 1] : (int128)d->local_off) +
				  (int128)(li ? li[i] : i) * dim->local_stride;
		c->remote_sum[k] = (k ? c->remote_sum[k - 1] : (int128)d->remote_off) +
				   (int128)(ri ? ri[i] : i) * dim->remote_stride;
	}
}

/* Advances to the next block of the descriptor; 0: that was the last. */
static int paged_advance(struct cursor *c, const struct urccl_paged *d)
{
	uint32_t k = d->ndims;

	while (k-- > 0) {
		if (++c->index[k] < d->dim[k].count) {
			paged_sum(c, d, k);
			return 1;
		}
		c->index[k] = 0;
	}
	return 0;
}

/* Puts the place of the next block into the sums; 0: there is none. */
static int paged_next(struct op *op)
{
	struct cursor *c = &op->cursor;
	const struct urccl_paged *d;

	for (; c->desc < op->sqe.len; c->desc++) {
		d = paged_at(op, c->desc);
		if (!c->fresh) {
			if (paged_advance(c, d))
				return 1;
			c->fresh = 1;
			continue;
		}
		if (!blocks_of(d) || !d->block)
			continue;
		memset(c->index, 0, sizeof(c->index));
		paged_sum(c, d, 0);
		c->fresh = 0;
		return 1;
	}
	return 0;
}

static int sum_inside(int128 sum, uint64_t len, uint64_t limit)
{
	return sum >= 0 && sum + len <= (int128)limit;
}

/* A sum may be outside the range of offsets: the record then has none. */
__attribute__((noinline)) static int block_outside(struct op *op, int128 sum, uint64_t len,
						   uint64_t limit, int is_local)
{
	if (sum < 0 || sum > (int128)UINT64_MAX)
		op_fail(op, -ERANGE, is_local ? REASON_PAGED_LOCAL : REASON_PAGED_REMOTE,
			op->cursor.desc, 0, 0);
	else
		op_fail(op, -ERANGE, is_local ? REASON_REGION_OFFSET : REASON_REMOTE_RANGE, len,
			(uint64_t)sum, limit);
	return -ERANGE;
}

static int next_block(struct op *op)
{
	struct cursor *c = &op->cursor;
	struct element *el = &c->element;
	const struct urccl_paged *d;
	int128 local, remote;

	if (!paged_next(op))
		return 0;
	d = paged_at(op, c->desc);
	local = c->local_sum[d->ndims - 1];
	remote = c->remote_sum[d->ndims - 1];
	if (!sum_inside(remote, d->block, op->remote->len))
		return block_outside(op, remote, d->block, op->remote->len, 0);
	if (!sum_inside(local, d->block, op->memory->len))
		return block_outside(op, local, d->block, op->memory->len, 1);
	el->memory = op->memory;
	el->remote = op->remote;
	el->local = (uint64_t)local;
	el->off = (uint64_t)remote;
	el->len = d->block;
	el->pos = 0;
	c->elements++;
	return 1;
}

static int next_element(struct op *op)
{
	if (is_range(op))
		return 0; /* its only element was there from the start */
	return is_paged(op) ? next_block(op) : next_seg(op);
}

uint32_t cursor_part(const struct engine_remote *r, uint64_t off)
{
	uint32_t low = 0, high = r->nparts, mid;

	while (high - low > 1) {
		mid = low + (high - low) / 2;
		if (r->parts[mid].start <= off)
			low = mid;
		else
			high = mid;
	}
	return low;
}

static uint32_t segment_number(const struct cursor *c)
{
	return c->elements > UINT32_MAX ? UINT32_MAX : (uint32_t)(c->elements - 1);
}

/* Cuts the next piece from the element. */
static void cursor_cut(struct op *op)
{
	struct cursor *c = &op->cursor;
	struct element *el = &c->element;
	struct piece *p = &c->cur;
	uint64_t off = el->off + el->pos, run = el->len - el->pos, there;
	const struct remote_part *part;

	p->part = el->remote->nparts == 1 ? 0 : cursor_part(el->remote, off);
	part = &el->remote->parts[p->part];
	p->off = off - part->start;
	there = part->len - p->off;
	run = there < run ? there : run;
	if (is_paged(op)) {
		p->local = memory_at(el->memory, el->local + el->pos, &there);
		run = there < run ? there : run;
	} else {
		p->local = (uint8_t *)(uintptr_t)(el->local + el->pos);
	}
	p->memory = el->memory;
	p->remote = el->remote;
	p->seg = segment_number(c);
	p->len = run;
	el->pos += run;
}

/* Fills c->cur if it is empty. 1; 0: the end; or -errno. */
static int cursor_fetch(struct op *op)
{
	struct cursor *c = &op->cursor;
	int n;

	if (c->cur.len)
		return 1;
	while (c->element.pos == c->element.len) {
		n = next_element(op);
		if (n <= 0)
			return n;
	}
	cursor_cut(op);
	return 1;
}

static int adjacent(const struct piece *a, const struct piece *b)
{
	return a->local + a->len == b->local && a->off + a->len == b->off &&
	       a->memory == b->memory && a->remote == b->remote && a->part == b->part;
}

static void piece_advance(struct piece *from, uint64_t len)
{
	from->local += len;
	from->off += len;
	from->len -= len;
}

/* Fast path for an entry of one piece. */
static int next_whole(struct op *op, uint32_t rail, struct piece *out)
{
	struct element *el = &op->cursor.element;

	if (!(el->remote->parts[0].rails >> rail & 1)) {
		op->cursor.cur.remote = el->remote;
		return -EAGAIN;
	}
	*out = (struct piece){.local = (uint8_t *)(uintptr_t)el->local,
			      .memory = el->memory,
			      .remote = el->remote,
			      .off = el->off,
			      .len = el->len};
	el->pos = el->len;
	return 1;
}

int cursor_next(struct op *op, uint64_t max, uint32_t rail, struct piece *out)
{
	struct piece *cur = &op->cursor.cur;
	const struct element *el = &op->cursor.element;
	uint64_t len, merged = 0;
	int n;

	if (is_range(op) && !el->pos && el->len && el->len <= max && el->remote->nparts == 1)
		return next_whole(op, rail, out);
	n = cursor_fetch(op);
	if (n <= 0)
		return n;
	if (!(cur->remote->parts[cur->part].rails >> rail & 1))
		return -EAGAIN;
	*out = *cur;
	out->len = cur->len < max ? cur->len : max;
	piece_advance(cur, out->len);
	/* An error found while joining is reported by the next call: the entry is stopped by
	 * then. */
	while (out->len < max && !cur->len && cursor_fetch(op) > 0) {
		if (!adjacent(out, cur))
			break;
		len = cur->len < max - out->len ? cur->len : max - out->len;
		piece_advance(cur, len);
		out->len += len;
		merged++;
	}
	if (merged)
		stat_add(&op_engine(op)->stats->count.merged, merged);
	return 1;
}

int cursor_peek(struct op *op, const struct piece **cur)
{
	*cur = &op->cursor.cur;
	return cursor_fetch(op);
}

/* A bundle that is being filled. */
struct filling {
	struct chunk_piece *at, *last; /* its last piece, and the last one that it may have */
	uint64_t room;		       /* bytes */
	uint64_t merged;
};

static inline void filling_add(struct filling *f, uint8_t *local, uint64_t off, uint64_t len)
{
	struct chunk_piece *p = f->at;

	f->room -= len;
	if (p->local + p->len == local && p->off + p->len == off) {
		p->len += len;
		f->merged++;
	} else {
		*++f->at = (struct chunk_piece){local, off, len};
	}
}

/* 1: sums of the dimension fit into 64 bits, so that an invalid sum cannot wrap to a valid one. */
static int is_narrow(const struct urccl_dim *dim, int128 local, int128 remote)
{
	const int64_t stride = (int64_t)1 << 30;
	const int128 most = (int128)1 << 62;

	return dim->count <= UINT32_MAX && dim->local_stride < stride &&
	       dim->local_stride > -stride && dim->remote_stride < stride &&
	       dim->remote_stride > -stride && local < most && local > -most && remote < most &&
	       remote > -most;
}

/* Adds blocks of the innermost dimension. Most blocks take this path. Memory and remote must be one
 * piece each. 0: none; cursor_fetch() must find the next block, or the error. */
static int row_fill(struct op *op, struct filling *out)
{
	struct cursor *c = &op->cursor;
	const struct urccl_paged *d = paged_at(op, c->desc);
	uint32_t k = d->ndims - 1;
	const struct urccl_dim *dim = &d->dim[k];
	const uint32_t *li = (const uint32_t *)(uintptr_t)dim->local_index;
	const uint32_t *ri = (const uint32_t *)(uintptr_t)dim->remote_index;
	int128 local_sum = k ? c->local_sum[k - 1] : (int128)d->local_off;
	int128 remote_sum = k ? c->remote_sum[k - 1] : (int128)d->remote_off;
	uint64_t i = c->index[k] + 1, first = i, end, len = d->block, local = 0, remote = 0, at,
		 off;
	uint64_t memory_len = op->memory->len, remote_len = op->remote->len;
	uint8_t *base = (uint8_t *)(uintptr_t)op->memory->spans[0].addr;
	struct filling f = *out;

	if (i >= dim->count || !len || len > f.room || len > memory_len || len > remote_len ||
	    !is_narrow(dim, local_sum, remote_sum))
		return 0;
	end = dim->count - i < f.room / len ? dim->count : i + f.room / len;
	for (; i < end && f.at < f.last; i++) {
		at = (uint64_t)local_sum + (li ? li[i] : i) * (uint64_t)dim->local_stride;
		off = (uint64_t)remote_sum + (ri ? ri[i] : i) * (uint64_t)dim->remote_stride;
		if (at > memory_len - len || off > remote_len - len)
			break;
		local = at;
		remote = off;
		filling_add(&f, base + at, off, len);
	}
	if (i == first)
		return 0;
	c->index[k] = i - 1;
	c->local_sum[k] = local;
	c->remote_sum[k] = remote;
	c->elements += i - first;
	*out = f;
	return 1;
}

/* Adds the next piece, if it has the same memory and part. 1: it has. */
static int piece_fill(struct op *op, const struct piece *first, struct filling *f)
{
	struct piece *cur = &op->cursor.cur;
	uint64_t len;

	if (cursor_fetch(op) <= 0 || cur->memory != first->memory || cur->remote != first->remote ||
	    cur->part != first->part)
		return 0;
	len = cur->len < f->room ? cur->len : f->room;
	filling_add(f, cur->local, cur->off, len);
	piece_advance(cur, len);
	return 1;
}

uint32_t cursor_fill_bundle(struct op *op, const struct piece *first, struct chunk_piece *pieces,
			    uint32_t max, uint64_t *len)
{
	struct filling f = {pieces, pieces + max - 1, GPU_GATHER_MAX - first->len, 0};
	int has_rows = is_paged(op) && op->memory->nspans == 1 && op->remote->nparts == 1;
	const struct cursor *c = &op->cursor;

	*pieces = (struct chunk_piece){first->local, first->off, first->len};
	while (f.room && f.at < f.last) {
		if (has_rows && !c->fresh && !c->cur.len && c->element.pos == c->element.len &&
		    row_fill(op, &f))
			continue;
		if (!piece_fill(op, first, &f))
			break;
	}
	if (f.merged)
		stat_add(&op_engine(op)->stats->count.merged, f.merged);
	*len = GPU_GATHER_MAX - f.room;
	return (uint32_t)(f.at - pieces) + 1;
}

uint64_t cursor_left(const struct op *op)
{
	const struct cursor *c = &op->cursor;
	const struct element *el = &c->element;
	uint64_t here = c->cur.len + el->len - el->pos, before;

	if (is_range(op) || (op->bits & OP_IS_VECTOR && c->elements == op->sqe.len))
		return here; /* a vector may have no segment */
	if (!is_paged(op))
		return here +
		       (op->sqe.len - c->elements) * (c->elements ? el->len : seg_at(op, 0)->len);
	before = c->elements * el->len;
	return here + (op->total > before ? op->total - before : 0);
}

/* Its memory and remote have been found before. */
void cursor_rewind(struct op *op)
{
	struct cursor *c = &op->cursor;

	c->cur.len = 0;
	c->element.pos = 0;
	if (is_range(op))
		return;
	c->element.len = 0;
	c->elements = 0;
	c->desc = 0;
	c->fresh = 1;
}
