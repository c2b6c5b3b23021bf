/* SPDX-License-Identifier: Apache-2.0 */
/* Bad attributes are refused with a sentence, the window has room for all that it holds, and where
 * there is no CUDA driver the error says so. */
#include <liburccl/ep.h>

#include <errno.h>

#include "test.h"

static struct urccl_ep_attr good(void)
{
	return (struct urccl_ep_attr){
		.size = sizeof(struct urccl_ep_attr),
		.ranks = 8,
		.experts = 256,
		.topk = 8,
		.max_tokens = 4096,
		.max_row_bytes = 14336,
		.max_scale_words = 56,
		.ll_max_tokens = 128,
		.ll_hidden = 7168,
	};
}

static void check_refused(struct urccl_ep_attr attr, const char *part)
{
	uint64_t bytes = 7;

	CHECK_EQ(urccl_ep_window_bytes(&attr, &bytes), -EINVAL);
	CHECK_SAYS(urccl_ep_errmsg(), part);
	CHECK_EQ(bytes, 7);
}

static void check_attributes(void)
{
	struct urccl_ep_attr a;

	a = good(), a.size = 8, check_refused(a, "attr.size");
	a = good(), a.ranks = 0, check_refused(a, "ranks");
	a = good(), a.ranks = 9, check_refused(a, "ranks");
	a = good(), a.experts = 0, check_refused(a, "experts");
	a = good(), a.experts = 255, check_refused(a, "experts");
	a = good(), a.experts = 8192, check_refused(a, "experts");
	a = good(), a.topk = 33, check_refused(a, "topk");
	a = good(), a.max_row_bytes = 24, check_refused(a, "max_row_bytes");
	a = good(), a.max_row_bytes = 0, check_refused(a, "max_row_bytes");
	a = good(), a.ll_max_tokens = 1025, check_refused(a, "ll_max_tokens");
	a = good(), a.ll_hidden = 8, check_refused(a, "ll_hidden");
	a = good(), a.max_tokens = 1u << 29, check_refused(a, "rows");
	a = good(), a.reserved = 1, check_refused(a, "reserved");
}

static void check_sizes(void)
{
	struct urccl_ep_attr a = good();
	const uint64_t rows = 8 * 4096, low_latency = 3 * 8 * 128;
	uint64_t bytes, fewer;

	CHECK_EQ(urccl_ep_window_bytes(&a, &bytes), 0);
	CHECK_GE(bytes, rows * (2 * 14336 + 56 * 4 + 8 * 16 + 4) + low_latency * (4 * 7168 + 128));
	CHECK_LE(bytes, (rows * (2 * 14336 + 56 * 4 + 8 * 16 + 4) +
			 low_latency * (4 * 7168 + 128 + 14 * 8)) *
				1.01);
	a.max_recv_tokens = 4096;
	CHECK_EQ(urccl_ep_window_bytes(&a, &fewer), 0);
	CHECK_EQ(bytes - fewer, 7 * 4096ull * (2 * 14336 + 56 * 4 + 8 * 16 + 4));
}

static void check_create(void)
{
	void *windows[8] = {0};
	struct urccl_ep *ep = NULL;
	struct urccl_ep_attr a = good();

	CHECK_EQ(urccl_ep_create(&a, &ep), -EINVAL);
	CHECK_SAYS(urccl_ep_errmsg(), "no windows");
	a.windows = windows;
	CHECK_EQ(urccl_ep_create(&a, &ep), -EINVAL);
	CHECK_SAYS(urccl_ep_errmsg(), "window of rank 0");
	for (int r = 0; r < 8; r++)
		windows[r] = (void *)(uintptr_t)(4096 * (r + 1));
	a.cuda_so = "libcuda_that_is_not_there.so";
	CHECK_EQ(urccl_ep_create(&a, &ep), -ENODEV);
	CHECK_SAYS(urccl_ep_errmsg(), "libcuda_that_is_not_there.so");
	CHECK(!ep);
	urccl_ep_destroy(NULL);
}

int main(void)
{
	check_attributes();
	check_sizes();
	check_create();
	return 0;
}
