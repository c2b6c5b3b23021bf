/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves the pieces of bundles in units of 4 KiB. The host posts bundles in a ring of its memory
 * (struct gpu_feed), and a running kernel goes on with all that it finds there. Each warp has an
 * equal share of every bundle. A warp that has no work left reads the ring for its block, and one
 * that has little looks whether there is more. While a warp moves a share it loads the rows of the
 * next one. When all warps have arrived, one of them stores the bundle's word.
 *
 * No block waits for another one. All blocks of a kernel take the same bundles: the first one that
 * finds no more for a while closes the kernel for all, and the next kernel goes on from there. A
 * kernel takes at least what was posted when it started.
 */
#define UNIT   4096u
#define RING   64u			/* GPU_GATHERS */
#define PIECES 1024u			/* GPU_PIECES: rows of a table */
#define BLOCKS 256u			/* GPU_SMS_MOST */
#define THREADS 1024u			/* of a block */
#define AHEAD  8u			/* slots that are read at a time */
#define LOOKS  8u			/* without work, of about 1 us each: the end of a kernel, */
#define MORE   32u			/* and of one that found some. A launch takes up to 25 us */
#define MOST   5000000u			/* ns for which it takes bundles that were posted later */
#define LAZY   32u			/* units that a warp moves before it must arrive */

typedef unsigned long long u64;

struct row {
	u64 src, dst;
	unsigned int len, first;	/* first: of its units */
};

struct slot {
	u64 bundle;			/* tag:18 table:8 each:9 n:13 units:16 */
	u64 word;
};

struct feed {
	u64 started[8];
	u64 taken[BLOCKS];
	slot slots[RING];
	row rows[RING][PIECES];
};

/* Of a warp, in shared memory. */
struct __align__(16) rows {
	row all[34];
};

/* Of a block. Warps read and write it by atomic operations. Bundles are counted from the first one
 * that the block takes. */
struct mine {
	slot slots[RING];
	unsigned int state;		/* twice the bundles, and 1: the block ends with them */
	unsigned int reads;		/* a warp reads the ring */
	unsigned int has_all;		/* of those that were posted when the kernel started */
	unsigned int ahead;		/* bundle that was begun when a warp looked for more last */
	u64 taken;			/* by earlier kernels; it does not change */
	u64 begun;			/* ns; likewise */
	u64 launch;			/* likewise */
};

/* A bundle that some blocks have taken and others left would wait for the next kernel, and the
 * others go on alone meanwhile. Bits 16 and up: number of the last bundle that a block has taken;
 * below: of the last kernel that is closed, whose blocks take none after that. */
static __device__ u64 claims;
static __device__ u64 finished;		/* twice the number of the last bundle that all warps have
					 * moved, and 1 while a warp stores the word */
static __device__ unsigned int arrived[RING];

static __device__ u64 load_acquire(const u64 *at)
{
	u64 value;

	asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
	return value;
}

static __device__ u64 word_load(const u64 *at)
{
	return *(const volatile u64 *)at;
}

static __device__ void word_store(u64 *at, u64 value)
{
	*(volatile u64 *)at = value;
}

/* A warp's look at a word of its block. */
static __device__ unsigned int block_peek(unsigned int *at, unsigned int lane)
{
	return __shfl_sync(~0u, lane ? 0 : atomicOr(at, 0), 0);
}

