/* SPDX-License-Identifier: Apache-2.0 */
/* What transport ib has a device register and deregister, and when: what may take a while when
 * memory is pinned and unpinned, and nothing where the engine exposes it, takes that back, or looks
 * after the device; and what the device does not give back it may be asked for again. */
#include "verbs_device.h"

#define RELAXED ((unsigned int)IBV_ACCESS_RELAXED_ORDERING)

static void exposures_share(void)
{
	struct pin pin = {.off = PAGE, .len = GIB, .rights = URCCL_RIGHT_WRITE};
	struct exposure x[2];
	uint8_t key[2][KEY_MAX];
	struct extent extent;
	uint32_t i;

	begin(UINT64_MAX);
	pin.memory = memory(&extent, BASE, 2 * GIB);
	CHECK_EQ(verbs_pin(&d.dev, &pin), 0);
	CHECK_EQ(nregs, 1);
	CHECK_EQ(mrs[0].addr, BASE + PAGE);
	CHECK_EQ(mrs[0].len, GIB);
	CHECK_EQ(mrs[0].access & ~RELAXED, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE);
	for (i = 0; i < 2; i++) {
		x[i] = (struct exposure){.ep = &e.ep,
					 .pin = &pin,
					 .len = pin.len,
					 .rights = pin.rights,
					 .expires_ns = i ? 1 : NEVER_NS};
		CHECK_GE(verbs_expose(&x[i], key[i], KEY_MAX), 1);
	}
	/* Neither an end nor a time that has passed is the engine's to wait for. */
	CHECK_EQ(verbs_unexpose(&x[0]), 0);
	verbs_ep_tick(&d, NEVER_NS - 1);
	CHECK_EQ(verbs_unexpose(&x[1]), 0);
	CHECK_EQ(nregs, 1);
	CHECK_EQ(nderegs, 0);
	CHECK_EQ(verbs_unpin(&d.dev, &pin), 0);
	CHECK_EQ(live(), 0);
	free((void *)(uintptr_t)pin.memory);
}

/* Registered by its descriptor and where it is in that, for the addresses that entries use. */
static void is_dmabuf(void)
{
	struct pin pin = {.off = 2 * PAGE, .len = PAGE, .rights = URCCL_RIGHT_READ};
	struct verbs_local at = {.addr = BASE};
	struct extent extent;
	struct ibv_sge sge;

	begin(0);
	at.memory = pin.memory = memory(&extent, BASE, 4 * PAGE);
	extent.fd = 77;
	extent.fd_off = 5 * PAGE;
	extent.is_dmabuf = 1;
	CHECK_EQ(verbs_reg(&d.dev, &extent), 0);
	CHECK_EQ(mrs[0].addr, 5 * PAGE);
	CHECK_EQ(mrs[0].len, 4 * PAGE);
	CHECK_EQ(mrs[0].iova, BASE);
	CHECK(verbs_local_next(&at, 0, 8, &sge) && at.unread); /* no processor copies from it */
	CHECK_EQ(verbs_pin(&d.dev, &pin), 0);
	CHECK_EQ(mrs[1].addr, 7 * PAGE);
	CHECK_EQ(mrs[1].len, PAGE);
	CHECK_EQ(mrs[1].iova % PAGE, 0);
	CHECK_EQ(mrs[1].access & ~RELAXED, IBV_ACCESS_REMOTE_READ);
	CHECK_EQ(verbs_unpin(&d.dev, &pin), 0);
	CHECK_EQ(verbs_unreg(&d.dev, &extent), 0);
	CHECK_EQ(live(), 0);
	free((void *)(uintptr_t)pin.memory);
}

