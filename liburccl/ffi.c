/* SPDX-License-Identifier: Apache-2.0 */
/* liburccl-ffi.so: the inlines of liburccl.h with external definitions, and functions for its
 * macros. */
#define URCCL_INLINE extern inline
#include <liburccl/ffi.h>

struct urccl_cqe *urccl_cqe_at(const struct urccl_ring *ring, uint32_t i)
{
	uint32_t head;

	if (!ring->flags || i >= urccl_cq_ready(ring))
		return NULL;
	head = __atomic_load_n(ring->cq_head, __ATOMIC_RELAXED);
	return &ring->cqes[(head + i) & ring->cq_mask];
}

uint32_t urccl_version_major(void)
{
	return URCCL_VERSION_MAJOR;
}

uint32_t urccl_version_minor(void)
{
	return URCCL_VERSION_MINOR;
}

uint32_t urccl_version_patch(void)
{
	return URCCL_VERSION_PATCH;
}

uint32_t urccl_metadata_max(void)
{
	return URCCL_METADATA_MAX;
}

uint32_t urccl_note_max(void)
{
	return URCCL_NOTE_MAX;
}

uint32_t urccl_dims_max(void)
{
	return URCCL_DIMS_MAX;
}

uint32_t urccl_deadline_default(void)
{
	return URCCL_DEADLINE_DEFAULT;
}
