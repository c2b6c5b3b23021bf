/* SPDX-License-Identifier: Apache-2.0 */
/* Scattered blocks between GPUs of two processes: paged and vectored entries with blocks of every
 * length and alignment, small and large ones mixed, put each byte where it belongs and no other,
 * by kernels and, with "gpu_sms=0" as the last argument, by copy engines alone. */
#include <stdlib.h>
#include "child.h"
#include "cuda/device.h"

#define LEN    (16u << 20)
#define PLANES 2u
#define PLANE  (LEN / PLANES)
#define BLOCKS 2000u
#define SEGS   300u
#define GUARD  0x5a

static struct pair p;
static struct child c;
static struct urccl_remote remote;
static struct urccl_region region;
static uint64_t local, back; /* of a GPU of this side */
static uint64_t local_off;
static uint8_t *bytes, *got, *wanted;
static uint32_t here[BLOCKS], there[BLOCKS], state = 1, kernels;

static uint32_t next(uint32_t n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % n;
}

static void shuffle(uint32_t *table, uint32_t n)
{
	uint32_t i, k, was;

	for (i = 0; i < n; i++)
		table[i] = i;
	for (i = n; i > 1; i--) {
		k = next(i);
		was = table[k];
		table[k] = table[i - 1];
		table[i - 1] = was;
	}
}

static void run(struct urccl_sqe *sqe, uint64_t len)
{
	struct urccl_cqe cqe = pair_run(&p, &p.a, sqe);

	CHECK_EQ(cqe.res, (int64_t)len);
	CHECK(cqe.path & URCCL_PATH_DEVICE);
	CHECK(!(cqe.path & (URCCL_PATH_BOUNCE_LOCAL | URCCL_PATH_BOUNCE_REMOTE)));
	CHECK(cqe.flags & URCCL_CQE_REMOTE_QUIET);
	kernels += !!(cqe.path & URCCL_PATH_KERNEL);
}

/* All of the child's memory and of this side's second one. */
static void guard_all(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	memset(got, GUARD, LEN);
	device_put(back, got, LEN);
	urccl_prep_write(sqe, remote, (void *)(uintptr_t)back, LEN, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, LEN);
}

/* The child's memory is as wanted. */
static void check_there(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_read(sqe, remote, (void *)(uintptr_t)back, LEN, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, LEN);
	device_get(got, back, LEN);
	CHECK(!memcmp(got, wanted, LEN));
}

/* Their places, from one buffer to the other. */
static void place(uint8_t *to, const uint32_t *at, uint64_t off, uint32_t n, uint64_t block,
		  uint64_t apart)
{
	uint32_t i, plane;

	for (plane = 0; plane < PLANES; plane++)
		for (i = 0; i < n; i++)
			memcpy(to + plane * PLANE + off + at[i] * apart,
			       bytes + plane * PLANE + local_off + here[i] * apart, block);
}

/* Planes of blocks in a random order, here and there; blocks lie `apart`, and `off` from a multiple
 * of 16. */
static void paged(uint64_t block, uint64_t apart, uint64_t off)
{
	struct urccl_paged d = {.size = sizeof(d), .ndims = 2, .block = block, .local_off = off};
	uint32_t n = (uint32_t)((PLANE - off) / apart);
	struct urccl_sqe *sqe;

	local_off = off;
	n = n < BLOCKS ? n : BLOCKS;
	shuffle(here, n);
	shuffle(there, n);
	d.dim[0] =
		(struct urccl_dim){.count = PLANES, .local_stride = PLANE, .remote_stride = PLANE};
	d.dim[1] = (struct urccl_dim){.count = n,
				      .local_stride = (int64_t)apart,
				      .remote_stride = (int64_t)apart,
				      .local_index = (uintptr_t)here,
				      .remote_index = (uintptr_t)there};
	guard_all();
	memset(wanted, GUARD, LEN);
	place(wanted, there, 0, n, block, apart);
	sqe = side_sqe(&p.a);
	urccl_prep_write_paged(sqe, remote, region, &d, 1);
	run(sqe, PLANES * n * block);
	check_there();
	/* Back into the guarded memory, where they came from. */
	memset(got, 0, LEN);
	device_put(local, got, LEN);
	sqe = side_sqe(&p.a);
	urccl_prep_read_paged(sqe, remote, region, &d, 1);
	run(sqe, PLANES * n * block);
	device_get(got, local, LEN);
	memset(wanted, 0, LEN);
	place(wanted, here, off, n, block, apart);
	CHECK(!memcmp(got, wanted, LEN));
	device_put(local, bytes, LEN);
}

