/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, sets and words. */
#include "double.h"

#define SLICE	    (64u << 10)
#define LATE_BYTES  64u
#define STAGED_MOST (64u << 10)
#define STAGED_US   200u

/* ---- carried out, by a stream's thread or by the caller ---- */

/* Words of 8 bytes are copied whole, as others may poll them. */
static void move_bytes(uint8_t *to, const uint8_t *from, uint64_t len)
{
	uint64_t i;

	if (len > LATE_BYTES || ((uintptr_t)to | (uintptr_t)from | len) % 8) {
		memmove(to, from, len);
		return;
	}
	for (i = 0; i < len; i += 8)
		__atomic_store_n((uint64_t *)(void *)(to + i),
				 __atomic_load_n((const uint64_t *)(const void *)(from + i),
						 __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
}

static void copy_range(uint64_t dst, uint64_t src, uint64_t len)
{
	uint64_t n, m;
	uint8_t *to, *from;

	while (len) {
		lock();
		to = span_view(dst, len, &n);
		from = span_view(src, n, &m);
		unlock();
		m = m < SLICE ? m : SLICE;
		move_bytes(to, from, m);
		dst += m;
		src += m;
		len -= m;
	}
}

static void set_range(const struct op *op)
{
	uint64_t at = op->pieces->dst, left = op->pieces->len, n;
	uint8_t *to;

	for (; left; left -= n, at += n) {
		lock();
		to = span_view(at, left, &n);
		unlock();
		memset(to, (int)op->value, n);
	}
}

static void write_word(const struct op *op)
{
	uint64_t n;
	uint8_t *to;

	lock();
	to = span_view(op->pieces->dst, 8, &n);
	unlock();
	__atomic_store_n((uint64_t *)(void *)to, op->value, __ATOMIC_RELEASE);
}

void copy_run(const struct op *op)
{
	struct words w;
	size_t i;

	if (op->kind == OP_WRITE) {
		write_word(op);
		return;
	}
	w = words_now();
	nap_us(op->staged ? STAGED_US : w.delay_us);
	if (op->kind == OP_SET) {
		set_range(op);
		return;
	}
	for (i = 0; i < op->npieces; i++) {
		const struct piece *p = &op->pieces[i];
		uint64_t late = !w.late_us ? 0 : p->len < LATE_BYTES ? p->len : LATE_BYTES;

		copy_range(p->dst, p->src, p->len - late);
		if (late) {
			nap_us(w.late_us);
			copy_range(p->dst + p->len - late, p->src + p->len - late, late);
		}
	}
}

/* ---- calls ---- */

static bool is_pageable(uint64_t addr)
{
	uint64_t start, len;

	return !span_at(addr) && !reservation_attribute(addr, &start, &len);
}

/* The call waits where a side is pageable host memory, as the driver does. */
static int copy_async(uint64_t dst, uint64_t src, size_t len, void *stream, const char *by)
{
	struct op op = {.kind = OP_COPY, .pieces = &op.one, .npieces = 1, .one = {dst, src, len}};
	struct stream *s;
	int res;

	if (!len)
		return 0;
	if (!dst || !src)
		return CUDA_ERROR_INVALID_VALUE;
	lock();
	s = stream_of(stream);
	res = stream_add(s, &op, by);
	if (!res && (is_pageable(dst) || is_pageable(src)))
		stream_wait(s);
	unlock();
	return res;
}

/* A small copy of pageable memory is staged: the call returns before the bytes are in the memory of
 * the GPU, which has not asked for the opposite. */
static bool is_staged(uint64_t dst, uint64_t src, size_t len)
{
	const struct span *s = span_at(dst);

	return len <= STAGED_MOST && is_pageable(src) && s && is_device(s) && !is_synchronous(s);
}

static int copy_staged(uint64_t dst, uint64_t src, size_t len, const char *by)
{
	struct op op = {.kind = OP_COPY, .pieces = &op.one, .npieces = 1};
	int res;

	op.staged = memcpy(malloc(len), (const void *)(uintptr_t)src, len);
	op.one = (struct piece){dst, (uintptr_t)op.staged, len};
	lock();
	res = stream_add(stream_of(NULL), &op, by);
	unlock();
	return res;
}

/* On the legacy stream, ahead of whose work that of blocking streams is. */
static int copy_now(uint64_t dst, uint64_t src, size_t len, const char *by)
{
	bool staged;
	int res;

	lock();
	staged = len && is_staged(dst, src, len);
	unlock();
	if (staged)
		return copy_staged(dst, src, len, by);
	res = copy_async(dst, src, len, NULL, by);
	if (res)
		return res;
	lock();
	stream_wait(stream_of(NULL));
	res = current()->sticky;
	unlock();
	return res;
}

static void check_side(uint64_t addr, bool device, const char *by)
{
	struct span *s;

	lock();
	s = span_at(addr);
	if (device && is_pageable(addr))
		die("%s: 0x%llx is no pointer of CUDA's", by, (unsigned long long)addr);
	if (!device && s && is_device(s))
		die("%s: 0x%llx is device memory, not the host's", by, (unsigned long long)addr);
	unlock();
}

EXPORT int cuMemcpy(uint64_t dst, uint64_t src, size_t len)
{
	ENTER(CLASS_MEMCPY, NEEDS_INIT | NEEDS_CONTEXT);
	return copy_now(dst, src, len, __func__);
}

EXPORT int cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t len)
{
	ENTER(CLASS_MEMCPY, NEEDS_INIT | NEEDS_CONTEXT);
	check_side(dst, true, __func__);
	check_side((uint64_t)(uintptr_t)src, false, __func__);
	return copy_now(dst, (uint64_t)(uintptr_t)src, len, __func__);
}

EXPORT int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t len)
{
	ENTER(CLASS_MEMCPY, NEEDS_INIT | NEEDS_CONTEXT);
	check_side(src, true, __func__);
	check_side((uint64_t)(uintptr_t)dst, false, __func__);
	return copy_now((uint64_t)(uintptr_t)dst, src, len, __func__);
}