static __device__ u64 clock_ns(void)
{
	u64 ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

/* Bundles behind `seen` that are posted now: how many. */
static __device__ unsigned int feed_look(const feed *f, mine *m, unsigned int seen,
					 unsigned int lane)
{
	u64 number = m->taken + seen + 1 + lane, bundle = 0;
	int found = 0;

	if (lane < AHEAD) {
		bundle = load_acquire(&f->slots[number % RING].bundle);
		found = bundle >> 46 == (number & 0x3ffff);
	}
	if (found) {
		atomicExch(&m->slots[number % RING].bundle, bundle);
		atomicExch(&m->slots[number % RING].word, word_load(&f->slots[number % RING].word));
	}
	__threadfence_block();
	return __ffs(~__ballot_sync(~0u, found)) - 1;
}

/* Takes bundles up to number `to`, or as far as the kernel goes. Returns the number. One lane. */
static __device__ u64 bundles_claim(const mine *m, u64 to)
{
	u64 seen = atomicAdd(&claims, 0ull), was;

	for (;; seen = was) {
		if ((seen ^ m->launch) % 65536 == 0 || seen >> 16 >= to)
			return seen >> 16 < to ? seen >> 16 : to;
		was = atomicCAS(&claims, seen, to << 16 | seen % 65536);
		if (was == seen)
			return to;
	}
}

/* 1: the kernel is closed, and no block takes a bundle behind `last`; may: it may close it. One
 * lane. */
static __device__ int close_at(feed *f, const mine *m, u64 last, int may)
{
	u64 seen = atomicAdd(&claims, 0ull);

	if (seen >> 16 != last)
		return 0;
	if ((seen ^ m->launch) % 65536 == 0)
		return 1;
	if (!may || atomicCAS(&claims, seen, last << 16 | m->launch % 65536) != seen)
		return 0;
	word_store(&f->taken[(m->launch + 1) % 2], last);
	return 1;
}

/* Takes the bundles behind `seen` that are posted now: how many. */
static __device__ unsigned int feed_take(const feed *f, mine *m, unsigned int seen,
					 unsigned int lane)
{
	unsigned int n = feed_look(f, m, seen, lane);

	if (n < AHEAD && !lane)
		atomicExch(&m->has_all, 1);
	if (n && !lane)
		n = (unsigned int)(bundles_claim(m, m->taken + seen + n) - m->taken) - seen;
	return __shfl_sync(~0u, n, 0);
}

/* Looks until there is work, or the kernel is closed: a while after all blocks have done all. */
static __device__ void feed_read(feed *f, mine *m, unsigned int lane)
{
	unsigned int seen = block_peek(&m->state, lane) / 2, looks = 0, n = 0;
	u64 last = m->taken + seen;
	int ends = 0;

	do {
		n = feed_take(f, m, seen, lane);
		if (n)
			break;
		looks = word_load(&finished) >> 1 == last ? looks + 1 : 0;
		ends = clock_ns() - m->begun >= MOST || looks >= (seen ? MORE : LOOKS);
		ends = lane ? 0 : close_at(f, m, last, ends && atomicOr(&m->has_all, 0));
		ends = __shfl_sync(~0u, ends, 0);
		if (!ends && !looks)
			__nanosleep(500);
	} while (!ends);
	__syncwarp();
	if (!lane)
		atomicExch(&m->state, 2 * (seen + n) + !n);
}

/* The state, after a look for more if no warp has looked since the block began bundle `next`. */
__device__ __noinline__ unsigned int feed_ahead(const feed *f, mine *m, unsigned int next,
						      unsigned int lane)
{
	int looks = __shfl_sync(~0u, lane ? 0 : atomicMax(&m->ahead, next) < next, 0);
	unsigned int state, n;

	if (looks && __shfl_sync(~0u, lane ? 0 : !atomicExch(&m->reads, 1), 0)) {
		state = block_peek(&m->state, lane);
		looks = clock_ns() - m->begun < MOST && state % 2 == 0;
		n = __shfl_sync(~0u, looks, 0) ? feed_take(f, m, state / 2, lane) : 0;
		if (!lane && n)
			atomicExch(&m->state, state + 2 * n);
		__syncwarp();
		if (!lane)
			atomicExch(&m->reads, 0);
	}
	state = block_peek(&m->state, lane);
	__threadfence_block();
	return state;
}

/* The state when it shows work behind `next`, or the end of the block. */
__device__ __noinline__ unsigned int feed_wait(feed *f, mine *m, unsigned int next,
						     unsigned int lane)
{
	unsigned int state;
	int reads;

	for (;;) {
		state = block_peek(&m->state, lane);
		if (next != state / 2 || state % 2)
			return state;
		reads = __shfl_sync(~0u, lane ? 0 : !atomicExch(&m->reads, 1), 0);
		if (!reads) {
			__nanosleep(100);
			continue;
		}
		if (block_peek(&m->state, lane) == state)
			feed_read(f, m, lane);
		__syncwarp();
		if (!lane)
			atomicExch(&m->reads, 0);
	}
}

/* The last of the rows whose first unit is not behind it. n is at most 1,024. */
__device__ __noinline__ unsigned int find_row(const row *table, unsigned int n,
						    unsigned int unit, unsigned int lane)
{
	unsigned int step = (n + 31) / 32, at = lane * step, base;

	base = step * (31 - __clz(__ballot_sync(~0u, at < n && table[at].first <= unit)));
	at = base + lane;
	return base + 31 -
	       __clz(__ballot_sync(~0u, lane < step && at < n && table[at].first <= unit));
}

/* A unit that is not whole, or not of whole 16 bytes: apart, for its registers. */
__device__ __noinline__ void copy_part(u64 dst, u64 src, unsigned int len, unsigned int lane)
{
	uint4 *to = reinterpret_cast<uint4 *>(dst);
	const uint4 *from = reinterpret_cast<const uint4 *>(src);
	unsigned int i, whole = (dst | src) % 16 ? 0 : len / 16;

	for (i = lane; i < whole; i += 32)
		to[i] = __ldcs(from + i);
	for (i = whole * 16 + lane; i < len; i += 32)
		reinterpret_cast<unsigned char *>(dst)[i] =
			__ldcs(reinterpret_cast<const unsigned char *>(src) + i);
}

static __device__ __forceinline__ u64 bundle_at(mine *m, unsigned int number, unsigned int lane)
{
	unsigned int at = ((unsigned int)m->taken + number) % RING;

	return __shfl_sync(~0u, lane ? 0 : atomicCAS(&m->slots[at].bundle, 0, 0), 0);
}

static __device__ __forceinline__ const row *bundle_rows(const feed *f, u64 bundle)
{
	return f->rows[bundle >> 38 & 0xff];
}

static __device__ __forceinline__ void copy_unit(u64 dst, u64 src, unsigned int len,
						 unsigned int lane)
{
	uint4 *to = reinterpret_cast<uint4 *>(dst) + lane, part[UNIT / 512];
	const uint4 *from = reinterpret_cast<const uint4 *>(src) + lane;
	unsigned int i;

	if (len < UNIT || (dst | src) % 16) {
		copy_part(dst, src, len, lane);
		return;
	}
#pragma unroll
	for (i = 0; i < UNIT / 512; i++)
		part[i] = __ldcs(from + i * 32);
#pragma unroll
	for (i = 0; i < UNIT / 512; i++)
		to[i * 32] = part[i];
}

/* Loads n rows, up to 32, from row i on into the warp's shared memory, in parts of 16 bytes. The
 * threads neither wait nor keep registers for them. Two rows are three parts. */
static __device__ __forceinline__ void rows_load(rows *to, const row *table, unsigned int i,
						 unsigned int n, unsigned int lane)
{
	unsigned int at = (unsigned int)__cvta_generic_to_shared(to), part;
	const char *from = reinterpret_cast<const char *>(table + i / 2 * 2);

	n = ((i % 2 + n) * 3 + 1) / 2;
	for (part = lane; part < n; part += 32)
		asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
			     :
			     : "r"(at + part * 16), "l"(from + part * 16)
			     : "memory");
}

