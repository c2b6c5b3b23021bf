/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel makes bytes, another context gets them, and a stream takes on what comes back:
 * gpu_stream [LIBCUDA [ROUNDS [US]]], where each kernel takes US microseconds.
 *
 * What to see: urccl_sqe_set_wait() and urccl_sqe_set_signal() with words in memory of the GPU. All
 * of a round is submitted before its kernel starts, and no thread waits for GPU or entry.
 */
#include <liburccl.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1 << 13, LEN = 8 * N, RIGHTS = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE };

#define CUDA_FUNCTIONS(X)                                                                          \
	X(cuInit, (unsigned flags))                                                                \
	X(cuDevicePrimaryCtxRetain, (void **ctx, int device))                                      \
	X(cuCtxSetCurrent, (void *ctx))                                                            \
	X(cuMemAlloc_v2, (uint64_t * to, size_t len))                                              \
	X(cuMemHostAlloc, (void **to, size_t len, unsigned flags))                                 \
	X(cuMemsetD8_v2, (uint64_t to, unsigned char value, size_t len))                           \
	X(cuModuleLoadData, (void **module, const void *image))                                    \
	X(cuModuleGetFunction, (void **to, void *module, const char *name))                        \
	X(cuLaunchKernel, (void *f, unsigned gx, unsigned gy, unsigned gz, unsigned x, unsigned y, \
			   unsigned z, unsigned n, void *s, void **args, void **e))                \
	X(cuStreamCreate, (void **stream, unsigned flags))                                         \
	X(cuStreamWaitValue64_v2, (void *stream, uint64_t at, uint64_t value, unsigned flags))     \
	X(cuMemcpyAsync, (uint64_t to, uint64_t from, size_t len, void *stream))                   \
	X(cuStreamSynchronize, (void *stream))

#define X(name, args) static int(*name) args;
CUDA_FUNCTIONS(X)
#undef X

/* produce(buffer, word, value, n, ns): after ns, value + i to each element, then value to word. */
static const char ptx[] =
	".version 7.4\n.target sm_75\n.address_size 64\n.visible .entry produce(.param .u64 buffer,"
	".param .u64 word, .param .u64 value, .param .u32 n, .param .u64 ns) { .reg .pred p;"
	".reg .u32 i, c, m; .reg .u64 b, w, v, t, o, x; ld.param.u64 b, [buffer];"
	"ld.param.u64 w, [word]; ld.param.u64 v, [value]; ld.param.u32 c, [n];"
	"ld.param.u64 t, [ns]; mov.u64 o, %globaltimer; add.u64 t, t, o;"
	"LATE: mov.u64 o, %globaltimer; setp.lt.u64 p, o, t; @p bra LATE;"
	"mov.u32 i, %tid.x; mov.u32 m, %ntid.x; NEXT: setp.ge.u32 p, i, c; @p bra DONE;"
	"cvt.u64.u32 o, i; add.u64 x, v, o; shl.b64 o, o, 3; add.u64 o, o, b; st.u64 [o], x;"
	"add.u32 i, i, m; bra NEXT; DONE: membar.sys; bar.sync 0; mov.u32 i, %tid.x;"
	"setp.ne.u32 p, i, 0; @p ret; st.release.sys.u64 [w], v; ret; }";

static void *kernel, *producer, *consumer, *taken;
static uint64_t made, words, theirs[N];
static struct urccl *ctx, *other;
static struct urccl_ring *ring, *listener;
static struct urccl_remote remote;

static void check(int failed, const char *what)
{
	if (failed && fprintf(stderr, "gpu_stream: %s: %s\n", what, urccl_errmsg()))
		exit(1);
}

