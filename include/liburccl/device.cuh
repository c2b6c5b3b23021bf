/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pushes entries to a device ring, urccl_device_ring_open(), from kernels of CUDA 12.3 or newer on
 * sm_70 or newer; also C11 and C++17, for threads that push. urccl_device(7) has an example.
 *
 * A lane has one producer at a time: a thread, or a warp, all 32 threads of which then make each
 * call together, with the same arguments and a struct urccl_dev_lane each. No call waits for the
 * engine but urccl_dev_wait(). Nothing here orders the program's bytes before an entry that sends
 * them: urccl_dev_fence() does, once for any number of entries.
 */
#ifndef LIBURCCL_DEVICE_CUH
#define LIBURCCL_DEVICE_CUH

#include <errno.h>
#include <string.h>
#include <time.h>
#include <liburccl/abi.h>

#define URCCL_DEV_FULL (~0ull)	/* in place of an index: there is no room */

/* A producer's side of its lane, in its registers. */
struct urccl_dev_lane {
	struct urccl_sqe *slots;
	struct urccl_device_lane *words;
	uint64_t pushed;		/* entries */
	uint64_t ended, failed;		/* the words, as read last and as told last */
	uint32_t entries;
	uint32_t rank;			/* number of the thread in its warp */
	uint32_t is_warp;
};

/* ---- The machine: 16 bytes at a time, and the threads of a warp ----------------------------- */

#ifdef __CUDACC__

#define URCCL_DEV static __device__ __forceinline__

/* 16 bytes, if go. first: the word with the lap bit is the first one, which matters to processors
 * alone. */
URCCL_DEV void __urccl_dev_store(uint64_t *at, uint64_t a, uint64_t b, int first, int go)
{
	(void)first;
	asm volatile("{\n\t.reg .b128 both;\n\t.reg .pred go;\n\tsetp.ne.s32 go, %3, 0;\n\t"
		     "mov.b128 both, {%1, %2};\n\t@go st.relaxed.sys.b128 [%0], both;\n\t}"
		     :
		     : "l"(at), "l"(a), "l"(b), "r"(go)
		     : "memory");
}

/* The four parts of an entry. Without branches, which cost a thread more than a store does. */
URCCL_DEV void __urccl_dev_store_entry(uint64_t *at, const uint64_t w[8], int go)
{
	asm volatile("{\n\t.reg .b128 p0, p1, p2, p3;\n\t.reg .pred go;\n\t"
		     "setp.ne.s32 go, %9, 0;\n\t"
		     "mov.b128 p0, {%1, %2};\n\tmov.b128 p1, {%3, %4};\n\t"
		     "mov.b128 p2, {%5, %6};\n\tmov.b128 p3, {%7, %8};\n\t"
		     "@go st.relaxed.sys.b128 [%0], p0;\n\t"
		     "@go st.relaxed.sys.b128 [%0+16], p1;\n\t"
		     "@go st.relaxed.sys.b128 [%0+32], p2;\n\t"
		     "@go st.relaxed.sys.b128 [%0+48], p3;\n\t}"
		     :
		     : "l"(at), "l"(w[0]), "l"(w[1]), "l"(w[2]), "l"(w[3]), "l"(w[4]), "l"(w[5]),
		       "l"(w[6]), "l"(w[7]), "r"(go)
		     : "memory");
}

URCCL_DEV void __urccl_dev_load(const uint64_t *at, uint64_t *a, uint64_t *b)
{
	asm volatile("{\n\t.reg .b128 both;\n\tld.acquire.sys.b128 both, [%2];\n\t"
		     "mov.b128 {%0, %1}, both;\n\t}"
		     : "=l"(*a), "=l"(*b)
		     : "l"(at)
		     : "memory");
}

URCCL_DEV uint64_t __urccl_dev_load_word(const uint64_t *at)
{
	uint64_t word;

	asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
	return word;
}

