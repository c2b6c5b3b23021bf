/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the stand-in for libcuda between all kinds of memory are right, and it tells the kinds
 * apart by the attributes that the driver documents. */
#include "cuda/calls.h"
#include "cuda/device.h"

#define LEN   300001u
#define UNIT  (2u << 20)
#define KINDS 7

static struct kind {
	const char *name;
	uint64_t addr, start, len;
	unsigned type, managed, legacy;
	int gpu;
	uint64_t handle_types;
	int has_context, has_pool;
} kinds[KINDS];

static uint8_t expected[LEN], pageable[LEN], pinned[LEN];

/* Two allocations side by side, of GPU 0, that both GPUs may use. */
static uint64_t map_two(void)
{
	struct cu_prop prop = {CU_MEM_ALLOCATION_TYPE_PINNED,
			       1,
			       {CU_MEM_LOCATION_TYPE_DEVICE, 0},
			       NULL,
			       0,
			       0,
			       0,
			       {0}};
	struct cu_access rw[2] = {{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, 3},
				  {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, 3}};
	uint64_t addr, handle;

	CHECK_EQ(cuMemAddressReserve(&addr, 2 * UNIT, 0, 0, 0), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(cuMemCreate(&handle, UNIT, &prop, 0), 0);
		CHECK_EQ(cuMemMap(addr + (uint64_t)i * UNIT, UNIT, 0, handle, 0), 0);
		CHECK_EQ(cuMemRelease(handle), 0);
	}
	CHECK_EQ(cuMemSetAccess(addr, 2 * UNIT, rw, 2), 0);
	return addr;
}

static void make_kinds(void)
{
	uint64_t mapped = map_two(), managed, pool;
	void *host;

	CHECK_EQ(cuMemAllocManaged(&managed, LEN, CU_MEM_ATTACH_GLOBAL), 0);
	CHECK_EQ(cuMemAllocAsync(&pool, LEN, NULL), 0);
	CHECK_EQ(cuMemHostAlloc(&host, LEN, CU_MEMHOSTALLOC_PORTABLE), 0);
	CHECK_EQ(cuMemHostRegister_v2(pinned, LEN, 0), 0);
	kinds[0] = (struct kind){"alloc", device_alloc(LEN, 0), 0, LEN, 2, 0, 1, 0, 0, 1, 0};
	kinds[1] = (struct kind){"of GPU 1", device_alloc(LEN, 1), 0, LEN, 2, 0, 1, 1, 0, 1, 0};
	kinds[2] =
		(struct kind){"mapped", mapped + UNIT - LEN / 2, mapped, 2 * UNIT, 2, 0, 0, 0, 1, 0,
			      0};
	kinds[3] = (struct kind){"managed", managed, 0, LEN, 2, 1, 0, 0, 0, 1, 0};
	kinds[4] = (struct kind){"pool", pool, 0, LEN, 2, 0, 0, 0, 0, 0, 1};
	kinds[5] = (struct kind){"pinned", (uintptr_t)host, 0, LEN, 1, 0, 0, 0, 0, 1, 0};
	kinds[6] = (struct kind){"registered", (uintptr_t)pinned, 0, LEN, 1, 0, 0, 0, 0, 1, 0};
}

static void check_attributes(const struct kind *k)
{
	unsigned type = 9, managed = 9, legacy = 9, mapped = 9;
	uint64_t start = 9, len = 9, handle_types = 9, id = 0;
	void *context = NULL, *pool = NULL, *data[10];
	int gpu = 9, names[10] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				  CU_POINTER_ATTRIBUTE_IS_MANAGED,
				  CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
				  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
				  CU_POINTER_ATTRIBUTE_RANGE_SIZE,
				  CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
				  CU_POINTER_ATTRIBUTE_BUFFER_ID,
				  CU_POINTER_ATTRIBUTE_CONTEXT,
				  CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
				  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};

	memcpy(data,
	       (void *[]){&type, &managed, &legacy, &start, &len, &handle_types, &id, &context,
			  &pool, &gpu},
	       sizeof(data));
	printf("%s\n", k->name);
	CHECK_EQ(cuPointerGetAttributes(10, names, data, k->addr + 1), 0);
	CHECK_EQ(type, k->type);
	CHECK_EQ(managed, k->managed);
	CHECK_EQ(legacy, k->legacy);
	CHECK_EQ(start, k->start ? k->start : k->addr);
	CHECK_EQ(len, k->len);
	CHECK_EQ(handle_types, k->handle_types);
	CHECK(id);
	CHECK_EQ(context, k->has_context ? device_cuda.contexts[k->gpu] : NULL);
	CHECK_EQ(!!pool, k->has_pool);
	CHECK_EQ(gpu, k->gpu);
	CHECK_EQ(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, k->addr), 0);
	CHECK_EQ(mapped, 1);
}

static void check_unknown(void)
{
	int name = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	unsigned type = 9;
	void *data = &type;

	CHECK_EQ(cuPointerGetAttributes(1, &name, &data, (uintptr_t)pageable), 0);
	CHECK_EQ(type, 0);
	CHECK_EQ(cuPointerGetAttribute(&type, name, (uintptr_t)pageable), CUDA_ERROR_INVALID_VALUE);
}

