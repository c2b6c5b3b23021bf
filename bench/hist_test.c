/* SPDX-License-Identifier: Apache-2.0 */
/* A quantile is at most 0.8 % off, from nanoseconds to the largest value. */
#include "common/hist.h"
#include "test.h"

static struct hist h;

static void near(double got, double want)
{
	CHECK(got >= want * 0.992 && got <= want * 1.008);
}

int main(void)
{
	uint64_t i;

	CHECK(hist_quantile(&h, 0.5) == 0);
	for (i = 1; i <= 100000; i++)
		hist_add(&h, i);
	near(hist_quantile(&h, 0.5), 50000);
	near(hist_quantile(&h, 0.99), 99000);
	near(hist_quantile(&h, 0.01), 1000);
	CHECK_EQ(h.max, 100000);

	hist_clear(&h);
	for (i = 0; i < 64; i++)
		hist_add(&h, 1ull << i);
	for (i = 0; i < 64; i++)
		near(hist_quantile(&h, ((double)i + 0.5) / 64), (double)(1ull << i));
	hist_add(&h, UINT64_MAX);
	CHECK(hist_quantile(&h, 1) == (double)UINT64_MAX);
	return 0;
}
