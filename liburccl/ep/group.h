/* SPDX-License-Identifier: Apache-2.0 */
/* A group as its calls see it. */
#ifndef EP_GROUP_H
#define EP_GROUP_H

#include <liburccl/ep.h>

#include "args.h"
#include "driver.h"
#include "kernels.h"

#include <stdbool.h>

struct urccl_ep {
	struct urccl_ep_attr attr; /* with defaults filled in; windows and cuda_so are NULL */
	struct ep_common common;   /* what every kernel gets */
	struct ep_driver driver;
	void *modules[EP_MODULES];
	void *kernels[EP_KERNELS];
	uint64_t memory; /* device: control, expert_counts, chunk_counts */
	uint64_t expert_counts, chunk_counts;
	struct ep_host *host;
	uint32_t sms;
	uint32_t calls; /* dispatches that exchanged counts */
};

/* Checks attr, copies it to *out with defaults filled in, and lays out the window. */
int ep_window_layout(const struct urccl_ep_attr *attr, struct urccl_ep_attr *out,
		     struct ep_offsets *at);

/* Fills a window as calls expect it before the first one. */
int ep_window_clear(const struct urccl_ep *ep);

/* Sets the text of urccl_ep_errmsg() and returns "error". */
__attribute__((format(printf, 2, 3))) int ep_error(int error, const char *format, ...);

/* Starts a kernel; args is its one parameter. */
int ep_launch(const struct urccl_ep *ep, enum ep_kernel kernel, uint32_t blocks, uint32_t threads,
	      uint32_t shared_bytes, const void *args, void *stream);

/* The same. early: the kernel may start while the one before it on the stream, which the same call
 * has launched, still runs; it waits for its end by itself. */
int ep_launch_early(const struct urccl_ep *ep, enum ep_kernel kernel, uint32_t blocks,
		    uint32_t threads, uint32_t shared_bytes, const void *args, void *stream,
		    bool early);

/* The blocks for so much work, at least 1 and at most sms (0: the group's). */
uint32_t ep_blocks(const struct urccl_ep *ep, uint64_t work, uint32_t sms);

/* -EINVAL, naming it, if a pointer that is needed is NULL, or is no multiple of 16. */
int ep_check_pointer(const void *p, bool needed, const char *name);

static inline void *ep_pointer(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

#endif