/* What the warp's first thread has. Memory that it has seen by then is seen by all. */
URCCL_DEV uint64_t __urccl_dev_agree(const struct urccl_dev_lane *l, uint64_t value)
{
	if (l->is_warp)
		__syncwarp();
	return l->is_warp ? __shfl_sync(0xffffffffu, (unsigned long long)value, 0) : value;
}

URCCL_DEV uint64_t __urccl_dev_cycles(void)
{
	return (uint64_t)clock64();
}

/* The compiler would compute the address anew in each push. */
URCCL_DEV void __urccl_dev_keep(struct urccl_dev_lane *l)
{
	asm volatile("" : "+l"(l->slots), "+l"(l->words));
}

/* What this thread, or the warp, stored before is seen by whoever sees an entry pushed from now
 * on. */
URCCL_DEV void urccl_dev_fence(const struct urccl_dev_lane *l)
{
	__threadfence_system();
	if (l->is_warp)
		__syncwarp();
}

#else

#define URCCL_DEV static inline

URCCL_DEV void __urccl_dev_store(uint64_t *at, uint64_t a, uint64_t b, int first, int go)
{
	if (!go)
		return;
	__atomic_store_n(&at[first], first ? b : a, __ATOMIC_RELAXED);
	__atomic_store_n(&at[!first], first ? a : b, __ATOMIC_RELEASE);
}

URCCL_DEV void __urccl_dev_store_entry(uint64_t *at, const uint64_t w[8], int go)
{
	__urccl_dev_store(&at[0], w[0], w[1], 1, go);
	__urccl_dev_store(&at[2], w[2], w[3], 0, go);
	__urccl_dev_store(&at[4], w[4], w[5], 0, go);
	__urccl_dev_store(&at[6], w[6], w[7], 0, go);
}

URCCL_DEV void __urccl_dev_load(const uint64_t *at, uint64_t *a, uint64_t *b)
{
	*a = __atomic_load_n(&at[0], __ATOMIC_ACQUIRE);
	*b = __atomic_load_n(&at[1], __ATOMIC_ACQUIRE);
}

