/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that lie outside of the remote or of any region. */
#include "malformed.h"

static struct urccl_sqe *read_entry(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_read(sqe, t.remote, local, 64, 0);
	return sqe;
}

static void ranges_of(struct urccl_sqe *(*entry)(void))
{
	WRONG(entry(), sqe->off = t.len - 63, -ERANGE, "64 bytes at offset 4033");
	WRONG(entry(), sqe->len = t.len + 1, -ERANGE, "4097 bytes at offset 0");
	WRONG(entry(), sqe->off = 1ull << 63, -ERANGE, "remote");
	WRONG(entry(), sqe->off = UINT64_MAX, -ERANGE, "remote");
	WRONG(entry(), sqe->len = UINT64_MAX, -ERANGE, "remote");
	WRONG(entry(), sqe->len = 1ull << 63, -ERANGE, "remote");
	WRONG(entry(), sqe->addr += sizeof(local) - 63, -EFAULT, "region");
	WRONG(entry(), sqe->addr--, -EFAULT, "region");
	WRONG(entry(), sqe->addr = 0, -EFAULT, "region");
	WRONG(entry(), sqe->addr = UINT64_MAX, -EFAULT, "region");
	WRONG(entry(), sqe->region = region.id; sqe->addr += sizeof(local) - 63, -ERANGE, "region");
	WRONG(entry(), sqe->region = region.id; sqe->addr--, -ERANGE, "region");
}

void malformed_range(int argc, char **argv)
{
	malformed_begin(argc, argv);
	ranges_of(read_entry);
	ranges_of(write_entry);
	malformed_end();
}
