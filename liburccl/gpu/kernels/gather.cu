/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves the pieces of bundles in units of 4 KiB. The host posts bundles in a ring of its memory
 * (struct gpu_feed), and a running kernel goes on with all that it finds there. Each warp has an
 * equal share of every bundle. A warp that has no work left reads the ring for its block. The last
 * warp that arrives stores the bundle's word.
 *
 * No block waits for another one. A block that finds nothing more notes how many bundles it took,
 * and the next kernel goes on from there. A kernel takes at least what was posted when it started.
 */
#define UNIT   4096u
#define RING   64u			/* GPU_GATHERS */
#define PIECES 1024u			/* GPU_PIECES: rows of a table */
#define BLOCKS 256u			/* GPU_SMS_MOST */
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

/* Of a block. Warps read and write it by atomic operations. Bundles are counted from the first one
 * that the block takes. */
struct mine {
	slot slots[RING];
	unsigned int state;		/* twice the bundles, and 1: the block ends with them */
	unsigned int reads;		/* a warp reads the ring */
	unsigned int has_all;		/* of those that were posted when the kernel started */
	unsigned int done;		/* bundles, summed up over the warps */
	u64 taken;			/* by earlier kernels; it does not change */
	u64 begun;			/* ns; likewise */
};

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

/* Looks until there is work, or the block ends. It ends if no warp of it has work for a while. */
static __device__ void feed_read(feed *f, mine *m, unsigned int lane)
{
	unsigned int seen = block_peek(&m->state, lane) / 2, warps = blockDim.x / 32;
	unsigned int looks = 0, n = 0;
	int over;

	do {
		over = clock_ns() - m->begun >= MOST;
		if (block_peek(&m->has_all, lane) && __shfl_sync(~0u, over, 0))
			break;
		n = feed_look(f, m, seen, lane);
		if (n < AHEAD && !lane)
			atomicExch(&m->has_all, 1);
		looks = block_peek(&m->done, lane) == seen * warps ? looks + 1 : 0;
		if (!n && !looks)
			__nanosleep(500);
	} while (!n && looks < (seen ? MORE : LOOKS));
	__syncwarp();
	if (lane)
		return;
	if (n) {
		atomicExch(&m->state, 2 * (seen + n));
	} else {
		f->taken[blockIdx.x] = m->taken + seen;
		atomicExch(&m->state, 2 * seen + 1);
	}
}

/* The state when it shows work behind `next`, or the end of the block. */
static __device__ unsigned int feed_wait(feed *f, mine *m, unsigned int next, unsigned int lane)
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
static __device__ unsigned int find_row(const row *table, unsigned int n, unsigned int unit,
				    unsigned int lane)
{
	unsigned int step = (n + 31) / 32, at = lane * step, base;

	base = step * (31 - __clz(__ballot_sync(~0u, at < n && table[at].first <= unit)));
	at = base + lane;
	return base + 31 -
	       __clz(__ballot_sync(~0u, lane < step && at < n && table[at].first <= unit));
}

static __device__ void copy_unit(u64 dst, u64 src, unsigned int len, unsigned int lane)
{
	uint4 *to = reinterpret_cast<uint4 *>(dst), part[UNIT / 512];
	const uint4 *from = reinterpret_cast<const uint4 *>(src);
	unsigned int i, whole = (dst | src) % 16 ? 0 : len / 16;

	if (whole == UNIT / 16) {
#pragma unroll
		for (i = 0; i < UNIT / 512; i++)
			part[i] = __ldcs(from + i * 32 + lane);
#pragma unroll
		for (i = 0; i < UNIT / 512; i++)
			to[i * 32 + lane] = part[i];
		return;
	}
	for (i = lane; i < whole; i += 32)
		to[i] = __ldcs(from + i);
	for (i = whole * 16 + lane; i < len; i += 32)
		reinterpret_cast<unsigned char *>(dst)[i] =
			__ldcs(reinterpret_cast<const unsigned char *>(src) + i);
}

/* The share of a warp. each: units of every row but the last, which may have fewer; 0: they
 * differ. Returns the units. */
static __device__ unsigned int share_copy(const feed *f, u64 bundle, unsigned int warp,
					  unsigned int warps, unsigned int lane)
{
	const row *table = f->rows[bundle >> 38 & 0xff];
	unsigned int each = bundle >> 29 & 0x1ff, n = bundle >> 16 & 0x1fff;
	unsigned int units = bundle & 0xffff, begin = units * warp / warps, unit = begin;
	unsigned int end = units * (warp + 1) / warps, i, k, in, len, first;
	u64 src, dst;
	row r = {};

	if (unit == end)
		return 0;
	i = each ? unit / each : find_row(table, n, unit, lane);
	for (; unit < end; i += 32) {
		if (i + lane < n && lane < end - unit)
			r = table[i + lane];
		for (k = 0; k < 32 && unit < end; k++) {
			src = __shfl_sync(~0u, r.src, k);
			dst = __shfl_sync(~0u, r.dst, k);
			len = __shfl_sync(~0u, r.len, k);
			first = __shfl_sync(~0u, r.first, k);
			for (; unit < end && (in = (unit - first) * UNIT) < len; unit++)
				copy_unit(dst + in, src + in, len - in < UNIT ? len - in : UNIT,
					  lane);
		}
	}
	return end - begin;
}

/* Bundles up to `to` are done with. Their words are stored in order: whoever stores one arrives at
 * the next one after that. */
static __device__ void arrive(mine *m, u64 *word, unsigned int from, unsigned int to,
			      unsigned int warps, unsigned int lane)
{
	unsigned int at;

	__syncwarp();
	if (lane)
		return;
	atomicAdd(&m->done, to - from);
	__threadfence();
	while (from++ != to) {
		at = ((unsigned int)m->taken + from) % RING;
		if (atomicInc(&arrived[at], warps - 1) != warps - 1)
			continue;
		__threadfence_system();
		word_store(word, atomicCAS(&m->slots[at].word, 0, 0));
		__threadfence();
	}
}

/* word: of the lane; launch: number of the kernel. The host launches none for a bundle if it sees,
 * after the post, that the last one has not started. So that is said before the first look. */
extern "C" __global__ void __launch_bounds__(1024, 1)
	urccl_gather(feed *f, u64 *word, u64 launch)
{
	unsigned int lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32), moved = 0;
	unsigned int warp = threadIdx.x / 32 * gridDim.x + blockIdx.x;
	unsigned int done = 0, next = 0, state, at;
	__shared__ mine m;
	u64 bundle;

	if (!threadIdx.x) {
		word_store(f->started, launch);
		m.taken = word_load(&f->taken[blockIdx.x]);
		m.state = m.reads = m.has_all = m.done = 0;
		m.begun = clock_ns();
		__threadfence_system();
	}
	__syncthreads();
	while ((state = feed_wait(f, &m, next, lane)) / 2 != next) {
		__threadfence_block();
		while (next < state / 2) {
			at = ((unsigned int)m.taken + ++next) % RING;
			bundle = lane ? 0 : atomicCAS(&m.slots[at].bundle, 0, 0);
			moved += share_copy(f, __shfl_sync(~0u, bundle, 0), warp, warps, lane);
			if (moved < LAZY && next < state / 2)
				continue;
			arrive(&m, word, done, next, warps, lane);
			done = next;
			moved = 0;
		}
	}
}