static void gpu_start(const char *path)
{
	void *so = dlopen(path, RTLD_NOW | RTLD_GLOBAL), *p;

	check(!so, "no CUDA driver");
#define X(name, args) check(!(p = dlsym(so, #name)), #name), memcpy(&name, &p, sizeof(p));
	CUDA_FUNCTIONS(X)
#undef X
	check(cuInit(0) || cuDevicePrimaryCtxRetain(&p, 0) || cuCtxSetCurrent(p) ||
		      cuMemAlloc_v2(&made, 3 * LEN) || cuMemsetD8_v2(made, 0, 3 * LEN) ||
		      cuMemHostAlloc(&taken, LEN, 0) || cuStreamCreate(&producer, 1) ||
		      cuStreamCreate(&consumer, 1) || cuModuleLoadData(&p, ptx) ||
		      cuModuleGetFunction(&kernel, p, "produce"),
	      "no GPU");
	words = made + 2 * LEN;
}

/* The next completion, which must be a success: the handle that it gives. */
static uint32_t next_end(void)
{
	struct urccl_cqe *cqe;
	char why[512] = "";
	uint32_t handle;

	check(urccl_wait(ring, &cqe, NULL) < 0, "wait");
	check(cqe->res < 0 && urccl_explain(ctx, cqe, why, sizeof(why)), why);
	handle = (uint32_t)cqe->handle;
	urccl_cqe_seen(ring, cqe);
	return handle;
}

static void meet(void)
{
	struct urccl_range own = URCCL_RANGE(made, 3 * LEN), of_other = URCCL_RANGE(theirs, LEN);
	char blob[URCCL_METADATA_MAX];
	struct urccl_advert advert;
	struct urccl_region region;

	check(urccl_register(ctx, &own, 1, RIGHTS, &region) ||
		      urccl_register(other, &of_other, 1, RIGHTS, &region) ||
		      urccl_advertise(other, region, 0, LEN, RIGHTS, 0, &advert),
	      "memory");
	urccl_prep_accept(urccl_get_sqe(listener));
	urccl_submit(listener);
	urccl_prep_connect(urccl_get_sqe(ring), blob,
			   (uint32_t)urccl_metadata(other, blob, sizeof(blob)));
	urccl_submit(ring);
	check(urccl_import(ctx, (struct urccl_peer){next_end()}, &advert, 1, &remote), "import");
}

static void run(uint64_t value, uint64_t ns)
{
	struct urccl_sqe *sqe = urccl_get_sqe(ring);
	void *args[] = {&made, &words, &value, &(uint32_t){N}, &ns};

	urccl_prep_write(sqe, remote, (void *)(uintptr_t)made, LEN, 0);
	urccl_sqe_set_wait(ring, sqe, (void *)(uintptr_t)words, value);
	urccl_sqe_add_flags(sqe, URCCL_SQE_LINK | URCCL_SQE_SKIP_SUCCESS);
	sqe = urccl_get_sqe(ring);
	urccl_prep_read(sqe, remote, (void *)(uintptr_t)(made + LEN), LEN, 0);
	urccl_sqe_set_signal(ring, sqe, (void *)(uintptr_t)(words + 8), value);
	urccl_submit(ring);
	check(cuStreamWaitValue64_v2(consumer, words + 8, value, 0) ||
		      cuMemcpyAsync((uintptr_t)taken, made + LEN, LEN, consumer) ||
		      cuLaunchKernel(kernel, 1, 1, 1, 256, 1, 1, 0, producer, args, NULL) ||
		      cuStreamSynchronize(consumer),
	      "round");
	for (uint64_t i = 0; i < N; i++)
		check(((uint64_t *)taken)[i] != value + i, "an element is of another round");
	next_end();
}

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 100, i;

	gpu_start(argc > 1 ? argv[1] : "libcuda.so.1");
	check(urccl_open(NULL, &ctx) || urccl_ring_open(ctx, NULL, &ring), "open");
	check(urccl_open(NULL, &other) || urccl_ring_open(other, NULL, &listener), "open");
	meet();
	for (i = 1; i <= rounds; i++)
		run((uint64_t)i << 32, argc > 3 ? strtoull(argv[3], NULL, 10) * 1000 : 0);
	printf("%lu rounds, all right\n", rounds);
	urccl_close(ctx);
	urccl_close(other);
	return 0;
}
