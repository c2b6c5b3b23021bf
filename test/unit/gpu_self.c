/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of this process is imported at its own address: of the same GPU and, if it is reached, of
 * another. An address or a length that leaves the allocation is refused. */
#include "gpu_rig.h"

int case_gpu_self(void);

#define LEN (1u << 20)

static void import_own(struct gpu_rig *r, uint32_t gpu)
{
	struct gpu_share share = {.how = GPU_SHARE_SELF, .fd = -1, .len = LEN};
	uint8_t *host = rig_pinned(r, LEN), back[16];
	struct gpu_dev *dev = rig_dev(r, 0);
	struct gpu_import *imp;

	share.base = rig_alloc(r, gpu, LEN);
	imp = rig_import(dev, &share);
	CHECK_EQ(imp->res, 0);
	CHECK_EQ(imp->addr, share.base);
	memset(host, 'c', LEN);
	rig_copy(r, dev, GPU_PEER, imp->addr, rig_addr(host), LEN);
	gpu_unimport(dev, imp);
	CHECK_EQ(r->cuMemcpyDtoH_v2(back, share.base + LEN - sizeof(back), sizeof(back)), 0);
	CHECK(back[0] == 'c' && back[15] == 'c');
}

static void refuse(struct gpu_rig *r, uint64_t base, uint64_t len)
{
	struct gpu_share share = {.how = GPU_SHARE_SELF, .fd = -1, .base = base, .len = len};

	rig_import_refused(rig_dev(r, 0), &share);
}

int case_gpu_self(void)
{
	struct gpu_rig r;
	uint64_t base;

	rig_open(&r, 0);
	import_own(&r, 0);
	if (r.ngpus > 1 && gpu_about(rig_dev(&r, 0))->peers & 2)
		import_own(&r, 1);
	base = rig_alloc(&r, 0, LEN);
	refuse(&r, base, LEN + 1);
	refuse(&r, base + 8, LEN);
	refuse(&r, base, UINT64_MAX);
	refuse(&r, rig_addr(&r), 8);
	CHECK_EQ(gpu_close(r.gpu), 0);
	return 0;
}