/* The lane's row of those that were loaded last, from row i on. */
static __device__ __forceinline__ row rows_take(const rows *loaded, unsigned int i,
						unsigned int lane)
{
	row r;

	asm volatile("cp.async.wait_all;" : : : "memory");
	__syncwarp();
	r = loaded->all[i % 2 + lane];
	__syncwarp();
	return r;
}

/* A warp's share of a bundle begins in the row that is returned. Each lane loads one of the next 32
 * rows. each: units of every row but the last, which may have fewer; 0: they differ. */
static __device__ __forceinline__ unsigned int share_open(const feed *f, u64 bundle,
							  unsigned int warp, unsigned int warps,
							  unsigned int lane, rows *loaded)
{
	unsigned int each = bundle >> 29 & 0x1ff, n = bundle >> 16 & 0x1fff;
	unsigned int units = bundle & 0xffff, unit = units * warp / warps;
	unsigned int end = units * (warp + 1) / warps, i;

	if (unit == end)
		return 0;
	i = each ? unit / each : find_row(bundle_rows(f, bundle), n, unit, lane);
	n = n - i < 32 ? n - i : 32;
	rows_load(loaded, bundle_rows(f, bundle), i, n < end - unit ? n : end - unit, lane);
	return i;
}

/* From row i on. Returns the units. */
static __device__ __forceinline__ unsigned int share_copy(const feed *f, u64 bundle,
							  unsigned int warp, unsigned int warps,
							  unsigned int lane, unsigned int i, row r)
{
	unsigned int n = bundle >> 16 & 0x1fff, units = bundle & 0xffff;
	unsigned int unit = units * warp / warps, end = units * (warp + 1) / warps;
	unsigned int k, in, len, first;
	u64 src, dst;

	while (unit < end) {
		for (k = 0; k < 32 && unit < end; k++) {
			src = __shfl_sync(~0u, r.src, k);
			dst = __shfl_sync(~0u, r.dst, k);
			len = __shfl_sync(~0u, r.len, k);
			first = __shfl_sync(~0u, r.first, k);
			for (; unit < end && (in = (unit - first) * UNIT) < len; unit++)
				copy_unit(dst + in, src + in, len - in < UNIT ? len - in : UNIT,
					  lane);
		}
		i += 32;
		if (i + lane < n && lane < end - unit)
			r = bundle_rows(f, bundle)[i + lane];
	}
	return units * (warp + 1) / warps - units * warp / warps;
}

