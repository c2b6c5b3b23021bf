/* SPDX-License-Identifier: Apache-2.0 */
/* Where a device pins memory and the limit for locked memory is too low, REGISTER says so, with the
 * need, the limit and what to do, and what fits is registered all the same. */
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include "pair.h"

#define LIMIT (64ull << 20)
#define MUCH  (256ull << 20)
#define RW    (URCCL_RIGHT_READ | URCCL_RIGHT_WRITE)

static struct pair p;

/* The limit does not hold for who has CAP_IPC_LOCK; threads have what who began them has. */
static void no_exemption(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct cap[2];

	CHECK_EQ(syscall(SYS_capget, &head, cap), 0);
	cap[0].effective &= ~(1u << CAP_IPC_LOCK);
	CHECK_EQ(syscall(SYS_capset, &head, cap), 0);
}

static struct urccl_cqe registers(uint8_t *m, uint64_t len)
{
	struct urccl_range r = {.addr = (uintptr_t)m, .len = len, .fd = -1};
	struct urccl_sqe *sqe = side_sqe(&p.a);

	urccl_prep_register(sqe, &r, 1, RW);
	return pair_run(&p, &p.a, sqe);
}

int main(int argc, char **argv)
{
	uint8_t *m = mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct rlimit limit = {LIMIT, LIMIT};
	struct urccl_region region;
	struct urccl_cqe cqe;
	struct urccl_range r = {.addr = (uintptr_t)m, .len = MUCH, .fd = -1};

	CHECK(m != MAP_FAILED);
	pair_options(&p, argc, argv);
	if (p.transport != URCCL_TRANSPORT_IB)
		SKIP("only transport ib pins memory");
	no_exemption();
	CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
	pair_open(&p);
	cqe = registers(m, MUCH);
	CHECK_EQ(cqe.res, -ENOMEM);
	check_sentence(&p.a, &cqe, "cannot pin 268435456 bytes");
	check_sentence(&p.a, &cqe, "65536 KiB, is passed (ulimit -l");
	CHECK_EQ(urccl_register(p.a.ctx, &r, 1, RW, &region), -ENOMEM);
	CHECK(strstr(urccl_errmsg(), "limit for locked memory, 65536 KiB"));
	cqe = registers(m, 1 << 20);
	CHECK_EQ(cqe.res, 0);
	region.id = (uint32_t)cqe.handle;
	CHECK_EQ(urccl_unregister(p.a.ctx, region), 0);
	pair_close(&p);
	munmap(m, MUCH);
	return 0;
}