static void check_copies(void)
{
	void *stream;

	CHECK_EQ(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -1), 0);
	for (unsigned i = 0; i < KINDS * KINDS; i++) {
		uint64_t from = kinds[i / KINDS].addr, to = kinds[i % KINDS].addr;
		unsigned off = i * 37 % 512, len = LEN - 512 - i;

		if (from == to)
			continue;
		for (unsigned j = 0; j < LEN; j++)
			expected[j] = device_byte(j, i);
		CHECK_EQ(cuMemcpy(from, (uintptr_t)expected, LEN), 0);
		CHECK_EQ(cuMemcpyAsync(to + off, from + 7, len, stream), 0);
		CHECK_EQ(cuStreamSynchronize(stream), 0);
		memset(pageable, 0, LEN);
		CHECK_EQ(cuMemcpyAsync((uintptr_t)pageable, to + off, len, stream), 0);
		CHECK(!memcmp(pageable, expected + 7, len));
	}
	CHECK_EQ(cuStreamDestroy_v2(stream), 0);
}

/* The feed of urccl_gather(), with one bundle: 50 rows of table 0. */
struct feed {
	uint64_t started[8], taken[256], slots[64][2], rows[64][1024][3];
};

/* A batch, and the kernel that gathers by a table. */
static void check_pieces(void)
{
	uint64_t dsts[50], srcs[50], *word, number = 3;
	struct feed *feed;
	static const char ptx[] = ".version 7.4\n.target sm_75\n.visible .entry urccl_gather()";
	struct cu_copy_attributes attr = {.order = CU_MEMCPY_SRC_ACCESS_ORDER_ANY};
	void *stream, *module, *function, *params[] = {&feed, &word, &number};
	size_t sizes[50], first = 0;
	unsigned n = 50;

	CHECK_EQ(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -1), 0);
	CHECK_EQ(cuMemHostAlloc((void **)&feed, sizeof(*feed) + 8, 0), 0);
	memset(feed, 0, sizeof(*feed));
	word = (uint64_t *)(feed + 1);
	feed->slots[1][0] = 1ull << 46 | 1ull << 29 | 50ull << 16 | 50;
	feed->slots[1][1] = 7;
	for (unsigned i = 0; i < 50; i++) {
		feed->rows[0][i][0] = srcs[i] = kinds[0].addr + 1000 * i;
		feed->rows[0][i][1] = dsts[i] = kinds[1].addr + 1000 * (49 - i);
		sizes[i] = 1000;
		feed->rows[0][i][2] = 1000 | (uint64_t)i << 32;
	}
	device_fill(kinds[0].addr, 50000, 0, 5);
	CHECK_EQ(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, n, &attr, &first, 1, NULL),
		 CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, n, &attr, &first, 1, stream), 0);
	CHECK_EQ(cuStreamSynchronize(stream), 0);
	for (unsigned i = 0; i < 50; i++)
		CHECK(device_check(dsts[i], 1000, 1000 * i, 5));

	CHECK_EQ(cuModuleLoadData(&module, "no kernel"), CUDA_ERROR_INVALID_IMAGE);
	CHECK_EQ(cuModuleLoadData(&module, ptx), 0);
	CHECK_EQ(cuModuleGetFunction(&function, module, "urccl_other"), CUDA_ERROR_NOT_FOUND);
	CHECK_EQ(cuModuleGetFunction(&function, module, "urccl_gather"), 0);
	device_fill(kinds[0].addr, 50000, 0, 6);
	CHECK_EQ(cuCtxEnablePeerAccess(device_cuda.contexts[1], 0), 0);
	CHECK_EQ(cuLaunchKernel(function, 8, 1, 1, 256, 1, 1, 0, stream, params, NULL), 0);
	CHECK_EQ(cuStreamSynchronize(stream), 0);
	CHECK_EQ(*word, 7);
	CHECK_EQ(feed->started[0], 3);
	for (unsigned i = 0; i < 50; i++)
		CHECK(device_check(dsts[i], 1000, 1000 * i, 6));
	CHECK_EQ(cuStreamDestroy_v2(stream), 0);
	CHECK_EQ(cuModuleUnload(module), 0);
}

/* A freed address comes back with another buffer id. */
static void check_reuse(void)
{
	uint64_t addr = device_alloc(LEN, 0), again, id[2];

	device_set("reuse");
	CHECK_EQ(cuPointerGetAttribute(&id[0], CU_POINTER_ATTRIBUTE_BUFFER_ID, addr), 0);
	device_free(addr);
	again = device_alloc(LEN, 0);
	CHECK_EQ(again, addr);
	CHECK_EQ(cuPointerGetAttribute(&id[1], CU_POINTER_ATTRIBUTE_BUFFER_ID, addr), 0);
	CHECK_NE(id[0], id[1]);
	device_set("memory=1000");
	CHECK_EQ(cuMemAlloc_v2(&addr, LEN), CUDA_ERROR_OUT_OF_MEMORY);
}

int main(void)
{
	device_load();
	device_needs_gpus(2);
	device_enter(0);
	make_kinds();
	for (int i = 0; i < KINDS; i++)
		check_attributes(&kinds[i]);
	check_unknown();
	check_copies();
	check_pieces();
	check_reuse();
	CHECK_EQ(cuMemHostRegister_v2(pinned + 1, 1, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	CHECK_EQ(cuMemHostUnregister(pinned + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	CHECK_EQ(cuMemHostUnregister(pinned), 0);
	return 0;
}