URCCL_DEV uint64_t __urccl_dev_load_word(const uint64_t *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

URCCL_DEV uint64_t __urccl_dev_agree(const struct urccl_dev_lane *l, uint64_t value)
{
	(void)l;
	return value;
}

URCCL_DEV void __urccl_dev_keep(struct urccl_dev_lane *l)
{
	(void)l;
}

/* Nanoseconds. */
URCCL_DEV uint64_t __urccl_dev_cycles(void)
{
	struct timespec ts;

	timespec_get(&ts, TIME_UTC);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Each push is one here. */
URCCL_DEV void urccl_dev_fence(const struct urccl_dev_lane *l)
{
	(void)l;
}

#endif

/* ---- A producer's life ---------------------------------------------------------------------- */

/* Reads both words: a failure that is stored before the end is seen with it. Returns failed. */
URCCL_DEV uint64_t __urccl_dev_look(struct urccl_dev_lane *l)
{
	uint64_t ended = 0, failed = 0;

	if (!l->is_warp || !l->rank)
		__urccl_dev_load(&l->words->ended, &ended, &failed);
	l->ended = __urccl_dev_agree(l, ended);
	return __urccl_dev_agree(l, failed);
}

URCCL_DEV struct urccl_dev_lane __urccl_dev_open(struct urccl_device_ring ring, uint32_t lane,
						 uint32_t is_warp, uint32_t rank)
{
	struct urccl_dev_lane l;
	uint64_t pushed = 0, none = 0;

	l.slots = ring.slots + (size_t)lane * (ring.entries + 1);
	l.words = ring.words + lane;
	l.entries = ring.entries;
	l.is_warp = is_warp;
	l.rank = rank;
	__urccl_dev_keep(&l);
	if (!is_warp || !rank)
		__urccl_dev_load(&l.words->pushed, &pushed, &none);
	l.entries += (uint32_t)none; /* 0, or the compiler would load a constant in each push */
	l.pushed = __urccl_dev_agree(&l, pushed);
	l.failed = __urccl_dev_look(&l);
	return l;
}

/* This thread begins to push to the lane, where the producer before it has closed it. */
URCCL_DEV struct urccl_dev_lane urccl_dev_open(struct urccl_device_ring ring, uint32_t lane)
{
	return __urccl_dev_open(ring, lane, 0, 0);
}

#ifdef __CUDACC__
/* The same for this warp, of a block whose threads are numbered in one dimension. */
URCCL_DEV struct urccl_dev_lane urccl_dev_open_warp(struct urccl_device_ring ring, uint32_t lane)
{
	return __urccl_dev_open(ring, lane, 1, threadIdx.x % 32);
}
#endif

/* It ends. A lane that is not closed has no other producer until its ring is opened anew. Entries
 * go on, and so may the next producer: of the next kernel of the stream, or once the program has
 * synchronised. */
URCCL_DEV void urccl_dev_close(struct urccl_dev_lane *l)
{
	if (!l->rank)
		__urccl_dev_store(&l->words->pushed, l->pushed, 0, 1, 1);
}

/* 1: n entries have room, of which the lane has slots. Reads host memory only if they had none at
 * the last look. */
URCCL_DEV int urccl_dev_has_room(struct urccl_dev_lane *l, uint32_t n)
{
	const uint64_t before = l->ended;

	if (l->entries - ((uint32_t)l->pushed - (uint32_t)l->ended) < n)
		do /* once: a loop makes the look a branch, and no load that each push waits for */
			(void)__urccl_dev_look(l);
		while (l->ended < before);
	return l->entries - ((uint32_t)l->pushed - (uint32_t)l->ended) >= n;
}

/* Entries that can be pushed. Reads host memory only if there was none at the last look: those that
 * need more than one ask urccl_dev_has_room(). */
URCCL_DEV uint32_t urccl_dev_room(struct urccl_dev_lane *l)
{
	(void)urccl_dev_has_room(l, 1);
	return l->entries - (uint32_t)(l->pushed - l->ended);
}

/* The entry's words with the lap bits of that index. Its low half says all: entries are fewer. */
URCCL_DEV void __urccl_dev_words(const struct urccl_dev_lane *l, uint32_t index,
				 const struct urccl_sqe *sqe, uint64_t w[8])
{
	const uint64_t flag = (uint64_t)URCCL_SQE_LAP << 16, top = 1ull << 63;
	const uint64_t lap = index & l->entries ? 0 : ~0ull;

	memcpy(w, sqe, sizeof(*sqe));
	w[0] = (w[0] & ~flag) | (lap & flag);
	w[3] = (w[3] & ~top) | (lap & top);
	w[5] = (w[5] & ~top) | (lap & top);
	w[7] = (w[7] & ~top) | (lap & top);
}

URCCL_DEV uint64_t *__urccl_dev_slot(const struct urccl_dev_lane *l, uint32_t index)
{
	return (uint64_t *)(void *)&l->slots[index & (l->entries - 1)];
}

/* Any entry that a device ring takes; user_data, group and URCCL_SQE_SKIP_SUCCESS are the engine's.
 * Returns its index in the lane, from 0 on, or URCCL_DEV_FULL: nothing was pushed. */
URCCL_DEV uint64_t urccl_dev_push(struct urccl_dev_lane *l, const struct urccl_sqe *sqe)
{
	const uint64_t index = l->pushed;
	const int has = urccl_dev_has_room(l, 1);
	uint64_t *at = __urccl_dev_slot(l, (uint32_t)index), w[8], a, b;

	__urccl_dev_words(l, (uint32_t)index, sqe, w);
	if (l->is_warp) { /* one store of 64 bytes */
		a = l->rank & 2 ? (l->rank & 1 ? w[6] : w[4]) : (l->rank & 1 ? w[2] : w[0]);
		b = l->rank & 2 ? (l->rank & 1 ? w[7] : w[5]) : (l->rank & 1 ? w[3] : w[1]);
		__urccl_dev_store(at + 2 * (size_t)(l->rank & 3), a, b, !l->rank,
				  has && l->rank < 4);
	} else {
		__urccl_dev_store_entry(at, w, has);
	}
	l->pushed += (uint32_t)has;
	return has ? index : URCCL_DEV_FULL;
}

#ifdef __CUDACC__
/* The lower of two threads gives the second word and gets the first one of the other. */
URCCL_DEV void __urccl_dev_swap(uint32_t is_upper, uint32_t distance, uint64_t *a, uint64_t *b)
{
	const uint64_t got = __shfl_xor_sync(
		0xffffffffu, (unsigned long long)(is_upper ? *a : *b), (int)distance);

	*a = is_upper ? got : *a;
	*b = is_upper ? *b : got;
}

/* Four threads exchange the quarters of their entries: each has the same one of all four then. */
URCCL_DEV void __urccl_dev_exchange(uint32_t rank, uint64_t w[8])
{
	uint32_t i;

	for (i = 0; i < 2; i++) {
		__urccl_dev_swap(rank & 1, 1, &w[i], &w[2 + i]);
		__urccl_dev_swap(rank & 1, 1, &w[4 + i], &w[6 + i]);
	}
	for (i = 0; i < 4; i++)
		__urccl_dev_swap(rank & 2, 2, &w[i], &w[4 + i]);
}

/* By a warp: threads 0 to n - 1 push an entry of their own each, with indexes in that order, or
 * none does. n: 1 to 32, and no more than the lane's entries. Returns the thread's index. */
URCCL_DEV uint64_t urccl_dev_push_each(struct urccl_dev_lane *l, const struct urccl_sqe *sqe,
				       uint32_t n)
{
	const uint64_t index = l->pushed + l->rank;
	const int has = urccl_dev_has_room(l, n);
	uint64_t w[8], *at;
	uint32_t i, of;

	__urccl_dev_words(l, (uint32_t)index, sqe, w);
	__urccl_dev_exchange(l->rank, w);
	for (i = 0; i < 4; i++) { /* four threads store 64 bytes together: full sectors */
		of = (l->rank & ~3u) + i;
		at = __urccl_dev_slot(l, (uint32_t)l->pushed + of);
		__urccl_dev_store(at + 2 * (size_t)(l->rank & 3), w[2 * i], w[2 * i + 1], 0,
				  has && of < n);
	}
	l->pushed += has ? n : 0;
	return has ? index : URCCL_DEV_FULL;
}
#endif

URCCL_DEV struct urccl_sqe __urccl_dev_sqe(uint8_t opcode, uint32_t object, uint64_t addr,
					   uint64_t len, uint64_t off, uint64_t tag, uint32_t flags)
{
	struct urccl_sqe sqe;

	memset(&sqe, 0, sizeof(sqe));
	sqe.opcode = opcode;
	sqe.flags = (uint16_t)flags;
	sqe.remote = object;
	sqe.addr = addr;
	sqe.len = len;
	sqe.off = off;
	sqe.tag = tag;
	return sqe;
}

URCCL_DEV uint64_t __urccl_dev_entry(struct urccl_dev_lane *l, uint8_t opcode, uint32_t object,
				     uint64_t addr, uint64_t len, uint64_t off, uint64_t tag,
				     uint32_t flags)
{
	const struct urccl_sqe sqe = __urccl_dev_sqe(opcode, object, addr, len, off, tag, flags);

	return urccl_dev_push(l, &sqe);
}

/* ---- Entries: as urccl_prep_write() and so on, with flags of enum urccl_sqe_flags ----------- */

URCCL_DEV uint64_t urccl_dev_write(struct urccl_dev_lane *l, struct urccl_remote remote,
				   const void *buf, uint64_t len, uint64_t off, uint32_t flags)
{
	return __urccl_dev_entry(l, URCCL_OP_WRITE, remote.id, (uint64_t)(uintptr_t)buf, len, off,
				 0, flags);
}

#ifdef __CUDACC__
/* By a warp, as urccl_dev_push_each(). */
URCCL_DEV uint64_t urccl_dev_write_each(struct urccl_dev_lane *l, struct urccl_remote remote,
					const void *buf, uint64_t len, uint64_t off, uint32_t flags,
					uint32_t n)
{
	const struct urccl_sqe sqe = __urccl_dev_sqe(
		URCCL_OP_WRITE, remote.id, (uint64_t)(uintptr_t)buf, len, off, 0, flags);

	return urccl_dev_push_each(l, &sqe, n);
}
#endif

URCCL_DEV uint64_t urccl_dev_read(struct urccl_dev_lane *l, struct urccl_remote remote, void *buf,
				  uint64_t len, uint64_t off, uint32_t flags)
{
	return __urccl_dev_entry(l, URCCL_OP_READ, remote.id, (uint64_t)(uintptr_t)buf, len, off, 0,
				 flags);
}

/* addend: from -2^62 to 2^62 - 1. What the word was before is told to nobody. */
URCCL_DEV uint64_t urccl_dev_fetch_add(struct urccl_dev_lane *l, struct urccl_remote remote,
				       uint64_t off, int64_t addend, uint32_t flags)
{
	return __urccl_dev_entry(l, URCCL_OP_FETCH_ADD, remote.id, (uint64_t)addend, 0, off, 0,
				 flags);
}

/* Without payload. */
URCCL_DEV uint64_t urccl_dev_notify(struct urccl_dev_lane *l, struct urccl_peer peer, uint64_t tag,
				    uint32_t flags)
{
	return __urccl_dev_entry(l, URCCL_OP_NOTIFY, peer.id, 0, 0, 0, tag, flags);
}

/* ---- Ends ----------------------------------------------------------------------------------- */

/*
 * Waits until entry index of the lane and all before it have ended, for so many cycles of clock64()
 * (of a thread: nanoseconds). 0: they have, and none has failed since this was last told. -errno:
 * entry (l->failed >> 16) - 1 has, of whatever index, and is the last that did: those up to index
 * may be under way, wait again. -ETIME: neither. Every entry ends, by its deadline.
 */
URCCL_DEV int urccl_dev_wait(struct urccl_dev_lane *l, uint64_t index, uint64_t cycles)
{
	const uint64_t start = __urccl_dev_cycles();
	uint64_t failed;

	for (;;) {
		failed = __urccl_dev_look(l);
		if (failed != l->failed) {
			l->failed = failed;
			return -(int)(failed & 0xffff);
		}
		if (l->ended > index)
			return 0;
		if (__urccl_dev_agree(l, __urccl_dev_cycles() - start >= cycles))
			return -ETIME;
	}
}

/* ---- Signals -------------------------------------------------------------------------------- */

/*
 * Waits until a counter in this process's pinned memory, to which a peer adds by FETCH_ADD, is at
 * least value, for so many cycles as above: 0 or -ETIME. Bytes of entries that the FETCH_ADD was
 * behind, by URCCL_SQE_FENCE, are seen then. The lane tells whether a thread waits, or a warp.
 */
URCCL_DEV int urccl_dev_signal_wait(const struct urccl_dev_lane *l, const uint64_t *counter,
				    uint64_t value, uint64_t cycles)
{
	const uint64_t start = __urccl_dev_cycles();
	uint64_t now = 0;

	for (;;) {
		if (!l->is_warp || !l->rank)
			now = __urccl_dev_load_word(counter);
		if (__urccl_dev_agree(l, now) >= value)
			return 0;
		if (__urccl_dev_agree(l, __urccl_dev_cycles() - start >= cycles))
			return -ETIME;
	}
}

#endif
