/* SPDX-License-Identifier: Apache-2.0 */
/* Segments whose bytes lie outside of the remote or of any region, or that name what is not
 * there. */
#include "malformed.h"

/* A vector of one segment, as changed. */
static void segments(int read)
{
	struct urccl_seg s = {.addr = (uintptr_t)local, .len = 64, .remote = t.remote.id};

#define SEGMENT(change, res, why)                                  \
	do {                                                       \
		struct urccl_seg bad = s;                          \
		struct urccl_sqe *sqe = side_sqe(&p.a);            \
		change;                                            \
		if (read)                                          \
			urccl_prep_readv(sqe, p.a.peer, &bad, 1);  \
		else                                               \
			urccl_prep_writev(sqe, p.a.peer, &bad, 1); \
		wrong(sqe, res, why);                              \
	} while (0)
	SEGMENT(bad.off = t.len - 63, -ERANGE, "64 bytes at offset 4033");
	SEGMENT(bad.len = t.len + 1, -ERANGE, "4097 bytes at offset 0");
	SEGMENT(bad.off = 1ull << 63, -ERANGE, "remote");
	SEGMENT(bad.off = UINT64_MAX, -ERANGE, "remote");
	SEGMENT(bad.len = 1ull << 63, -ERANGE, "remote");
	SEGMENT(bad.len = UINT64_MAX, -ERANGE, "remote");
	SEGMENT(bad.addr += sizeof(local) - 63, -EFAULT, "region");
	SEGMENT(bad.addr--, -EFAULT, "region");
	SEGMENT(bad.addr = 1ull << 63, -EFAULT, "region");
	SEGMENT(bad.region = region.id; bad.addr += sizeof(local) - 63, -ERANGE, "region");
	SEGMENT(bad.region = region.id; bad.addr--, -ERANGE, "region");
	SEGMENT(bad.region = region.id; bad.addr = 1ull << 63, -ERANGE, "region");
	SEGMENT(bad.region = NO_REGION, -ESTALE, "region handle");
	SEGMENT(bad.remote ^= 7, -ESTALE, "remote handle");
}

void malformed_vector(int argc, char **argv)
{
	malformed_begin(argc, argv);
	segments(1);
	segments(0);
	malformed_end();
}
