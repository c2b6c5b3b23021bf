/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transfer of equal blocks between one region and one remote is a paged entry: one pattern for
 * each run of blocks with the same distances, or one pattern with two tables of indices.
 */
#include "plugin.h"

static constexpr size_t BLOCKS_MIN = 8;	 /* below it segments are as short */
static constexpr size_t RUN_BLOCKS = 16; /* in a run on average, for a pattern a run */

static urccl_paged pattern(const transfer &x, uint64_t addr, uint64_t off, uint64_t count)
{
	urccl_paged p = {};

	p.size = sizeof(p);
	p.ndims = 1;
	p.local_off = addr - x.base;
	p.remote_off = off;
	p.block = x.segs[0].len;
	p.dim[0].count = count;
	return p;
}

static bool find_runs(transfer &x)
{
	const std::vector<urccl_seg> &s = x.segs;
	size_t most = s.size() / RUN_BLOCKS + 1, i = 0, k;

	for (; i < s.size() && x.patterns.size() < most; i = k) {
		urccl_paged p = pattern(x, s[i].addr, s[i].off, 1);

		for (k = i + 1; k < s.size(); k++) {
			int64_t local = (int64_t)(s[k].addr - s[k - 1].addr);
			int64_t remote = (int64_t)(s[k].off - s[k - 1].off);

			if (k == i + 1) {
				p.dim[0].local_stride = local;
				p.dim[0].remote_stride = remote;
			} else if (local != p.dim[0].local_stride ||
				   remote != p.dim[0].remote_stride) {
				break;
			}
		}
		p.dim[0].count = k - i;
		x.patterns.push_back(p);
	}
	if (i < s.size())
		x.patterns.clear();
	return i == s.size();
}

static bool find_tables(transfer &x)
{
	uint64_t block = x.segs[0].len, local = ~0ull, remote = ~0ull;

	for (const urccl_seg &s : x.segs) {
		local = std::min(local, s.addr);
		remote = std::min(remote, s.off);
	}
	for (const urccl_seg &s : x.segs) {
		uint64_t here = s.addr - local, there = s.off - remote;

		if (here % block || there % block || (here | there) / block > UINT32_MAX)
			return false;
		x.local_index.push_back((uint32_t)(here / block));
		x.remote_index.push_back((uint32_t)(there / block));
	}
	urccl_paged p = pattern(x, local, remote, x.segs.size());
	p.dim[0].local_stride = p.dim[0].remote_stride = (int64_t)block;
	p.dim[0].local_index = (uint64_t)(uintptr_t)x.local_index.data();
	p.dim[0].remote_index = (uint64_t)(uintptr_t)x.remote_index.data();
	x.patterns.push_back(p);
	return true;
}

void transfer::find_patterns()
{
	auto differs = [this](const urccl_seg &s) {
		return s.len != segs[0].len || s.region != segs[0].region ||
		       s.remote != segs[0].remote;
	};

	if (segs.size() < BLOCKS_MIN || std::any_of(segs.begin(), segs.end(), differs))
		return;
	if (!find_runs(*this) && !find_tables(*this))
		return;
	region = segs[0].region;
	remote = segs[0].remote;
	segs = {};
}
