/* SPDX-License-Identifier: Apache-2.0 */
/* Device rings: rings of a context whose entries come from lanes, which kernels write. */
#include <stdlib.h>

#include "context.h"

static int params_read(struct urccl_device_ring_params *out,
		       const struct urccl_device_ring_params *p)
{
	int err = 0;

	*out = (struct urccl_device_ring_params){.size = sizeof(*out)};
	if (p)
		err = copy_sized(out, sizeof(*out), p, "struct urccl_device_ring_params");
	if (err)
		return err;
	if (!out->lanes)
		out->lanes = 1;
	if (!out->entries)
		out->entries = 256;
	if (out->lanes > URCCL_DEVICE_LANES_MAX)
		return fail(-EINVAL, "lanes is %u: from 1 to %u are possible", out->lanes,
			    URCCL_DEVICE_LANES_MAX);
	return ring_entries_check(out->entries);
}

/* Pins the lanes, so that the GPU reaches them at the addresses that the CPU uses. */
static int lanes_pin(struct context_ring *cr, uint32_t index)
{
	struct gpu *gpu = cr->ctx->gpu;
	int code = 0, err = gpu_dev_get(gpu, index, &cr->gpu, &code);

	if (!err) {
		err = gpu_host_register(cr->gpu, (uintptr_t)cr->device->words, cr->device->len,
					&code);
		if (err)
			cr->gpu = NULL;
	}
	if (err == -ENODEV)
		return fail(err,
			    "GPU %u is not to be had: load CUDA and use that GPU in this "
			    "process before, for example by cudaFree(0)",
			    index);
	return err ? fail(err, "the lanes of a device ring cannot be pinned for GPU %u: %s (%s)",
			  index, errno_text(-err), gpu_code_name(gpu, code))
		   : 0;
}

/* Lanes that CUDA fails to unpin stay mapped: a GPU may write to them. */
void context_lanes_free(struct context_ring *cr)
{
	int code;

	if (!cr->device)
		return;
	if (!cr->gpu || !gpu_host_unregister(cr->gpu, (uintptr_t)cr->device->words, &code))
		device_ring_close(cr->device);
}

static int device_ring_begin(struct context_ring *cr, const struct urccl_device_ring_params *p)
{
	struct urccl_ring_params params;
	int err = device_ring_open(p->lanes, p->entries, &cr->device);

	if (!err && p->device)
		err = lanes_pin(cr, p->device - 1);
	if (!err)
		err = ring_params_read(&params, NULL, &cr->ctx->settings);
	if (err)
		return err;
	params.entries = cr->device->records;
	return context_ring_begin(cr->ctx, &params, cr);
}

int urccl_device_ring_open(struct urccl *ctx, const struct urccl_device_ring_params *p,
			   struct urccl_device_ring *ring)
{
	struct urccl_device_ring_params params;
	struct context_ring *cr;
	int err = context_check_out(ctx, ring);

	if (!err)
		err = params_read(&params, p);
	if (err)
		return err;
	if (ctx->is_inline)
		return fail(-EINVAL, "an INLINE context has no thread that looks for what kernels "
				     "push: open one without URCCL_OPEN_INLINE");
	cr = calloc(1, sizeof(*cr));
	if (!cr)
		return fail(-ENOMEM, "no memory for a ring");
	cr->ctx = ctx;
	err = device_ring_begin(cr, &params);
	if (err) {
		context_lanes_free(cr);
		free(cr);
		return err;
	}
	*ring = (struct urccl_device_ring){
		.slots = (struct urccl_sqe *)(uintptr_t)cr->device->slots,
		.words = cr->device->words,
		.lanes = params.lanes,
		.entries = params.entries,
		.ring = &cr->ring->pub,
	};
	return 0;
}

int urccl_device_ring_busy(const struct urccl_device_ring *ring, int on)
{
	struct ring *r = container_of(ring->ring, struct ring, pub);

	if (!ring->ring->flags)
		return fail(-EPERM, "this process was forked off the ring's: open a context and a "
				    "ring here");
	__atomic_store_n(&r->device->busy, on != 0, __ATOMIC_SEQ_CST);
	if (on)
		__urccl_ring_wake(ring->ring);
	return 0;
}

void urccl_device_ring_close(const struct urccl_device_ring *ring)
{
	urccl_ring_close(ring->ring);
}
