/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of memory, and how far each reaches. */
#include <unistd.h>

#include "gpu_rig.h"

int case_gpu_pointer(void);

#define MIB (1ull << 20)

static struct gpu_pointer is(struct gpu_rig *r, uint64_t addr, uint64_t len, enum gpu_memory kind,
			     uint64_t reaches)
{
	struct gpu_pointer p;

	CHECK_EQ(gpu_pointer_info(r->gpu, addr, len, &p), 0);
	CHECK_EQ(p.kind, kind);
	CHECK_EQ(p.end, addr + reaches);
	return p;
}

static void host(struct gpu_rig *r)
{
	uint8_t *pinned = rig_pinned(r, MIB);
	struct gpu_pointer p;
	uint64_t managed;

	is(r, rig_addr(&p), sizeof(p), GPU_MEMORY_HOST, sizeof(p));
	p = is(r, rig_addr(pinned) + 4096, 8192, GPU_MEMORY_PINNED, 8192);
	CHECK_EQ(p.base, rig_addr(pinned));
	is(r, rig_addr(pinned) + 4096, 4 * MIB, GPU_MEMORY_PINNED, MIB - 4096);
	CHECK_EQ(r->cuMemAllocManaged(&managed, MIB, 1), 0);
	is(r, managed, MIB, GPU_MEMORY_HOST, MIB);
}

static void device(struct gpu_rig *r)
{
	struct gpu_pointer p, other;
	uint64_t ptr;
	int i;

	for (i = 0; i < r->ngpus; i++) {
		ptr = rig_alloc(r, (uint32_t)i, 4 * MIB);
		p = is(r, ptr + MIB, MIB, GPU_MEMORY_DEVICE, MIB);
		CHECK_EQ(p.index, i);
		CHECK_EQ(p.base, ptr);
		CHECK(p.is_primary && p.is_legacy_ipc && !p.is_vmm && p.id);
		is(r, ptr + MIB, 64 * MIB, GPU_MEMORY_DEVICE, 3 * MIB);
		other = is(r, rig_alloc(r, (uint32_t)i, MIB), MIB, GPU_MEMORY_DEVICE, MIB);
		CHECK_NE(other.id, p.id);
		rig_dev(r, (uint32_t)i);
		CHECK(is(r, ptr, MIB, GPU_MEMORY_DEVICE, MIB).is_primary);
	}
}

static void other_context(struct gpu_rig *r)
{
	uint64_t ptr;
	void *ctx;

	CHECK_EQ(r->cuCtxCreate_v2(&ctx, 0, 0), 0);
	CHECK_EQ(r->cuMemAlloc_v2(&ptr, MIB), 0);
	CHECK_EQ(r->cuCtxSetCurrent(r->ctx[0]), 0);
	CHECK(!is(r, ptr, MIB, GPU_MEMORY_DEVICE, MIB).is_primary);
}

/* Two mappings that touch are one piece, and the addresses behind them are no memory. */
static void mapped(struct gpu_rig *r)
{
	const struct {
		int type, handles, location, device;
		void *win32;
		uint64_t flags;
	} prop = {1, 1, 1, 0, NULL, 0};
	const int access[] = {1, 0, 3};
	struct gpu_pointer p;
	uint64_t at, handle;
	int i;

	CHECK_EQ(r->cuMemAddressReserve(&at, 8 * MIB, 0, 0, 0), 0);
	for (i = 0; i < 2; i++) {
		CHECK_EQ(r->cuMemCreate(&handle, 2 * MIB, &prop, 0), 0);
		CHECK_EQ(r->cuMemMap(at + (uint64_t)i * 2 * MIB, 2 * MIB, 0, handle, 0), 0);
	}
	CHECK_EQ(r->cuMemSetAccess(at, 4 * MIB, access, 1), 0);
	p = is(r, at + MIB, 2 * MIB, GPU_MEMORY_DEVICE, 2 * MIB);
	CHECK(p.is_vmm && p.is_primary && !p.is_legacy_ipc);
	CHECK_EQ(p.base, at);
	is(r, at + MIB, 8 * MIB, GPU_MEMORY_DEVICE, 3 * MIB);
}

int case_gpu_pointer(void)
{
	void *now, *then;
	struct gpu_rig r;

	rig_open(&r, 0);
	CHECK_EQ(r.cuCtxGetCurrent(&then), 0);
	host(&r);
	device(&r);
	other_context(&r);
	mapped(&r);
	CHECK_EQ(r.cuCtxGetCurrent(&now), 0);
	CHECK(now == then);
	CHECK_EQ(gpu_close(r.gpu), 0);
	return 0;
}
