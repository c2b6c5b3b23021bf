/* SPDX-License-Identifier: Apache-2.0 */
/* Much memory takes long to fill: meanwhile the control thread answers, so that peers are neither
 * kept waiting nor lost. */
#include <fcntl.h>

#include "test.h"
#include "liburccl.h"

static struct urccl *ctx;
static int filled;

/* In place of the system's: the library fills its memory by it. */
int fallocate(int fd, int mode, off_t off, off_t len)
{
	uint8_t blob[URCCL_METADATA_MAX];

	(void)mode;
	if (!ctx) /* it is being opened */
		return posix_fallocate(fd, off, len) ? -1 : 0;
	CHECK(urccl_metadata(ctx, blob, sizeof(blob)) > 0);
	filled++;
	return posix_fallocate(fd, off, len) ? -1 : 0;
}

int main(void)
{
	void *mem;

	CHECK_EQ(urccl_open(NULL, &ctx), 0);
	CHECK_EQ(urccl_alloc(ctx, 100000, &mem), 0);
	CHECK_EQ(filled, 1);
	*(char *)mem = 1;
	CHECK_EQ(urccl_free(ctx, mem), 0);
	CHECK_EQ(urccl_free(ctx, mem), -EINVAL);
	urccl_close(ctx);
	return 0;
}
