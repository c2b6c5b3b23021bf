/* SPDX-License-Identifier: Apache-2.0 */
/* A context has room for so many rings: one more is refused with that number, and one that is
 * closed makes room. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include <liburccl.h>
#include "test.h"

#define RINGS 256u

/* An eventfd each. */
static void descriptors(void)
{
	struct rlimit l;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &l), 0);
	if (l.rlim_max < 2 * RINGS)
		SKIP("the hard limit of descriptors leaves no room for 256 rings");
	l.rlim_cur = l.rlim_max < 1024 ? l.rlim_max : 1024;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &l), 0);
}

int case_context_rings(void)
{
	struct urccl_ring_params p = {.size = sizeof(p), .entries = 2, .event_slots = 1};
	struct urccl_ring *ring[RINGS], *none = NULL;
	struct urccl *ctx;
	uint32_t i;

	descriptors();
	CHECK_EQ(urccl_open(NULL, &ctx), 0);
	for (i = 0; i < RINGS; i++)
		CHECK_EQ(urccl_ring_open(ctx, &p, &ring[i]), 0);
	CHECK_EQ(urccl_ring_open(ctx, &p, &none), -EMFILE);
	CHECK(!none);
	CHECK(strstr(urccl_errmsg(), "256 rings"));
	urccl_ring_close(ring[7]);
	CHECK_EQ(urccl_ring_open(ctx, &p, &none), 0);
	urccl_close(ctx);
	return 0;
}