/* A device's own word counts, but where it is gone and has none. */
static void is_not_given_back(void)
{
	struct pin pin = {.len = PAGE, .rights = URCCL_RIGHT_READ};
	struct extent extent;

	begin(0);
	pin.memory = memory(&extent, BASE, PAGE);
	CHECK_EQ(verbs_reg(&d.dev, &extent), 0);
	CHECK_EQ(verbs_pin(&d.dev, &pin), 0);
	dereg_fails = EBUSY;
	CHECK_EQ(verbs_unpin(&d.dev, &pin), -EBUSY);
	CHECK_EQ(verbs_unreg(&d.dev, &extent), -EBUSY);
	dereg_fails = EIO;
	CHECK_EQ(verbs_unpin(&d.dev, &pin), -EIO);
	CHECK_EQ(live(), 2);
	dereg_fails = 0;
	CHECK_EQ(verbs_unpin(&d.dev, &pin), 0);
	CHECK_EQ(live(), 1);
	d.broken = -EIO;
	dereg_fails = EIO;
	CHECK_EQ(verbs_unreg(&d.dev, &extent), 0);
	CHECK(!extent.mr[0]);
	free((void *)(uintptr_t)pin.memory);
}

/* The access that is asked for a region with these rights, for what peers get of it with this one,
 * and for pages of our own. */
static void asks(uint32_t rights, uint32_t right, unsigned int own, unsigned int theirs)
{
	struct pin pin = {.len = PAGE, .rights = right};
	struct extent extent;
	struct memory *m = memory(&extent, BASE, PAGE);
	struct ibv_mr *mr;
	void *pages;

	m->rights = extent.rights = rights;
	pin.memory = m;
	nregs = 0;
	CHECK_EQ(verbs_reg(&d.dev, &extent), 0);
	CHECK_EQ(verbs_pin(&d.dev, &pin), 0);
	CHECK_EQ(nregs, 2);
	CHECK_EQ(mrs[0].access, own);
	CHECK_EQ(mrs[1].access, theirs);
	pages = verbs_pages(&d, PAGE, IBV_ACCESS_LOCAL_WRITE, &mr);
	CHECK(pages);
	CHECK_EQ(mrs[2].access, IBV_ACCESS_LOCAL_WRITE);
	verbs_pages_free(&d, pages, PAGE, mr);
	CHECK_EQ(verbs_unpin(&d.dev, &pin), 0);
	CHECK_EQ(verbs_unreg(&d.dev, &extent), 0);
	CHECK_EQ(live(), 0);
	free(m);
}

/* Data of the program's may come in any order, unless there are words of atomics among them: where
 * the setting lets it, and where a driver refuses that, in the usual one. */
static void comes_in_any_order(void)
{
	const unsigned int local = IBV_ACCESS_LOCAL_WRITE, read = IBV_ACCESS_REMOTE_READ,
			   write = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
	const uint32_t both = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE;

	begin(0);
	asks(URCCL_RIGHT_WRITE, URCCL_RIGHT_WRITE, local | RELAXED, write | RELAXED);
	asks(URCCL_RIGHT_READ, URCCL_RIGHT_READ, local | RELAXED, read | RELAXED);
	asks(both, URCCL_RIGHT_WRITE, local | RELAXED, write | RELAXED);
	asks(both | URCCL_RIGHT_ATOMIC, URCCL_RIGHT_WRITE, local, write);
	refuses_relaxed = EINVAL;
	asks(URCCL_RIGHT_WRITE, URCCL_RIGHT_WRITE, local, write);
	refuses_relaxed = EOPNOTSUPP;
	asks(URCCL_RIGHT_READ, URCCL_RIGHT_READ, local, read);
	begin(0);
	d.settings.rdma_relaxed_ordering = URCCL_ALLOW_NO;
	asks(URCCL_RIGHT_WRITE, URCCL_RIGHT_WRITE, local, write);
	begin(0);
	d.settings.rdma_relaxed_ordering = URCCL_ALLOW_YES;
	asks(URCCL_RIGHT_WRITE, URCCL_RIGHT_WRITE, local | RELAXED, write | RELAXED);
}

/* What is refused for another reason is not asked for twice, and what a device cannot have is told
 * as before. */
static void fails_as_before(void)
{
	struct extent extent;
	struct memory *m;

	begin(0);
	m = memory(&extent, BASE, PAGE);
	refuses_relaxed = ENOMEM;
	CHECK_EQ(verbs_reg(&d.dev, &extent), -ENOMEM);
	CHECK_EQ(nregs, 0);
	free(m);
}

int case_verbs_pins(void)
{
	comes_in_any_order();
	fails_as_before();
	exposures_share();
	is_not_given_back();
	is_dmabuf();
	return 0;
}
