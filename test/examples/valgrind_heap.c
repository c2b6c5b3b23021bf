/* SPDX-License-Identifier: Apache-2.0 */
/* For valgrind.py: registers memory of malloc() that nobody wrote to, with rights and without. */
#include <stdlib.h>
#include <liburccl.h>
#include "test.h"

#define LEN 100000u

int main(void)
{
	void *memory = malloc(LEN);
	struct urccl_range range = URCCL_RANGE(memory, LEN);
	struct urccl_region region;
	struct urccl *ctx;

	CHECK(memory);
	CHECK_EQ(urccl_open(NULL, &ctx), 0);
	CHECK_EQ(urccl_register(ctx, &range, 1, 0, &region), 0);
	CHECK_EQ(urccl_register(ctx, &range, 1, URCCL_RIGHT_WRITE, &region), 0);
	urccl_close(ctx);
	free(memory);
	return 0;
}
