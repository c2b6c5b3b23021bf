/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for peers is a file to the kernel: above the process's limit for files it is refused, and
 * the program gets no signal. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "test.h"
#include "liburccl.h"

static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	CHECK_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	CHECK_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

int case_context_file_limit(void)
{
	struct urccl_params p = {.size = sizeof(p)};
	struct urccl *ctx = NULL;
	void *mem;

	urccl_params_init(&p);
	CHECK_EQ(urccl_open(&p, &ctx), 0);
	limit_files(1 << 20);
	CHECK_EQ(urccl_alloc(ctx, 2 << 20, &mem), -EFBIG);
	CHECK(strstr(urccl_errmsg(), "RLIMIT_FSIZE"));
	CHECK_EQ(urccl_alloc(ctx, 1 << 20, &mem), 0);
	CHECK_EQ(urccl_free(ctx, mem), 0);
	urccl_close(ctx);

	limit_files(4096);
	p.transport = "shm";
	CHECK_EQ(urccl_open(&p, &ctx), -EFBIG);
	p.transport = NULL;
	CHECK_EQ(urccl_open(&p, &ctx), 0);
	urccl_close(ctx);
	return 0;
}
