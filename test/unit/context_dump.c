/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that opens or closes a ring has the context's lock, and may lose its processor then: a
 * dump does not wait for it. */
#include <fcntl.h>
#include <unistd.h>

#include <liburccl/inspect.h>
#include "context.h"
#include "test.h"

int case_context_dump(void)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct urccl_ring *ring;
	struct urccl *ctx;

	CHECK(fd >= 0);
	CHECK_EQ(urccl_open(NULL, &ctx), 0);
	CHECK_EQ(urccl_ring_open(ctx, NULL, &ring), 0);
	CHECK_EQ(pthread_mutex_lock(&ctx->lock), 0);
	alarm(60); /* a dump that waits never ends */
	CHECK_EQ(urccl_dump(ctx, fd), 0);
	alarm(0);
	CHECK_EQ(pthread_mutex_unlock(&ctx->lock), 0);
	urccl_close(ctx);
	close(fd);
	return 0;
}
