/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"

#include <stdarg.h>

#include "test.h"

unsigned long compare_differences;

static unsigned long long element(const unsigned char *p, size_t size)
{
	unsigned long long v = 0;

	memcpy(&v, p, size < sizeof(v) ? size : sizeof(v));
	return v;
}

void compare(const void *device, const void *expected, size_t size, size_t n, const char *what, ...)
{
	unsigned char *got = malloc(size * n + 1);
	const unsigned char *want = expected;
	size_t first = n, last = 0, count = 0;
	va_list args;

	CHECK(got);
	gpu_download(got, device, size * n);
	for (size_t i = 0; i < n; i++) {
		if (!memcmp(got + i * size, want + i * size, size))
			continue;
		first = first < i ? first : i;
		last = i;
		count++;
	}
	if (count && compare_differences < 200) {
		printf("differs: ");
		va_start(args, what);
		vprintf(what, args);
		va_end(args);
		printf(": %zu of %zu elements of %zu bytes, from %zu to %zu:", count, n, size,
		       first, last);
		for (size_t i = first, shown = 0; i < n && shown < 4; i++) {
			if (!memcmp(got + i * size, want + i * size, size))
				continue;
			printf(" [%zu] %#llx, not %#llx;", i, element(got + i * size, size),
			       element(want + i * size, size));
			shown++;
		}
		printf("\n");
		fflush(stdout);
	}
	compare_differences += count;
	free(got);
}

int compare_status(struct gpu_group *g, const char *what)
{
	int failed = 0;

	for (uint32_t r = 0; r < g->attr.ranks; r++) {
		struct urccl_ep_status status = {.size = sizeof(status)};

		CHECK_EQ(urccl_ep_query_status(g->rank[r].ep, &status), 0);
		if (!status.res && !status.dead)
			continue;
		printf("%s: rank %u: res %d of rank %u, dead %#x\n", what, r, status.res,
		       status.rank, status.dead);
		failed++;
	}
	compare_differences += (unsigned long)failed;
	return failed;
}