static void vector(uint32_t most, uint32_t large)
{
	static struct urccl_seg segs[SEGS];
	uint64_t from = next(17), to = next(17), sum = 0;
	struct urccl_sqe *sqe;
	uint32_t n, len;

	guard_all();
	memset(wanted, GUARD, LEN);
	for (n = 0; n < SEGS; n++) {
		len = large && next(10) == 0 ? (1u << 20) + next(100) : 1 + next(most);
		if ((from > to ? from : to) + len > LEN)
			break;
		segs[n] = (struct urccl_seg){.addr = local + from,
					     .len = len,
					     .off = to,
					     .remote = remote.id};
		memcpy(wanted + to, bytes + from, len);
		from += len + next(40);
		to += len + next(40);
		sum += len;
	}
	sqe = side_sqe(&p.a);
	urccl_prep_writev(sqe, p.a.peer, segs, n);
	run(sqe, sum);
	check_there();
}

/* The error names the first segment that is not known to have arrived, at or before the bad one. */
static void outside(void)
{
	static struct urccl_seg segs[SEGS];
	struct urccl_sqe *sqe;
	struct urccl_cqe cqe;
	uint32_t i;

	for (i = 0; i < SEGS; i++)
		segs[i] = (struct urccl_seg){.addr = local + i * 4096,
					     .len = 100,
					     .off = i == 200 ? LEN : i * 8192,
					     .remote = remote.id};
	sqe = side_sqe(&p.a);
	urccl_prep_writev(sqe, p.a.peer, segs, SEGS);
	cqe = pair_run(&p, &p.a, sqe);
	CHECK_EQ(cqe.res, -ERANGE);
	CHECK_LE(cqe.fail.segment, 200);
}

int main(int argc, char **argv)
{
	int engines = !strcmp(argv[argc - 1], "gpu_sms=0");
	uint32_t i;

	child_memory = device_memory;
	child_main(argc, argv);
	device_load();
	pair_options(&p, argc - engines, argv);
	p.params.gpu_sms = engines ? 0 : URCCL_AUTO;
	child_start(&p, &c, LEN, NULL);
	side_open(&p, &p.a);
	local = device_alloc(LEN, 0);
	back = device_alloc(LEN, 0);
	bytes = malloc(LEN);
	got = malloc(LEN);
	wanted = malloc(LEN);
	CHECK(bytes && got && wanted);
	for (i = 0; i < LEN; i++)
		bytes[i] = (uint8_t)next(256);
	device_put(local, bytes, LEN);
	region = side_register(&p.a, (void *)(uintptr_t)local, LEN, 0);
	side_register(&p.a, (void *)(uintptr_t)back, LEN, 0);
	child_connect(&p, &c);
	CHECK_EQ(urccl_import(p.a.ctx, p.a.peer, &c.advert, 1, &remote), 0);
	paged(4096, 4096, 0);
	paged(4096, 8192, 16);
	paged(1000, 1001, 3);
	paged(1, 2, 0);
	paged(15, 16, 1);
	paged(65536, 65552, 8);
	paged(300000, 300016, 0);
	vector(5000, 0);
	vector(100, 0);
	vector(30000, 1);
	outside();
	vector(200000, 1);
	if (engines || (device_cuda.set && getenv("URCCL_TEST_CUDA")))
		CHECK_EQ(kernels, 0);
	else
		CHECK_GE(kernels, PAIR_SLOW ? 1 : 12); /* measured rates decide */
	side_close(&p.a);
	child_kill(&c);
	free(bytes);
	free(got);
	free(wanted);
	return 0;
}
