/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of pages that are none, or whose bytes lie outside of the remote or of the region. */
#include "malformed.h"

static void pages(int read)
{
	uint32_t four = 4;
	struct urccl_dim far = {.count = 1,
				.local_index = (uintptr_t)&four,
				.remote_index = (uintptr_t)&four};
	struct urccl_paged d = {.size = sizeof(d),
				.ndims = 1,
				.block = 64,
				.dim = {{.count = 4, .local_stride = 64, .remote_stride = 64}}};

#define PAGED(change, res, why)                                                 \
	do {                                                                    \
		struct urccl_paged bad = d;                                     \
		struct urccl_sqe *sqe = side_sqe(&p.a);                         \
		if (read)                                                       \
			urccl_prep_read_paged(sqe, t.remote, region, &bad, 1);  \
		else                                                            \
			urccl_prep_write_paged(sqe, t.remote, region, &bad, 1); \
		change;                                                         \
		wrong(sqe, res, why);                                           \
	} while (0)
	PAGED(bad.size = 8, -EINVAL, "size 8");
	PAGED(bad.ndims = 0, -EINVAL, "0 dimensions");
	PAGED(bad.ndims = 5, -EINVAL, "5 dimensions");
	PAGED(bad.dim[0].count = 1ull << 40, -E2BIG, "blocks");
	PAGED(bad.block = 1ull << 63, -ERANGE,
	      "descriptor 0, of 4 blocks of 9223372036854775808 bytes");
	PAGED(bad.remote_off = UINT64_MAX - 5, -ERANGE, "remote");
	PAGED(bad.local_off = UINT64_MAX - 5, -ERANGE, "region");
	PAGED(bad.remote_off = t.len - 63, -ERANGE, "64 bytes at offset 4033");
	PAGED(bad.local_off = sizeof(local) - 63, -ERANGE, "region");
	PAGED(bad.block = t.len + 1; bad.dim[0].count = 1, -ERANGE, "4097 bytes at offset 0");
	PAGED(bad.remote_off = 1ull << 63, -ERANGE, "remote");
	PAGED(bad.local_off = 1ull << 63, -ERANGE, "region");
	/* Sums whose low 64 bits are an offset: 4 times 2^62, and 4; and those below 0. */
	far.remote_stride = far.local_stride = 1ll << 62;
	PAGED(bad.remote_off = 4;
	      bad.dim[0] = far, -ERANGE, "offset of the remote that is below 0");
	far.remote_stride = -1024;
	PAGED(bad.dim[0] = far, -ERANGE, "offset of the remote that is below 0");
	far.remote_stride = 0;
	PAGED(bad.local_off = 4; bad.dim[0] = far, -ERANGE, "offset of the local region that is");
	far.local_stride = -1024;
	PAGED(bad.dim[0] = far, -ERANGE, "offset of the local region that is");
	PAGED(sqe->region = 0, -EINVAL, "a region's handle is wanted");
	PAGED(sqe->addr = 0, -EINVAL, "nothing");
	PAGED(sqe->len = (1u << 20) + 1, -E2BIG, "limit");
}

void malformed_paged(int argc, char **argv)
{
	malformed_begin(argc, argv);
	pages(1);
	pages(0);
	malformed_end();
}
