/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scratch memory, for measurements. Each context lets all of its peers access one small piece,
 * whose content nobody relies on. It is made when the first peer asks. Its advert is no secret:
 * kind and incarnation name it. A version without scratch memory refuses it as forged.
 */
#include "region/private.h"

#define SCRATCH_RIGHTS (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

void scratch_advert(uint64_t incarnation, struct urccl_advert *a)
{
	*a = (struct urccl_advert){
		.version = ADVERT_VERSION,
		.rights = SCRATCH_RIGHTS,
		.kind = ADVERT_SCRATCH,
		.incarnation = incarnation,
		.length = SCRATCH_BYTES,
	};
}

static int scratch_make(struct control *c)
{
	struct urccl_range range = {.len = SCRATCH_BYTES, .fd = -1};
	struct allocation *a;
	struct region *r;
	int err = memory_alloc(SCRATCH_BYTES, &a);

	if (err)
		return err;
	range.addr = a->addr;
	list_add_tail(&a->link, &c->allocations);
	r = region_own(c, &range, SCRATCH_RIGHTS);
	if (r) {
		c->scratch = r->memory->handle;
		return 0;
	}
	list_del(&a->link);
	memory_free(a);
	return -ENOMEM;
}

int scratch_region(struct control *c, const struct urccl_advert *a, struct region **out)
{
	struct urccl_advert ours;
	int err;

	scratch_advert(c->config.incarnation, &ours);
	if (memcmp(a, &ours, sizeof(ours)) != 0)
		return -EACCES;
	err = c->ending ? -ESHUTDOWN : c->scratch ? 0 : scratch_make(c);
	if (err)
		return err;
	*out = handles_get(&c->region_handles, c->scratch);
	return *out && !(*out)->ending ? 0 : -ENOMEM;
}
