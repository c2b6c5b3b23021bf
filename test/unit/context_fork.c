/* SPDX-License-Identifier: Apache-2.0 */
/* In a forked child every call on a context is refused, closing does no harm, and the parent goes
 * on. */
#include <sys/wait.h>

#include <liburccl/inspect.h>
#include "test.h"

static void child(struct urccl *ctx, struct urccl_ring *ring)
{
	struct urccl_region_info ri = {.size = sizeof(ri)};
	struct urccl_peer_info pi = {.size = sizeof(pi)};
	struct urccl_stats st = {.size = sizeof(st)};
	struct urccl_range range = {.addr = 4096, .len = 1, .fd = -1};
	struct urccl_advert advert = {.version = 1};
	struct urccl_cqe cqe = {.res = -EIO};
	struct urccl_region region = {1};
	struct urccl_remote remote = {1};
	struct urccl_peer peer = {1};
	struct urccl_ring *another;
	char buf[URCCL_METADATA_MAX];
	void *addr = buf;

	CHECK_EQ(urccl_ring_open(ctx, NULL, &another), -EPERM);
	CHECK_EQ(urccl_register(ctx, &range, 1, 0, &region), -EPERM);
	CHECK_EQ(urccl_unregister(ctx, region), -EPERM);
	CHECK_EQ(urccl_alloc(ctx, 1, &addr), -EPERM);
	CHECK_EQ(urccl_free(ctx, addr), -EPERM);
	CHECK_EQ(urccl_advertise(ctx, region, 0, 1, 0, 0, &advert), -EPERM);
	CHECK_EQ(urccl_import(ctx, peer, &advert, 1, &remote), -EPERM);
	CHECK_EQ(urccl_unimport(ctx, remote), -EPERM);
	CHECK_EQ(urccl_metadata(ctx, buf, sizeof(buf)), -EPERM);
	CHECK_EQ(urccl_get_peer_info(ctx, peer, &pi), -EPERM);
	CHECK_EQ(urccl_get_region_info(ctx, region, &ri), -EPERM);
	CHECK_EQ(urccl_get_stats(ctx, &st), -EPERM);
	CHECK_EQ(urccl_dump(ctx, STDOUT_FILENO), -EPERM);
	CHECK_EQ(urccl_explain(ctx, &cqe, buf, sizeof(buf)), -EPERM);
	CHECK(*urccl_errmsg());
	CHECK_EQ(urccl_submit(ring), -EPERM);
	urccl_ring_close(ring);
	urccl_close(ctx);
}

static void one_nop(struct urccl_ring *ring)
{
	urccl_prep_nop(urccl_get_sqe(ring));
	CHECK_EQ(urccl_submit_and_wait(ring, 1), 1);
	CHECK_EQ(urccl_peek_cqe(ring)->res, 0);
	urccl_cq_advance(ring, 1);
}

static void test_mode(uint32_t flags)
{
	struct urccl_params p = {.size = sizeof(p)};
	struct urccl_ring *ring;
	struct urccl *ctx;
	int status;
	pid_t pid;

	urccl_params_init(&p);
	p.flags = flags;
	CHECK_EQ(urccl_open(&p, &ctx), 0);
	CHECK_EQ(urccl_ring_open(ctx, NULL, &ring), 0);
	one_nop(ring);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		child(ctx, ring);
		test_end(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	one_nop(ring);
	urccl_close(ctx);
}

int case_context_fork(void)
{
	test_mode(0);
	test_mode(URCCL_OPEN_INLINE);
	return 0;
}
