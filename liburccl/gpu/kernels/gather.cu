/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves the pieces of a table (struct gpu_piece) in units of 4 KiB. Each warp has an equal share of
 * the units, one after another, so that pieces of any length are spread evenly. The table is in
 * memory of the host, which a warp reads 32 rows at a time.
 */
#define UNIT 4096u

struct row {
	unsigned long long src, dst;
	unsigned int len, first;	/* first: of its units */
};

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

static __device__ void copy_unit(unsigned long long dst, unsigned long long src, unsigned int len,
			    unsigned int lane)
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

/* each: units of every row but the last, which may have fewer; 0: they differ. */
extern "C" __global__ void __launch_bounds__(1024, 1)
	urccl_gather(const row *table, unsigned int n, unsigned int units, unsigned int each)
{
	unsigned int lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32), in, i, k;
	unsigned int warp = threadIdx.x / 32 * gridDim.x + blockIdx.x;
	unsigned int unit = (unsigned long long)units * warp / warps;
	unsigned int end = (unsigned long long)units * (warp + 1) / warps, len, first;
	unsigned long long src, dst;
	row mine = {};

	if (unit == end)
		return;
	i = each ? unit / each : find_row(table, n, unit, lane);
	for (; unit < end; i += 32) {
		if (i + lane < n)
			mine = table[i + lane];
		for (k = 0; k < 32 && unit < end; k++) {
			src = __shfl_sync(~0u, mine.src, k);
			dst = __shfl_sync(~0u, mine.dst, k);
			len = __shfl_sync(~0u, mine.len, k);
			first = __shfl_sync(~0u, mine.first, k);
			for (; unit < end && (in = (unit - first) * UNIT) < len; unit++)
				copy_unit(dst + in, src + in, len - in < UNIT ? len - in : UNIT,
					  lane);
		}
	}
}