/* All warps have moved the bundles up to `last`. With its fences a store of the word takes as long
 * as a bundle, so one warp at a time stores it, for all bundles that have finished meanwhile. One
 * lane. */
static __device__ void word_put(mine *m, u64 *word, u64 last)
{
	u64 seen = atomicAdd(&finished, 0ull), was;

	for (;; seen = was) {
		if (seen >> 1 >= last)
			return;
		was = atomicCAS(&finished, seen, last << 1 | 1);
		if (was == seen)
			break;
	}
	if (seen & 1)
		return;
	for (;; last = seen >> 1) {
		__threadfence_system();
		word_store(word, atomicCAS(&m->slots[last % RING].word, 0, 0));
		__threadfence();
		seen = atomicCAS(&finished, last << 1 | 1, last << 1);
		if (seen == (last << 1 | 1))
			return;
	}
}

/* The warp has moved its shares of the bundles behind `from` up to `to`. */
__device__ __noinline__ void arrive(mine *m, u64 *word, unsigned int from, unsigned int to,
					   unsigned int warps, unsigned int lane)
{
	unsigned int at;
	u64 last = 0;

	__syncwarp();
	if (lane)
		return;
	__threadfence();
	while (from++ != to) {
		at = ((unsigned int)m->taken + from) % RING;
		if (atomicInc(&arrived[at], warps - 1) == warps - 1)
			last = m->taken + from;
	}
	if (!last)
		return;
	__threadfence(); /* what the others' arrivals say is before the word of any warp */
	word_put(m, word, last);
}

/* word: of the lane; launch: number of the kernel. The host launches none for a bundle if it sees,
 * after the post, that the last one has not started. So that is said before the first look. */
extern "C" __global__ void __launch_bounds__(THREADS, 1)
	urccl_gather(feed *f, u64 *word, u64 launch)
{
	unsigned int lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32), moved = 0;
	unsigned int warp = threadIdx.x / 32 * gridDim.x + blockIdx.x;
	unsigned int done = 0, next = 0, state, from, from_next;
	__shared__ rows loaded[THREADS / 32];
	__shared__ mine m;
	row r;

	if (!threadIdx.x) {
		word_store(f->started, launch);
		m.taken = word_load(&f->taken[launch % 2]);
		m.state = m.reads = m.has_all = m.ahead = 0;
		m.begun = clock_ns();
		m.launch = launch;
		__threadfence_system();
	}
	__syncthreads();
	while ((state = feed_wait(f, &m, next, lane)) / 2 != next) {
		__threadfence_block();
		from_next = share_open(f, bundle_at(&m, next + 1, lane), warp, warps, lane,
				       &loaded[threadIdx.x / 32]);
		while (next < state / 2) {
			r = rows_take(&loaded[threadIdx.x / 32], from_next, lane);
			from = from_next;
			if (++next + 1 >= state / 2)
				state = feed_ahead(f, &m, next, lane);
			if (next < state / 2)
				from_next = share_open(f, bundle_at(&m, next + 1, lane), warp,
						       warps, lane, &loaded[threadIdx.x / 32]);
			moved += share_copy(f, bundle_at(&m, next, lane), warp, warps, lane, from,
					    r);
			if (moved < LAZY && next < state / 2)
				continue;
			arrive(&m, word, done, next, warps, lane);
			done = next;
			moved = 0;
		}
	}
}
