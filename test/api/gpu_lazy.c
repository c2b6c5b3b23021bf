/* SPDX-License-Identifier: Apache-2.0 */
/* A context starts nothing on a GPU whose memory was not registered, and nothing at all where no
 * memory of a GPU was. */
#include <dlfcn.h>
#include <stdlib.h>
#include "pair.h"
#include "cuda/abi.h"

#define LEN (1u << 20)

static void *so;
static struct pair p;

static void *symbol(const char *name)
{
	void *s = dlsym(so, name);

	CHECK(s);
	return s;
}

static int is_active(int gpu)
{
	int (*state)(int device, unsigned *flags, int *active);
	void *s = symbol("cuDevicePrimaryCtxGetState");
	unsigned flags;
	int active;

	memcpy(&state, &s, sizeof(s));
	CHECK_EQ(state(gpu, &flags, &active), 0);
	return active;
}

static uint64_t alloc_on_first(void)
{
	int (*retain)(void **ctx, int device), (*set)(void *ctx), (*alloc)(uint64_t * at, size_t n);
	void *s, *ctx;
	uint64_t addr;

	s = symbol("cuDevicePrimaryCtxRetain");
	memcpy(&retain, &s, sizeof(s));
	s = symbol("cuCtxSetCurrent");
	memcpy(&set, &s, sizeof(s));
	s = symbol("cuMemAlloc_v2");
	memcpy(&alloc, &s, sizeof(s));
	CHECK_EQ(retain(&ctx, 0), 0);
	CHECK_EQ(set(ctx), 0);
	CHECK_EQ(alloc(&addr, LEN), 0);
	return addr;
}

static void write_to_host(void *from)
{
	struct urccl_sqe *sqe;
	struct target t;

	target_open(&p, &t, LEN, p.shared);
	side_register(&p.a, from, LEN, 0);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, from, LEN, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, LEN);
	target_close(&p, &t);
}

int main(int argc, char **argv)
{
	const char *path = getenv("URCCL_TEST_CUDA_SO");
	int (*init)(unsigned), (*count)(int *);
	void *host = calloc(1, LEN), *s;
	int n;

	so = dlopen(path ? path : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	if (!so)
		SKIP("no libcuda.so.1");
	s = symbol("cuInit");
	memcpy(&init, &s, sizeof(s));
	s = symbol("cuDeviceGetCount");
	memcpy(&count, &s, sizeof(s));
	if (init(0) || count(&n) || !n)
		SKIP("no GPU");
	pair_begin(&p, argc, argv);
	write_to_host(host);
	CHECK(!is_active(0));
	write_to_host((void *)(uintptr_t)alloc_on_first());
	CHECK(is_active(0));
	CHECK(n < 2 || !is_active(1));
	pair_close(&p);
	free(host);
	return 0;
}
