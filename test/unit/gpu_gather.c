/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of pieces of every length and alignment, small and large ones mixed, arrive by each way,
 * and no byte beside them changes. Without kernels, or a batch call, the other ways do the work. */
#include "gpu_rig.h"

int case_gpu_gather(void);

#define LEN   (16u << 20)
#define GUARD 0xa5

static uint8_t *host, *back, *wanted;
static uint64_t from, to;
static uint32_t state = 1;

static uint32_t next(uint32_t n)
{
	state = state * 1664525u + 1013904223u;
	return (state >> 8) % n;
}

static uint32_t length(uint32_t kind)
{
	static const uint32_t some[] = {1,    2,    3,	  15,	16,   17,    31,    32,
					4080, 4095, 4096, 4097, 8192, 12289, 65536, 65552};

	switch (kind) {
	case 0:
		return some[next(ARRAY_SIZE(some))];
	case 1:
		return 4096;
	case 2:
		return 1 + next(9000);
	default:
		return next(20) ? 1 + next(3000) : GPU_LARGE + next(3) * 16;
	}
}

/* Pieces, each at places of both sides that others leave alone. */
static void fill(struct gpu_pieces *t, uint32_t kind, uint32_t align)
{
	uint64_t src = align, dst = align ? next(17) : 0, len;

	for (;;) {
		len = length(kind);
		if (gpu_pieces_full(t) || (src > dst ? src : dst) + len + 64 > LEN)
			return;
		gpu_pieces_add(t, from + src, to + dst, (uint32_t)len);
		memcpy(wanted + dst, host + src, len);
		src += len + (align ? next(18) : 16 - len % 16);
		dst += len + (align ? next(18) : 16 - len % 16);
	}
}

static void one(struct gpu_rig *r, struct gpu_dev *dev, uint32_t kind, uint32_t align,
		enum gpu_method method)
{
	struct gpu_pieces *t = gpu_pieces_get(dev);
	struct gpu_job job = rig_gather(t);

	memset(wanted, GUARD, LEN);
	rig_put(r, to, wanted, LEN);
	fill(t, kind, align);
	CHECK_GE(t->n, 100);
	CHECK_EQ(gpu_submit(dev, &job), 1);
	CHECK_EQ(rig_wait(r, &job), 0);
	CHECK(!job.pieces);
	/* Where both are to be had, the other one may be tried. */
	if (r->set || job.method != GPU_METHOD_BATCH)
		CHECK_EQ(job.method, method);
	CHECK_EQ(r->cuMemcpyDtoH_v2(back, to, LEN), 0);
	CHECK(!memcmp(back, wanted, LEN));
}

static void all(struct gpu_rig *r, int32_t sms, const char *words, enum gpu_method method)
{
	struct gpu_dev *dev;
	uint32_t kind, align;

	rig_words(r, words);
	rig_gpu_sms(r, 0, sms);
	dev = rig_dev(r, 0);
	rig_ready(r, dev);
	for (kind = 0; kind < 4; kind++)
		for (align = 0; align < 3; align++)
			one(r, dev, kind, align, method);
	CHECK_EQ(gpu_close(r->gpu), 0);
}

/* The bundle is posted when the launch fails. */
static void refused(struct gpu_rig *r)
{
	struct gpu_dev *dev;
	uint32_t i;

	rig_words(r, "refuse=none");
	rig_gpu_sms(r, 0, -1);
	dev = rig_dev(r, 0);
	rig_ready(r, dev);
	one(r, dev, 0, 1, GPU_METHOD_KERNEL);
	rig_words(r, "refuse=cuLaunchKernel:701");
	for (i = 0; i < 4; i++)
		one(r, dev, i, 1, GPU_METHOD_COPIES);
	CHECK_EQ(gpu_close(r->gpu), 0);
}

int case_gpu_gather(void)
{
	struct gpu_rig r;
	uint32_t i;

	rig_load(&r);
	rig_start(&r, 1);
	host = rig_pinned(&r, LEN);
	back = rig_pinned(&r, LEN);
	wanted = rig_pinned(&r, LEN);
	from = rig_alloc(&r, 0, LEN);
	to = rig_alloc(&r, 0, LEN);
	for (i = 0; i < LEN; i++)
		host[i] = (uint8_t)next(256);
	rig_put(&r, from, host, LEN);
	if (!r.set) {
		rig_gpu_sms(&r, 0, -1);
		rig_ready(&r, rig_dev(&r, 0));
		for (i = 0; i < 12; i++)
			one(&r, rig_dev(&r, 0), i % 4, i / 4, GPU_METHOD_KERNEL);
		CHECK_EQ(gpu_close(r.gpu), 0);
		return 0;
	}
	all(&r, -1, "driver=12070", GPU_METHOD_KERNEL);
	all(&r, 0, "driver=13000", GPU_METHOD_BATCH);
	all(&r, -1, "nokernels", GPU_METHOD_BATCH);
	all(&r, -1, "driver=12070", GPU_METHOD_COPIES);
	all(&r, -1, "nokernels=0,refuse=cuLaunchKernel:701", GPU_METHOD_COPIES);
	refused(&r);
	all(&r, 0, "driver=13000,refuse=cuMemcpyBatchAsync:801", GPU_METHOD_COPIES);
	return 0;
}