EXPORT int cuMemcpyDtoD_v2(uint64_t dst, uint64_t src, size_t len)
{
	ENTER(CLASS_MEMCPY, NEEDS_INIT | NEEDS_CONTEXT);
	check_side(src, true, __func__);
	check_side(dst, true, __func__);
	return copy_now(dst, src, len, __func__);
}

EXPORT int cuMemcpyAsync(uint64_t dst, uint64_t src, size_t len, void *stream)
{
	ENTER(CLASS_MEMCPY, NEEDS_INIT | NEEDS_CONTEXT);
	return copy_async(dst, src, len, stream, __func__);
}

EXPORT int cuMemcpyPeerAsync(uint64_t dst, void *dst_context, uint64_t src, void *src_context,
			     size_t len, void *stream)
{
	ENTER(CLASS_MEMCPY, NEEDS_INIT | NEEDS_CONTEXT);
	lock();
	context_of(dst_context);
	context_of(src_context);
	unlock();
	check_side(src, true, __func__);
	check_side(dst, true, __func__);
	return copy_async(dst, src, len, stream, __func__);
}

static int check_batch(const struct cu_copy_attributes *attrs, const size_t *firsts, size_t nattrs,
		       size_t n, const void *stream)
{
	size_t i;

	if (!n || !nattrs || nattrs > n || firsts[0] || (uintptr_t)stream <= 1)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < nattrs; i++)
		if (attrs[i].order < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
		    attrs[i].order > CU_MEMCPY_SRC_ACCESS_ORDER_ANY || attrs[i].flags > 1 ||
		    firsts[i] >= n || (i && firsts[i] <= firsts[i - 1]))
			return CUDA_ERROR_INVALID_VALUE;
	return 0;
}

EXPORT int cuMemcpyBatchAsync_v2(uint64_t *dsts, uint64_t *srcs, size_t *sizes, size_t n,
				 struct cu_copy_attributes *attrs, size_t *firsts, size_t nattrs,
				 void *stream)
{
	struct op op = {.kind = OP_COPY, .npieces = n};
	struct stream *s;
	size_t i;
	int res;

	ENTER(CLASS_MEMCPY, NEEDS_INIT | NEEDS_CONTEXT);
	res = check_batch(attrs, firsts, nattrs, n, stream);
	if (res)
		return res;
	for (i = 0; i < n; i++)
		if (!dsts[i] || !srcs[i] || !sizes[i])
			return CUDA_ERROR_INVALID_VALUE;
	op.pieces = calloc(n, sizeof(*op.pieces));
	if (!op.pieces)
		die("no memory");
	for (i = 0; i < n; i++)
		op.pieces[i] = (struct piece){dsts[i], srcs[i], sizes[i]};
	lock();
	s = stream_of(stream);
	res = stream_add(s, &op, __func__);
	unlock();
	return res;
}

/* As CUDA 12.8 has it. */
EXPORT int cuMemcpyBatchAsync(uint64_t *dsts, uint64_t *srcs, size_t *sizes, size_t n,
			      struct cu_copy_attributes *attrs, size_t *firsts, size_t nattrs,
			      size_t *failed, void *stream)
{
	if (failed)
		*failed = SIZE_MAX;
	return cuMemcpyBatchAsync_v2(dsts, srcs, sizes, n, attrs, firsts, nattrs, stream);
}

EXPORT int cuMemsetD8_v2(uint64_t dst, unsigned char value, size_t n)
{
	struct op op = {.kind = OP_SET,
			.pieces = &op.one,
			.npieces = 1,
			.one = {dst, 0, n},
			.value = value};
	struct stream *s;
	int res;

	ENTER(CLASS_MEMCPY, NEEDS_INIT | NEEDS_CONTEXT);
	if (!n)
		return 0;
	check_side(dst, true, __func__);
	lock();
	s = stream_of(NULL);
	res = stream_add(s, &op, __func__);
	if (!res)
		stream_wait(s);
	unlock();
	return res;
}

/* ---- words ---- */

static int word(void *stream, uint64_t addr, uint64_t value, unsigned flags, enum op_kind kind,
		const char *by)
{
	struct op op = {.kind = kind,
			.pieces = &op.one,
			.npieces = 1,
			.one = {addr, 0, 8},
			.value = value,
			.flags = flags};
	struct span *at;
	int res = CUDA_ERROR_INVALID_VALUE;

	check_side(addr, true, by);
	lock();
	at = span_at(addr);
	if (addr % 8 == 0 && !(at && at->kind == SPAN_MANAGED))
		res = stream_add(stream_of(stream), &op, by);
	unlock();
	return res;
}

EXPORT int cuStreamWriteValue64_v2(void *stream, uint64_t addr, uint64_t value, unsigned flags)
{
	ENTER(CLASS_MEMCPY, NEEDS_INIT | NEEDS_CONTEXT);
	return flags > 1 ? CUDA_ERROR_INVALID_VALUE
			 : word(stream, addr, value, 0, OP_WRITE, __func__);
}

EXPORT int cuStreamWaitValue64_v2(void *stream, uint64_t addr, uint64_t value, unsigned flags)
{
	ENTER(CLASS_STREAM, NEEDS_INIT | NEEDS_CONTEXT);
	return flags > 3 ? CUDA_ERROR_INVALID_VALUE
			 : word(stream, addr, value, flags, OP_WAIT, __func__);
}
